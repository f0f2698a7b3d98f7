// Package segment is the partition log: an append-only sequence of records in segment files, of which a
// prefix, everything below the high watermark, is stored, synced, verified and visible.
//
// It owns the files %020d.log (and %020d.log.tmp while one is created), %020d.idx and bounds in a partition's directory and
// touches no other file there. It knows nothing of leases, consumers or topics.
//
// # Invariants
//
//	G1  A record is below the high watermark only after its frame was written, synced, read back and
//	    verified, in this order. There is no other mode.
//	G2  The high watermark never decreases while the log is open, and after a restart or a power failure it
//	    is at least what it was. Offsets below it are dense, in commit order, and never name another record.
//	G3  Every frame is synced before the next one is written, so at most the last frame of the log is not
//	    durable. What a power failure tears is therefore the end of the newest file, and damage that intact
//	    frames follow is never its work.
//	G4  A frame is written only into a file whose name is durable. So the newest file may be missing or empty
//	    after a power failure, and loses nothing by it.
//	G5  A sync that failed is never followed by another one that is believed. The log is poisoned: commits
//	    fail until it is closed and opened again, and Open writes again what it is going to believe.
//	G6  A closed log answers reads and commits with ErrClosed and nothing else, and its oldest offset and
//	    high watermark as before.
//	G7  A damaged frame costs its own offsets and no others. Reads say CorruptError for them, and say it only
//	    after the bytes were read twice.
//	G8  Commit times never decrease from one offset to the next.
//	G9  What retention removed is a prefix: the offsets of the log are one range [oldest, high watermark), also after a
//	    crash in the middle of a removal. An offset that went answers FloorError, never damage.
//	G10 What the file bounds says was durable before it was written: a log that reaches less far when it is opened, or has
//	    another frame there, was damaged, and is refused. No crash, and no commit or sync that failed, leaves that.
//
// # Files
//
//	00000000000000000000.log    frames of the offsets [0, 4711)        sealed, immutable
//	00000000000000004711.log    frames of the offsets [4711, 9000)     sealed, immutable
//	00000000000000009000.log    frames from offset 9000 on             active
//	00000000000000000000.idx    where frames begin in [0, 4711)        hint, drawn in index.go
//	bounds                      the log begins at 0 or later and        two cells, drawn in bounds.go
//	                            ended before 9321 or later
//
// The name of a file is the offset of its first record, and a sealed file ends at the offset that names its
// successor. The contents are frames back to back from byte 0, without header or footer; package record
// draws the frame and the record inside it, and says what the checksums cover. A segment is begun before the
// commit that finds the active one at Options.SegmentBytes or more, so a file can exceed that by one commit.
//
// The oldest offset is the name of the oldest file, and not below that in bounds. When retention has removed every record, an
// empty file is left that is named by the next offset.
//
// No file holds the high watermark. It is recomputed when the log is opened, after a sync, from the end of
// the last intact frame; G1 makes sure that this is never below any watermark there was.
//
// # Crash safety
//
// Commit, for each frame of about Options.FrameBytes:
//
//	write      a crash leaves a torn tail, or the whole frame in the page cache or on the disk
//	sync       from here the frame survives
//	read back  compares and verifies; catches a wrong place, a short write and damaged memory, not a lying
//	           disk, because the answer normally comes from the page cache
//	… then once for all frames: write how far this is into bounds, without a sync (a log that has no share of Options.Files does so
//	  each half minute and when it is closed); raise the high watermark (the commit point for readers), tell, return
//
// Recovery after any of them keeps every intact frame: records that were stored but never answered for
// become visible, and their sender may send them again. A commit that fails without a failed sync is cut off
// the file, and that cut synced, before the error returns; its offsets were never visible and are used again.
//
// New segment: create, sync the directory, write. After a crash before the sync the file may be missing or
// empty. Empty, it is kept for the offset in its name, and before its first frame is written a new file is
// renamed over it and the directory synced, because the sync that its creator made may have failed. The same happens
// before retention leaves it as the only segment, since the bounds then say that there is one.
//
// Open: scan the newest file with all checksums; hold its end against bounds; cut what follows the last intact frame, unless it is a
// frame of full length that can only have been whole once: that becomes a gap; write the last frame over itself (it may be in the page cache only, and even look
// clean there after a sync that failed), sync, sync the directory; only then set the high watermark. Every
// step may be interrupted and repeated. Open costs one segment, whatever the log holds. When damage is
// followed by intact frames nothing is cut: the offsets between become a gap. What no crash leaves is refused with a
// DamageError, and nothing is changed: an intact frame in the wrong place, an index of the newest segment, which says that
// there was a later one, and a log that ends before its bounds, begins behind them, or has another frame at their end. Bounds that
// are missing, torn or older, as after a power failure, prove nothing. To accept a loss the file bounds is removed.
//
// Retain: take the oldest segments out of memory and raise the oldest offset; write that into both cells of bounds and sync it, or,
// when that fails, remove the file durably. Then for each segment, oldest first: unlink; sync the directory; only then the next
// one. What comes back after a crash lies below the oldest offset of the bounds, and goes when the log is opened, after these
// were synced once more.
//
// An index file is written when its segment is sealed, or first walked, once the name of the next segment is known to be durable, and never synced. Torn or missing, it costs a walk. Whole,
// and made for other bytes than an intact segment has, it says that one of the two files was exchanged: reads of that
// segment are refused with a DamageError, until the segment is restored or the index is removed.
//
// # Reads
//
// A segment is indexed as it grows, one entry per 32 KiB. The index of a sealed one is read from its file at the first
// read, or else built by a walk over the frame headers; two sealed segments at a time keep theirs in memory. A read decodes the frames between two entries, verifies them, and keeps them in a
// bounded cache, so a sequential reader decodes each frame once. No lock is held over a file call.
//
// # File map
//
//	log.go      Log, Options, Close, segments and their index entries
//	commit.go   queue of callers, write–sync–read back, failure, new segments
//	recover.go  Open
//	scan.go     walk over frames, search for intact ones after damage
//	read.go     Read, open files, lazy indexes, decoding
//	cache.go    decoded blocks
//	bounds.go   how far the log durably goes
//	index.go    index files of sealed segments
//	retain.go   Retain, Peek
//	event.go    what a listener is told
//	errors.go   what can go wrong
package segment
