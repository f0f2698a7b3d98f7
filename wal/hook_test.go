package wal

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// op is a call that changes a disk or makes it durable.
type op struct {
	kind string // create, rename, remove, syncdir, write, sync, truncate
	name string
	size int // bytes of a write
	off  int64
	data []byte
}

// hooks see every op of a directory. They are called with no lock of the log held, one at a time.
type hooks struct {
	mu     sync.Mutex
	before func(o op) (short int, err error) // an error is what the op fails with; short bytes of a write are written all the same
	after  func(o op)                        // not called when before failed it
}

// around does a call between its hooks. fail is what is left to do when the op must fail.
func (h *hooks) around(o op, call func() error, fail func(short int)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.before != nil {
		short, err := 0, error(nil)
		guard(func() { short, err = h.before(o) })
		if err != nil {
			if fail != nil {
				fail(short)
			}
			return err
		}
	}
	err := call()
	if err == nil && h.after != nil {
		guard(func() { h.after(o) })
	}
	return err
}

// inHook is the test as hooks must see it: they run in tasks of the log, which a failed requirement must not
// end, or those who wait for the task would wait for ever.
type inHook struct{ testing.TB }

type hookFailed struct{}

func (inHook) FailNow() { panic(hookFailed{}) }

// guard calls a hook and returns when a requirement in it fails.
func guard(hook func()) {
	defer func() {
		if v := recover(); v != nil && v != (hookFailed{}) {
			panic(v)
		}
	}()
	hook()
}

type hookDir struct {
	vfs.Dir
	h *hooks
}

func (d hookDir) Create(name string) (f vfs.File, err error) {
	err = d.h.around(op{kind: "create", name: name}, func() error {
		f, err = d.Dir.Create(name)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, name: strings.TrimSuffix(name, tmpSuffix), h: d.h}, nil // it is renamed before it is used
}

func (d hookDir) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, name: name, h: d.h}, nil
}

func (d hookDir) Rename(source, target string) error {
	return d.h.around(op{kind: "rename", name: target}, func() error { return d.Dir.Rename(source, target) }, nil)
}

func (d hookDir) Remove(name string) error {
	return d.h.around(op{kind: "remove", name: name}, func() error { return d.Dir.Remove(name) }, nil)
}

func (d hookDir) Sync() error {
	return d.h.around(op{kind: "syncdir"}, d.Dir.Sync, nil)
}

type hookFile struct {
	vfs.File
	name string
	h    *hooks
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.h.around(op{kind: "write", name: f.name, size: len(p), off: off, data: p}, func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	}, func(short int) { f.File.WriteAt(p[:min(short, len(p))], off) })
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *hookFile) Sync() error {
	return f.h.around(op{kind: "sync", name: f.name}, f.File.Sync, nil)
}

func (f *hookFile) Preallocate(size int64) error {
	return f.h.around(op{kind: "preallocate", name: f.name}, func() error { return f.File.Preallocate(size) }, nil)
}

func (f *hookFile) Truncate(size int64) error {
	return f.h.around(op{kind: "truncate", name: f.name}, func() error { return f.File.Truncate(size) }, nil)
}

// rig is a directory in which logs are opened one after the other.
type rig struct {
	t      testing.TB
	env    *env.Env
	path   string
	hooks  *hooks
	mu     sync.Mutex // guards events
	events []Event
	// onEvent is told first, if set before a log is opened.
	onEvent func(Event)
}

// newRig returns a rig on the real file system.
func newRig(t testing.TB) *rig {
	return &rig{t: t, env: env.OS(), path: t.TempDir(), hooks: &hooks{}}
}

// newDiskRig returns a rig on a simulated disk, with the names in its directory durable.
func newDiskRig(t testing.TB, d *disk.Disk) *rig {
	r := &rig{t: t, env: env.OS().WithFS(disk.FS(d)), path: "wal", hooks: &hooks{}}
	dir, err := r.env.FS().OpenRoot(r.path, true)
	if err == nil {
		err = dir.Close()
	}
	if err != nil {
		require.NoError(t, err)
	}
	return r
}

// writeLog puts files into a fresh directory.
func writeLog(t testing.TB, files map[string][]byte) *rig {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	d := r.dir()
	defer d.Close()
	for name, b := range files { // order-free: each to its own file
		f, err := d.Create(name)
		require.NoError(t, err)
		_, err = f.WriteAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
	}
	require.NoError(t, d.Sync())
	return r
}

// contents reads all files of the directory.
func (r *rig) contents() map[string]string {
	d := r.dir()
	defer d.Close()
	files := map[string]string{}
	for _, name := range r.names() {
		b, err := vfs.ReadFile(d, name, 1<<30)
		require.NoError(r.t, err)
		files[name] = string(b)
	}
	return files
}

func (r *rig) dir() vfs.Dir {
	d, err := r.env.FS().OpenRoot(r.path, false)
	if err != nil {
		require.NoError(r.t, err)
	}
	return hookDir{Dir: d, h: r.hooks}
}

func (r *rig) tryOpen(o Options) (*Log, error) {
	o.Event = func(v Event) {
		if r.onEvent != nil {
			r.onEvent(v)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, v)
	}
	return Open(r.env, r.dir(), o)
}

func (r *rig) open(o Options) *Log {
	r.t.Helper()
	l, err := r.tryOpen(o)
	require.NoError(r.t, err)
	return l
}

// eventsOf returns the events of one type, and forgets nothing.
func eventsOf[E Event](r *rig) (found []E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.events {
		if e, ok := v.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// names lists the files of the directory.
func (r *rig) names() (names []string) {
	d := r.dir()
	defer d.Close()
	entries, err := d.List()
	require.NoError(r.t, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// readAll returns the payloads of the records from on, and their end.
func readAll(t testing.TB, l *Log, from uint64) (payloads []string, next uint64) {
	t.Helper()
	r := l.NewReader(from)
	defer r.Close()
	for next = from; ; next++ {
		seq, payload, ok, err := r.Next()
		require.NoError(t, err)
		if !ok {
			return payloads, next
		}
		require.Equal(t, next, seq)
		payloads = append(payloads, string(payload))
	}
}
