// Package committer persists what consumers have settled: per partition a frontier, the last offset up to
// which everything is settled, and the offsets settled above it. It knows nothing of leases. One task per node
// does all writes; it takes the state from the live shard through a callback, so a shard that is gone writes
// nothing.
//
// # Cadences
//
// Every tick T (100 ms or what is set, or the interval when that is shorter) each partition that changed gets a fresh record
// in its consumer.ahead, in the page cache: a crash of the process keeps it. Every durability interval D (1 s)
// each partition written since is written out once, one partition at a time, on the tick that its hash picks
// or when its oldest write waited D: a power failure keeps it then. consumer.offset, for operators and older
// releases, is brought level at most every 30 s and by Close. The first level comes 30 s after the prime. While a partition
// is in use its consumer.offset is left to the page cache; once it has been quiet for 30 s after a level it is synced, and Close syncs all.
//
// # Invariants
//
//	C1  A record holds settled offsets only, all from one snapshot of the live shard (COM-18, COM-63).
//	C2  The anchor slot holds the newest record known durable and is not written while it is the anchor;
//	    ticks write the other slot, the window. The roles flip exactly when a sync that began after the last
//	    window write succeeded (COM-13 to COM-16).
//	C3  No window is written before the partition's prime made the newest record and the file's name durable
//	    (COM-20 to COM-25).
//	C4  Bytes go only into files opened inside a directory that the prime pinned and that the path named
//	    then; no directory is ever made (COM-40 to COM-45).
//	C5  After Forget returned, no snapshot taken before it is written (COM-39).
//	C6  A descriptor is evicted only when everything written through it is durable (COM-34).
//	C7  What failed stays dirty and fails nobody else (COM-62).
//
// # consumer.ahead
//
// Two slots of 4096 bytes, slot i at i*4096. A slot is zeros, or one record, little-endian:
//
//	offset size
//	     0    4 magic "NAAH"
//	     4    1 version, 2
//	     5    1 encoding of the payload: 1 bitmap, 2 runs
//	     6    2 zero
//	     8    8 identity of partition and incarnation, given by the caller
//	    16    8 sequence, from 1; the valid slot with the higher one wins
//	    24    8 frontier, the last offset up to which all are settled; -1: none
//	    32    4 count of offsets above the frontier in the payload, at most 1<<20
//	    36    4 length of the payload in bytes, at most 4052
//	    40    4 CRC-32C over bytes 0 to 39 and the payload
//	    44      payload
//
// Only the record is written, padded with zeros to whole sectors; what an older, longer record left behind it
// means nothing. Bitmap: bit i, from the least significant of the first byte, is the offset frontier+1+i; the
// last byte is not zero. Runs: pairs of uvarints, how many offsets to skip (from frontier+1, later from the
// one after the last run) and how many are settled. The shorter encoding is taken; when neither holds all
// offsets, the one that holds more of the lowest (COM-36). A bitmap spans 32,416 offsets, so the default caps
// of 1024 + 1024 always fit. All constants are frozen; a change is a new version.
//
// A move's copy may hold slot 0 only; a short file reads as if its missing part were zeros.
//
// # consumer.offset
//
// The frontier as 8 bytes, big-endian, written in place by one write within one sector. Every other size,
// and a number below -1, counts as absent. A missing file or one of a wrong size is replaced through
// consumer.offset.tmp, since a size that becomes durable before its contents would read as frontier 0.
// Every reader of a persisted frontier takes the larger of the two files: use [Recover].
//
// # Crash safety
//
//   - Tick: after a power failure the window is torn or whole; a torn one fails its checksum and the anchor
//     counts. The death of the process cannot tear it: a slot is one page of the cache.
//   - Device: where an ordinary sync leaves bytes in the drive's own cache (macOS, [vfs.DeviceSyncer]), "sync" in
//     what follows is both steps: the files of a tick are synced one by one and each device flushed once. Roles flip,
//     and a prime counts, only after that flush; a failed one fails what is on that device, and nothing else.
//   - Writeout: the sync is the commit point. Before it both records are possible, each settled. After a
//     failed one the anchor stands and the next tick writes the window again in full: a sync after a failed
//     one proves nothing about the pages that were dirty before (D4).
//   - Prime: the newest record may be only in the page cache of a process that died, while the slot that the
//     first window write targets is the durable one. The newest record's bytes are written again, unchanged,
//     and file and directory are synced, before any window write. Rewriting changes no byte on a disk that has them (D5), and
//     makes the sync real where a failed sync of the dead process left lost pages clean. After a failed sync
//     of a prime the file is rebuilt under a new name and renamed over the old one.
//   - Touch: after an unclean start the same prime runs within an interval though nobody acks; where there is
//     no shard nothing is held afterwards. Forget queues one by itself for what was not durable yet.
//   - Level: after the writeout, so consumer.offset never leads what is settled. A power loss may bring back an older one,
//     and takes nothing with it: consumer.ahead says more.
//   - Clamping: when a recovered frontier is above the log ([Report].Clamped), [Reseed] must make the files
//     hold the clamped state before new records get those offsets.
//
// # Directories and descriptors
//
// A prime pins the partition's directory, opens consumer.ahead in it, confirms that the path still leads to
// the pinned directory, and then keeps the identities of both and the file's descriptor, not the directory's:
// one descriptor per held partition, at most Options.MaxOpen, plus two for the operation under way. Levelling
// pins anew. Writeouts check by path that directory and file are still those of the prime; window writes
// through a held descriptor do so only after an error, as they can reach nothing but the primed file. A path
// that is gone or leads elsewhere strands the partition: nothing is written until its Forget. Every other
// error is reported, and tried again at the next tick.
//
// A directory that is gone at the prime strands too, since waiting for the path to come back could put the
// acks of one incarnation into the next one's directory. When State names the directory its shard was seeded
// from, a prime refuses every other one.
//
// # Files
//
// slot.go (bytes of a slot), files.go (reading both files), recover.go (Recover, Reseed); roles.go, part.go and
// victims.go (the core without I/O: which slot, who is due, who is evicted), committer.go (API, task, tick, Forget and
// Close), prime.go, window.go, flush.go (devices with a cache of their own), level.go, identity.go (what goes by path), options.go, event.go.
package committer
