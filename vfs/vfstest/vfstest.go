package vfstest

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// Run tests the directories that fresh makes. Each subtest gets one of its own, empty, on a disk without
// faults; fresh registers what must be cleaned up with t.Cleanup.
func Run(t *testing.T, fresh func(t *testing.T) vfs.Dir) {
	for _, group := range [][]test{names, moves, bytes, identity, closing, locks, functions} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
		}
	}
}

type test struct {
	name string
	run  func(t *testing.T, d vfs.Dir)
}

// RunFS tests the file systems that fresh makes, each with the path of an existing empty directory on it.
func RunFS(t *testing.T, fresh func(t *testing.T) (files vfs.FS, base string)) {
	run := func(name string, fn func(t *testing.T, files vfs.FS, base string)) {
		t.Run(name, func(t *testing.T) {
			files, base := fresh(t)
			fn(t, files, base)
		})
	}
	run("OpenRoot/existing", func(t *testing.T, files vfs.FS, base string) {
		d := openRoot(t, files, base, false)
		put(t, d, "f", "x")
		require.Equal(t, []string{"f"}, listNames(t, d))
	})
	run("OpenRoot/missing is not created unasked", func(t *testing.T, files vfs.FS, base string) {
		_, err := files.OpenRoot(base+"/a", false)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, listNames(t, openRoot(t, files, base, false)))
	})
	run("OpenRoot/creates missing parents", func(t *testing.T, files vfs.FS, base string) {
		put(t, openRoot(t, files, base+"/a/b/c", true), "f", "x")
		require.Equal(t, "x", get(t, openRoot(t, files, base, false), "a/b/c/f"))
	})
	run("OpenRoot/create keeps what is there", func(t *testing.T, files vfs.FS, base string) {
		put(t, openRoot(t, files, base+"/a", true), "f", "x")
		again := openRoot(t, files, base+"/a", true)
		require.Equal(t, "x", get(t, again, "f"))
		require.Equal(t, openRoot(t, files, base+"/a", false).ID(), again.ID())
	})
	run("OpenRoot/a file in the way", func(t *testing.T, files vfs.FS, base string) {
		put(t, openRoot(t, files, base, false), "f", "x")
		for _, create := range []bool{false, true} {
			_, err := files.OpenRoot(base+"/f", create)
			require.Error(t, err)
			_, err = files.OpenRoot(base+"/f/sub", create)
			require.Error(t, err)
		}
		require.Equal(t, "x", get(t, openRoot(t, files, base, false), "f"))
	})
	run("OpenRoot/no path", func(t *testing.T, files vfs.FS, base string) {
		for _, create := range []bool{false, true} {
			_, err := files.OpenRoot("", create)
			require.Error(t, err)
		}
	})
	run("OpenRoot/pins the directory, not the path", func(t *testing.T, files vfs.FS, base string) {
		above := openRoot(t, files, base, false)
		pinned := openRoot(t, files, base+"/a", true)
		require.NoError(t, above.Rename("a", "b"))
		other := openRoot(t, files, base+"/a", true)
		put(t, pinned, "f", "x")
		require.Empty(t, listNames(t, other))
		require.Equal(t, "x", get(t, above, "b/f"))
		require.NotEqual(t, pinned.ID(), other.ID())
	})
}

func openRoot(t *testing.T, files vfs.FS, path string, create bool) vfs.Dir {
	t.Helper()
	d, err := files.OpenRoot(path, create)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// create makes a file that holds data and leaves it open until the test ends.
func create(t *testing.T, d vfs.Dir, name, data string) vfs.File {
	t.Helper()
	f, err := d.Create(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	write(t, f, data, 0)
	return f
}

// put makes a file that holds data.
func put(t *testing.T, d vfs.Dir, name, data string) {
	t.Helper()
	f, err := d.Create(name)
	require.NoError(t, err)
	write(t, f, data, 0)
	require.NoError(t, f.Close())
}

func open(t *testing.T, d vfs.Dir, name string) vfs.File {
	t.Helper()
	f, err := d.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func openDir(t *testing.T, d vfs.Dir, name string) vfs.Dir {
	t.Helper()
	sub, err := d.OpenDir(name)
	require.NoError(t, err)
	t.Cleanup(func() { sub.Close() })
	return sub
}

func mkdir(t *testing.T, d vfs.Dir, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, d.Mkdir(name))
	}
}

func stat(t *testing.T, d vfs.Dir, name string) vfs.Info {
	t.Helper()
	info, err := d.Stat(name)
	require.NoError(t, err)
	return info
}

func write(t *testing.T, f vfs.File, data string, off int64) {
	t.Helper()
	n, err := f.WriteAt([]byte(data), off)
	require.NoError(t, err)
	require.Equal(t, len(data), n)
}

func size(t *testing.T, f vfs.File) int64 {
	t.Helper()
	n, err := f.Size()
	require.NoError(t, err)
	return n
}

// contents reads all of an open file.
func contents(t *testing.T, f vfs.File) string {
	t.Helper()
	b := make([]byte, size(t, f))
	n, err := f.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	return string(b)
}

// get reads all of the file at name.
func get(t *testing.T, d vfs.Dir, name string) string {
	t.Helper()
	f, err := d.Open(name)
	require.NoError(t, err)
	defer f.Close()
	return contents(t, f)
}

func list(t *testing.T, d vfs.Dir) []vfs.Info {
	t.Helper()
	infos, err := d.List()
	require.NoError(t, err)
	return infos
}

func listNames(t *testing.T, d vfs.Dir) []string {
	t.Helper()
	var found []string
	for _, info := range list(t, d) {
		found = append(found, info.Name)
	}
	return found
}

func requireMissing(t *testing.T, d vfs.Dir, name string) {
	t.Helper()
	_, err := d.Stat(name)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotContains(t, listNames(t, d), name)
}

// concurrently runs fn n times at once and returns what each answered.
func concurrently(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	return errs
}

// requireOneWinner wants a single nil among errs and the value loser in all others.
func requireOneWinner(t *testing.T, errs []error, loser error) {
	t.Helper()
	winner := slices.Index(errs, nil)
	require.GreaterOrEqual(t, winner, 0, "nobody won: %v", errs)
	for _, err := range slices.Delete(slices.Clone(errs), winner, winner+1) {
		require.True(t, errors.Is(err, loser), "want %v, got %v", loser, err)
	}
}
