package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
	"narad/vfs/vfstest"
)

// freshBelow makes a directory below a root.
func freshBelow(t *testing.T) vfs.Dir {
	root := fresh(t)
	require.NoError(t, root.Mkdir("a"))
	require.NoError(t, root.Mkdir("a/b"))
	d, err := root.OpenDir("a/b")
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// Directories below a root keep to the interface too, and when they have no handles between two calls they tell of nothing else.
func TestBelowARoot(t *testing.T) { vfstest.Run(t, freshBelow) }

func TestBelowARootWithoutHandles(t *testing.T) {
	vfs.SetIdleRoom(t, 0)
	for seed := range uint64(5) {
		vfstest.Differential(t, freshBelow(t), fresh(t), 500, seed)
	}
}
