//go:build unix

package observe

import "golang.org/x/sys/unix"

// diskSpace returns what an ordinary process can still write to the file system of a directory, and the size of it, in bytes.
func diskSpace(dir string) (available, total uint64, err error) {
	var s unix.Statfs_t
	for {
		err = unix.Statfs(dir, &s)
		if err != unix.EINTR {
			break
		}
	}
	return uint64(s.Bavail) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), err
}
