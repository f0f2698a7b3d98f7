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
//	W8  Behind the frames of a segment the disk has nothing but zeros, the trailer, and what one unfinished
//	    write has left. A file that is used again is zeros, durably, before it has the name of a segment, and its old
//	    name is durably gone before a byte of it changes.
//	W9  Preparing a segment fails no append by itself: without a prepared file the next segment grows.
//
// # Files
//
//	00000000000000000001.wal   segment, named by the number of its first record; frames of package record, back to back
//	00000000000000048213.wal   the next one; no frame spans two
//	checkpoint                 u64 big-endian: lowest number that is not done; overwritten in place
//	next-segment.prep          the file of the next segment, being prepared or ready; no record in it counts
//
// A frame is drawn in package record. Every write of a segment is behind its last frame, is followed by a sync before
// the next, and is at most one frame of the largest size long. The checkpoint's 8 bytes are in one
// sector, so they are written whole or not at all; it is created when the log first opens, before anything
// can be done.
//
// A segment that grows is frames and nothing else, so its magic is that of its first frame and its identity the number
// in it. One that was prepared has zeros behind them, and a trailer with a magic, a version and the place where it
// stands, drawn in package record:
//
//	0          frames      zeros       SegmentBytes        SegmentBytes + 16
//	├──────────────────────┼───────────┼───────────────────┤
//	                                     "NWPREP01", limit
//
// It is trimmed to its frames when the log rolls, is closed or is opened; a crash can undo that of a segment that is not
// the last, and can leave the zeros without the trailer. So zeros behind the frames of such a segment mean
// nothing; whether a record is missing is told by the number that the next one begins with.
//
// Files that no longer mean anything are removed by Open: a checkpoint.tmp, a segment that was being replaced
// (*.wal.tmp) and a prepared file, of which nobody knows what is on the disk. Others are left alone.
//
// # Preparing
//
// With Options.Preallocate a third task makes the file of the next segment once the active one is half full, or grows:
// that one is left for the prepared one as soon as it is ready. It writes zeros over all of it and syncs, in steps, then the trailer. Zeros, and not a run of
// allocated blocks, because ext4 keeps a note of which of those were written and has to journal each change of it. When
// compaction frees a segment and no file is there, that one is kept for it instead of being removed.
//
// Old frames could have been left in such a file and told by their lower numbers, which saves writing the zeros. But then a
// sector that a torn write lost shows old bytes, and a damaged frame with good ones behind it could be either: damage to
// the last 16 MiB of acknowledged records would have to be cut away. With zeros the rules for the end of a
// segment are the same for both kinds, and as strict. What they cannot see in either is a last write of which
// every sector reads as zeros.
//
// # Tasks
//
// One task at a time writes segments: the one that has set Log.committing. Appends stage their frames into the open one of two
// buffers, under a lock that is held for the copy only, and park; meanwhile the other buffer is written and synced. Whoever
// did that then moves the durable end, reports it and wakes the writers. That is the sync task, and for a writer that is alone that writer: it
// would only be switched away from and back. The sync task takes what was staged after a moment in which the writers that it woke can
// stage again: see gather. When all of them did the last time, each wakes the next one (env.Relay), so that they follow each other on one
// processor. An append that finds the buffer full waits in line; nobody overtakes it. The checkpoint task syncs the checkpoint and removes
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
//	prepare     zeros → sync → … → trailer → sync
//	            it does not have the name of a segment: the next Open removes it.
//	roll into   rename → directory sync → trim the old one → first write
//	a prepared  renamed: the file has its old name or that of a segment without a frame. Trimmed: the old segment ends with
//	            its frames, or with zeros behind them.
//	checkpoint  write → (up to 250 ms) → sync
//	            written: a killed process finds it, a power failure may bring back an older one. The records
//	            between are done and will be handed out again.
//	compaction  checkpoint synced → remove oldest → directory sync → next
//	            removed: the segment is gone or still there; all of it is below the checkpoint.
//	recycling   checkpoint synced → rename oldest → directory sync → prepare
//	            renamed: as removed. Before the sync nothing in it changes; after a failed one it is never used.
//	close       trim → sync
//	            trimmed: zeros behind the frames or none.
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
// a last segment that nothing was written to gets a new file, since only its directory sync can have failed.
//
// # Files of the package
//
//   - log.go: Log, Open, Append, Close; batch.go: what is staged, and who waits for it
//   - commit.go: write, sync, announce, latch, roll, and the sync task; gather.go: how long a batch waits for writers
//   - prepare.go: segments made ahead; rest.go: what follows the frames of a segment
//   - checkpoint.go: the checkpoint and its task; compact.go: removal of segments
//   - reader.go: Reader; scan.go: frames of a file, one after the other
//   - load.go: what Open finds and repairs; tail.go: judging the end of the last segment
//   - segment.go: names and in-memory index; options.go, events.go, errors.go
package wal
