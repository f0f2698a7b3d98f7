package vfs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
	"narad/vfs/vfstest"
)

func fresh(t *testing.T) vfs.Dir {
	d, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestOS(t *testing.T) { vfstest.Run(t, fresh) }

func TestOSRoots(t *testing.T) {
	vfstest.RunFS(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS{}, t.TempDir() })
}

// The system agrees with itself, so the driver compares what is comparable; package sim/disk compares its disk
// with the system by the same driver.
func TestOSDifferential(t *testing.T) {
	for seed := range uint64(20) {
		vfstest.Differential(t, fresh(t), fresh(t), 500, seed)
	}
}
