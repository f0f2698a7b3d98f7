package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadOnlyRefusesChanges(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), []byte("abc"), 0o400))
	require.NoError(t, os.Mkdir(filepath.Join(path, "sub"), 0o700))
	_, err := ReadOnly(OS{}).OpenRoot(filepath.Join(path, "new"), true)
	require.ErrorIs(t, err, ErrReadOnly)
	d, err := ReadOnly(OS{}).OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	sub, err := d.OpenDir("sub")
	require.NoError(t, err)
	defer sub.Close()
	for _, d := range []Dir{d, sub} {
		_, err := d.Create("b")
		require.ErrorIs(t, err, ErrReadOnly)
		require.ErrorIs(t, d.Mkdir("b"), ErrReadOnly)
		require.ErrorIs(t, d.Rename("a", "b"), ErrReadOnly)
		require.ErrorIs(t, d.Remove("a"), ErrReadOnly)
		require.ErrorIs(t, d.Sync(), ErrReadOnly)
	}
	f, err := d.Open("a")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, ErrReadOnly)
	require.ErrorIs(t, f.Truncate(0), ErrReadOnly)
	require.ErrorIs(t, f.Preallocate(9), ErrReadOnly)
	require.ErrorIs(t, f.Sync(), ErrReadOnly)
	b, err := ReadFile(d, "a", 10)
	require.NoError(t, err)
	require.Equal(t, "abc", string(b))
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// The descriptor itself can only read, so that a disk mounted read-only can be looked at.
func TestReadOnlyDescriptor(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), []byte("abc"), 0o600))
	d, err := ReadOnly(OS{}).OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Open("a")
	require.NoError(t, err)
	defer f.Close()
	_, err = f.(readOnlyFile).file.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrReadOnly)
}

func TestReadOnlyOpensOnlyFiles(t *testing.T) {
	path := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), nil, 0o600))
	require.NoError(t, os.Symlink("a", filepath.Join(path, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(path, "sub"), 0o700))
	d, err := ReadOnly(OS{}).OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	for _, name := range []string{"link", "sub", "../a", "", "none"} {
		_, err := d.Open(name)
		require.Error(t, err, name)
	}
}

func TestReadOnlyLock(t *testing.T) {
	path := t.TempDir()
	all, err := OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer all.Close()
	d, err := ReadOnly(OS{}).OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	_, err = d.Lock("lock")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = os.Stat(filepath.Join(path, "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)

	held, err := all.Lock("lock")
	require.NoError(t, err)
	_, err = d.Lock("lock")
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, held.Close())
	held, err = d.Lock("lock")
	require.NoError(t, err)
	_, err = all.Lock("lock")
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, held.Close())
}
