package sim

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/env/envtest"
	"narad/sim/disk"
	"narad/vfs"
	"narad/vfs/vfstest"
)

func TestOuterEnvConforms(t *testing.T) {
	for _, kind := range []PolicyKind{Uniform, Priority, FIFO} {
		seed := uint64(0)
		envtest.Run(t, func(t *testing.T, body func(e *env.Env)) {
			seed++
			w := New(Options{Seed: seed, Policy: Policy{Kind: kind}})
			w.Go("body", func() { body(w.Env()) })
			require.NoError(t, w.Run(time.Hour))
		})
	}
}

func TestProcessEnvConforms(t *testing.T) {
	for seed := range uint64(20) {
		envtest.Run(t, func(t *testing.T, body func(e *env.Env)) {
			w := New(Options{Seed: seed, Policy: Policy{Kind: Swarm}})
			m := w.Machine("m", MachineConfig{RatePPM: 500 - int(seed)*50, WallOffset: -time.Hour})
			m.Boot(body)
			require.NoError(t, w.Run(time.Hour))
		})
	}
}

// remote hands closures over to a task of a simulated process, so that a test outside of the world can use
// its files. The task blocks for real while it waits for one; nothing else runs in that world.
type remote struct {
	calls chan func()
	done  chan struct{}
}

func newRemote(t *testing.T, config MachineConfig, seed uint64) (*remote, *Machine) {
	w := New(Options{Seed: seed, Watchdog: -1})
	m := w.Machine("m", config)
	r := &remote{make(chan func()), make(chan struct{})}
	m.Boot(func(e *env.Env) {
		for call := range r.calls {
			call()
			r.done <- struct{}{}
		}
	})
	ended := make(chan error)
	go func() { ended <- w.Run(time.Hour) }()
	t.Cleanup(func() {
		close(r.calls)
		require.NoError(t, <-ended)
	})
	return r, m
}

func (r *remote) do(call func()) {
	r.calls <- call
	<-r.done
}

type remoteFS struct {
	*remote
	fs vfs.FS
}

func (r remoteFS) OpenRoot(path string, create bool) (d vfs.Dir, err error) {
	r.do(func() { d, err = r.fs.OpenRoot(path, create) })
	return r.wrapDir(d, err)
}

func (r *remote) wrapDir(d vfs.Dir, err error) (vfs.Dir, error) {
	if err != nil {
		return nil, err
	}
	return remoteDir{r, d}, nil
}

func (r *remote) wrapFile(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return remoteFile{r, f}, nil
}

type remoteDir struct {
	*remote
	d vfs.Dir
}

func (r remoteDir) OpenDir(name string) (d vfs.Dir, err error) {
	r.do(func() { d, err = r.d.OpenDir(name) })
	return r.wrapDir(d, err)
}
func (r remoteDir) Mkdir(name string) (err error) {
	r.do(func() { err = r.d.Mkdir(name) })
	return err
}
func (r remoteDir) Create(name string) (f vfs.File, err error) {
	r.do(func() { f, err = r.d.Create(name) })
	return r.wrapFile(f, err)
}
func (r remoteDir) Open(name string) (f vfs.File, err error) {
	r.do(func() { f, err = r.d.Open(name) })
	return r.wrapFile(f, err)
}
func (r remoteDir) Stat(name string) (i vfs.Info, err error) {
	r.do(func() { i, err = r.d.Stat(name) })
	return i, err
}
func (r remoteDir) List() (l []vfs.Info, err error) {
	r.do(func() { l, err = r.d.List() })
	return l, err
}
func (r remoteDir) Rename(source, target string) (err error) {
	r.do(func() { err = r.d.Rename(source, target) })
	return err
}
func (r remoteDir) Remove(name string) (err error) {
	r.do(func() { err = r.d.Remove(name) })
	return err
}
func (r remoteDir) Sync() (err error) {
	r.do(func() { err = r.d.Sync() })
	return err
}
func (r remoteDir) Lock(name string) (c io.Closer, err error) {
	r.do(func() { c, err = r.d.Lock(name) })
	if err != nil {
		return nil, err
	}
	return remoteCloser{r.remote, c}, nil
}
func (r remoteDir) ID() (id vfs.ID) {
	r.do(func() { id = r.d.ID() })
	return id
}
func (r remoteDir) Close() error { return remoteCloser{r.remote, r.d}.Close() }

type remoteCloser struct {
	*remote
	c io.Closer
}

func (r remoteCloser) Close() (err error) {
	r.do(func() { err = r.c.Close() })
	return err
}

type remoteFile struct {
	*remote
	f vfs.File
}

func (r remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	r.do(func() { n, err = r.f.ReadAt(p, off) })
	return n, err
}
func (r remoteFile) WriteAt(p []byte, off int64) (n int, err error) {
	r.do(func() { n, err = r.f.WriteAt(p, off) })
	return n, err
}
func (r remoteFile) Sync() (err error) {
	r.do(func() { err = r.f.Sync() })
	return err
}
func (r remoteFile) Truncate(size int64) (err error) {
	r.do(func() { err = r.f.Truncate(size) })
	return err
}
func (r remoteFile) Preallocate(size int64) (err error) {
	r.do(func() { err = r.f.Preallocate(size) })
	return err
}
func (r remoteFile) Size() (n int64, err error) {
	r.do(func() { n, err = r.f.Size() })
	return n, err
}
func (r remoteFile) ID() (id vfs.ID) {
	r.do(func() { id = r.f.ID() })
	return id
}
func (r remoteFile) Close() error { return remoteCloser{r.remote, r.f}.Close() }

func TestProcessFilesConform(t *testing.T) {
	for _, personality := range []disk.Personality{disk.Adversarial, disk.Ordered} {
		seed := uint64(0)
		fresh := func(t *testing.T) (vfs.FS, string) {
			seed++
			r, m := newRemote(t, MachineConfig{Personality: personality, Writeback: 200_000}, seed)
			files := remoteFS{r, m.Process().Env().FS()}
			d, err := files.OpenRoot("/data", true)
			require.NoError(t, err)
			require.NoError(t, d.Close())
			return files, "/data"
		}
		t.Run(personality.String(), func(t *testing.T) {
			vfstest.RunFS(t, fresh)
			vfstest.Run(t, func(t *testing.T) vfs.Dir {
				files, base := fresh(t)
				d, err := files.OpenRoot(base, false)
				require.NoError(t, err)
				return d
			})
		})
	}
}
