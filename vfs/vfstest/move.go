package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var moves = []test{
	{"Rename/a file", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		require.NoError(t, d.Rename("f", "g"))
		requireMissing(t, d, "f")
		require.Equal(t, "x", get(t, d, "g"))
	}},
	{"Rename/a file over a file", func(t *testing.T, d vfs.Dir) {
		f, g := create(t, d, "f", "new"), create(t, d, "g", "replaced")
		require.NoError(t, d.Rename("f", "g"))
		require.Equal(t, []string{"g"}, listNames(t, d))
		require.Equal(t, "new", get(t, d, "g"))
		require.Equal(t, f.ID(), stat(t, d, "g").ID)
		require.Equal(t, "replaced", contents(t, g), "an open handle keeps the replaced file")
	}},
	{"Rename/an open handle follows its file", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.NoError(t, d.Rename("f", "g"))
		put(t, d, "f", "other")
		write(t, f, "B", 1)
		require.NoError(t, f.Sync())
		require.Equal(t, "aBc", get(t, d, "g"))
		require.Equal(t, "other", get(t, d, "f"))
	}},
	{"Rename/to its own name", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		mkdir(t, d, "a")
		put(t, d, "a/f", "y")
		require.NoError(t, d.Rename("f", "f"))
		require.NoError(t, d.Rename("a", "a"))
		require.Equal(t, "x", get(t, d, "f"))
		require.Equal(t, "y", get(t, d, "a/f"))
	}},
	{"Rename/between directories", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b")
		put(t, d, "a/f", "x")
		put(t, d, "b/f", "replaced")
		require.NoError(t, d.Rename("a/f", "b/f"))
		require.Equal(t, "x", get(t, d, "b/f"))
		require.Empty(t, listNames(t, openDir(t, d, "a")))
		require.NoError(t, openDir(t, d, "a").Sync())
		require.NoError(t, openDir(t, d, "b").Sync())
	}},
	{"Rename/a directory with what is in it", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b", "c")
		put(t, d, "a/b/f", "x")
		require.NoError(t, d.Rename("a", "c/d"))
		requireMissing(t, d, "a")
		require.Equal(t, "x", get(t, d, "c/d/b/f"))
	}},
	{"Rename/a directory over an empty one", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b")
		put(t, d, "a/f", "x")
		id := stat(t, d, "a").ID
		require.NoError(t, d.Rename("a", "b"))
		require.Equal(t, []string{"b"}, listNames(t, d))
		require.Equal(t, "x", get(t, d, "b/f"))
		require.Equal(t, id, stat(t, d, "b").ID)
	}},
	{"Rename/a directory over one that is not empty", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b")
		put(t, d, "a/f", "x")
		put(t, d, "b/g", "y")
		require.ErrorIs(t, d.Rename("a", "b"), fs.ErrExist)
		require.Equal(t, "x", get(t, d, "a/f"))
		require.Equal(t, "y", get(t, d, "b/g"))
		require.Equal(t, []string{"g"}, listNames(t, openDir(t, d, "b")))
	}},
	{"Rename/a file and a directory never replace each other", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "f", "x")
		require.Error(t, d.Rename("f", "a"))
		require.Error(t, d.Rename("a", "f"))
		require.True(t, stat(t, d, "a").Dir)
		require.Equal(t, "x", get(t, d, "f"))
	}},
	{"Rename/a directory below itself", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b")
		require.Error(t, d.Rename("a", "a/c"))
		require.Error(t, d.Rename("a", "a/b/c"))
		require.Equal(t, []string{"b"}, listNames(t, openDir(t, d, "a")))
	}},
	{"Rename/a missing source leaves the target", func(t *testing.T, d vfs.Dir) {
		put(t, d, "g", "y")
		require.ErrorIs(t, d.Rename("f", "g"), fs.ErrNotExist)
		require.Equal(t, "y", get(t, d, "g"))
	}},
	{"Rename/is atomic for observers", func(t *testing.T, d vfs.Dir) {
		requireAtomic(t, d, func(data string) error {
			f, err := d.Create("g.new")
			if err != nil {
				return err
			}
			if _, err := f.WriteAt([]byte(data), 0); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
			return d.Rename("g.new", "g")
		})
	}},

	{"Remove/a file", func(t *testing.T, d vfs.Dir) {
		put(t, d, "f", "x")
		put(t, d, "g", "y")
		require.NoError(t, d.Remove("f"))
		requireMissing(t, d, "f")
		require.ErrorIs(t, d.Remove("f"), fs.ErrNotExist)
		require.Equal(t, "y", get(t, d, "g"))
	}},
	{"Remove/an empty directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b")
		require.NoError(t, d.Remove("a/b"))
		require.NoError(t, d.Remove("a"))
		requireMissing(t, d, "a")
	}},
	{"Remove/a directory that is not empty", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "a/f", "x")
		require.ErrorIs(t, d.Remove("a"), fs.ErrExist)
		require.Equal(t, "x", get(t, d, "a/f"))
	}},
	{"Remove/an open file stays usable", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "abc")
		require.NoError(t, d.Remove("f"))
		require.Equal(t, "abc", contents(t, f))
		write(t, f, "defg", 3)
		require.Equal(t, "abcdefg", contents(t, f))
		require.NoError(t, f.Truncate(2))
		require.NoError(t, f.Preallocate(4))
		require.NoError(t, f.Sync())
		require.Equal(t, "ab\x00\x00", contents(t, f))
		requireMissing(t, d, "f")
	}},
	{"Remove/a new file of the name is another", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "old")
		require.NoError(t, d.Remove("f"))
		g := create(t, d, "f", "")
		require.Zero(t, size(t, g))
		write(t, g, "new!", 0)
		write(t, f, "OLD", 0)
		require.Equal(t, "new!", get(t, d, "f"))
		require.Equal(t, "OLD", contents(t, f))
	}},

	{"pinning/through a rename", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		put(t, d, "a/f", "x")
		pinned := openDir(t, d, "a")
		require.NoError(t, d.Rename("a", "b"))
		require.Equal(t, "x", get(t, pinned, "f"))
		put(t, pinned, "g", "y")
		require.Equal(t, "y", get(t, d, "b/g"))
		require.NoError(t, pinned.Rename("f", "h"))
		require.NoError(t, pinned.Remove("g"))
		require.NoError(t, pinned.Sync())
		require.Equal(t, []string{"h"}, listNames(t, pinned))
		require.Equal(t, []string{"h"}, listNames(t, openDir(t, d, "b")))
	}},
	{"pinning/when another takes the path", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		pinned := openDir(t, d, "a")
		require.NoError(t, d.Rename("a", "b"))
		mkdir(t, d, "a")
		put(t, d, "a/f", "other")
		requireMissing(t, pinned, "f")
		put(t, pinned, "f", "mine")
		require.Equal(t, "other", get(t, d, "a/f"))
		require.Equal(t, "mine", get(t, d, "b/f"))
	}},
	{"pinning/when a directory above is renamed", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b", "c")
		pinned := openDir(t, d, "a/b")
		require.NoError(t, d.Rename("a", "c/a"))
		mkdir(t, d, "a", "a/b")
		put(t, pinned, "f", "x")
		require.Equal(t, "x", get(t, d, "c/a/b/f"))
		require.Empty(t, listNames(t, openDir(t, d, "a/b")))
	}},
	{"pinning/a removed directory takes nothing in", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		pinned := openDir(t, d, "a")
		id := pinned.ID()
		require.NoError(t, d.Remove("a"))
		mkdir(t, d, "a")
		_, err := pinned.Create("f")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, pinned.Mkdir("b"), fs.ErrNotExist)
		_, err = pinned.Open("f")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Equal(t, id, pinned.ID())
		require.Empty(t, listNames(t, openDir(t, d, "a")))
	}},
	{"pinning/a directory replaced by another", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b")
		replaced, kept := openDir(t, d, "b"), openDir(t, d, "a")
		require.NoError(t, d.Rename("a", "b"))
		_, err := replaced.Create("f")
		require.ErrorIs(t, err, fs.ErrNotExist)
		put(t, kept, "f", "x")
		require.Equal(t, "x", get(t, d, "b/f"))
	}},
	{"pinning/outlives the handle it was opened through", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "a/b")
		a := openDir(t, d, "a")
		b := openDir(t, a, "b")
		f := create(t, a, "f", "x")
		require.NoError(t, a.Close())
		put(t, b, "g", "y")
		require.Equal(t, "y", get(t, d, "a/b/g"))
		require.Equal(t, "x", contents(t, f))
	}},
}

// body is what round i writes: long enough that a torn copy would show, and its number in every line.
func body(i int) string { return strings.Repeat(fmt.Sprintf("round %06d\n", i), 700) }

// requireAtomic lets others look at the file g all the while that replace gives it new contents.
func requireAtomic(t *testing.T, d vfs.Dir, replace func(data string) error) {
	t.Helper()
	const rounds = 60
	put(t, d, "g", body(0))
	var done atomic.Bool
	for _, err := range concurrently(3, func(i int) error {
		if i > 0 {
			return observe(d, &done)
		}
		defer done.Store(true)
		for round := range rounds {
			if err := replace(body(round + 1)); err != nil {
				return err
			}
		}
		return nil
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, body(rounds), get(t, d, "g"))
}

// observe wants a whole file under the name at every look.
func observe(d vfs.Dir, done *atomic.Bool) error {
	for !done.Load() {
		b, err := vfs.ReadFile(d, "g", 1<<20)
		if err != nil {
			return err
		}
		if s := string(b); len(s) < 13 || s != strings.Repeat(s[:13], 700) {
			return errors.New("a mixed or partial file was seen")
		}
	}
	return nil
}
