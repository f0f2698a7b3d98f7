// Package vfs is the seam between Narad and a disk: directories, files, bytes, and when they are durable.
//
// Everything that stores data reaches it through a [Dir], a pinned directory: a handle that keeps naming
// the same directory even when its path is renamed, removed or replaced by another one. Of very many the system's may give up
// their handles while they are idle; such a one never names another directory, but is not found any more where its path was changed.
// Names given to a Dir are slash-separated paths below it and can never escape it.
//
// # Durability
//
// The contract is the weakest that disks and file systems really give; code above must be correct on it.
//
//	D1  A write is visible to every reader of the file at once (page cache) and survives the death of the
//	    process. Until [File.Sync] returns nil it may be lost by a power failure: each 512-byte sector on
//	    its own, in any order, the file's size separately from its contents.
//	D2  File.Sync makes the contents and the size durable (fdatasync), not the name.
//	D3  [Dir.Sync] makes durable the names created, renamed and removed in that directory, nothing below it.
//	    Without it a power failure may undo any of them, in any order.
//	D4  A Sync that fails says nothing about what is on the disk, and the next Sync may return nil although
//	    the data is gone. Callers must never sync again and believe it.
//	D5  One sector is written atomically: after a power failure it holds the old or the new 512 bytes.
//
// # Implementations
//
//   - [OS], the operating system's file systems: os.go, subdir.go (directories that give up their handles while they are idle), os_unix.go (what all unixes share), os_linux.go, handle_linux.go (files found by one walk of the kernel),
//     os_bsd.go (macOS too), os_darwin.go ([DeviceSyncer]), os_windows.go. Linux is the one it is made for. Elsewhere it builds and keeps to
//     the interface with plainer means: no space is reserved, only the size grows; on Windows names are durable
//     when NTFS says so and an empty directory is replaced in two steps.
//   - sim/disk below package sim: a simulated disk with page cache, pending sectors and pending names.
//
// Both pass the suite in package vfstest. The package knows nothing of time or tasks.
package vfs
