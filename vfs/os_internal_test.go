package vfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What Preallocate does where space cannot be reserved.
func TestGrowToNeverShortens(t *testing.T) {
	d, err := OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Create("f")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("abc"), 0)
	require.NoError(t, err)
	for _, c := range []struct{ size, want int64 }{{0, 3}, {2, 3}, {3, 3}, {9, 9}, {5, 9}} {
		require.NoError(t, growTo(f, c.size))
		n, err := f.Size()
		require.NoError(t, err)
		require.Equal(t, c.want, n)
	}
	b, err := ReadFile(d, "f", 9)
	require.NoError(t, err)
	require.Equal(t, "abc\x00\x00\x00\x00\x00\x00", string(b))
}
