package vfstest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

var identity = []test{
	{"ID/of a file is one through all its handles and names", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		f := create(t, d, "a/f", "x")
		require.NotZero(t, f.ID())
		require.Equal(t, f.ID(), open(t, d, "a/f").ID())
		require.Equal(t, f.ID(), stat(t, d, "a/f").ID)
		require.Equal(t, f.ID(), list(t, openDir(t, d, "a"))[0].ID)
		require.NoError(t, d.Rename("a/f", "g"))
		require.Equal(t, f.ID(), stat(t, d, "g").ID)
		require.Equal(t, f.ID(), open(t, d, "g").ID())
	}},
	{"ID/of a directory is one through all its handles and names", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b")
		a := openDir(t, d, "a")
		require.NotZero(t, a.ID())
		require.Equal(t, a.ID(), openDir(t, d, "a").ID())
		require.Equal(t, a.ID(), stat(t, d, "a").ID)
		require.Equal(t, a.ID(), list(t, d)[0].ID)
		require.NoError(t, d.Rename("a", "b/c"))
		require.Equal(t, a.ID(), stat(t, d, "b/c").ID)
	}},
	{"ID/survives writing, syncing and closing", func(t *testing.T, d vfs.Dir) {
		f := create(t, d, "f", "x")
		id := f.ID()
		write(t, f, "0123456789", 5000)
		require.NoError(t, f.Truncate(3))
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		require.Equal(t, id, f.ID())
		require.Equal(t, id, open(t, d, "f").ID())
	}},
	{"ID/differs between files and directories", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a", "b", "a/f")
		ids := map[vfs.ID]string{d.ID(): "."}
		put(t, d, "f", "same")
		put(t, d, "a/g", "same")
		for _, name := range []string{"a", "b", "a/f", "f", "a/g"} {
			id := stat(t, d, name).ID
			require.Empty(t, ids[id], "%s shares an ID", name)
			ids[id] = name
		}
	}},
	{"ID/differs for a recreated file while the old one is open", func(t *testing.T, d vfs.Dir) {
		old := create(t, d, "f", "x")
		require.NoError(t, d.Remove("f"))
		recreated := create(t, d, "f", "x")
		require.NotEqual(t, old.ID(), recreated.ID())
		require.NotEqual(t, old.ID(), stat(t, d, "f").ID)
	}},
	{"ID/differs for a recreated file when nobody holds the old one", func(t *testing.T, d vfs.Dir) {
		seen := map[vfs.ID]bool{}
		for range 50 {
			put(t, d, "f", "x")
			id := stat(t, d, "f").ID
			require.False(t, seen[id], "a new file has the ID of a removed one")
			seen[id] = true
			require.NoError(t, d.Remove("f"))
		}
	}},
	{"ID/differs for a recreated directory", func(t *testing.T, d vfs.Dir) {
		mkdir(t, d, "a")
		old := openDir(t, d, "a")
		seen := map[vfs.ID]bool{old.ID(): true}
		for range 50 {
			require.NoError(t, d.Remove("a"))
			mkdir(t, d, "a")
			id := stat(t, d, "a").ID
			require.False(t, seen[id], "a new directory has the ID of a removed one")
			seen[id] = true
		}
	}},
	{"ID/moves with a replacing file", func(t *testing.T, d vfs.Dir) {
		f, g := create(t, d, "f", "x"), create(t, d, "g", "y")
		require.NoError(t, d.Rename("f", "g"))
		require.Equal(t, f.ID(), stat(t, d, "g").ID)
		require.NotEqual(t, g.ID(), stat(t, d, "g").ID)
	}},
}
