package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"narad/vfs"
)

// OpKind names a call to a vfs.FS, Dir or File.
type OpKind int

// The calls a Hook sees. Those from OpCreate on change something or make it durable.
const (
	OpOpenRoot OpKind = iota
	OpOpenDir
	OpOpen
	OpStat
	OpList
	OpRead
	OpSize
	OpCreate
	OpMkdir
	OpRename
	OpRemove
	OpLock
	OpWrite
	OpTruncate
	OpPreallocate
	OpSync
	OpSyncDir
)

var opNames = [...]string{
	"openroot", "opendir", "open", "stat", "list", "read", "size", "create", "mkdir", "rename", "remove", "lock",
	"write", "truncate", "preallocate", "sync", "syncdir",
}

// String returns the name of the call in lower case.
func (k OpKind) String() string { return opNames[k] }

// Changes reports whether the call may change names, contents or what is durable.
func (k OpKind) Changes() bool { return k >= OpCreate }

// Op is one call, before it is carried out.
type Op struct {
	N      int // counts the calls to the FS, from 1
	Kind   OpKind
	Ino    Ino    // the file, or the directory that Path is below
	Path   string // for a file: the path it was opened by, below the root that was opened
	Target string // rename: the new path
	Off    int64  // read, write
	Len    int64  // read, write: bytes; truncate, preallocate: the size
}

// String describes the call, such as "17 write a/b off=0 len=512".
func (o Op) String() string {
	s := fmt.Sprintf("%d %s %s", o.N, o.Kind, o.Path)
	switch o.Kind {
	case OpRename:
		s += " " + o.Target
	case OpRead, OpWrite:
		s += fmt.Sprintf(" off=%d len=%d", o.Off, o.Len)
	case OpTruncate, OpPreallocate:
		s += fmt.Sprintf(" size=%d", o.Len)
	}
	return s
}

// Hook is called before each call is carried out, without any lock held: it may look at the disk, clone it,
// break it, or panic. When it returns an error the call is not carried out and fails with it; a [Short] error
// lets a write happen in part.
type Hook func(op Op) error

// Short is returned by a Hook to let a write put down its first N bytes before it fails with Err.
type Short struct {
	N   int
	Err error
}

// Error implements error.
func (s *Short) Error() string { return fmt.Sprintf("short write of %d bytes: %v", s.N, s.Err) }

// Unwrap returns Err.
func (s *Short) Unwrap() error { return s.Err }

// FS returns the disk as a vfs.FS that takes no time. Paths given to OpenRoot start at the root of the disk.
// A crash of the disk closes all handles. Hooks are called in order before every call but Close and ID.
func FS(d *Disk, hooks ...Hook) vfs.FS { return &fsys{disk: d, hooks: hooks} }

type fsys struct {
	disk  *Disk
	hooks []Hook
	mu    sync.Mutex // guards calls
	calls int
}

// before counts a call and asks the hooks.
func (s *fsys) before(op Op) error {
	if len(s.hooks) == 0 {
		return nil
	}
	s.mu.Lock()
	s.calls++
	op.N = s.calls
	s.mu.Unlock()
	for _, h := range s.hooks {
		if err := h(op); err != nil {
			return err
		}
	}
	return nil
}

// OpenRoot implements vfs.FS.
func (s *fsys) OpenRoot(path string, create bool) (vfs.Dir, error) {
	if err := s.before(Op{Kind: OpOpenRoot, Ino: rootIno, Path: path}); err != nil {
		return nil, nameError("open", path, err)
	}
	if path == "" {
		return nil, nameError("open", path, syscall.ENOENT)
	}
	d := s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	at := rootIno
	for name := range strings.SplitSeq(strings.ReplaceAll(path, "\\", "/"), "/") {
		if name == "" || name == "." {
			continue
		}
		n, err := d.lookup("open", at, name)
		if create && errors.Is(err, fs.ErrNotExist) {
			n, err = d.makeDurable(at, name)
		}
		if err != nil {
			return nil, nameError("open", path, errors.Unwrap(err))
		}
		if !n.dir {
			return nil, nameError("open", path, syscall.ENOTDIR)
		}
		at = n.ino
	}
	return s.pin(at, ""), nil
}

// makeDurable makes a directory with a durable name.
func (d *Disk) makeDurable(parent Ino, name string) (*inode, error) {
	i, err := d.makeLocked("mkdir", parent, name, true)
	if err != nil {
		return nil, err
	}
	if d.personality == Ordered {
		d.commit(d.stamp)
	} else {
		d.syncNames(parent)
	}
	return d.node(i), nil
}

// handle is what files and directories have in common.
type handle struct {
	fs         *fsys
	ino        Ino
	path       string // below the root that was opened
	generation uint64
	mu         sync.Mutex // guards closed
	closed     bool
}

// newHandle makes a handle of an inode, with the disk locked.
func (s *fsys) newHandle(i Ino, path string) handle {
	s.disk.hold(i)
	return handle{fs: s, ino: i, path: path, generation: s.disk.generation}
}

// check fails when the handle was closed, by its owner or by a crash.
func (h *handle) check(op, name string) error {
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if closed || h.fs.disk.Generation() != h.generation {
		return nameError(op, name, fs.ErrClosed)
	}
	return nil
}

// begin checks the handle and asks the hooks about a call.
func (h *handle) begin(op Op, name string) error {
	if err := h.check(op.Kind.String(), name); err != nil {
		return err
	}
	op.Ino = h.ino
	if err := h.fs.before(op); err != nil {
		return nameError(op.Kind.String(), name, err)
	}
	if len(h.fs.hooks) > 0 {
		return h.check(op.Kind.String(), name) // a hook may have crashed the disk
	}
	return nil
}

func (h *handle) close(op string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nameError(op, h.path, fs.ErrClosed)
	}
	h.closed = true
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.generation == h.generation {
		d.release(h.ino)
	}
	return nil
}

// ID returns the identity of the file or directory.
func (h *handle) ID() vfs.ID { return h.fs.disk.ID(h.ino) }

// Twin returns the handle of a clone's file system that stands for f, an open file of the disk that was cloned. The clone holds
// the file open already, as Clone copies handles.
func Twin(clone vfs.FS, f vfs.File) vfs.File {
	h := f.(*fileHandle)
	h.mu.Lock()
	defer h.mu.Unlock()
	return &fileHandle{handle{fs: clone.(*fsys), ino: h.ino, path: h.path, generation: h.generation, closed: h.closed}}
}

type dirHandle struct{ handle }

// pin returns a handle of a directory, with the disk locked.
func (s *fsys) pin(i Ino, path string) *dirHandle { return &dirHandle{s.newHandle(i, path)} }

// below returns the path of name below the root that was opened.
func (h *dirHandle) below(name string) string {
	if h.path == "" {
		return name
	}
	return h.path + "/" + name
}

// at checks a name and asks the hooks about a call on it.
func (h *dirHandle) at(kind OpKind, name string) error {
	if err := vfs.CheckName(kind.String(), name); err != nil {
		return err
	}
	return h.begin(Op{Kind: kind, Path: h.below(name)}, name)
}

// OpenDir implements vfs.Dir.
func (h *dirHandle) OpenDir(name string) (vfs.Dir, error) {
	if err := h.at(OpOpenDir, name); err != nil {
		return nil, err
	}
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("open", h.ino, name)
	if err != nil {
		return nil, err
	}
	if !n.dir {
		return nil, nameError("open", name, syscall.ENOTDIR)
	}
	return h.fs.pin(n.ino, h.below(name)), nil
}

// Mkdir implements vfs.Dir.
func (h *dirHandle) Mkdir(name string) error {
	if err := h.at(OpMkdir, name); err != nil {
		return err
	}
	_, err := h.fs.disk.Mkdir(h.ino, name)
	return err
}

// Create implements vfs.Dir.
func (h *dirHandle) Create(name string) (vfs.File, error) {
	if err := h.at(OpCreate, name); err != nil {
		return nil, err
	}
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	i, err := d.makeLocked("create", h.ino, name, false)
	if err != nil {
		return nil, err
	}
	return &fileHandle{h.fs.newHandle(i, h.below(name))}, nil
}

// Open implements vfs.Dir.
func (h *dirHandle) Open(name string) (vfs.File, error) {
	if err := h.at(OpOpen, name); err != nil {
		return nil, err
	}
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("open", h.ino, name)
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, nameError("open", name, syscall.EISDIR)
	}
	return &fileHandle{h.fs.newHandle(n.ino, h.below(name))}, nil
}

// Stat implements vfs.Dir.
func (h *dirHandle) Stat(name string) (vfs.Info, error) {
	if err := h.at(OpStat, name); err != nil {
		return vfs.Info{}, err
	}
	info, _, err := h.fs.disk.Lookup(h.ino, name)
	return info, err
}

// List implements vfs.Dir.
func (h *dirHandle) List() ([]vfs.Info, error) {
	if err := h.begin(Op{Kind: OpList, Path: h.path}, h.path); err != nil {
		return nil, err
	}
	return h.fs.disk.List(h.ino)
}

// Rename implements vfs.Dir.
func (h *dirHandle) Rename(source, target string) error {
	for _, name := range [...]string{source, target} {
		if err := vfs.CheckName("rename", name); err != nil {
			return err
		}
	}
	if err := h.begin(Op{Kind: OpRename, Path: h.below(source), Target: h.below(target)}, source); err != nil {
		return err
	}
	return h.fs.disk.Rename(h.ino, source, target)
}

// Remove implements vfs.Dir.
func (h *dirHandle) Remove(name string) error {
	if err := h.at(OpRemove, name); err != nil {
		return err
	}
	return h.fs.disk.Remove(h.ino, name)
}

// Sync implements vfs.Dir.
func (h *dirHandle) Sync() error {
	if err := h.begin(Op{Kind: OpSyncDir, Path: h.path}, h.path); err != nil {
		return err
	}
	return h.fs.disk.SyncDir(h.ino)
}

// Lock implements vfs.Dir.
func (h *dirHandle) Lock(name string) (io.Closer, error) {
	if err := h.at(OpLock, name); err != nil {
		return nil, err
	}
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("lock", h.ino, name)
	if errors.Is(err, fs.ErrNotExist) {
		var i Ino
		if i, err = d.makeLocked("lock", h.ino, name, false); err == nil {
			n = d.node(i)
		}
	}
	if err != nil {
		return nil, err
	}
	if n.dir {
		return nil, nameError("lock", name, syscall.EISDIR)
	}
	if !d.lock(n.ino) {
		return nil, nameError("lock", name, vfs.ErrLocked)
	}
	return &lockHandle{h.fs.newHandle(n.ino, h.below(name))}, nil
}

// Close implements vfs.Dir.
func (h *dirHandle) Close() error { return h.close("close") }

type lockHandle struct{ handle }

// Close releases the lock.
func (h *lockHandle) Close() error {
	if err := h.close("unlock"); err != nil {
		return err
	}
	if h.fs.disk.Generation() == h.generation {
		h.fs.disk.Unlock(h.ino)
	}
	return nil
}

type fileHandle struct{ handle }

func (h *fileHandle) call(kind OpKind, off, length int64) error {
	return h.begin(Op{Kind: kind, Path: h.path, Off: off, Len: length}, h.path)
}

// ReadAt implements vfs.File.
func (h *fileHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.call(OpRead, off, int64(len(p))); err != nil {
		return 0, err
	}
	return h.fs.disk.ReadAt(h.ino, p, off)
}

// WriteAt implements vfs.File.
func (h *fileHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.call(OpWrite, off, int64(len(p))); err != nil {
		var short *Short
		if errors.As(err, &short) {
			return short.N, errors.Join(err, h.fs.disk.WriteShort(h.ino, p, off, short.N))
		}
		return 0, err
	}
	d := h.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(h.ino, p, off, false)
}

// Sync implements vfs.File.
func (h *fileHandle) Sync() error {
	if err := h.call(OpSync, 0, 0); err != nil {
		return err
	}
	return h.fs.disk.Sync(h.ino)
}

// Truncate implements vfs.File.
func (h *fileHandle) Truncate(size int64) error {
	if err := h.call(OpTruncate, 0, size); err != nil {
		return err
	}
	return h.fs.disk.Truncate(h.ino, size)
}

// Preallocate implements vfs.File.
func (h *fileHandle) Preallocate(size int64) error {
	if err := h.call(OpPreallocate, 0, size); err != nil {
		return err
	}
	return h.fs.disk.Preallocate(h.ino, size)
}

// Size implements vfs.File.
func (h *fileHandle) Size() (int64, error) {
	if err := h.call(OpSize, 0, 0); err != nil {
		return 0, err
	}
	return h.fs.disk.Size(h.ino)
}

// Close implements vfs.File.
func (h *fileHandle) Close() error { return h.close("close") }
