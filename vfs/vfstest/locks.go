package vfstest

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var locks = []test{
	{"Lock/excludes", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		held := lock(t, d, "a/lock")
		for _, other := range []vfs.Dir{d, openDir(t, d, "a")} {
			name := "a/lock"
			if other != d {
				name = "lock"
			}
			_, err := other.Lock(name)
			require.ErrorIs(t, err, vfs.ErrLocked)
		}
		require.NoError(t, held.Close())
		lock(t, d, "a/lock")
	}},
	{"Lock/creates its file and keeps what is in it", func(t *testing.T, d vfs.Dir) {
		held := lock(t, d, "new")
		require.Equal(t, []string{"new"}, listNames(t, d))
		require.NoError(t, held.Close())
		put(t, d, "old", "pid 7")
		lock(t, d, "old")
		require.Equal(t, "pid 7", get(t, d, "old"))
	}},
	{"Lock/is advisory", func(t *testing.T, d vfs.Dir) {
		lock(t, d, "lock")
		write(t, open(t, d, "lock"), "x", 0)
		require.Equal(t, "x", get(t, d, "lock"))
	}},
	{"Lock/different names are different locks", func(t *testing.T, d vfs.Dir) {
		lock(t, d, "one")
		lock(t, d, "two")
	}},
	{"Lock/outlives the directory handle", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		a := openDir(t, d, "a")
		held := lock(t, a, "lock")
		require.NoError(t, a.Close())
		_, err := d.Lock("a/lock")
		require.ErrorIs(t, err, vfs.ErrLocked)
		require.NoError(t, held.Close())
		lock(t, d, "a/lock")
	}},
	{"Lock/follows the file, not the name", func(t *testing.T, d vfs.Dir) {
		lock(t, d, "lock")
		require.NoError(t, d.Rename("lock", "moved"))
		_, err := d.Lock("moved")
		require.ErrorIs(t, err, vfs.ErrLocked)
		lock(t, d, "lock")
	}},
	{"Lock/closing another handle of the file keeps it", func(t *testing.T, d vfs.Dir) {
		lock(t, d, "lock")
		require.NoError(t, open(t, d, "lock").Close())
		_, err := d.Lock("lock")
		require.ErrorIs(t, err, vfs.ErrLocked)
	}},
	{"Lock/refuses a directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		_, err := d.Lock("a")
		require.Error(t, err)
		require.NotErrorIs(t, err, vfs.ErrLocked)
	}},
	{"Lock/one of several wins", func(t *testing.T, d vfs.Dir) {
		held := make([]io.Closer, 8)
		errs := concurrently(len(held), func(i int) (err error) {
			held[i], err = d.Lock("lock")
			return err
		})
		requireOneWinner(t, errs, vfs.ErrLocked)
		for i, err := range errs {
			if err == nil {
				require.NoError(t, held[i].Close())
			}
		}
		lock(t, d, "lock")
	}},
}

func lock(t *testing.T, d vfs.Dir, name string) io.Closer {
	t.Helper()
	held, err := d.Lock(name)
	require.NoError(t, err)
	t.Cleanup(func() { held.Close() })
	return held
}
