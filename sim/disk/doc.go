// Package disk is the disk of one simulated machine, as a plain value: what a machine's processes see of it
// (the page cache), what is on it (the durable image), and everything that a power loss may leave in between.
// It is deterministic and knows no time: how long an operation takes, which task runs meanwhile and when a
// fault strikes is the business of package sim, which wraps it.
//
// # The model
//
//	            WriteAt, Truncate, Create, Rename, Remove …
//	                              │ at once
//	                              ▼
//	page cache    ┌──────────────────────────────────────────────┐   survives ProcessCrash
//	(visible)     │ names    sizes    sectors of 512 bytes       │   ◄── ReadAt, Lookup, List
//	              └──────────────────────────────────────────────┘
//	unsynced      │ operations on names, in order,               │
//	              │   each resting on earlier ones               │   Sync      sectors and size of a file
//	              │ sizes of a file, in order                    │   SyncDir   names in a directory
//	              │ contents of a sector, in order               │   Background  whatever it likes
//	              ┌──────────────────────────────────────────────┐
//	disk          │ names    sizes    sectors                    │   ◄── DurableFile, DurableHash
//	(durable)     └──────────────────────────────────────────────┘
//
// A power loss keeps the durable image and an admissible part of the unsynced. [Disk.PowerLoss] draws one such
// outcome from a [Chooser], [Disk.Crashes] lists the distinct images of all of them. Both are pure: equal
// operations and equal choices give equal disks, whatever else the process does.
//
// What is admissible ([Adversarial] unless said otherwise):
//
//   - Sectors (D1, D5). Each sector holds one of the contents it had since it was last durable: the durable
//     one or that after any later write, independently of all others. So a write of several sectors tears;
//     a sector never does.
//   - Sizes (D1). Each file has one of the sizes it had since, independently of its sectors. A size without
//     its data shows zeros; data without its size shows nothing.
//   - Names (D3). Any subset of the operations survives in which each finds what it rests on: the operation
//     before it on the same name in the same directory; for the removal of a directory, all operations on
//     names in there; for a rename into a directory, the making of that directory. So a name goes through its
//     values in order, names are independent of each other, and a rename is atomic: what was renamed has its
//     old name or its new one, never both or none.
//   - A file whose removal is undone has its durable contents, or what else is admissible for it.
//   - SyncDir makes the operations on names in that directory durable, with what they rest on. A rename
//     between two directories needs the sync of both; one alone leaves it undoable. Neither makes the name of
//     the directory itself durable: if that is lost, all below it is.
//
// [Ordered] is like ext4 with data=ordered and delayed allocation:
//
//   - One journal holds the operations on names and the sizes set by Truncate and Preallocate; a prefix of it
//     survives. Every Sync and SyncDir commits it all.
//   - A size that a write brought about enters the journal when its data is on the disk: it may be lost while
//     later names survive (the empty file after a rename without a sync), and never survives without the data.
//   - A cut that survives takes the data with it: later growth shows zeros. While it has not, nothing written
//     later into the freed pages can show.
//   - Overwritten sectors are not ordered at all.
//
// The tables in testdata/crashes.txt give the exact sets for some ninety small programs.
//
// # Faults
//
// They happen when the caller says so, and only then: [Disk.WriteShort], [Disk.SyncFails] with [Disk.Evict],
// [Disk.SyncDirFails], [Disk.FlipBit], [Disk.LoseWrite], [Disk.MisdirectWrite], [Disk.SetCapacity], and [Loss.TornGarbage], which
// alone breaks rule D5. After a failed sync the pages are clean though the disk has the old bytes, as on Linux
// (rule D4): a second sync succeeds and writes nothing.
//
// # Not modelled
//
//   - Hard links, symbolic links, permissions, extended attributes, sparse-file holes as such.
//   - Modification times are never lost.
//   - Stale bytes beyond the end of a file, or of other files in new blocks: both are zeros.
//   - ext4's early allocation on rename over a file; fdatasync that commits no journal because nothing about
//     the file is in it (here every Sync commits: on Ordered more is durable than on a real ext4, on
//     Adversarial never).
//   - Space of directories and of names; a removed file frees its space at once.
//   - A disk write cache that a sync does not reach, except as LoseWrite.
//
// To bound memory, some of the unsynced is settled early: beyond 256 operations on names, and 12 sizes of a
// file, the oldest become durable; of more than 6 contents of a sector the middle ones are forgotten. That only
// takes outcomes away.
//
// # Representation
//
// Contents are tables of leaves (32 KiB) of pointers to sectors. A sector never changes once it is in a file,
// so a snapshot is a pointer. Inodes and leaves belong to one disk, their owner, or are shared: a clone or a
// crash image copies only what it changes, about a microsecond.
//
// Files: disk.go (Disk, inodes, handles), content.go (bytes), file.go (reads, writes, sizes, sync), names.go
// (directories), pending.go (unsynced names), choice.go (what is admissible, drawing), crash.go (crashes,
// images, writeback), enumerate.go (all images), faults.go, hash.go, dump.go, fs.go (vfs.FS with hooks).
package disk
