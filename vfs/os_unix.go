//go:build linux || darwin || freebsd || netbsd

package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// onlyDirectory opens directories: a file on the way is an error at once, and a named pipe blocks nobody.
const onlyDirectory = os.O_RDONLY | unix.O_DIRECTORY

// OpenFileLimit returns how many files the process may have open, its soft limit as it is now; 0 when that is not known.
func (OS) OpenFileLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) // some systems say infinity
}

// openNoFollow opens the regular file at name.
func (d *osDir) openNoFollow(name string) (*os.File, error) {
	var f *os.File
	err := d.atParent(name, func(parent *os.File, base string) (err error) {
		f, err = openIn(parent, base, name)
		return err
	})
	if err != nil {
		return nil, renamed(err, name)
	}
	return onlyRegular(f, name)
}

// openFlags: O_NONBLOCK keeps a named pipe from blocking the call; it means nothing to a regular file.
const openFlags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// openIn opens an entry of a directory, whatever it is.
func openIn(parent *os.File, base, name string) (f *os.File, err error) {
	err = control(parent, "open", func(fd uintptr) error {
		return retry(func() error {
			n, err := unix.Openat(int(fd), base, openFlags, 0)
			if err == nil {
				f = os.NewFile(uintptr(n), name)
			}
			return err
		})
	})
	return f, err
}

// onlyRegular closes what is no regular file.
func onlyRegular(f *os.File, name string) (*os.File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// rename is not os.Root.Rename, which refuses to replace an empty directory.
func (d *osDir) rename(source, target string) error {
	err := d.atParent(source, func(from *os.File, old string) error {
		return d.atParent(target, func(to *os.File, new string) error {
			return control(from, "rename", func(fromFD uintptr) error {
				return control(to, "rename", func(toFD uintptr) error {
					return retry(func() error { return unix.Renameat(int(fromFD), old, int(toFD), new) })
				})
			})
		})
	})
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: source, New: target, Err: cause(escapeIsInvalid(err))}
}

// lockFile takes the whole-file lock, which belongs to this open file and not to the process.
func lockFile(f *os.File) error {
	err := control(f, "lock", func(fd uintptr) error {
		return retry(func() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return cause(err)
}

// retry repeats a call that a signal interrupted.
func retry(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// cause strips the path errors around what the system answered.
func cause(err error) error {
	for {
		perr, ok := err.(*fs.PathError)
		if !ok {
			return err
		}
		err = perr.Err
	}
}

// renamed returns err about name instead of about the directory that the call was relative to.
func renamed(err error, name string) error {
	return &fs.PathError{Op: "open", Path: name, Err: cause(err)}
}
