package vfs

import (
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

// openBelow is Open for the usual case.
func (d *osDir) openBelow(name string) (f File, ok bool) {
	ok = d.below(name, openFlags|unix.O_LARGEFILE, func(fd int) (err error) {
		f, err = takeOver(fd, name)
		return err
	})
	return f, ok
}

// takeOver makes a file of the descriptor of a regular one, and closes others.
func takeOver(fd int, name string) (File, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, statMask, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = unix.EINVAL
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &handle{fd: fd, name: name, id: statID(&st)}, nil
}

// identityAt implements identifier.
func (d *osDir) identityAt(name string) (ID, error) {
	if err := d.check("stat", name); err != nil {
		return ID{}, err
	}
	var st unix.Statx_t
	err := control(d.self, "stat", func(fd uintptr) error {
		return retry(func() error { return unix.Statx(int(fd), name, 0, statMask, &st) })
	})
	if err != nil {
		return ID{}, renamed(err, name)
	}
	return statID(&st), nil
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
	ok = d.within(dir, &st, func(fd int) error {
		inDir = statID(&st)
		n, err := unix.Openat(fd, base, openFlags, 0)
		if err != nil {
			return err
		}
		f, err = takeOver(n, dir+"/"+base)
		return err
	})
	if !ok {
		return nil, ID{}, false
	}
	return f, inDir, true
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
	if off < 0 { // the call takes -1 for the place where the descriptor is
		return &fs.PathError{Op: "writeat", Path: f.f.Name(), Err: errNegative}
	}
	var done int
	err := control(f.f, "write and sync", func(fd uintptr) error {
		return retry(func() error { return writeSynced(int(fd), p, off, &done) })
	})
	return orInTurn(f, p, off, done, err)
}

// writeSynced writes and syncs what is left of p after the first done bytes.
func writeSynced(fd int, p []byte, off int64, done *int) error {
	for *done < len(p) {
		n, err := unix.Pwritev2(fd, [][]byte{p[*done:]}, off+int64(*done), unix.RWF_DSYNC)
		if err != nil {
			return err
		}
		*done += n
	}
	return nil
}

// orInTurn writes and then syncs where a file system or a kernel knows no call that does both.
func orInTurn(f File, p []byte, off int64, done int, err error) error {
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if _, err := f.WriteAt(p[done:], off+int64(done)); err != nil {
		return err
	}
	return f.Sync()
}

func syncDirectory(f *os.File) error { return f.Sync() }

// reserve allocates the blocks below size. It never shortens the file, whoever else grows it meanwhile.
func reserve(f *os.File, size int64) error {
	return control(f, "preallocate", func(fd uintptr) error {
		return retry(func() error { return allocate(int(fd), size) })
	})
}

func allocate(fd int, size int64) error {
	if size == 0 {
		return nil // fallocate refuses an empty range
	}
	return unix.Fallocate(fd, 0, 0, size)
}
