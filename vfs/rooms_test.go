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

// below opens the directories n0, n1 and so on, which it makes at a path of the system, through d, which is there.
func below(t *testing.T, d Dir, path string, n int) (all []*subDir) {
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		require.NoError(t, os.Mkdir(filepath.Join(path, name), 0o700))
		sub, err := d.OpenDir(name)
		require.NoError(t, err)
		t.Cleanup(func() { sub.Close() })
		all = append(all, sub.(*subDir))
	}
	return all
}

// having counts those that have their handles.
func having(all []*subDir) (n int) {
	for _, d := range all {
		if d.has() {
			n++
		}
	}
	return n
}

// Each call does in any room what it does with all handles there: what it made is there afterwards, and what it removed is not.
func TestEveryCallInEveryRoom(t *testing.T) {
	for _, room := range []int{0, 1, 3, 100} {
		setIdleRoom(t, room)
		path, _, d := pinned(t, "a/b")
		others := below(t, d, filepath.Join(path, "a", "b"), 4)
		push := func() { // the handles of d out, if there is little room
			for _, other := range others {
				_, err := other.List()
				require.NoError(t, err)
			}
			require.Equal(t, room > len(others), d.has())
		}
		push()
		f, err := d.Create("f")
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("abc"), 0)
		require.NoError(t, err)
		push()
		require.NoError(t, f.Sync(), "a file needs no directory")
		again, err := d.Open("f")
		require.NoError(t, err)
		require.Equal(t, f.ID(), again.ID())
		require.NoError(t, errors.Join(f.Close(), again.Close()))
		push()
		info, err := d.Stat("f")
		require.NoError(t, err)
		require.Equal(t, Info{Name: "f", Size: 3, MTime: info.MTime, ID: f.ID()}, info)
		push()
		require.NoError(t, d.Mkdir("m"))
		push()
		require.NoError(t, d.Rename("f", "m/g"))
		push()
		held, err := d.Lock("lock")
		require.NoError(t, err)
		push()
		_, err = d.Lock("lock")
		require.ErrorIs(t, err, ErrLocked, "it is held without the handles")
		require.NoError(t, held.Close())
		push()
		view := readOnlyDir{d}
		b, err := ReadFile(view, "m/g", 10)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b))
		push()
		held, err = view.Lock("lock")
		require.NoError(t, err)
		require.NoError(t, held.Close())
		push()
		require.NoError(t, d.Remove("lock"))
		push()
		require.NoError(t, d.Sync())
		push()
		all, err := d.List()
		require.NoError(t, err)
		require.Len(t, all, len(others)+1)
		require.Equal(t, "m", all[0].Name)
		push()
		m, err := d.OpenDir("m")
		require.NoError(t, err)
		push()
		require.NoError(t, d.Close())
		require.ErrorIs(t, d.Close(), fs.ErrClosed)
		_, err = m.Stat("g")
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
}

// What is wrong with a name is said in the same way without the handles, and by one that is closed nothing else is.
func TestBadNamesWithoutHandles(t *testing.T) {
	setIdleRoom(t, 0)
	_, _, d := pinned(t, "a/b")
	for _, name := range []string{"", ".", "..", "../b", "/f", "f/", "a//b"} {
		_, err := d.Open(name)
		require.ErrorIs(t, err, fs.ErrInvalid, name)
		_, err = d.OpenDir(name)
		require.ErrorIs(t, err, fs.ErrInvalid, name)
		require.ErrorIs(t, d.Rename("f", name), fs.ErrInvalid, name)
	}
	_, err := d.Open("none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	var path *fs.PathError
	require.ErrorAs(t, err, &path)
	require.Equal(t, "none", path.Path)
	require.NoError(t, d.Close())
	_, err = d.Open("..")
	require.ErrorIs(t, err, fs.ErrClosed)
}

// A directory of a directory is found by the whole path: it goes on when the one above is closed, and is gone when that one moved or
// was replaced, though the last name is the same.
func TestSubDirOfASubDir(t *testing.T) {
	setIdleRoom(t, 0)
	path, root, above := pinned(t, "a/b")
	here, away := filepath.Join(path, "a"), filepath.Join(path, "away")
	fill(t, filepath.Join(here, "b"))
	opened, err := above.OpenDir("sub")
	require.NoError(t, err)
	d := opened.(*subDir)
	defer d.Close()
	require.NoError(t, above.Close())
	require.NoError(t, root.Close())
	each := func(want error) {
		t.Helper()
		for name, call := range calls(d) {
			require.ErrorIs(t, call(), want, name)
			require.False(t, d.has(), name)
		}
	}
	require.NoError(t, os.Rename(here, away))
	each(fs.ErrNotExist)
	other := filepath.Join(here, "b", "sub")
	fill(t, other)
	each(ErrElsewhere)
	require.NoError(t, os.RemoveAll(here))
	require.NoError(t, os.Rename(away, here))
	fill(t, other)
	each(nil)
}

// Of a directory that was opened over a link the link is followed again, and what it leads to then is looked at.
func TestSubDirOverALink(t *testing.T) {
	setIdleRoom(t, 0)
	path, root, _ := pinned(t, "a")
	fill(t, filepath.Join(path, "a"))
	fill(t, filepath.Join(path, "b"))
	link := filepath.Join(path, "link")
	require.NoError(t, os.Symlink("a", link))
	d, err := root.OpenDir("link")
	require.NoError(t, err)
	defer d.Close()
	for _, c := range []struct {
		to   string
		want error
	}{{"a", nil}, {"b", ErrElsewhere}, {"none", fs.ErrNotExist}, {"a", nil}} {
		require.NoError(t, os.Remove(link))
		require.NoError(t, os.Symlink(c.to, link))
		require.ErrorIs(t, d.Sync(), c.want, c.to)
		require.ErrorIs(t, closed(d.Open("f")), c.want, c.to)
	}
}

// Through the view that changes nothing, too, directories are used without their handles.
func TestReadOnlyWithoutHandles(t *testing.T) {
	setIdleRoom(t, 0)
	path := t.TempDir()
	fill(t, filepath.Join(path, "a", "b"))
	root, err := ReadOnly(OS{}).OpenRoot(path, false)
	require.NoError(t, err)
	a, err := root.OpenDir("a")
	require.NoError(t, err)
	b, err := a.OpenDir("b")
	require.NoError(t, err)
	require.NoError(t, errors.Join(root.Close(), a.Close()))
	require.False(t, b.(readOnlyDir).dir.(*subDir).has())
	read, err := ReadFile(b, "f", 10)
	require.NoError(t, err)
	require.Equal(t, "x", string(read))
	f, err := b.Open("f")
	require.NoError(t, err)
	_, err = f.(readOnlyFile).file.WriteAt([]byte("y"), 0)
	require.Error(t, err, "the descriptor itself can only read")
	require.NoError(t, f.Close())
	require.ErrorIs(t, closed(b.Lock("none")), fs.ErrNotExist)
	require.ErrorIs(t, closed(b.Create("g")), ErrReadOnly)
	require.NoError(t, b.Close())
	require.ErrorIs(t, closed(b.Open("f")), fs.ErrClosed)
	require.ErrorIs(t, closed(b.Lock("f")), fs.ErrClosed)
}

// When there is less room all that are too many give up at once, the next time that anybody comes; when there is more they need not.
func TestRoomChanges(t *testing.T) {
	setIdleRoom(t, 6)
	path, root, first := pinned(t, "d")
	all := below(t, root, path, 5)
	require.Equal(t, 5, having(all))
	idleRoom = func() int { return 1 }
	require.Equal(t, 5, having(all), "nobody came")
	more, err := root.OpenDir("d")
	require.NoError(t, err)
	defer more.Close()
	require.True(t, more.(*subDir).has())
	require.Zero(t, having(append(all, first)))
	idleRoom = func() int { return 6 }
	require.NoError(t, closed(root.OpenDir("d")))
	for _, d := range all {
		require.NoError(t, d.Sync())
	}
	require.Equal(t, 5, having(all))
}

// One that is closed while a call runs is not idle when the call ends: it would take room for ever.
func TestClosedInUse(t *testing.T) {
	setIdleRoom(t, 3)
	_, _, d := pinned(t, "d")
	_, err := d.take("test", "")
	require.NoError(t, err)
	require.Nil(t, d.place, "in use")
	require.NoError(t, d.Close())
	d.done()
	require.Nil(t, d.place)
	_, err = d.take("test", "")
	require.ErrorIs(t, err, fs.ErrClosed)
	d.giveUp() // as by somebody who saw it idle before
	require.ErrorIs(t, d.Close(), fs.ErrClosed)
}

// A directory is idle when the last of several calls has ended, and not before.
func TestUsedByTwo(t *testing.T) {
	setIdleRoom(t, 3)
	_, _, d := pinned(t, "d")
	one, err := d.take("test", "")
	require.NoError(t, err)
	two, err := d.take("test", "")
	require.NoError(t, err)
	require.Same(t, one, two)
	d.done()
	require.Nil(t, d.place)
	d.giveUp() // as by somebody who saw it idle before
	require.True(t, d.has())
	require.NoError(t, one.Sync())
	d.done()
	require.NotNil(t, d.place)
	idle.setRoom(0)
	idle.trim()
	require.False(t, d.has())
	require.Nil(t, d.place)
	require.ErrorIs(t, one.Sync(), fs.ErrClosed)
}

// Tasks use, open and close the same directories and their own at once: a call answers, or says that the directory was closed.
func TestSubDirsClosedAtOnce(t *testing.T) {
	setIdleRoom(t, 1)
	path, root, _ := pinned(t, "a")
	var shared [3]struct {
		sync.Mutex
		d Dir
	}
	for i := range shared {
		fill(t, filepath.Join(path, "a", fmt.Sprint(i)))
	}
	swap := func(i int) error {
		d, err := root.OpenDir(fmt.Sprintf("a/%d", i))
		if err != nil {
			return err
		}
		shared[i].Lock()
		shared[i].d, d = d, shared[i].d
		shared[i].Unlock()
		if d == nil {
			return nil
		}
		return d.Close()
	}
	use := func(i int) error {
		shared[i].Lock()
		d := shared[i].d
		shared[i].Unlock()
		for name, call := range calls(d) {
			if name == "read" || name == "Open" || name == "Stat" || name == "List" || name == "Sync" {
				if err := call(); err != nil && !errors.Is(err, fs.ErrClosed) {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	}
	for i := range shared {
		require.NoError(t, swap(i))
	}
	var group sync.WaitGroup
	failed := make([]error, 9)
	for task := range failed {
		group.Go(func() {
			for round := 0; round < 100 && failed[task] == nil; round++ {
				i := (task + round) % len(shared)
				if task%3 == 0 {
					failed[task] = swap(i)
				} else {
					failed[task] = use(i)
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failed...))
	for i := range shared {
		d := shared[i].d.(*subDir)
		require.Zero(t, d.users)
		require.NoError(t, d.Sync())
		require.NoError(t, d.Close())
		require.Nil(t, d.place)
	}
	require.Equal(t, int32(2), root.(*osDir).holders.Load(), "the root itself and the one that is pinned")
}
