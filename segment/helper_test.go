package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

// hooked puts a hook before every call of a directory and its files that reaches the disk.
type hooked struct {
	vfs.Dir
	h *hook
}

type hookedFile struct {
	vfs.File
	h    *hook
	name string
}

// hook sees the calls and may make one fail.
type hook struct {
	mu    sync.Mutex
	calls []call
	// before is asked before the call is applied; an error keeps it from being applied.
	before func(c call) error
	// after may change what the call answers.
	after func(c call, p []byte, err error) error
}

type call struct {
	n    int // counted from 0
	op   string
	name string
	at   int64
	size int
}

func (c call) String() string { return c.op + " " + c.name }

func (h *hook) call(op, name string, at int64, p []byte, do func() error) error {
	h.mu.Lock()
	c := call{len(h.calls), op, name, at, len(p)}
	h.calls = append(h.calls, c)
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(c); err != nil {
			return err
		}
	}
	err := do()
	if after != nil {
		err = after(c, p, err)
	}
	return err
}

func (h *hook) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = nil
}

func (h *hook) ops() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var s []string
	for _, c := range h.calls {
		s = append(s, c.String())
	}
	return s
}

func (h *hook) count(op string) (n int) {
	for _, s := range h.ops() {
		if strings.HasPrefix(s, op+" ") {
			n++
		}
	}
	return n
}

func (d hooked) file(op, name string, open func(string) (vfs.File, error)) (f vfs.File, err error) {
	err = d.h.call(op, name, 0, nil, func() error {
		g, err := open(name)
		if err == nil {
			f = hookedFile{g, d.h, name}
		}
		return err
	})
	return f, err
}

func (d hooked) Create(name string) (vfs.File, error) { return d.file("create", name, d.Dir.Create) }
func (d hooked) Open(name string) (vfs.File, error)   { return d.file("open", name, d.Dir.Open) }
func (d hooked) Remove(name string) error {
	return d.h.call("remove", name, 0, nil, func() error { return d.Dir.Remove(name) })
}
func (d hooked) Rename(from, to string) error {
	return d.h.call("rename", to, 0, nil, func() error { return d.Dir.Rename(from, to) })
}
func (d hooked) Sync() error { return d.h.call("syncdir", ".", 0, nil, d.Dir.Sync) }
func (d hooked) List() (l []vfs.Info, err error) {
	err = d.h.call("list", ".", 0, nil, func() error { l, err = d.Dir.List(); return err })
	return l, err
}

func (f hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.h.call("read", f.name, off, p, func() error { n, err = f.File.ReadAt(p, off); return err })
	if err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

func (f hookedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.h.call("write", f.name, off, p, func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}
func (f hookedFile) Sync() error { return f.h.call("sync", f.name, 0, nil, f.File.Sync) }
func (f hookedFile) Size() (n int64, err error) {
	err = f.h.call("size", f.name, 0, nil, func() error { n, err = f.File.Size(); return err })
	return n, err
}
func (f hookedFile) Truncate(n int64) error {
	return f.h.call("truncate", f.name, n, nil, func() error { return f.File.Truncate(n) })
}

// realDir returns a new directory of the real file system behind a hook.
func realDir(t testing.TB) (hooked, *hook) {
	dir, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	h := &hook{}
	return hooked{dir, h}, h
}

// events collects what a log tells.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(v Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, v)
}

func (e *events) take() []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.all
	e.all = nil
	return all
}

func open(t testing.TB, dir vfs.Dir, o Options) *Log {
	t.Helper()
	l, err := Open(env.OS(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func reopen(t testing.TB, l *Log, dir vfs.Dir, o Options) *Log {
	t.Helper()
	require.NoError(t, l.Close())
	return open(t, dir, o)
}

// rec makes a record that can be told from every other one.
func rec(i, size int) Record {
	payload := fmt.Appendf(nil, "%d:", i)
	for len(payload) < size {
		payload = append(payload, byte('a'+(i+len(payload))%26))
	}
	return Record{Key: fmt.Appendf(nil, "k%d", i), Payload: payload}
}

func recs(from, n, size int) (r []Record) {
	for i := range n {
		r = append(r, rec(from+i, size))
	}
	return r
}

func commit(t testing.TB, l *Log, want int64, r ...Record) {
	t.Helper()
	base, err := l.Commit(r)
	require.NoError(t, err)
	require.Equal(t, want, base)
	require.Equal(t, want+int64(len(r)), l.HighWatermark())
}

func requireRead(t testing.TB, l *Log, off int64, want Record) {
	t.Helper()
	got, err := l.Read(off)
	require.NoError(t, err, "offset %d", off)
	require.True(t, bytes.Equal(want.Key, got.Key) && bytes.Equal(want.Payload, got.Payload), "offset %d: %q %q", off, got.Key, got.Payload)
}

func requireAll(t testing.TB, l *Log, want []Record) {
	t.Helper()
	require.Equal(t, int64(len(want)), l.HighWatermark())
	for i, r := range want {
		requireRead(t, l, int64(i), r)
	}
	_, err := l.Read(int64(len(want)))
	require.ErrorIs(t, err, ErrAboveHW)
}

// fileBytes returns the contents of a segment.
func fileBytes(t testing.TB, dir vfs.Dir, base int64) []byte {
	t.Helper()
	b, err := vfs.ReadFile(dir, fileName(base), 1<<30)
	require.NoError(t, err)
	return b
}

// logFiles lists the bases of the segments in a directory.
func logFiles(t testing.TB, dir vfs.Dir) (bases []int64) {
	t.Helper()
	entries, err := dir.List()
	require.NoError(t, err)
	for _, e := range entries {
		if base, ok := parseName(e.Name, fileSuffix); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases
}

// writeFile makes a file hold b.
func writeFile(t testing.TB, dir vfs.Dir, name string, b []byte) {
	t.Helper()
	f, err := dir.Open(name)
	if err != nil {
		f, err = dir.Create(name)
	}
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(0))
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
}

// clock is a world with clocks to turn and nothing else; its tasks may not wait.
type clock struct {
	wall env.Wall
	now  env.Instant
}

func (c *clock) Now() env.Instant                   { return c.now }
func (c *clock) Wall() env.Wall                     { return c.wall }
func (c *clock) Go(string, func())                  { panic("no tasks here") }
func (c *clock) Park(*env.Waiter, env.Instant) bool { panic("nothing to wait for here") }
func (c *clock) Unpark(*env.Waiter)                 {}
func (c *clock) Point(string)                       {}
func (c *clock) Seed(string) [32]byte               { return [32]byte{} }
func (c *clock) Send(string, []byte)                {}
func (c *clock) Receive(env.Instant) (env.Message, bool) {
	return env.Message{}, false
}

var errDisk = fmt.Errorf("injected: %w", syscall.EIO)

// failOn makes every call fail whose op is given, from now on.
func failOn(ops ...string) func(call) error {
	return func(c call) error {
		if slices.Contains(ops, c.op) {
			return errDisk
		}
		return nil
	}
}

func isCorrupt(err error) bool {
	var c *CorruptError
	return errors.As(err, &c)
}
