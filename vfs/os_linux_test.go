package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// Preallocate takes the space, not only the size: a later write cannot meet a full disk.
func TestOSPreallocateTakesSpace(t *testing.T) {
	const size = 1 << 20
	path := t.TempDir()
	probe, err := os.Create(filepath.Join(path, "probe"))
	require.NoError(t, err)
	defer probe.Close()
	if err := syscall.Fallocate(int(probe.Fd()), 0, 0, 1); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the file system of the temporary directory cannot reserve space")
	}
	d, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Create("f")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), size/2) // a hole on either side
	require.NoError(t, err)
	require.NoError(t, f.Preallocate(size))

	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(filepath.Join(path, "f"), &st))
	require.GreaterOrEqual(t, st.Blocks*512, int64(size))
}
