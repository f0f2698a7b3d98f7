package vfs

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// handleID identifies an open file or directory.
func handleID(f *os.File) (ID, error) {
	var st unix.Statx_t
	err := control(f, "stat", func(fd uintptr) error {
		return retry(func() error { return unix.Statx(int(fd), "", unix.AT_EMPTY_PATH, statMask, &st) })
	})
	return statID(&st), err
}

// below calls fn with what name leads to, opened with flags, when that can be had by one walk of the kernel: os.Root opens each
// directory on the way. Whatever is in the way, a symbolic link or an old kernel too, is left to that; ok is false then.
func (d *osDir) below(name string, flags uint64, fn func(fd int) error) (ok bool) {
	if !strings.Contains(name, "/") {
		return false // that is one call anyway
	}
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	err := control(d.self, "open", func(root uintptr) error {
		return retry(func() error {
			fd, err := unix.Openat2(int(root), name, &how)
			if err != nil {
				return err
			}
			return fn(fd)
		})
	})
	return err == nil
}

// statBelow is Stat for the usual case.
func (d *osDir) statBelow(name string) (info Info, ok bool) {
	var st unix.Statx_t
	ok = d.below(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, func(fd int) error {
		defer unix.Close(fd)
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH, statMask, &st)
	})
	return describe(&st, path.Base(name)), ok
}

// openBelow is openNoFollow for the usual case.
func (d *osDir) openBelow(name string) (f *os.File, ok bool) {
	ok = d.below(name, openFlags|unix.O_LARGEFILE, func(fd int) error {
		f = os.NewFile(uintptr(fd), name)
		return nil
	})
	return f, ok
}

// StatWithin implements [Walker].
func (d *osDir) StatWithin(dir, base string) (inDir, file ID, err error) {
	name := dir + "/" + base
	if err := d.checkWithin("stat", name, base); err != nil {
		return ID{}, ID{}, err
	}
	var st unix.Statx_t
	ok := d.within(dir, &st, func(fd int) error {
		inDir = statID(&st)
		return unix.Statx(fd, base, unix.AT_SYMLINK_NOFOLLOW, statMask, &st)
	})
	if ok {
		return inDir, statID(&st), nil
	}
	err = d.atParent(name, func(parent *os.File, base string) error {
		if inDir, err = handleID(parent); err != nil {
			return err
		}
		info, err := statAt(parent, base)
		file = info.ID
		return err
	})
	return inDir, file, escapeIsInvalid(err)
}

// OpenWithin implements [Walker].
func (d *osDir) OpenWithin(dir, base string) (f File, inDir ID, err error) {
	name := dir + "/" + base
	if err := d.checkWithin("open", name, base); err != nil {
		return nil, ID{}, err
	}
	if f, inDir, ok := d.openWithin(dir, base); ok {
		return f, inDir, nil
	}
	var opened *os.File
	err = d.atParent(name, func(parent *os.File, base string) error {
		if inDir, err = handleID(parent); err == nil {
			opened, err = openIn(parent, base, name)
		}
		return err
	})
	if err != nil {
		return nil, ID{}, escapeIsInvalid(renamed(err, name))
	}
	if opened, err = onlyRegular(opened, name); err == nil {
		f, err = newFile(opened)
	}
	return f, inDir, err
}

// openWithin is OpenWithin for the usual case.
func (d *osDir) openWithin(dir, base string) (f File, inDir ID, ok bool) {
	var st unix.Statx_t
	opened := -1
	ok = d.within(dir, &st, func(fd int) error {
		inDir = statID(&st)
		n, err := unix.Openat(fd, base, openFlags, 0)
		if err != nil {
			return err
		}
		if err = unix.Statx(n, "", unix.AT_EMPTY_PATH, statMask, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			unix.Close(n)
			return cmp.Or(err, error(unix.EINVAL))
		}
		opened = n
		return nil
	})
	if !ok {
		return nil, ID{}, false
	}
	return &osFile{f: regular(opened, dir+"/"+base), id: statID(&st)}, inDir, true
}

// regular takes over the descriptor of a regular file that was opened with O_NONBLOCK. Left on, that would have os.NewFile offer the
// file to the poller, which takes none.
func regular(fd int, name string) *os.File {
	unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0) // or it stays on, which only costs time
	return os.NewFile(uintptr(fd), name)
}

func (d *osDir) checkWithin(op, name, base string) error {
	if strings.Contains(base, "/") {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return d.check(op, name)
}

// within calls fn with the directory that dir leads to, described in st, for the usual case.
func (d *osDir) within(dir string, st *unix.Statx_t, fn func(fd int) error) (ok bool) {
	return d.below(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, func(fd int) error {
		defer unix.Close(fd)
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statMask, st); err != nil {
			return err
		}
		return fn(fd)
	})
}

// statAt describes the entry name of a directory, without following a symbolic link.
func statAt(dir *os.File, name string) (Info, error) {
	var st unix.Statx_t
	err := control(dir, "stat", func(fd uintptr) error {
		return retry(func() error { return unix.Statx(int(fd), name, unix.AT_SYMLINK_NOFOLLOW, statMask, &st) })
	})
	if err != nil {
		return Info{}, renamed(err, name)
	}
	return describe(&st, name), nil
}

func describe(st *unix.Statx_t, name string) Info {
	info := Info{
		Name:  name,
		Dir:   st.Mode&unix.S_IFMT == unix.S_IFDIR,
		MTime: nanoseconds(st.Mtime),
		ID:    statID(st),
	}
	if !info.Dir {
		info.Size = int64(st.Size)
	}
	return info
}

// statID relies on a kernel that stamps births finer than its tick (6.13 or later). On an older one a file that
// gets the inode number of another within the tick, a few milliseconds, has its ID too.
func statID(st *unix.Statx_t) ID {
	id := ID{Device: unix.Mkdev(st.Dev_major, st.Dev_minor), Inode: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Birth = nanoseconds(st.Btime)
	}
	return id
}

func nanoseconds(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

// syncData is fdatasync: contents and size, not the times.
func syncData(f *os.File) error {
	return control(f, "sync", func(fd uintptr) error {
		return retry(func() error { return unix.Fdatasync(int(fd)) })
	})
}

// WriteAtSync implements SyncWriter. It is one switch into the kernel and one hand-over of a thread fewer than two calls.
func (f *osFile) WriteAtSync(p []byte, off int64) error {
	var n int // written and synced
	err := control(f.f, "write and sync", func(fd uintptr) error {
		for n < len(p) {
			var now int
			err := retry(func() (err error) {
				now, err = unix.Pwritev2(int(fd), [][]byte{p[n:]}, off+int64(n), unix.RWF_DSYNC)
				return err
			})
			if err != nil {
				return err
			}
			n += now
		}
		return nil
	})
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if _, err := f.f.WriteAt(p[n:], off+int64(n)); err != nil { // a file system or a kernel that does not know it
		return err
	}
	return f.Sync()
}

func syncDirectory(f *os.File) error { return f.Sync() }

// reserve allocates the blocks below size. It never shortens the file, whoever else grows it meanwhile.
func reserve(f *os.File, size int64) error {
	return control(f, "preallocate", func(fd uintptr) error {
		if size == 0 {
			return nil // fallocate refuses an empty range
		}
		return retry(func() error { return unix.Fallocate(int(fd), 0, 0, size) })
	})
}
