// Package wal is the ingress write-ahead log: it makes records durable by group commit, hands them out in
// order, and forgets them behind a checkpoint. It knows nothing of topics; a record is a run of bytes.
//
// # Invariants
//
//	W1  Append returns nil only after a successful sync that began when all of its records had been written,
//	    in a segment whose name was made durable before.
//	W2  Sequence numbers are dense. Those of one Append are consecutive, and what is durable of it is a prefix.
//	W3  After a failed write or sync of a segment, or a failed sync of the directory that was to make a
//	    segment's name durable, nothing is written and nothing is acknowledged until the log is opened anew.
//	    A segment that could not be created at all fails the appends of that moment only.
//	W4  Nothing that a log counts as durable depends on a sync that followed a failed one: see Open.
//	W5  The checkpoint never goes backwards and never above the durable end. A segment is removed only when
//	    all of it is below a checkpoint that is on the disk.
//	W6  The segments are at any time, and after any crash, a run without a gap from the checkpoint on.
//	W7  A log whose damage could have hit acknowledged records is not opened, and not touched.
//
// # Files
//
//	00000000000000000001.wal   segment, named by the number of its first record; frames of package record, back to back
//	00000000000000048213.wal   the next one; no frame spans two
//	checkpoint                 u64 big-endian: lowest number that is not done; overwritten in place
//
// A frame is drawn in package record. Every write of a segment is at its end, is followed by a sync before
// the next, and is at most one frame of the largest size long. The checkpoint's 8 bytes are in one
// sector, so they are written whole or not at all; it is created when the log first opens, before anything
// can be done.
//
// Files that no longer mean anything are removed by Open: a checkpoint.tmp, a segment that was being replaced
// (*.wal.tmp) and a segment prepared ahead (next-segment.prep). Others are left alone.
//
// # Tasks
//
// The sync task alone writes segments. Appends stage their frames into the open one of two buffers, under a lock
// that is held for the copy only, and park; meanwhile the task writes and syncs the other buffer. It
// then moves the durable end, reports it, wakes the writers and takes what was staged. An append that finds the
// buffer full waits in line; nobody overtakes it. The checkpoint task syncs the checkpoint and removes
// segments behind it. Readers open files of their own and never look beyond the durable end.
//
// # Crash safety
//
// A crash between two steps leaves what the arrow says.
//
//	append      write → sync → announce
//	            written: all, a part or nothing of it is found; nobody was told. Synced: it is found.
//	roll        create → directory sync → first write
//	            created: the segment is there and empty, or not there; the one before it is complete.
//	checkpoint  write → (up to 250 ms) → sync
//	            written: a killed process finds it, a power failure may bring back an older one. The records
//	            between are done and will be handed out again.
//	compaction  checkpoint synced → remove oldest → directory sync → next
//	            removed: the segment is gone or still there; all of it is below the checkpoint.
//	open        look → cut → write again → sync → names → checkpoint → directory sync
//	            every step can be repeated; none loses a record that the first look found.
//
// # Opening
//
// Everything from the checkpoint on is read and checked first. Damage in a segment that is not the last is
// refused, and so are a gap and a checkpoint beyond the end. The end of the last segment may be torn: what
// tells a torn write from damage is explained at judgeTail, where the bytes are judged. Then:
//
// A process that was killed leaves records in the page cache that no sync has covered, so the segment is synced
// before they count. That is not enough. A process whose sync failed leaves pages that look written, that
// the kernel holds for clean and that no later sync will write. Nobody can tell whether that happened. So
// the frames that may be affected, those at the end that one write can hold and that are not below the
// checkpoint, are written again, byte for byte in their place, before the sync; likewise the checkpoint; and
// a last segment without a byte gets a new file, since only its directory sync can have failed.
//
// # Files of the package
//
//   - log.go: Log, Open, Append, Close; batch.go: what is staged, and who waits for it
//   - commit.go: the sync task: write, sync, announce, latch, roll
//   - checkpoint.go: the checkpoint and its task; compact.go: removal of segments
//   - reader.go: Reader; scan.go: frames of a file, one after the other
//   - load.go: what Open finds and repairs; tail.go: judging the end of the last segment
//   - segment.go: names and in-memory index; options.go, events.go, errors.go
package wal
