package vfs

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
)

// OS is the operating system's file systems. Its directories are pinned by an open handle ([os.Root]), so
// neither a renamed path nor a symbolic link planted below one can lead an operation elsewhere.
type OS struct{}

// OpenRoot implements [FS]. Symbolic links in path are followed: path belongs to the operator.
func (OS) OpenRoot(path string, create bool) (Dir, error) {
	if path == "" {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	path = filepath.Clean(path)
	if create {
		if err := makePath(path); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, notDirectory("open", path, err)
	}
	return newDir(root)
}

// makePath makes path and its missing parents, each name durable in its parent before the next one is
// made. It also syncs the parent of the deepest directory that was there already: an earlier call may have
// been killed between making that one and syncing its name, and no shallower name can be in that state.
func makePath(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return syncParentOfExisting(path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrNotExist}
	}
	if err := makePath(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncPath(parent)
}

// syncParentOfExisting tolerates a parent that this process may not read: then it did not make path either.
func syncParentOfExisting(path string) error {
	if err := syncPath(filepath.Dir(path)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDirectory(f)
}

// osDir is a directory held open twice: root resolves names safely, self is the handle for fsync and for
// calls relative to the directory.
type osDir struct {
	root    *os.Root
	self    *os.File
	id      ID
	closed  atomic.Bool
	holders atomic.Int32 // itself until it is closed, and each [subDir] below it
}

// newDir takes over root.
func newDir(root *os.Root) (*osDir, error) {
	self, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, err
	}
	id, err := handleID(self)
	if err != nil {
		self.Close()
		root.Close()
		return nil, err
	}
	d := &osDir{root: root, self: self, id: id}
	d.holders.Store(1)
	return d, nil
}

// check refuses a bad name and a closed directory.
func (d *osDir) check(op, name string) error {
	if d.closed.Load() {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	return CheckName(op, name)
}

func (d *osDir) OpenDir(name string) (Dir, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	return d.subDir(d, name, name)
}

func (d *osDir) openDir(name string) (*osDir, error) {
	// Looked at first, so that a named pipe cannot block the open.
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, escapeIsInvalid(err)
	}
	if !info.IsDir() && info.Mode()&fs.ModeSymlink == 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, notDirectory("open", name, escapeIsInvalid(err))
	}
	return newDir(root)
}

func (d *osDir) Mkdir(name string) error {
	if err := d.check("mkdir", name); err != nil {
		return err
	}
	return escapeIsInvalid(d.root.Mkdir(name, DirMode))
}

func (d *osDir) Create(name string) (File, error) {
	if err := d.check("create", name); err != nil {
		return nil, err
	}
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, FileMode)
	if err != nil {
		return nil, escapeIsInvalid(err)
	}
	return newFile(f)
}

func (d *osDir) Open(name string) (File, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	if f, ok := d.openBelow(name); ok {
		return f, nil
	}
	f, err := d.openNoFollow(name)
	if err != nil {
		return nil, escapeIsInvalid(err)
	}
	return newFile(f)
}

func (d *osDir) Stat(name string) (Info, error) {
	if err := d.check("stat", name); err != nil {
		return Info{}, err
	}
	if info, ok := d.statBelow(name); ok {
		return info, nil
	}
	var info Info
	err := d.atParent(name, func(parent *os.File, base string) (err error) {
		info, err = statAt(parent, base)
		return err
	})
	return info, escapeIsInvalid(err)
}

func (d *osDir) List() ([]Info, error) {
	if d.closed.Load() {
		return nil, &fs.PathError{Op: "list", Path: ".", Err: fs.ErrClosed}
	}
	// A handle of its own, because reading a directory moves the handle's position.
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(names))
	for _, name := range names {
		info, err := statAt(f, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was read
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return infos, nil
}

func (d *osDir) Rename(source, target string) error {
	if err := d.check("rename", source); err != nil {
		return err
	}
	if err := d.check("rename", target); err != nil {
		return err
	}
	return d.rename(source, target)
}

func (d *osDir) Remove(name string) error {
	if err := d.check("remove", name); err != nil {
		return err
	}
	return escapeIsInvalid(d.root.Remove(name))
}

func (d *osDir) Sync() error {
	if d.closed.Load() {
		return &fs.PathError{Op: "sync", Path: ".", Err: fs.ErrClosed}
	}
	return syncDirectory(d.self)
}

func (d *osDir) ID() ID { return d.id }

func (d *osDir) Close() error {
	if d.closed.Swap(true) {
		return &fs.PathError{Op: "close", Path: d.root.Name(), Err: fs.ErrClosed}
	}
	return d.release()
}

// hold keeps the handles until release. It reports false when they are closed already.
func (d *osDir) hold() bool {
	for {
		n := d.holders.Load()
		if n == 0 {
			return false
		}
		if d.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release closes the handles when nobody needs them any more.
func (d *osDir) release() error {
	if d.holders.Add(-1) > 0 {
		return nil
	}
	return errors.Join(d.self.Close(), d.root.Close())
}

// atParent calls fn with the directory that name lies in and its last element.
func (d *osDir) atParent(name string, fn func(parent *os.File, base string) error) error {
	dir, base := path.Split(name)
	if dir == "" {
		return fn(d.self, base)
	}
	parent, err := d.root.OpenFile(path.Clean(dir), onlyDirectory, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	return fn(parent, base)
}

// Lock leaves the lock's file behind when it is released: removing it would let two holders lock two files
// of the same name.
func (d *osDir) Lock(name string) (io.Closer, error) {
	if err := d.check("lock", name); err != nil {
		return nil, err
	}
	f, err := d.openOrCreate(name)
	if err != nil {
		return nil, escapeIsInvalid(err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

// openOrCreate is not O_CREATE without O_EXCL, which would follow a symbolic link.
func (d *osDir) openOrCreate(name string) (*os.File, error) {
	for {
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, FileMode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if f, err = d.openNoFollow(name); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
}

// osFile is an open file.
type osFile struct {
	f  *os.File
	id ID
}

// newFile takes over f, which must be a regular file.
func newFile(f *os.File) (File, error) {
	id, err := handleID(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{f: f, id: id}, nil
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Sync() error                              { return syncData(f.f) }
func (f *osFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *osFile) ID() ID                                   { return f.id }
func (f *osFile) Close() error                             { return f.f.Close() }

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) Preallocate(size int64) error {
	if size < 0 {
		return &fs.PathError{Op: "preallocate", Path: f.f.Name(), Err: fs.ErrInvalid}
	}
	err := reserve(f.f, size)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return growTo(f, size)
}

// growTo makes a file at least size bytes long where the file system cannot reserve space.
func growTo(f File, size int64) error {
	now, err := f.Size()
	if err != nil || now >= size {
		return err
	}
	return f.Truncate(size)
}

// control runs fn on f's descriptor, which stays open meanwhile, and names the attempt in its error.
func control(f *os.File, op string, fn func(fd uintptr) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	var ferr error
	if raw.Control(func(fd uintptr) { ferr = fn(fd) }) != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: fs.ErrClosed} // its only failure
	}
	if ferr != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: ferr}
	}
	return nil
}

// escapeIsInvalid turns os.Root's private "path escapes from parent" into fs.ErrInvalid.
func escapeIsInvalid(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) && perr.Err.Error() == "path escapes from parent" {
		return &fs.PathError{Op: perr.Op, Path: perr.Path, Err: fs.ErrInvalid}
	}
	return err
}

// notDirectory gives the error of os.OpenRoot for a file, which is a bare text, its system value.
func notDirectory(op, name string, err error) error {
	if err != nil && err.Error() == "not a directory" {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return err
}
