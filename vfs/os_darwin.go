package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// fsync(2) of macOS ends when the drive has the bytes, perhaps in its own cache; F_FULLFSYNC, which os.File.Sync
// asks for, when that is empty.

func (f *osFile) SyncToDevice() error { return toDevice(f.f) }
func (f *osFile) FlushDevice() error  { return f.f.Sync() }
func (d *osDir) SyncToDevice() error  { return toDevice(d.self) }
func (d *osDir) FlushDevice() error   { return d.self.Sync() }

var (
	_ DeviceSyncer = (*osFile)(nil)
	_ DeviceSyncer = (*osDir)(nil)
)

func toDevice(f *os.File) error {
	return control(f, "sync", func(fd uintptr) error {
		return retry(func() error { return unix.Fsync(int(fd)) })
	})
}
