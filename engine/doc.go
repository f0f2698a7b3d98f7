// Package engine is the queue of one node: topics, partitions, and the life of a message from produce to
// ack. It is the only place where its parts — ingress log, partition logs, lease tables, offset committer —
// meet, and it is usable as an embedded library: see [Open].
//
// # The life of a message
//
//	Produce (produce.go)    checks it, picks the partition, appends it to the ingress log (package wal) and
//	                        returns when the group-commit fsync that covers it has returned. It survives
//	                        everything from here on, and nobody can consume it yet.
//	dispatch (dispatch.go)  reads it back from the ingress log and commits it to its partition log (package
//	                        segment): append, fsync, read back and verify, raise the high watermark. Only
//	                        then may the checkpoint of the ingress log pass it.
//	Consume (consume.go)    reserves the lowest unresolved offset in the partition's lease table (package
//	                        inflight), with a nonce and an expiry, and only then reads the record. A request
//	                        that finds nothing waits in its topic's queue, which one task serves (pump.go).
//	Ack (settle.go)         settles the offset if its handle names a live lease. The frontier advances over
//	                        the contiguous settled run.
//	persist (committer)     the offset committer writes frontier and acked-ahead set to consumer.ahead, to
//	                        the page cache every T and to the disk every D.
//	recover (partition.go)  after a crash the lease table is seeded from those files at the first consume.
//	                        Leases are forgotten: what was leased is delivered again.
//
// # Invariants
//
//	E1  A nil error of Produce comes after an fsync that covers the message (WAL-02, INV-03).
//	E2  The checkpoint never passes a message whose commit is not confirmed (WAL-19).
//	E3  An offset is reserved before it is read, and delivered only while its lease lives (INF-10, CON-19).
//	E4  A reservation ends answered to exactly one request, or given back (INV-18).
//	E5  The state that the committer persists is the live lease table's at the time of the write (COM-37).
//	E6  A log that failed is closed and recovered from disk before it takes another commit (LOG-25).
//
// Files: engine.go (Open, Close), options.go, topic.go, partition.go, produce.go, dispatch.go, consume.go,
// pump.go, settle.go, purge.go, events.go, errors.go.
package engine
