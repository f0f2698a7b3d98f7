package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
	"narad/vfs/vfstest"
)

var personalities = []Personality{Adversarial, Ordered}

func each(t *testing.T, fn func(t *testing.T, p Personality)) {
	for _, p := range personalities {
		t.Run(p.String(), func(t *testing.T) { fn(t, p) })
	}
}

func openRoot(t testing.TB, d *Disk, hooks ...Hook) vfs.Dir {
	dir, err := FS(d, hooks...).OpenRoot("/", false)
	require.NoError(t, err)
	return dir
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		vfstest.Run(t, func(t *testing.T) vfs.Dir { return openRoot(t, New(p)) })
		vfstest.RunFS(t, func(t *testing.T) (vfs.FS, string) {
			d := New(p)
			_, err := d.Mkdir(d.Root(), "base")
			require.NoError(t, err)
			return FS(d), "/base"
		})
	})
}

// A clone and the image of a power loss that kept everything are as good as the original.
func TestConformanceOfShared(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Dir { return openRoot(t, New(Adversarial).Clone()) })
	vfstest.Run(t, func(t *testing.T) vfs.Dir {
		d := New(Adversarial)
		d.PowerLoss(&script{keepAll})
		return openRoot(t, d)
	})
}

func TestLikeTheOperatingSystem(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		for seed := range uint64(25) {
			real, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
			require.NoError(t, err)
			vfstest.Differential(t, sourceFirst{real}, openRoot(t, New(p)), 400, seed)
			require.NoError(t, real.Close())
		}
	})
}

// sourceFirst looks at the source of a rename before the target, as Linux does for two paths. Of two
// reasons to refuse, the operating system's Dir may give the other one.
type sourceFirst struct{ vfs.Dir }

func (d sourceFirst) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return sourceFirst{sub}, nil
}

func (d sourceFirst) Rename(source, target string) error {
	if parent := path.Dir(source); parent != "." && vfs.CheckName("rename", target) == nil {
		if info, err := d.Stat(parent); err == nil && !info.Dir {
			return syscall.ENOTDIR
		}
	}
	return d.Dir.Rename(source, target)
}

func TestHookSeesEveryCall(t *testing.T) {
	var ops []string
	dir := openRoot(t, New(Adversarial), func(op Op) error { ops = append(ops, op.String()); return nil })
	require.NoError(t, dir.Mkdir("a"))
	sub, err := dir.OpenDir("a")
	require.NoError(t, err)
	f, err := sub.Create("f")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("hello"), 3)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, sub.Sync())
	require.NoError(t, dir.Rename("a/f", "g"))
	require.NoError(t, f.Truncate(2))
	require.NoError(t, f.Close())
	require.Equal(t, []string{
		"1 openroot /", "2 mkdir a", "3 opendir a", "4 create a/f", "5 write a/f off=3 len=5", "6 sync a/f",
		"7 syncdir a", "8 rename a/f g", "9 truncate a/f size=2",
	}, ops)
}

// Fail the N-th call, for all N: the error arrives, nothing of the call happened.
func TestHookFailsCall(t *testing.T) {
	run := func(d *Disk, hook Hook) (err error) {
		dir, err := FS(d, hook).OpenRoot("x", true)
		if err != nil {
			return err
		}
		return vfs.ReplaceFile(dir, "f", []byte("data"))
	}
	calls := 0
	require.NoError(t, run(New(Adversarial), func(op Op) error { calls = op.N; return nil }))
	require.Greater(t, calls, 5)
	for n := 1; n <= calls; n++ {
		d, before := New(Adversarial), uint64(0)
		err := run(d, func(op Op) error {
			if op.N == n {
				before = d.Hash()
				return syscall.EIO
			}
			return nil
		})
		require.ErrorIs(t, err, syscall.EIO, n)
		require.Equal(t, before, d.Hash(), n)
	}
}

func TestHookShortWrite(t *testing.T) {
	d := New(Adversarial)
	dir := openRoot(t, d, func(op Op) error {
		if op.Kind == OpWrite {
			return &Short{N: 2, Err: syscall.EIO}
		}
		return nil
	})
	f, err := dir.Create("f")
	require.NoError(t, err)
	n, err := f.WriteAt([]byte("abc"), 0)
	require.ErrorIs(t, err, syscall.EIO)
	require.Equal(t, 2, n)
	b, err := vfs.ReadFile(dir, "f", 10)
	require.NoError(t, err)
	require.Equal(t, "ab", string(b))
}

func TestCrashClosesHandles(t *testing.T) {
	for name, crash := range map[string]func(*Disk){
		"process": (*Disk).ProcessCrash,
		"power":   func(d *Disk) { d.PowerLoss(&script{keepAll}) },
	} {
		d := New(Ordered)
		dir := openRoot(t, d)
		f, err := dir.Create("f")
		require.NoError(t, err)
		lock, err := dir.Lock("lock")
		require.NoError(t, err)
		_, err = dir.Lock("lock")
		require.ErrorIs(t, err, vfs.ErrLocked)
		crash(d)
		_, err = f.WriteAt([]byte("zombie"), 0)
		require.ErrorIs(t, err, fs.ErrClosed, name)
		require.ErrorIs(t, dir.Remove("f"), fs.ErrClosed, name)
		again := openRoot(t, d)
		_, err = again.Lock("lock")
		require.NoError(t, err, name)
		lock.Close() // of the dead process: must not release the new lock
		_, err = again.Lock("lock")
		require.ErrorIs(t, err, vfs.ErrLocked, name)
	}
}

// A hook that kills the machine in the middle of a call stops that call too.
func TestHookCrashes(t *testing.T) {
	d := New(Adversarial)
	dir := openRoot(t, d, func(op Op) error {
		if op.Kind == OpMkdir {
			d.ProcessCrash()
		}
		return nil
	})
	require.ErrorIs(t, dir.Mkdir("a"), fs.ErrClosed)
	require.Equal(t, New(Adversarial).Hash(), d.Hash())
}

func TestErrors(t *testing.T) {
	d := New(Adversarial)
	root := d.Root()
	f, err := d.Create(root, "f")
	require.NoError(t, err)
	dir, err := d.Mkdir(root, "d")
	require.NoError(t, err)
	sub, err := d.Mkdir(dir, "sub")
	require.NoError(t, err)
	call := func(_ any, err error) error { return err }
	for _, c := range []struct {
		err  error
		want error
	}{
		{call(d.Create(root, "f")), fs.ErrExist},
		{call(d.Mkdir(root, "d")), fs.ErrExist},
		{call(d.Create(root, "no/f")), fs.ErrNotExist},
		{call(d.Create(root, "f/g")), syscall.ENOTDIR},
		{call(d.Create(root, "../g")), fs.ErrInvalid},
		{d.Remove(root, "no"), fs.ErrNotExist},
		{d.Remove(root, "d"), syscall.ENOTEMPTY},
		{d.Rename(root, "no", "x"), fs.ErrNotExist},
		{d.Rename(root, "f", "d"), syscall.EISDIR},
		{d.Rename(root, "d", "f"), syscall.ENOTDIR},
		{d.Rename(root, "d", "d/sub/d"), syscall.EINVAL},
		{d.Rename(root, "d/sub", "d"), syscall.ENOTEMPTY},
		{call(d.ReadAt(dir, nil, 0)), syscall.EISDIR},
		{d.WriteAt(f, []byte("x"), -1), syscall.EINVAL},
		{d.Truncate(f, -1), syscall.EINVAL},
		{d.Preallocate(f, -1), syscall.EINVAL},
		{call(d.List(f)), syscall.ENOTDIR},
		{d.SyncDir(f), syscall.ENOTDIR},
		{d.Sync(999), fs.ErrNotExist},
	} {
		require.ErrorIs(t, c.err, c.want)
		var pe *fs.PathError
		require.ErrorAs(t, c.err, &pe)
	}
	// A removed directory that is still open takes no new names.
	d.Hold(sub)
	require.NoError(t, d.Remove(root, "d/sub"))
	require.ErrorIs(t, call(d.Create(sub, "x")), fs.ErrNotExist)
	list, err := d.List(sub)
	require.NoError(t, err)
	require.Empty(t, list)
	require.NoError(t, d.SyncDir(sub))
	d.Release(sub)
	require.ErrorIs(t, call(d.List(sub)), fs.ErrNotExist)
}

func ExampleFS() {
	d := New(Adversarial)
	dir, _ := FS(d).OpenRoot("/data", true)
	vfs.ReplaceFile(dir, "greeting", []byte("hello"))
	dir.Mkdir("lost")
	for image := range d.Crashes(0) {
		dir, _ := FS(image).OpenRoot("/data", false)
		b, _ := vfs.ReadFile(dir, "greeting", 100)
		_, err := dir.Stat("lost")
		fmt.Println(string(b), errors.Is(err, fs.ErrNotExist))
	}
	// Output:
	// hello true
	// hello false
}
