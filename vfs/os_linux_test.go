package vfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// One call writes all of a buffer, also where the file does not reach yet, and leaves the rest of it alone.
func TestOSWriteAtSync(t *testing.T) {
	d, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Create("f")
	require.NoError(t, err)
	w := f.(vfs.SyncWriter)
	require.NoError(t, w.WriteAtSync([]byte("abcdef"), 0))
	require.NoError(t, w.WriteAtSync([]byte("XY"), 2))
	require.NoError(t, w.WriteAtSync(bytes.Repeat([]byte("z"), 3<<20), 8))
	require.NoError(t, w.WriteAtSync(nil, 1))
	b, err := vfs.ReadFile(d, "f", 4<<20)
	require.NoError(t, err)
	require.Equal(t, "abXYef\x00\x00"+strings.Repeat("z", 3<<20), string(b))
	require.NoError(t, f.Close())
	require.ErrorIs(t, w.WriteAtSync([]byte("x"), 0), fs.ErrClosed)
}
