package sim

import (
	"fmt"
	"io"
	"io/fs"

	"narad/sim/disk"
	"narad/vfs"
)

// noDisk is the file system of the outer world.
type noDisk struct{}

func (noDisk) OpenRoot(path string, create bool) (vfs.Dir, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNoDisk}
}

// fileSystem is the disk of a machine as one process sees it: package sim/disk answers, here calls take
// time, fail by plan, are cut by crashes, and end with the process.
//
// One choice is drawn for each call; its parts are: 0 whether it waits, 1 how long, 2 whether it stalls, 3 how long, 4
// when it takes effect, 5 the prefix of a write, 6 writeback, 7 eviction, 8 to 11 faults.
type fileSystem struct{ p *Process }

// fsAccess is one call under way.
type fsAccess struct {
	p      *Process
	t      *task // nil: outside of a task, the call takes no time and cannot fail by plan
	op     Op
	path   string
	kind   *fileKind
	choice uint32
	fault  Fault
	start  int64 // true time
}

// pendingOp is what the disk is doing for a parked task; a crash may let it happen.
type pendingOp struct {
	kind Op // OpWrite, OpSync or OpSyncDir; OpAny: none
	file interface{ Sync() error }
	data []byte
	off  int64
}

// cut decides what a crash makes of the operation (K3).
func (op *pendingOp) cut(m *Machine) {
	if op.kind != OpWrite {
		if m.w.Choose(2) == 1 {
			op.file.Sync()
		}
		return
	}
	if n := wholePages(op.off, prefix(m.w.draw(1<<32), len(op.data)), len(op.data)); n > 0 {
		m.w.stats.PartialWrites++
		op.file.(vfs.File).WriteAt(op.data[:n], op.off)
	}
}

// pageSize is the unit, in bytes, in which the page cache takes a write, as in Linux: a write that is cut short or seen half done has
// whole pages written, never a part of one, and so cuts no sector (rule D5 of package vfs).
const pageSize = 4096

// wholePages cuts n bytes written at off, out of size, back to the last page border unless they are all.
func wholePages(off int64, n, size int) int {
	if n == size {
		return n
	}
	return max(0, int((off+int64(n))/pageSize*pageSize-off))
}

// prefix maps a choice to a length from 0 to n, both of them likely.
func prefix(v uint32, n int) int {
	switch v % 4 {
	case 0:
		return 0
	case 1:
		return n
	}
	return int(uint64(v>>2) * uint64(n+1) >> 30)
}

// enter begins a call. Its error is that the process is dead.
func (p *Process) enter(op Op, path string, kind *fileKind, size int) (fsAccess, error) {
	a := fsAccess{p: p, op: op, path: path, kind: kind, start: p.w.now}
	w := p.w
	if p.dead || w.fenced() {
		return a, a.fail(ErrDead)
	}
	if w.current == nil {
		return a, nil
	}
	a.t = w.current
	w.stats.DiskOps++
	kind.calls[op].Passed++
	w.mix(uint64(op)<<56 ^ uint64(size))
	a.choice = w.draw(1 << 32)
	a.fault = p.machine.faults.next(op, path, a.choice)
	if may := w.options.MayFail; may != nil && a.fault != NoFault && a.fault != Stall && !may() {
		a.fault = NoFault
	}
	if a.fault != NoFault {
		w.stats.fault(a.fault, CallPlace{kind.name, op})
		if w.Logging() {
			w.Logf("fault: %v on %v %s", a.fault, op, path)
		}
	}
	return a, nil
}

// wait lets the time of the call pass, with pending under way. Its error is that the process died, and
// only tasks of other processes see it: those of the process unwind.
func (a *fsAccess) wait(pending pendingOp) error {
	if a.t == nil {
		return nil
	}
	w := a.p.w
	a.t.op, a.t.at = pending, &a.kind.calls[a.op]
	if a.p.strike(a.op.String(), a.path) {
		a.t.op, a.t.at = pendingOp{}, nil
		w.self(a.path)
		return a.fail(ErrDead)
	}
	w.sleep(a.t, a.latency(), a.op.String())
	a.t.op, a.t.at = pendingOp{}, nil
	if a.p.dead {
		return a.fail(ErrDead)
	}
	return nil
}

func (a *fsAccess) latency() int64 {
	l := &a.p.machine.config.Latency
	var r Range
	switch a.op {
	case OpRead:
		r = l.Read
	case OpWrite:
		r = l.Write
	case OpSync, OpSyncDir:
		r = l.Sync
	default:
		r = l.Meta
	}
	var d int64
	if a.op == OpSync || a.op == OpSyncDir || odds(part(a.choice, 0), l.Waits) {
		d = int64(r.at(part(a.choice, 1)))
	}
	if a.fault == Stall || odds(part(a.choice, 2), l.Stalls) {
		a.p.w.stats.Stalls++
		if a.fault != Stall { // that one is counted
			a.p.w.stats.fault(Stall, CallPlace{a.kind.name, a.op})
		}
		d += int64(l.Stall.at(part(a.choice, 3)))
	}
	return d
}

// failing reports whether the call is to fail by plan.
func (a *fsAccess) failing() bool { return a.fault.fails() }

// early reports whether the call takes effect before its time passes, not after.
func (a *fsAccess) early() bool { return a.t != nil && part(a.choice, 4)&1 == 1 }

func (a *fsAccess) fail(err error) error {
	return &fs.PathError{Op: a.op.String(), Path: a.path, Err: err}
}

func (a *fsAccess) log(format string, args ...any) {
	if !a.p.w.Logging() {
		return
	}
	text := fmt.Sprintf(format, args...)
	a.trace(text)
	a.p.w.Logf("%v %s %s", a.op, a.path, text)
}

// do runs a call that takes effect at once, at its beginning or its end.
func (p *Process) do(op Op, path string, kind *fileKind, apply func() error) error {
	a, err := p.enter(op, path, kind, 0)
	if err != nil {
		return err
	}
	if a.failing() {
		if err := a.wait(pendingOp{}); err != nil {
			return err
		}
		return a.fail(a.fault.errno())
	}
	early := a.early()
	if early {
		err = apply()
	}
	if dead := a.wait(pendingOp{}); dead != nil {
		return dead
	}
	if !early {
		err = apply()
	}
	if a.p.w.Logging() {
		a.log("%v", outcome(err))
	}
	return err
}

func outcome(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}

func (f *fileSystem) OpenRoot(path string, create bool) (vfs.Dir, error) {
	op := OpOpen
	if create {
		op = OpCreate
	}
	var inner vfs.Dir
	kind := f.p.w.kindOf(path)
	err := f.p.do(op, path, kind, func() (err error) {
		inner, err = disk.FS(f.p.machine.disk).OpenRoot(path, create)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &dir{f.p, path, kind, inner}, nil
}

// dir is a directory handle of a process.
type dir struct {
	p     *Process
	path  string // when it was opened, for logs and plans
	kind  *fileKind
	inner vfs.Dir
}

func (d *dir) at(name string) string { return d.path + "/" + name }

// named is a call about a name in the directory.
func (d *dir) named(op Op, name string, apply func() error) error {
	path := d.at(name)
	return d.p.do(op, path, d.p.w.kindOf(path), apply)
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	var inner vfs.Dir
	path := d.at(name)
	kind := d.p.w.kindOf(path)
	err := d.p.do(OpOpen, path, kind, func() (err error) {
		inner, err = d.inner.OpenDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &dir{d.p, path, kind, inner}, nil
}

func (d *dir) Mkdir(name string) error {
	return d.named(OpCreate, name, func() error { return d.inner.Mkdir(name) })
}

func (d *dir) Create(name string) (vfs.File, error) {
	return d.open(OpCreate, name, d.inner.Create)
}

func (d *dir) Open(name string) (vfs.File, error) {
	return d.open(OpOpen, name, d.inner.Open)
}

func (d *dir) open(op Op, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	var inner vfs.File
	path := d.at(name)
	kind := d.p.w.kindOf(path)
	err := d.p.do(op, path, kind, func() (err error) {
		inner, err = open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{d.p, path, kind, inner}, nil
}

func (d *dir) Stat(name string) (info vfs.Info, err error) {
	err = d.named(OpOpen, name, func() (err error) {
		info, err = d.inner.Stat(name)
		return err
	})
	return info, err
}

func (d *dir) List() (infos []vfs.Info, err error) {
	err = d.p.do(OpOpen, d.path, d.kind, func() (err error) {
		infos, err = d.inner.List()
		return err
	})
	return infos, err
}

func (d *dir) Rename(source, target string) error {
	return d.named(OpRename, target, func() error { return d.inner.Rename(source, target) })
}

func (d *dir) Remove(name string) error {
	return d.named(OpRemove, name, func() error {
		err := d.inner.Remove(name)
		if told := d.p.machine.OnRemove; err == nil && told != nil {
			told(d.at(name))
		}
		return err
	})
}

func (d *dir) Sync() error {
	a, err := d.p.enter(OpSyncDir, d.path, d.kind, 0)
	if err != nil {
		return err
	}
	if a.fault != NamesLost {
		return a.sync(d.inner)
	}
	if dead := a.wait(pendingOp{}); dead != nil {
		return dead
	}
	d.p.machine.disk.SyncDirFails(disk.Ino(d.inner.ID().Inode))
	return a.fail(a.fault.errno())
}

// sync waits for a sync of a file or directory that succeeds or fails without an effect.
func (a *fsAccess) sync(inner interface{ Sync() error }) (err error) {
	early := a.early() && !a.failing()
	var pending pendingOp
	switch {
	case early:
		err = inner.Sync()
	case !a.failing():
		pending = pendingOp{kind: a.op, file: inner}
	}
	if dead := a.wait(pending); dead != nil {
		return dead
	}
	switch {
	case a.failing():
		err = a.fail(a.fault.errno())
	case !early:
		err = inner.Sync()
	}
	if a.p.w.Logging() {
		a.log("%v", outcome(err))
	}
	return err
}

func (d *dir) Lock(name string) (io.Closer, error) {
	var inner io.Closer
	err := d.named(OpCreate, name, func() (err error) {
		inner, err = d.inner.Lock(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &lock{d.p, inner}, nil
}

func (d *dir) ID() vfs.ID { return d.inner.ID() }

func (d *dir) Close() error { return d.p.release(d.inner) }

// release closes a handle, at once: nothing can happen to it then.
func (p *Process) release(c io.Closer) error {
	if p.dead || p.w.fenced() {
		return ErrDead
	}
	return c.Close()
}

type lock struct {
	p     *Process
	inner io.Closer
}

func (l *lock) Close() error { return l.p.release(l.inner) }

// file is a file handle of a process.
type file struct {
	p     *Process
	path  string // when it was opened, for logs and plans
	kind  *fileKind
	inner vfs.File
}

func (f *file) ReadAt(b []byte, off int64) (n int, err error) {
	a, err := f.p.enter(OpRead, f.path, f.kind, len(b))
	if err != nil {
		return 0, err
	}
	m := f.p.machine
	if a.t != nil && odds(part(a.choice, 7), m.config.Evict) {
		m.disk.Evict(f.ino())
	}
	if a.fault == BitRot && len(b) > 0 {
		m.disk.FlipBit(f.ino(), off*8+int64(part(a.choice, 5))%(8*int64(len(b))))
	}
	early := a.early()
	if early {
		n, err = f.inner.ReadAt(b, off)
	}
	if dead := a.wait(pendingOp{}); dead != nil {
		return 0, dead
	}
	if a.failing() {
		return 0, a.fail(a.fault.errno())
	}
	if !early {
		n, err = f.inner.ReadAt(b, off)
	}
	if a.p.w.Logging() {
		a.log("[%d,+%d) %d %v", off, len(b), n, outcome(err))
	}
	return n, err
}

func (f *file) WriteAt(b []byte, off int64) (n int, err error) {
	a, err := f.p.enter(OpWrite, f.path, f.kind, len(b))
	if err != nil {
		return 0, err
	}
	n, err = f.write(&a, b, off)
	if a.p.w.Logging() {
		a.log("[%d,+%d) %d %v", off, len(b), n, outcome(err))
	}
	if m := f.p.machine; a.t != nil && odds(part(a.choice, 6), m.config.Writeback) && !f.p.dead {
		m.disk.Background(m.w)
	}
	return n, err
}

// write lets a write happen before or after its time, or a part before and the rest after.
func (f *file) write(a *fsAccess, b []byte, off int64) (int, error) {
	if a.failing() {
		n := 0
		if a.fault != FailNoSpace {
			n, _ = f.inner.WriteAt(b[:wholePages(off, prefix(part(a.choice, 5), len(b)), len(b))], off)
		}
		if dead := a.wait(pendingOp{}); dead != nil {
			return 0, dead
		}
		return n, a.fail(a.fault.errno())
	}
	if a.fault == LostWrite || a.fault == Misdirected {
		return f.writeNowhere(a, b, off)
	}
	first := 0
	if a.early() {
		first = wholePages(off, prefix(part(a.choice, 5), len(b)), len(b))
		if n, err := f.inner.WriteAt(b[:first], off); err != nil {
			return n, err
		}
	}
	rest := b[first:]
	if dead := a.wait(pendingOp{kind: OpWrite, file: f.inner, data: rest, off: off + int64(first)}); dead != nil {
		return 0, dead
	}
	if first > 0 && len(rest) == 0 {
		return first, nil
	}
	n, err := f.inner.WriteAt(rest, off+int64(first))
	return first + n, err
}

// writeNowhere acknowledges a write that the disk loses or puts elsewhere, in the same file or, half of the time, in any.
func (f *file) writeNowhere(a *fsAccess, b []byte, off int64) (int, error) {
	if dead := a.wait(pendingOp{}); dead != nil {
		return 0, dead
	}
	d, err := f.p.machine.disk, error(nil)
	if a.fault == LostWrite {
		err = d.LoseWrite(f.ino(), b, off)
	} else {
		victim, size := f.ino(), int64(0)
		if part(a.choice, 8)&1 == 1 {
			victim, size = d.FileAt(part(a.choice, 9))
		} else {
			size, _ = f.inner.Size()
		}
		sectors := size/vfs.SectorSize + 1
		err = d.MisdirectWrite(f.ino(), b, off, victim, int64(part(a.choice, 5))%sectors*vfs.SectorSize)
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *file) Sync() error {
	a, err := f.p.enter(OpSync, f.path, f.kind, 0)
	if err != nil {
		return err
	}
	if a.fault != SyncLost && a.fault != SyncVisible {
		return a.sync(f.inner)
	}
	if dead := a.wait(pendingOp{}); dead != nil {
		return dead
	}
	f.p.machine.disk.SyncFails(f.ino(), a.fault == SyncVisible)
	return a.fail(a.fault.errno())
}

func (f *file) Truncate(size int64) error {
	return f.p.do(OpResize, f.path, f.kind, func() error { return f.inner.Truncate(size) })
}

func (f *file) Preallocate(size int64) error {
	return f.p.do(OpResize, f.path, f.kind, func() error { return f.inner.Preallocate(size) })
}

func (f *file) Size() (int64, error) {
	if f.p.dead || f.p.w.fenced() {
		return 0, &fs.PathError{Op: "stat", Path: f.path, Err: ErrDead}
	}
	return f.inner.Size()
}

func (f *file) ID() vfs.ID { return f.inner.ID() }

func (f *file) Close() error { return f.p.release(f.inner) }

// ino is the number by which package disk knows the file.
func (f *file) ino() disk.Ino { return disk.Ino(f.inner.ID().Inode) }
