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
//	E7  The directory that a topic's name leads to is served only for the incarnation that it is marked with, and is
//	    never removed under its name: it is set aside first (MOV-09).
//	E8  What is in memory of an incarnation goes after its directory was set aside and before its name has another one;
//	    then the committer has forgotten it, and no lease table that was made from the old directory is there
//	    (COM-38, COM-50, COM-51).
//	E9  A record of the ingress log is stored in the incarnation that it was accepted for, or nowhere. It is discarded
//	    only when the metastore durably does not have that incarnation.
//	E10 When all is at rest, nobody waits for what can be handed out (INV-17). Whatever makes something available wakes
//	    the pump: a commit, a nack, an expiry, a give-back, a freed cap, a closed log, a waiter that joins. Among
//	    those who wait in one queue the order of joining decides (INV-19).
//	E11 Within a life, records of a partition are committed in the order of the ingress log: one that is passed over keeps
//	    back the later ones for the same partition (lane.go).
//
// # The life of a topic
//
//	alive ──AlterTopic──► alive           retention and caps at once, more partitions
//	      ──PurgeTopic──► a new incarnation of the same name and settings, in one step
//	      ──DeleteTopic─► gone
//
// The metastore's record is the commit point of each, and what follows it can be redone (lifecycle.go, directories.go):
//
//	create  directories, synced │ record
//	        before: a directory that no topic has is set aside at the next start
//	alter   directories of new partitions, synced │ record │ in memory: partitions, caps, those who wait look again
//	        before: empty directories, which the next alteration takes
//	purge   topics/t.next-<new>, synced │ record: the name is the new id's │ retire the old one │ topics/t.next-<new> → topics/t
//	        before: topics/t.next-<new> is removed; after: the next start completes it
//	delete  │ record │ retire
//	        after: a directory that no topic has is set aside at the next start
//	retire  fences, name, ingress log, logs closed, topics/t → topics/t.stale-<old>, synced, lease tables dropped and forgotten
//	remove  what was set aside, file by file, in the background; started again after a crash
//
// A request that had found the old incarnation gets to know that it is gone from the closed partition and looks the name up again
// . Lease tables live in seats, keyed by name (seat.go): the old request can reserve in its successor's,
// reads from its own closed log, and gives the reservation back (LOG-19).
//
// A partition that nobody has used for Options.IdleAfter is closed, log and lease table, once its files say all that its memory
// says (janitor.go).
//
// Files: engine.go (Open, Close), options.go, topic.go, lifecycle.go, directories.go, janitor.go, partition.go, seat.go,
// produce.go, produce_batch.go, ingress.go, dispatch.go (commits), intake.go (reading), lane.go (one destination), window.go,
// consume.go, batch.go, replay.go, logs.go, queue.go (who waits), pump.go (who is served), settle.go, purge.go, retention.go,
// events.go, events_topic.go, errors.go.
package engine
