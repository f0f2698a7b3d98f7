package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// onlyDirectory has no flag of its own here; what is looked for below a file is not found.
const onlyDirectory = os.O_RDONLY

// handleID identifies an open file or directory.
func handleID(f *os.File) (id ID, err error) {
	err = control(f, "stat", func(fd uintptr) error {
		var info windows.ByHandleFileInformation
		if err := windows.GetFileInformationByHandle(windows.Handle(fd), &info); err != nil {
			return err
		}
		id = ID{
			Device: uint64(info.VolumeSerialNumber),
			Inode:  uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
			Birth:  info.CreationTime.Nanoseconds(),
		}
		return nil
	})
	return id, err
}

// statAt describes the entry name of a directory, without following a symbolic link.
func statAt(dir *os.File, name string) (Info, error) {
	path := dir.Name() + `\` + name
	fi, err := os.Lstat(path)
	if err != nil {
		return Info{}, err
	}
	info := Info{Name: name, Dir: fi.IsDir(), MTime: fi.ModTime().UnixNano()}
	if !info.Dir {
		info.Size = fi.Size()
	}
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	info.ID, err = handleID(f)
	return info, err
}

// openNoFollow opens the regular file at name.
func (d *osDir) openNoFollow(name string) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return d.root.OpenFile(name, os.O_RDWR, 0)
}

// rename replaces an empty directory in two steps: this system has no call that does it in one.
func (d *osDir) rename(source, target string) error {
	err := d.root.Rename(source, target)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	if d.root.Remove(target) != nil {
		return err
	}
	return d.root.Rename(source, target)
}

func lockFile(f *os.File) error {
	err := control(f, "lock", func(fd uintptr) error {
		const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, new(windows.Overlapped))
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

func syncData(f *os.File) error { return f.Sync() }

// syncDirectory does nothing: NTFS journals names and has no call to flush those of one directory.
func syncDirectory(f *os.File) error {
	_, err := f.Stat()
	return err
}

// reserve has no simple form here; Preallocate only grows the file.
func reserve(*os.File, int64) error { return syscall.EWINDOWS }

// openBelow and statBelow are for systems that walk a path below a directory in one call.
func (d *osDir) openBelow(string) (f File, ok bool) { return nil, false }

func (d *osDir) statBelow(string) (info Info, ok bool) { return Info{}, false }

// OpenFileLimit returns 0: there is no such limit.
func (OS) OpenFileLimit() int { return 0 }

// openWithin is for systems that walk a path below a directory in one call.
func (d *osDir) openWithin(string, string) (f File, inDir ID, ok bool) { return nil, ID{}, false }
