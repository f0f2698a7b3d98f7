// Package metastore keeps what topics exist: their settings, their schemas and the incarnation that each name belongs to; and what users
// exist, with their grants. [Store] is the seam; [Local] is the implementation for one node, two files in a directory. Package
// metastore/raft has the replicated one, and [Memory] stands for that in simulations. What they share is a [State], the [Change] from one to the next, and a [Replica] that shows
// states and plans changes.
//
// # Invariants
//
//	M1  A change that was answered nil is durable and is what every later open finds.
//	M2  Every open finds a prefix of the changes in the order in which they were made. A change whose answer was an error,
//	    or was lost, is part of it or not, but never in part and never after a later one.
//	M3  What a reader sees is durable: a change is synced before it becomes visible, and an open writes what it found afresh
//	    before it serves any of it.
//	M4  Two topics never have names that differ only in the case of their letters.
//	M5  A topic's name, creation time and visibility timeout never change, and its partitions never become fewer. Its id
//	    changes only as a whole, by a replacement: no state shows the name without an incarnation in between.
//	M6  A failed write or sync shuts the store for changes until it is opened again. Reads go on.
//	M7  The versions of a topic's schema are 1, 2, … and none is ever changed or removed before the topic is. A replacement keeps them.
//	M8  A change of a user's password leaves the grants, and the other way round. A topic's owner is a user that exists: with the
//	    user its topics lose their owner, in one step.
//
// # Files
//
// All numbers are little-endian, all checksums CRC-32C. Both files start with a header of 64 bytes:
//
//	offset  size
//	     0     8  magic, "NARADMSS" (snapshot) or "NARADMSJ" (journal)
//	     8     2  version, 2; 1 is read
//	    10     2  zero
//	    12     4  checksum over bytes [0, 12) and [16, end of the checksummed part)
//	    16    16  identity of the store, random, the same in both files
//	    32     8  sequence: of the last change in the snapshot, or before the first in the journal
//	    40     4  topic count (snapshot; zero in the journal)
//	    44     4  payload length in bytes (snapshot; zero in the journal)
//	    48    16  two cells (journal; zero in the snapshot)
//
// topics.snapshot is such a header and its payload, the JSON object {"topics":[…],"users":[…]}, both in name order; a topic has its
// schemas with it. In version 1 the payload is the array of topics. The checksum covers all of it, and the file ends there.
//
// topics.journal is such a header, whose checksum covers its first 48 bytes and 16 zeros, and then entries, one for a change. A
// cell says that every change up to one is durable in the journal; cell s mod 2 is for the change s, so that a write
// which is not completed leaves the other one. A cell that fails its checksum says nothing.
//
//	offset  size
//	     0     4  number of the change, counted from the journal's first, which is 1; zero: none
//	     4     4  checksum over the store's identity and the change's sequence
//
// An entry:
//
//	offset  size
//	     0     4  payload length n, 1 … 1048576
//	     4     4  checksum over the store's identity, bytes [0, 4) and bytes [8, 16+n)
//	     8     8  sequence, one more than that of the entry before
//	    16     n  payload: a JSON object with "op", and what it is about. About "topic":{…} are create and append-schema,
//	            with the document as "schema", update, replace and delete; about "user":{…} are create-user,
//	            set-password, set-grants and delete-user. Version 1 has no schemas and no users.
//
// Entries up to the snapshot's sequence are in the snapshot already and are passed over.
//
// # Crash safety
//
// Change: append the entry, sync, confirm it in its cell, sync, publish. The commit point is the first sync.
// Stopped before it, the entry may be there, in part or not at all.
//
// Compaction, at every open and before a change that finds the journal long: replace the snapshot, then replace the journal by an
// empty one whose sequence is the snapshot's. Each replacement is atomic and durable before the next step. Stopped between the
// two, the journal holds only entries that the snapshot covers, or the first of them when a power failure took the last.
//
// Creation: write the empty journal, then the empty snapshot. So a journal without a snapshot is a creation that stopped half-way,
// provided it has no entries; a snapshot without a journal is damage.
//
// Opening: an entry that is incomplete or fails its checksum ends the journal if nothing valid follows it and it was not confirmed: it
// is a change that was never answered. Else it is damage, and so is an end before the last confirmed change: the open
// fails with a [*CorruptError] rather than forget changes.
//
// File map: store.go (Store, errors), topic.go, schema.go, user.go, name.go (what may exist), change.go (one step, and when it is
// legal), state.go (immutable states), replica.go (reads, and plans of changes), local.go (Local: changes), memory.go (Memory), records.go (states in pieces), open.go (open,
// compaction), format.go (bytes), inspect.go (for tools).
package metastore
