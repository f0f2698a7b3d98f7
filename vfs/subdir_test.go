package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// setIdleRoom lets n idle directories keep their handles, of those that are opened from now on.
func setIdleRoom(t *testing.T, n int) {
	before := idleRoom
	idleRoom = func() int { return n }
	t.Cleanup(func() {
		idleRoom = before
		idle.setRoom(before())
	})
}

// pinned is a root at a path of the system with a directory pinned below it.
func pinned(t *testing.T, name string) (path string, root Dir, d *subDir) {
	path = t.TempDir()
	root, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(path, name), 0o700))
	opened, err := root.OpenDir(name)
	require.NoError(t, err)
	d = opened.(*subDir)
	t.Cleanup(func() { root.Close(); d.Close() })
	return path, root, d
}

// has reports whether a directory has its handles.
func (s *subDir) has() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir != nil
}

// calls are all that can be done with a directory, but for Close.
func calls(d Dir) map[string]func() error {
	return map[string]func() error{
		"OpenDir": func() error { sub, err := d.OpenDir("sub"); return closed(sub, err) },
		"Mkdir":   func() error { return d.Mkdir("new") },
		"Create":  func() error { f, err := d.Create("made"); return closed(f, err) },
		"Open":    func() error { f, err := d.Open("f"); return closed(f, err) },
		"Stat":    func() error { _, err := d.Stat("f"); return err },
		"List":    func() error { _, err := d.List(); return err },
		"Rename":  func() error { return d.Rename("f", "f") },
		"Remove":  func() error { return d.Remove("spare") },
		"Lock":    func() error { l, err := d.Lock("lock"); return closed(l, err) },
		"Sync":    d.Sync,
		"read":    func() error { f, err := readOnlyDir{d}.Open("f"); return closed(f, err) },
		"held":    func() error { l, err := readOnlyDir{d}.Lock("f"); return closed(l, err) },
	}
}

func closed(c interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// fill makes what calls need.
func fill(t *testing.T, path string) {
	require.NoError(t, os.MkdirAll(filepath.Join(path, "sub"), 0o700))
	for _, name := range []string{"f", "spare"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600))
	}
}

// A directory that gave up its handles does all that it did, and gives them up again.
func TestSubDirWithoutHandles(t *testing.T) {
	setIdleRoom(t, 0)
	path, root, d := pinned(t, "a/b")
	fill(t, filepath.Join(path, "a", "b"))
	require.False(t, d.has())
	id := d.ID()
	for name, call := range calls(d) {
		require.NoError(t, call(), name)
		require.False(t, d.has(), name)
	}
	sub, err := d.OpenDir("sub")
	require.NoError(t, err)
	defer sub.Close()
	require.NoError(t, root.Close(), "what was opened through it goes on")
	require.NoError(t, sub.Mkdir("deep"))
	require.NoError(t, d.Sync())
	require.Equal(t, id, d.ID())
	_, err = os.Stat(filepath.Join(path, "a", "b", "sub", "deep"))
	require.NoError(t, err)

	require.NoError(t, d.Close())
	for name, call := range calls(d) {
		require.ErrorIs(t, call(), fs.ErrClosed, name)
	}
	require.ErrorIs(t, d.Close(), fs.ErrClosed)
	require.Equal(t, id, d.ID())
}

// One that was moved meanwhile is not found, and one in its place is not taken for it; moved back it is there again. With its handles it
// goes on wherever it is.
func TestSubDirThatMoved(t *testing.T) {
	for room, want := range map[int]struct{ gone, other error }{0: {fs.ErrNotExist, ErrElsewhere}, 100: {}} {
		setIdleRoom(t, room)
		path, _, d := pinned(t, "a/b")
		here, there := filepath.Join(path, "a", "b"), filepath.Join(path, "away")
		require.NoError(t, os.Rename(here, there))
		each := func(want error) {
			t.Helper()
			fill(t, there)
			for name, call := range calls(d) {
				require.ErrorIs(t, call(), want, "%s with room for %d", name, room)
				os.Remove(filepath.Join(there, "new"))
				os.Remove(filepath.Join(there, "made"))
			}
		}
		each(want.gone)
		fill(t, here)
		each(want.other)
		entries, err := os.ReadDir(here)
		require.NoError(t, err)
		require.Len(t, entries, 3, "nothing happened to the other one")
		require.NoError(t, os.RemoveAll(here))
		require.NoError(t, os.Rename(there, here))
		there = here
		each(nil)
	}
}

// The ones that were used last keep their handles, no more than there is room for, and one in use does whatever the others do.
func TestSubDirsGiveUpInTurn(t *testing.T) {
	setIdleRoom(t, 2)
	path, root, first := pinned(t, "d0")
	all := append([]*subDir{first}, below(t, root, path, 4)...)
	who := func() (have []int) {
		for i, d := range all {
			if d.has() {
				have = append(have, i)
			}
		}
		return have
	}
	require.Equal(t, []int{3, 4}, who())
	require.NoError(t, all[3].Sync())
	require.NoError(t, all[0].Sync())
	require.Equal(t, []int{0, 3}, who())

	_, err := all[1].take("test", "")
	require.NoError(t, err)
	for _, i := range []int{2, 3, 4} {
		require.NoError(t, all[i].Sync())
	}
	require.Equal(t, []int{1, 3, 4}, who())
	all[1].giveUp() // as by somebody who saw it idle before
	require.Equal(t, []int{1, 3, 4}, who())
	all[1].done()
	require.Equal(t, []int{1, 4}, who())
	require.NoError(t, all[4].Close())
	require.NoError(t, all[2].Sync())
	require.Equal(t, []int{1, 2}, who()[:2], "what was closed takes no room")
}

// Many tasks use the same directories while these lose their handles all the time.
func TestSubDirsAtOnce(t *testing.T) {
	setIdleRoom(t, 1)
	path, root, first := pinned(t, "d0")
	all := append([]*subDir{first}, below(t, root, path, 3)...)
	var group sync.WaitGroup
	failed := make(chan error, 8)
	for task := range 8 {
		group.Go(func() {
			for i := range 300 {
				d := all[(task+i)%len(all)]
				name := fmt.Sprintf("%d-%d", task, i)
				err := errors.Join(closed(d.Create(name)), closed(d.Open(name)), d.Remove(name), d.Sync())
				own, oerr := root.OpenDir("d0")
				if oerr == nil {
					_, serr := own.List()
					err = errors.Join(err, serr, own.Close())
				}
				if err = errors.Join(err, oerr); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	require.NoError(t, <-failed)
	for _, d := range all {
		require.NoError(t, d.Close())
		require.False(t, d.place != nil)
	}
}

// A directory that is opened while the one above and the root are closed is not opened, or goes on for ever.
func TestOpenedWhileClosed(t *testing.T) {
	setIdleRoom(t, 0)
	path, root, d := pinned(t, "a")
	fill(t, filepath.Join(path, "a"))
	taken, err := d.take("open", "sub") // from here on as in OpenDir
	require.NoError(t, err)
	require.NoError(t, root.Close())
	held, err := d.root.subDir(taken, "sub", "a/sub")
	require.NoError(t, err)
	require.NoError(t, d.Close(), "by somebody else")
	require.NoError(t, held.Sync())
	require.NoError(t, held.Close())
	require.Zero(t, d.root.holders.Load())
	_, err = d.root.subDir(taken, "sub", "a/sub")
	require.ErrorIs(t, err, fs.ErrClosed)
	require.Zero(t, d.root.holders.Load())
	d.done()

	for range 1500 {
		root, err := OS{}.OpenRoot(path, false)
		require.NoError(t, err)
		d, err := root.OpenDir("a")
		require.NoError(t, err)
		require.NoError(t, root.Close())
		var group sync.WaitGroup
		group.Go(func() { d.Close() })
		sub, err := d.OpenDir("sub")
		group.Wait()
		if err != nil {
			require.ErrorIs(t, err, fs.ErrClosed)
			continue
		}
		require.NoError(t, sub.Sync())
		require.NoError(t, sub.Close())
	}
}
