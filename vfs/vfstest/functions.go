package vfstest

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var functions = []test{
	{"ReadFile/whole", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "a/f", "12345")
		put(t, d, "empty", "")
		b, err := vfs.ReadFile(d, "a/f", 5)
		require.NoError(t, err)
		require.Equal(t, "12345", string(b))
		b, err = vfs.ReadFile(d, "empty", 0)
		require.NoError(t, err)
		require.Empty(t, b)
	}},
	{"ReadFile/longer than the limit", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "12345")
		b, err := vfs.ReadFile(d, "f", 4)
		require.Error(t, err)
		require.Empty(t, b)
	}},
	{"ReadFile/missing", func(t *testing.T, d vfs.Dir) {
		_, err := vfs.ReadFile(d, "f", 100)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}},

	{"ReplaceFile/new and again", func(t *testing.T, d vfs.Dir) {
		for _, data := range []string{"first", "", strings.Repeat("long", 1000), "short"} {
			require.NoError(t, vfs.ReplaceFile(d, "f", []byte(data)))
			require.Equal(t, data, get(t, d, "f"))
			require.Equal(t, []string{"f"}, listNames(t, d), "nothing else is left behind")
		}
	}},
	{"ReplaceFile/over what a crash left", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "old")
		put(t, d, "f.tmp", strings.Repeat("left", 1000))
		require.NoError(t, vfs.ReplaceFile(d, "f", []byte("new")))
		require.Equal(t, "new", get(t, d, "f"))
		require.Equal(t, []string{"f"}, listNames(t, d))
	}},
	{"ReplaceFile/an open handle keeps the old contents", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "old")
		require.NoError(t, vfs.ReplaceFile(d, "f", []byte("new")))
		require.Equal(t, "old", contents(t, f))
		require.NotEqual(t, f.ID(), stat(t, d, "f").ID)
	}},
	{"ReplaceFile/observers see the old or the new", func(t *testing.T, d vfs.Dir) {
		requireAtomic(t, d, func(data string) error { return vfs.ReplaceFile(d, "g", []byte(data)) })
	}},
	{"ReplaceFile/refused leaves the old", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "a/f", "x")
		require.Error(t, vfs.ReplaceFile(d, "a", []byte("new")))
		require.Equal(t, "x", get(t, d, "a/f"))
	}},

	{"RemoveAll/a tree", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b", "a/b/c", "a/empty", "aa")
		for _, name := range []string{"a/f", "a/b/g", "a/b/c/h", "aa/f", "f"} {
			put(t, d, name, "x")
		}
		require.NoError(t, vfs.RemoveAll(d, "a/b"))
		require.Equal(t, []string{"empty", "f"}, listNames(t, openDir(t, d, "a")))
		require.NoError(t, vfs.RemoveAll(d, "a"))
		require.Equal(t, []string{"aa", "f"}, listNames(t, d))
		require.Equal(t, "x", get(t, d, "aa/f"))
	}},
	{"RemoveAll/a file, an empty directory, nothing", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		mkdir(t, d, "a")
		for _, name := range []string{"f", "a", "no", "no/no"} {
			require.NoError(t, vfs.RemoveAll(d, name))
		}
		require.Empty(t, listNames(t, d))
	}},
	{"RemoveAll/a bad name", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "f", "x")
		require.ErrorIs(t, vfs.RemoveAll(openDir(t, d, "a"), "../f"), fs.ErrInvalid)
		require.ErrorIs(t, vfs.RemoveAll(d, "."), fs.ErrInvalid)
		require.Equal(t, []string{"a", "f"}, listNames(t, d))
	}},
}
