package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrReadOnly reports an attempt to change something through [ReadOnly].
var ErrReadOnly = errors.New("opened for reading only")

// ReadOnly returns files as they are in fs, through which nothing can be changed: every call that would is
// refused with [ErrReadOnly] before it reaches fs. Files of [OS] are opened for reading, so that a disk that is
// mounted read-only, or belongs to somebody else, can be looked at.
//
// Lock takes a lock that exists and is fs.ErrNotExist otherwise, since it would have to create the file.
func ReadOnly(fs FS) FS { return readOnlyFS{fs} }

type readOnlyFS struct{ fs FS }

func (r readOnlyFS) OpenRoot(path string, create bool) (Dir, error) {
	if create {
		return nil, refuse("mkdir", path)
	}
	d, err := r.fs.OpenRoot(path, false)
	if err != nil {
		return nil, err
	}
	return readOnlyDir{d}, nil
}

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: ErrReadOnly} }

// readOnlyDir embeds no Dir: a method that Dir gains must be judged here.
type readOnlyDir struct{ dir Dir }

func (d readOnlyDir) OpenDir(name string) (Dir, error) {
	sub, err := d.dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return readOnlyDir{sub}, nil
}

func (d readOnlyDir) Open(name string) (File, error) {
	var f File
	var err error
	if system, ok := d.dir.(reader); ok {
		f, err = system.openToRead(name)
	} else {
		f, err = d.dir.Open(name)
	}
	if err != nil {
		return nil, err
	}
	return readOnlyFile{f}, nil
}

func (d readOnlyDir) Lock(name string) (io.Closer, error) {
	if system, ok := d.dir.(reader); ok {
		return system.lockExisting(name)
	}
	if _, err := d.dir.Stat(name); err != nil {
		return nil, err
	}
	return d.dir.Lock(name)
}

func (d readOnlyDir) Stat(name string) (Info, error)     { return d.dir.Stat(name) }
func (d readOnlyDir) List() ([]Info, error)              { return d.dir.List() }
func (d readOnlyDir) ID() ID                             { return d.dir.ID() }
func (d readOnlyDir) Close() error                       { return d.dir.Close() }
func (d readOnlyDir) Mkdir(name string) error            { return refuse("mkdir", name) }
func (d readOnlyDir) Create(name string) (File, error)   { return nil, refuse("create", name) }
func (d readOnlyDir) Rename(source, target string) error { return refuse("rename", source) }
func (d readOnlyDir) Remove(name string) error           { return refuse("remove", name) }
func (d readOnlyDir) Sync() error                        { return refuse("sync", ".") }

type readOnlyFile struct{ file File }

func (f readOnlyFile) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }
func (f readOnlyFile) Size() (int64, error)                    { return f.file.Size() }
func (f readOnlyFile) ID() ID                                  { return f.file.ID() }
func (f readOnlyFile) Close() error                            { return f.file.Close() }
func (f readOnlyFile) WriteAt([]byte, int64) (int, error)      { return 0, ErrReadOnly }
func (f readOnlyFile) Sync() error                             { return ErrReadOnly }
func (f readOnlyFile) Truncate(int64) error                    { return ErrReadOnly }
func (f readOnlyFile) Preallocate(int64) error                 { return ErrReadOnly }

// reader is a directory of a system that may be one that is read only, or of somebody else's files.
type reader interface {
	openToRead(name string) (File, error)
	lockExisting(name string) (io.Closer, error)
}

// openToRead opens a regular file for reading.
func (d *osDir) openToRead(name string) (File, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	return newFile(f)
}

// openRegular looks first, so that neither a named pipe nor a symbolic link is opened.
func (d *osDir) openRegular(name string) (*os.File, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, escapeIsInvalid(err)
	}
	switch {
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	f, err := d.root.Open(name)
	return f, escapeIsInvalid(err)
}

// lockExisting takes the lock of a file that exists, through a handle for reading.
func (d *osDir) lockExisting(name string) (io.Closer, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}
