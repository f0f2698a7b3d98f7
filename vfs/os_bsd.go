//go:build darwin || freebsd || netbsd

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// handleID identifies an open file or directory.
func handleID(f *os.File) (ID, error) {
	var st unix.Stat_t
	err := control(f, "stat", func(fd uintptr) error {
		return retry(func() error { return unix.Fstat(int(fd), &st) })
	})
	return statID(&st), err
}

// statAt describes the entry name of a directory, without following a symbolic link.
func statAt(dir *os.File, name string) (Info, error) {
	var st unix.Stat_t
	err := control(dir, "stat", func(fd uintptr) error {
		return retry(func() error { return unix.Fstatat(int(fd), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	})
	if err != nil {
		return Info{}, renamed(err, name)
	}
	info := Info{
		Name:  name,
		Dir:   st.Mode&unix.S_IFMT == unix.S_IFDIR,
		MTime: st.Mtim.Nano(),
		ID:    statID(&st),
	}
	if !info.Dir {
		info.Size = st.Size
	}
	return info, nil
}

func statID(st *unix.Stat_t) ID {
	return ID{Device: uint64(st.Dev), Inode: st.Ino, Birth: st.Btim.Nano()}
}

// syncData asks macOS to empty the drive's own cache as well (os.File.Sync is F_FULLFSYNC there).
func syncData(f *os.File) error { return f.Sync() }

func syncDirectory(f *os.File) error { return f.Sync() }

// reserve has no form that these systems share; Preallocate only grows the file.
func reserve(*os.File, int64) error { return unix.ENOTSUP }

// statBelow and openBelow are for systems that walk a path below a directory in one call.
func (d *osDir) statBelow(string) (info Info, ok bool) { return Info{}, false }

func (d *osDir) openBelow(string) (f File, ok bool) { return nil, false }

// openWithin is for systems that walk a path below a directory in one call.
func (d *osDir) openWithin(string, string) (f File, inDir ID, ok bool) { return nil, ID{}, false }
