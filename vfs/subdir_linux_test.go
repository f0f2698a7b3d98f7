package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// filesIn is how many files with a part in their paths the process has open. Files that other tests lost, which the collector closes at
// any time, do not count.
func filesIn(t *testing.T, part string) (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(to, part) {
			n++
		}
	}
	return n
}

// Of two hundred open directories three hold files, two each, and so it stays while they are used; the last to be closed takes the files
// of the root with it.
func TestFilesOfManySubDirs(t *testing.T) {
	setIdleRoom(t, 3)
	path := t.TempDir()
	root, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	const ofRoot = 2
	require.Equal(t, ofRoot, filesIn(t, path))
	all := below(t, root, path, 200)
	require.Equal(t, ofRoot+3*2, filesIn(t, path))
	for _, d := range all {
		require.NoError(t, errors.Join(d.Mkdir("sub"), closed(d.OpenDir("sub"))))
		require.LessOrEqual(t, filesIn(t, path), ofRoot+3*2)
	}
	require.NoError(t, root.Close())
	for i, d := range all {
		_, err := d.Stat("sub")
		require.NoError(t, err, i)
		require.NoError(t, d.Close())
	}
	require.Zero(t, filesIn(t, path))
}

// A call that is refused leaves no file open, whatever stands where the directory was.
func TestRefusedHoldNoFiles(t *testing.T) {
	for _, room := range []int{0, 1, 3} {
		setIdleRoom(t, room)
		path, root, d := pinned(t, "a/b")
		others := below(t, root, path, 3)
		for _, other := range others {
			require.NoError(t, other.Sync())
		}
		require.False(t, d.has())
		here := filepath.Join(path, "a", "b")
		require.NoError(t, os.Rename(here, filepath.Join(path, "away")))
		for what, put := range map[string]func() error{
			"nothing":     func() error { return nil },
			"another":     func() error { return os.MkdirAll(filepath.Join(here, "sub"), 0o700) },
			"a file":      func() error { return os.WriteFile(here, nil, 0o600) },
			"a link":      func() error { return os.Symlink(".", here) },
			"a link out":  func() error { return os.Symlink("/", here) },
			"a dead link": func() error { return os.Symlink("none", here) },
		} {
			require.NoError(t, put(), what)
			if what == "another" {
				fill(t, here)
			}
			before := filesIn(t, path)
			for name, call := range calls(d) {
				require.Error(t, call(), "%s with %s in the way", name, what)
				require.Equal(t, before, filesIn(t, path), "%s with %s in the way", name, what)
				require.False(t, d.has())
			}
			require.NoError(t, os.RemoveAll(here))
		}
		require.NoError(t, d.Close())
		require.Nil(t, d.place)
	}
}

// Without its handles a file is opened in the directory, which stays without them; with another directory there it is not opened.
func TestOpenByPath(t *testing.T) {
	setIdleRoom(t, 0)
	path, _, d := pinned(t, "a/b")
	here := filepath.Join(path, "a", "b")
	fill(t, here)
	if _, _, ok := d.root.openWithin("a/b", "f"); !ok {
		t.Skip("this kernel walks no path below a directory")
	}
	before := filesIn(t, path)
	f, ok := d.openByPath("f")
	require.True(t, ok)
	require.Equal(t, before+1, filesIn(t, path))
	require.NoError(t, f.Close())
	outside := t.TempDir()
	fill(t, outside)
	require.NoError(t, os.Symlink(outside, filepath.Join(here, "out")))
	require.NoError(t, os.Symlink("f", filepath.Join(here, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(here, `sub\f`), nil, 0o600))
	require.NoError(t, unix.Mkfifo(filepath.Join(here, "pipe"), 0o600))
	for _, name := range []string{"none", "sub", "sub/none", "out/f", "link", "pipe", `sub\f`, "..", "", "."} {
		_, ok := d.openByPath(name)
		require.False(t, ok, name)
		require.Error(t, closed(d.Open(name)), name)
		require.Equal(t, before, filesIn(t, path), name)
	}
	require.ErrorIs(t, closed(d.Open("out/f")), fs.ErrInvalid)
	require.NoError(t, os.Rename(here, filepath.Join(path, "away")))
	fill(t, here)
	_, ok = d.openByPath("f")
	require.False(t, ok, "in another directory")
	require.NoError(t, os.RemoveAll(here))
	require.NoError(t, os.Rename(filepath.Join(path, "away"), here))
	_, err := d.take("test", "")
	require.NoError(t, err)
	_, ok = d.openByPath("f")
	require.False(t, ok, "the handles are there")
	d.done()
	require.Equal(t, before, filesIn(t, path))
	require.NoError(t, d.Close())
	_, ok = d.openByPath("f")
	require.False(t, ok, "closed")
}

// A walk that finds nothing or the wrong thing leaves no file open, the shorter way and the longer.
func TestWithinHoldsNoFiles(t *testing.T) {
	_, root := tree(t)
	path := t.Name() // of what lies outside of the root, too
	w := root.(Walker)
	before := filesIn(t, path)
	for _, dir := range []string{"a/b", "in", "a", "out", "none", "a/b/f", "..", ""} {
		for _, base := range []string{"f", "none", "link", "out", "pipe", "b", "..", "", "b/f"} {
			w.StatWithin(dir, base)
			if f, _, err := w.OpenWithin(dir, base); err == nil {
				require.NoError(t, f.Close())
			} else {
				require.Nil(t, f)
			}
			require.Equal(t, before, filesIn(t, path), "%s and %s", dir, base)
		}
	}
}

// The longer way too opens a file that is like any other.
func TestOpenedWithinOverALink(t *testing.T) {
	_, root := tree(t)
	for _, c := range []struct{ dir, leadsTo string }{{"in", "a/b"}, {"a/up", "other/b"}} {
		f, d, err := root.(Walker).OpenWithin(c.dir, "f")
		require.NoError(t, err)
		require.Equal(t, leadsTo(t, root, c.leadsTo), d)
		_, err = f.WriteAt([]byte("xyz"), 1)
		require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
		b, err := ReadFile(root, c.leadsTo+"/f", 20)
		require.NoError(t, err)
		require.Equal(t, "xyz", string(b[1:4]))
	}
}

// Tasks that open and close leave no file behind.
func TestAtOnceHoldsNoFiles(t *testing.T) {
	t.Run("use", TestSubDirsClosedAtOnce)
	require.Zero(t, filesIn(t, t.Name()))
	require.Zero(t, idle.order.Len(), "nor a place among the idle ones")
}
