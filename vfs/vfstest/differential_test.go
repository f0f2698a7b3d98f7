package vfstest

import (
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// Each broken disk lies in one way; the driver must notice all of them and nothing in two sound disks.
func TestDifferentialNotices(t *testing.T) {
	for name, spoil := range map[string]func(d vfs.Dir) vfs.Dir{
		"a rename that refuses to replace": func(d vfs.Dir) vfs.Dir { return shyRename{d} },
		"a rename that copies":             func(d vfs.Dir) vfs.Dir { return copyingRename{d} },
		"a truncate that keeps the bytes":  func(d vfs.Dir) vfs.Dir { return spoiltFiles{d, func(f vfs.File) vfs.File { return lazyTruncate{f} }} },
		"a write that loses its last byte": func(d vfs.Dir) vfs.Dir { return spoiltFiles{d, func(f vfs.File) vfs.File { return shortWrite{f} }} },
		"a lock that excludes nobody":      func(d vfs.Dir) vfs.Dir { return blindLock{d} },
	} {
		t.Run(name, func(t *testing.T) {
			noticed := false
			for seed := uint64(0); seed < 20 && !noticed; seed++ {
				noticed = compare(spoil(osDir(t)), osDir(t), 300, seed) != nil
			}
			require.True(t, noticed)
		})
	}
}

func TestDifferentialTakesEqualDisks(t *testing.T) {
	for seed := range uint64(10) {
		require.NoError(t, compare(osDir(t), osDir(t), 300, seed))
	}
}

func osDir(t *testing.T) vfs.Dir {
	d, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

type shyRename struct{ vfs.Dir }

func (d shyRename) Rename(source, target string) error {
	if _, err := d.Stat(target); err == nil && source != target {
		return fs.ErrExist
	}
	return d.Dir.Rename(source, target)
}

// copyingRename gives the target a new identity.
type copyingRename struct{ vfs.Dir }

func (d copyingRename) Rename(source, target string) error {
	b, err := vfs.ReadFile(d.Dir, source, 1<<20)
	if err != nil {
		return d.Dir.Rename(source, target)
	}
	if err := d.Dir.Rename(source, target); err != nil || source == target {
		return err
	}
	if err := d.Dir.Remove(target); err != nil {
		return err
	}
	f, err := d.Dir.Create(target)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return err
}

type spoiltFiles struct {
	vfs.Dir
	spoil func(f vfs.File) vfs.File
}

func (d spoiltFiles) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	if err != nil {
		return nil, err
	}
	return d.spoil(f), nil
}

type lazyTruncate struct{ vfs.File }

func (f lazyTruncate) Truncate(size int64) error {
	if n, err := f.Size(); err != nil || n >= size {
		return err
	}
	return f.File.Truncate(size)
}

type shortWrite struct{ vfs.File }

func (f shortWrite) WriteAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	_, err := f.File.WriteAt(p[:len(p)-1], off)
	return len(p), err
}

type blindLock struct{ vfs.Dir }

func (d blindLock) Lock(name string) (c io.Closer, err error) {
	if c, err = d.Dir.Lock(name); err == nil {
		c.Close()
		return nopCloser{}, nil
	}
	return nil, err
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }
