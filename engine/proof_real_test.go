package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// mirrorFS carries out every call on a real file system and on a simulated disk, one call at a time, and notes where the two
// differ. So the disk of the model has seen exactly what the real one has, and knows what a crash may leave of it.
type mirrorFS struct {
	real, model vfs.FS
	at          string // where the root of the model is in the real one
	mu          sync.Mutex
	different   []string
}

// both carries out a call twice and compares the outcomes.
func (m *mirrorFS) both(what string, real, model func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := real()
	if twin := model(); fate(err) != fate(twin) {
		m.different = append(m.different, fmt.Sprintf("%s: really %v, in the model %v", what, err, twin))
	}
	return err
}

// fate is what callers tell errors apart by.
func fate(err error) string {
	for _, known := range []error{os.ErrNotExist, os.ErrExist, os.ErrInvalid, os.ErrClosed, vfs.ErrLocked, io.EOF} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "other"
	}
	return "ok"
}

func (m *mirrorFS) OpenRoot(path string, create bool) (vfs.Dir, error) {
	d := &mirrorDir{m: m}
	err := m.both("open root "+path,
		func() (err error) { d.real, err = m.real.OpenRoot(filepath.Join(m.at, path), create); return },
		func() (err error) { d.model, err = m.model.OpenRoot(path, create); return })
	if err != nil {
		return nil, err
	}
	return d, nil
}

type mirrorDir struct {
	m           *mirrorFS
	real, model vfs.Dir
}

func (d *mirrorDir) OpenDir(name string) (vfs.Dir, error) {
	sub := &mirrorDir{m: d.m}
	err := d.m.both("opendir "+name,
		func() (err error) { sub.real, err = d.real.OpenDir(name); return },
		func() (err error) { sub.model, err = d.model.OpenDir(name); return })
	if err != nil {
		return nil, err
	}
	return sub, nil
}

func (d *mirrorDir) Mkdir(name string) error {
	return d.m.both("mkdir "+name, func() error { return d.real.Mkdir(name) }, func() error { return d.model.Mkdir(name) })
}

func (d *mirrorDir) file(what, name string, open func(vfs.Dir, string) (vfs.File, error)) (vfs.File, error) {
	f := &mirrorFile{m: d.m, name: name}
	err := d.m.both(what+" "+name,
		func() (err error) { f.real, err = open(d.real, name); return },
		func() (err error) { f.model, err = open(d.model, name); return })
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *mirrorDir) Create(name string) (vfs.File, error) {
	return d.file("create", name, vfs.Dir.Create)
}

func (d *mirrorDir) Open(name string) (vfs.File, error) { return d.file("open", name, vfs.Dir.Open) }

func (d *mirrorDir) Stat(name string) (info vfs.Info, err error) {
	var twin vfs.Info
	err = d.m.both("stat "+name,
		func() (err error) { info, err = d.real.Stat(name); return },
		func() (err error) { twin, err = d.model.Stat(name); return })
	d.m.same("stat "+name, info.Dir == twin.Dir && info.Size == twin.Size)
	return info, err
}

func (d *mirrorDir) List() (infos []vfs.Info, err error) {
	var twins []vfs.Info
	err = d.m.both("list",
		func() (err error) { infos, err = d.real.List(); return },
		func() (err error) { twins, err = d.model.List(); return })
	d.m.same("list", slices.EqualFunc(infos, twins, func(a, b vfs.Info) bool { return a.Name == b.Name && a.Dir == b.Dir && a.Size == b.Size }))
	return infos, err
}

func (d *mirrorDir) Rename(source, target string) error {
	return d.m.both("rename "+source+" "+target, func() error { return d.real.Rename(source, target) }, func() error { return d.model.Rename(source, target) })
}

func (d *mirrorDir) Remove(name string) error {
	return d.m.both("remove "+name, func() error { return d.real.Remove(name) }, func() error { return d.model.Remove(name) })
}

func (d *mirrorDir) Sync() error { return d.m.both("syncdir", d.real.Sync, d.model.Sync) }

func (d *mirrorDir) Lock(name string) (io.Closer, error) {
	l := &mirrorLock{m: d.m}
	err := d.m.both("lock "+name,
		func() (err error) { l.real, err = d.real.Lock(name); return },
		func() (err error) { l.model, err = d.model.Lock(name); return })
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *mirrorDir) ID() vfs.ID { return d.real.ID() }

func (d *mirrorDir) Close() error { return d.m.both("close", d.real.Close, d.model.Close) }

type mirrorLock struct {
	m           *mirrorFS
	real, model io.Closer
}

func (l *mirrorLock) Close() error { return l.m.both("unlock", l.real.Close, l.model.Close) }

type mirrorFile struct {
	m           *mirrorFS
	name        string
	real, model vfs.File
}

func (f *mirrorFile) ReadAt(p []byte, off int64) (n int, err error) {
	q, k := make([]byte, len(p)), 0
	err = f.m.both("read "+f.name,
		func() (err error) { n, err = f.real.ReadAt(p, off); return },
		func() (err error) { k, err = f.model.ReadAt(q, off); return })
	f.m.same("read "+f.name, slices.Equal(p[:n], q[:k]))
	return n, err
}

func (f *mirrorFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.m.both("write "+f.name,
		func() (err error) { n, err = f.real.WriteAt(p, off); return },
		func() error { _, err := f.model.WriteAt(p, off); return err })
	return n, err
}

func (f *mirrorFile) Sync() error { return f.m.both("sync "+f.name, f.real.Sync, f.model.Sync) }

func (f *mirrorFile) Truncate(size int64) error {
	return f.m.both("truncate "+f.name, func() error { return f.real.Truncate(size) }, func() error { return f.model.Truncate(size) })
}

func (f *mirrorFile) Preallocate(size int64) error {
	return f.m.both("preallocate "+f.name, func() error { return f.real.Preallocate(size) }, func() error { return f.model.Preallocate(size) })
}

func (f *mirrorFile) Size() (n int64, err error) {
	var k int64
	err = f.m.both("size "+f.name,
		func() (err error) { n, err = f.real.Size(); return },
		func() (err error) { k, err = f.model.Size(); return })
	f.m.same("size "+f.name, n == k)
	return n, err
}

func (f *mirrorFile) ID() vfs.ID { return f.real.ID() }

func (f *mirrorFile) Close() error { return f.m.both("close "+f.name, f.real.Close, f.model.Close) }

func (m *mirrorFS) same(what string, equal bool) {
	if equal {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.different = append(m.different, what+": the contents differ")
}

// materialise writes what can be seen of a disk into a real directory.
func materialise(t *testing.T, d *disk.Disk, to string) {
	root, err := disk.FS(d).OpenRoot("data", false)
	if errors.Is(err, os.ErrNotExist) {
		return // not even the data directory survived
	}
	require.NoError(t, err)
	writeDir(t, root, filepath.Join(to, "data"))
}

func writeDir(t *testing.T, dir vfs.Dir, to string) {
	require.NoError(t, os.Mkdir(to, vfs.DirMode))
	entries, err := dir.List()
	require.NoError(t, err)
	for _, e := range entries {
		if e.Dir {
			sub, err := dir.OpenDir(e.Name)
			require.NoError(t, err)
			writeDir(t, sub, filepath.Join(to, e.Name))
			continue
		}
		b, err := vfs.ReadFile(dir, e.Name, 1<<20)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, e.Name), b, vfs.FileMode))
	}
}

// atReal is a file system whose paths start in a real directory.
type atReal struct {
	vfs.OS
	dir string
}

func (r atReal) OpenRoot(path string, create bool) (vfs.Dir, error) {
	return r.OS.OpenRoot(filepath.Join(r.dir, path), create)
}

// tellReal tells a short story with the real engine, in real time, on real files, and takes images of crashes on the way.
func tellReal(t *testing.T, m *mirrorFS, l *ledger, next *int) {
	e := env.OS().WithFS(m)
	s := &teller{ledger: l, env: e, next: next}
	open := func() error {
		o := s.options()
		o.CommitInterval = 20 * time.Millisecond // so that a story is short
		l.mu.Lock()
		l.now = e.Now
		l.mu.Unlock()
		var err error
		s.engine, err = Open("data", o)
		return err
	}
	for range 2 {
		require.NoError(t, first(
			open,
			func() error {
				_, err := s.engine.CreateTopic(TopicSpec{Name: "t", Partitions: 2, Visibility: time.Minute})
				if errors.Is(err, ErrTopicExists) {
					err = nil
				}
				return err
			},
			func() error { return s.produce(2, 40) },
			func() error { return s.produce(3, 1500) },
			func() error { return s.consume(4) },
			func() error { return s.ack(0, 2) },
			func() error { return s.sleep(100 * time.Millisecond) },
			func() error { return s.produce(2, 1400) },
			func() error { return s.consume(3) },
			func() error { return s.ack(1, 2) },
			s.close,
		))
	}
}

// INV-02, INV-04, INV-11: what crashes may leave of the files that a real engine writes on a real file system is opened by a real
// engine, in real directories, which then delivers everything accepted, counts nothing as settled that was not acked, and
// forgets no ack that a graceful stop confirmed. The model of the disk behaves like the real one on the way.
func TestProofRealFiles(t *testing.T) {
	d, l, next := disk.New(disk.Adversarial), newLedger(), 0
	m := &mirrorFS{real: vfs.OS{}, at: t.TempDir()}
	version := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.version }
	cam := newCamera(d, 4, "real files", version, l.promise)
	m.model = disk.FS(d, cam.hook)
	tellReal(t, m, l, &next)
	require.Empty(t, m.different)
	cam.shoot("its end")

	wanted, base := pick(70, 100_000), t.TempDir()
	step := max(1, len(cam.images)/wanted)
	count, failures := 0, 0
	for n := 0; n < len(cam.images); n += step {
		i := cam.images[n]
		dir := filepath.Join(base, fmt.Sprint(n))
		require.NoError(t, os.Mkdir(dir, vfs.DirMode))
		materialise(t, i.disk, dir)
		f, engine := explore(env.OS().WithFS(atReal{dir: dir}), proofOptions())
		// In real time nobody knows how long a tick took: only a graceful stop is held to keep every ack.
		p := i.promise
		p.cached = p.stopped
		err := f.check(p)
		if engine != nil {
			err = errors.Join(err, engine.Close())
		}
		if err == nil {
			err = sameAgain(dir, f, p)
		}
		if err != nil {
			if failures++; failures <= 5 {
				t.Errorf("%s:\n%v", i.story, err)
			}
		}
		count++
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Logf("%d images of %d, %d failed", count, len(cam.images), failures)
	require.Greater(t, count, 50)
}

// sameAgain opens the directory once more after a graceful stop: everything is as it was.
func sameAgain(dir string, f *found, p promise) error {
	again, engine := explore(env.OS().WithFS(atReal{dir: dir}), proofOptions())
	if engine == nil {
		return again.err
	}
	return errors.Join(differ(f.state(p), again.state(p)), engine.Close())
}
