package vfs

import (
	"errors"
	"io"
	"io/fs"
	"strings"
)

// SectorSize is the unit, in bytes, that a disk writes atomically (rule D5).
const SectorSize = 512

// Permissions of what Narad creates (narad-facts: directories 0700, files 0600).
const (
	DirMode  fs.FileMode = 0o700
	FileMode fs.FileMode = 0o600
)

// FS opens directory trees. It is the only place where a path of the outer world appears.
type FS interface {
	// OpenRoot pins the directory at path. With create, a missing directory and its missing parents are
	// made, each name made durable in its parent before OpenRoot returns.
	OpenRoot(path string, create bool) (Dir, error)
}

// Dir is a pinned directory.
//
// Every name is a slash-separated path below the directory ("orders/p00000"); one that is empty, absolute
// or escapes is refused with [fs.ErrInvalid]. Errors wrap the values of io/fs and syscall: test them with
// errors.Is against [fs.ErrNotExist], [fs.ErrExist], syscall.ENOSPC, syscall.EIO and so on. After Close
// every call, a second Close too, answers an error that wraps [fs.ErrClosed]; only ID still answers. What was
// opened through a Dir stays open when the Dir is closed.
//
// A Dir may be used by several tasks at once.
type Dir interface {
	// OpenDir pins the directory below this one at name.
	OpenDir(name string) (Dir, error)
	// Mkdir makes one directory. The name is durable after a Sync of its parent.
	Mkdir(name string) error
	// Create makes a new, empty file and opens it for reading and writing. It fails with fs.ErrExist when
	// the name is taken. The name is durable after a Sync of its parent.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing. It never creates and never follows a symbolic
	// link at the end of name.
	Open(name string) (File, error)
	// Stat describes what name leads to now, without following a symbolic link at its end.
	Stat(name string) (Info, error)
	// List describes the entries of this directory, ordered by name.
	List() ([]Info, error)
	// Rename gives the file or directory at source the name target, replacing a file (or an empty
	// directory) of that name, atomically for every observer. A file replaces only a file and a directory
	// only a directory; one that is not empty is fs.ErrExist. It is durable after a Sync of both parents.
	Rename(source, target string) error
	// Remove removes a file or an empty directory; one that is not empty is fs.ErrExist. Open handles of a
	// removed file keep working. It is durable after a Sync of the parent.
	Remove(name string) error
	// Sync makes the names in this directory durable (rule D3).
	Sync() error
	// Lock takes the exclusive advisory lock named name, creating its file, and holds it until the closer
	// is closed or the process dies. It does not wait: a lock that another handle holds, in this process or
	// in another, is [ErrLocked]. The file stays when the lock is released.
	Lock(name string) (io.Closer, error)
	// ID identifies the directory itself, whatever its path is now.
	ID() ID
	// Close releases the handle.
	Close() error
}

// File is an open file. Reads and writes name their position and may run concurrently on disjoint ranges. A
// negative position or size is refused. After Close every call but ID answers an error that wraps
// [fs.ErrClosed].
type File interface {
	// ReadAt reads len(p) bytes at off and returns io.EOF with a short count at the end of the file.
	io.ReaderAt
	// WriteAt writes all of p at off, growing the file when it ends before off+len(p); a gap reads as
	// zeros. On error a prefix may have been written.
	io.WriterAt
	// Sync makes the contents and the size durable (rules D2 and D4).
	Sync() error
	// Truncate sets the size. Bytes that a later growth exposes read as zeros.
	Truncate(size int64) error
	// Preallocate reserves disk space for the bytes below size and grows the file to size when it is
	// shorter; what it adds reads as zeros. It makes nothing durable.
	Preallocate(size int64) error
	// Size returns the size in bytes as readers see it.
	Size() (int64, error)
	// ID identifies the file itself, whatever its name is now.
	ID() ID
	// Close releases the handle. It makes nothing durable.
	Close() error
}

// DeviceSyncer is what a [File] or a [Dir] may offer beside Sync where a drive has a cache that an ordinary sync does
// not empty (macOS). Sync does both steps; many files on one device may share the second.
type DeviceSyncer interface {
	// SyncToDevice hands to the device what Sync would make durable. Nothing is durable before a flush of that
	// device that began later has succeeded. A failure means what one of Sync means (rule D4).
	SyncToDevice() error
	// FlushDevice empties the cache of the device that the file or directory is on (ID().Device).
	FlushDevice() error
}

// SyncWriter is what a [File] may offer where one call can do what WriteAt and Sync do.
type SyncWriter interface {
	// WriteAtSync writes all of p at off and makes these bytes, and the size, durable, as a WriteAt and a Sync would that
	// succeeded. What was written elsewhere in the file before may stay as it was. A failure means what one of WriteAt and
	// one of Sync mean: a prefix may have been written, and rule D4 holds.
	WriteAtSync(p []byte, off int64) error
}

// ID tells whether two handles or names lead to the same file or directory. Two are the same exactly when
// their IDs are equal; the zero ID belongs to nothing. Birth guards against a file system that hands the
// number of a removed file to a new one.
type ID struct {
	Device uint64
	Inode  uint64
	Birth  int64 // unix nanoseconds; 0 where the file system keeps none
}

// Info describes a directory entry.
type Info struct {
	Name  string // last element of the path
	Dir   bool
	Size  int64 // bytes; 0 for a directory
	MTime int64 // unix nanoseconds of the last change of the contents
	ID    ID
}

// ErrLocked reports that another handle, here or in another process, holds a lock.
var ErrLocked = errors.New("already locked")

// CheckName returns an error that wraps fs.ErrInvalid unless name is a path that a [Dir] accepts:
// non-empty, relative, slash-separated, clean, without "." or ".." elements.
func CheckName(op, name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\x00\\") {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// ReadFile returns the whole file at name, which must not be longer than limit bytes.
func ReadFile(d Dir, name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("file is larger than its format allows")}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// ReplaceFile makes name hold exactly data, durably and atomically: after a crash at any instant the file
// holds its old or its new contents. It writes name+".tmp", syncs it, renames it and syncs d, so name must
// be directly in d.
func ReplaceFile(d Dir, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := d.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.Create(tmp)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := d.Rename(tmp, name); err != nil {
		return err
	}
	return d.Sync()
}

// RemoveAll removes the file or directory at name and everything below it. A missing name is no error.
func RemoveAll(d Dir, name string) error {
	info, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Dir {
		if err := removeEntries(d, name); err != nil {
			return err
		}
	}
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeEntries(d Dir, name string) error {
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := RemoveAll(sub, e.Name); err != nil {
			return err
		}
	}
	return nil
}
