package vfstest

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var closing = []test{
	{"Close/a directory answers no more", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b")
		put(t, d, "a/f", "x")
		a := openDir(t, d, "a")
		require.NoError(t, a.Close())
		for call, fn := range onName {
			require.ErrorIs(t, fn(a, "f"), fs.ErrClosed, call)
		}
		_, err := a.OpenDir("b")
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = a.List()
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, a.Sync(), fs.ErrClosed)
		require.ErrorIs(t, a.Close(), fs.ErrClosed)
		require.Equal(t, []string{"b", "f"}, listNames(t, openDir(t, d, "a")))
	}},
	{"Close/a file answers no more", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.NoError(t, f.Close())
		_, err := f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.WriteAt([]byte("x"), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.Size()
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Sync(), fs.ErrClosed)
		require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
		require.ErrorIs(t, f.Preallocate(10), fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
		require.Equal(t, "abc", get(t, d, "f"))
	}},
	{"Close/one handle leaves the others", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		one, two := create(t, d, "f", "abc"), open(t, d, "f")
		three, four := openDir(t, d, "a"), openDir(t, d, "a")
		require.NoError(t, one.Close())
		require.NoError(t, three.Close())
		write(t, two, "X", 0)
		require.Equal(t, "Xbc", contents(t, two))
		put(t, four, "g", "y")
		require.Equal(t, "y", get(t, d, "a/g"))
	}},
	{"Close/keeps the identity", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		a := openDir(t, d, "a")
		require.NoError(t, a.Close())
		require.Equal(t, stat(t, d, "a").ID, a.ID())
	}},
	{"Close/by one of several", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		a := openDir(t, d, "a")
		requireOneWinner(t, concurrently(8, func(int) error { return a.Close() }), fs.ErrClosed)
	}},
}
