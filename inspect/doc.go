// Package inspect reads the files of a data directory without a broker, says what they hold, and locates
// damage to the byte. It is what `narad inspect` prints.
//
// # Invariants
//
//	N1  Nothing is ever changed: every file and directory is reached through [vfs.ReadOnly], which refuses
//	    whatever would. The lock of the data directory is taken, never made.
//	N2  Any bytes are fine as input: they end in a report, not in a panic, and take no more memory than a
//	    few windows, one frame (16 MiB) and the bytes after the last good frame of an ingress log (32 MiB).
//	    Searches for frames behind damage have a budget, so made-up contents cannot make them endless.
//	N3  A verdict is the broker's: what it would cut, refuse or skip at the next start is said in these words.
//	    The codecs are those of record, wal, committer and metastore.
//	N4  The report is in the order of the names, and equal for equal files.
//
// # How deep
//
// A file that is named itself, and everything with Options.Verify, is read to the last byte: checksums,
// bodies, every record. A directory without Verify is walked by the headers of frames; where these do not
// continue each other the file is read in full after all.
//
// With Verify the directory must not be in use: the lock of the data directory is held meanwhile, and
// [ErrInUse] is the answer when a broker holds it. The files of a data directory are then also held against
// each other: segments form a chain, the checkpoint is within the log, frontiers are within their partition's
// log, directories belong to the incarnations that the metastore names, and nothing else lies about.
//
// # Severities
//
//	damage   bytes are not what was written, or files contradict each other
//	unread   the operating system did not answer, so nothing is known
//	warning  unusual, but nothing is lost; look at it
//	note     normal, and worth knowing: what a crash leaves, what is left over
//
// An end of a file that looks like an unfinished write is a note, since a crash leaves exactly that. After a
// graceful stop (the mark "clean" is there) nothing can be unfinished, so then it is damage.
//
// # Files
//
//   - inspect.go: Run, options, what kind a path is, the lock
//   - report.go: the report, which is the JSON that `narad inspect --json` prints
//   - walk.go: listing, finding, what all walks share
//   - source.go: windows over a file, progress
//   - wal.go, walfile.go: the ingress log and one segment of it
//   - log.go: a segment of a partition
//   - partition.go, consumer.go: a partition and its consumer state
//   - topics.go, meta.go, raft.go: topics, incarnations, metastore
//   - text.go, words.go: the report for people
package inspect
