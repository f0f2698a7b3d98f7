package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree is a root with the directory a/b and the file f in it, another file of that name in other/b, and links to both.
func tree(t *testing.T) (path string, root Dir) {
	path = t.TempDir()
	for _, dir := range []string{"a/b", "other/b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(path, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, dir, "f"), []byte(dir), 0o600))
	}
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), nil, 0o600))
	for link, to := range map[string]string{"in": "a/b", "out": outside, "a/b/link": "f", "a/b/out": filepath.Join(outside, "f"), "a/up": "../other/b"} {
		require.NoError(t, os.Symlink(to, filepath.Join(path, link)))
	}
	require.NoError(t, unix.Mkfifo(filepath.Join(path, "a/b/pipe"), 0o600))
	root, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return path, root
}

// What is found by one walk is what Stat and Open find, and what they refuse is refused.
func TestWithinIsStatAndOpen(t *testing.T) {
	_, root := tree(t)
	w := root.(Walker)
	stats, opens := 0, 0
	for _, dir := range []string{"a/b", "a", "in", "out", "a/up", "none", "a/none", "a/b/f", "a/b/f/g", "../x", "", "/a/b"} {
		for _, base := range []string{"f", "none", "link", "out", "pipe", "b", "..", "."} {
			name := dir + "/" + base
			d, f, err := w.StatWithin(dir, base)
			info, want := root.Stat(name)
			require.Equal(t, want == nil, err == nil, "%s: %v, %v", name, want, err)
			if err == nil {
				stats++
				require.Equal(t, info.ID, f, name)
				require.Equal(t, leadsTo(t, root, dir), d, name)
			} else if want, ok := anyOf(want, fs.ErrNotExist, fs.ErrInvalid); ok {
				require.ErrorIs(t, err, want, name)
			}

			file, d, err := w.OpenWithin(dir, base)
			plain, want := root.Open(name)
			require.Equal(t, want == nil, err == nil, "%s: %v, %v", name, want, err)
			if err != nil {
				require.ErrorIs(t, err, cause(want), name)
				continue
			}
			opens++
			require.Equal(t, plain.ID(), file.ID(), name)
			require.Equal(t, leadsTo(t, root, dir), d, name)
			require.NoError(t, plain.Close())
			require.NoError(t, file.Close())
		}
	}
	require.Equal(t, 10, stats, "four in a/b, the same by the link in, f by a/up, and a/b itself")
	require.Equal(t, 3, opens, "f in a/b, by the link in, and by a/up")
	for _, base := range []string{"b/f", "", "a/../f"} {
		_, _, err := w.StatWithin("a", base)
		require.ErrorIs(t, err, fs.ErrInvalid)
		_, _, err = w.OpenWithin("a", base)
		require.ErrorIs(t, err, fs.ErrInvalid)
	}
}

// leadsTo is the directory at name, over links too.
func leadsTo(t *testing.T, root Dir, name string) ID {
	d, err := root.OpenDir(name)
	require.NoError(t, err)
	defer d.Close()
	return d.ID()
}

// anyOf returns the first of kinds that err is.
func anyOf(err error, kinds ...error) (error, bool) {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind, true
		}
	}
	return nil, false
}

// A file that was opened within a directory is like any other, and waits for the disk like any other.
func TestOpenedWithin(t *testing.T) {
	_, root := tree(t)
	f, _, err := root.(Walker).OpenWithin("a/b", "f")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("xyz"), 1)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	b, err := ReadFile(root, "a/b/f", 10)
	require.NoError(t, err)
	require.Equal(t, "axyz", string(b))
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Sync(), fs.ErrClosed)
}

// A directory behind a link that an operator made is still where it was; one that is gone, or that the name does not say, is not.
func TestStillAt(t *testing.T) {
	_, root := tree(t)
	d, f, err := root.(Walker).StatWithin("in", "f")
	require.NoError(t, err)
	file, err := OpenSameWithin(root, "in", d, "f", f)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, StillAt(root, "in", d))
	require.ErrorIs(t, StillAt(root, "other/b", d), ErrElsewhere)
	require.ErrorIs(t, StillAt(root, "none", d), fs.ErrNotExist)
	for _, bad := range []string{"", "..", "../x", "/a"} {
		require.ErrorIs(t, StillAt(root, bad, d), fs.ErrInvalid, bad)
	}
}

// Nothing that looks at a path keeps a descriptor, whether or not it finds what it looks for.
func TestLooksHoldNoFiles(t *testing.T) {
	_, root := tree(t)
	w := root.(Walker)
	d, f, err := w.StatWithin("a/b", "f")
	require.NoError(t, err)
	before := openFiles(t)
	for range 3 {
		_, err := root.Stat("a/b/f")
		require.NoError(t, err)
		_, _, err = w.StatWithin("a/b", "none")
		require.Error(t, err)
		require.NoError(t, StillAt(root, "a/b", d))
		for _, same := range []ID{f, d} {
			if file, err := OpenSameWithin(root, "a/b", d, "f", same); err == nil {
				require.NoError(t, file.Close())
			}
		}
		file, _, err := w.OpenWithin("a/b", "f")
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	require.Equal(t, before, openFiles(t))
}
