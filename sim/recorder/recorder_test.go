package recorder

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
	"narad/vfs"
	"narad/vfs/vfstest"
)

func open(t *testing.T, files vfs.FS) vfs.Dir {
	t.Helper()
	d, err := files.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// What goes through it behaves as without it.
func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Dir { return open(t, New(vfs.OS{}, disk.New(disk.Adversarial), nil)) })
}

// slowSync is a file whose sync lets somebody in before it returns.
type slowSync struct {
	vfs.FS
	during *func()
}

func (s slowSync) OpenRoot(name string, create bool) (vfs.Dir, error) {
	d, err := s.FS.OpenRoot(name, create)
	return slowDir{d, s}, err
}

type slowDir struct {
	vfs.Dir
	fs slowSync
}

func (d slowDir) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	return slowFile{f, d.fs}, err
}

type slowFile struct {
	vfs.File
	fs slowSync
}

func (f slowFile) Sync() error {
	if during := *f.fs.during; during != nil {
		during()
	}
	return f.File.Sync()
}

// A write that comes while its file is synced waits for the end of the sync; every change is announced once, when the record has it.
func TestWriteBesideSync(t *testing.T) {
	var during func()
	files := New(slowSync{vfs.OS{}, &during}, disk.New(disk.Adversarial), func(string) string { return "here" })
	var told, at []int // changes so far, at the end of each write
	files.OnChange(func(n int) { told = append(told, n) })
	d := open(t, files)
	f, err := d.Create("a")
	require.NoError(t, err)
	defer f.Close()
	write := func(text string) {
		_, err := f.WriteAt([]byte(text), 0)
		require.NoError(t, err)
	}
	write("x")
	var beside sync.WaitGroup
	during = func() {
		began := make(chan struct{})
		beside.Go(func() {
			close(began)
			write("y")
			at = append(at, files.Changes())
		})
		<-began
	}
	require.NoError(t, f.Sync())
	beside.Wait()
	require.Equal(t, []int{5}, at, "root, create, write, sync, and only then the write")
	require.NoError(t, d.Sync())
	require.Equal(t, []int{1, 2, 3, 4, 5, 6}, told)
	content, ok := files.Cut().DurableFile("here/a")
	require.True(t, ok, "the directory has the name that it was given")
	require.Equal(t, "x", string(content))
}

// A write of several pages is shown with some of them written, and then happens as a whole.
func TestHalfway(t *testing.T) {
	files := New(vfs.OS{}, disk.New(disk.Adversarial), func(string) string { return "here" })
	var sizes []int
	files.OnHalfway(func(int) bool { return true }, func(half *disk.Disk) {
		d, err := disk.FS(half).OpenRoot("here", false)
		require.NoError(t, err)
		b, err := vfs.ReadFile(d, "a", 1<<20)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{1}, len(b)), b)
		sizes = append(sizes, len(b))
	})
	d := open(t, files)
	f, err := d.Create("a")
	require.NoError(t, err)
	defer f.Close()
	for _, size := range []int{100, 5000, 100, 20000} {
		at, err := f.Size()
		require.NoError(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte{1}, size), at)
		require.NoError(t, err)
	}
	require.Len(t, sizes, 2, "writes within a page are whole or not there")
	require.Equal(t, 4096, sizes[0])
	require.Zero(t, sizes[1]%4096)
	require.Greater(t, sizes[1], 5200)
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 25200, size)
}

// The record is the real directory, whatever is done to it.
func TestRecordFollows(t *testing.T) {
	for seed := range uint64(10) {
		files := New(vfs.OS{}, disk.New(disk.Adversarial), nil)
		path := t.TempDir()
		d, err := files.OpenRoot(path, false)
		require.NoError(t, err)
		vfstest.Differential(t, d, open(t, vfs.OS{}), 300, seed)
		twin, err := disk.FS(files.Cut()).OpenRoot(path, false)
		require.NoError(t, err)
		sameTree(t, d, twin)
		twin.Close()
		d.Close()
	}
}

func sameTree(t *testing.T, a, b vfs.Dir) {
	t.Helper()
	as, err := a.List()
	require.NoError(t, err)
	bs, err := b.List()
	require.NoError(t, err)
	require.Len(t, bs, len(as))
	for i, in := range as {
		require.Equal(t, in.Name, bs[i].Name)
		require.Equal(t, in.Dir, bs[i].Dir)
		require.Equal(t, in.Size, bs[i].Size)
		if in.Dir {
			x, err := a.OpenDir(in.Name)
			require.NoError(t, err)
			y, err := b.OpenDir(in.Name)
			require.NoError(t, err)
			sameTree(t, x, y)
			x.Close()
			y.Close()
			continue
		}
		x, err := vfs.ReadFile(a, in.Name, 1<<30)
		require.NoError(t, err)
		y, err := vfs.ReadFile(b, in.Name, 1<<30)
		require.NoError(t, err)
		require.Equal(t, x, y, in.Name)
	}
}
