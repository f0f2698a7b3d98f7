// Package raft is the metastore of one node or several: a [narad/metastore.Store] on hashicorp/raft. It is production code: it
// starts goroutines and lives in real time, so the simulator never runs it.
//
// [Open] takes the data directory and is all that a server calls:
//
//	meta, err := raft.Open(dataDir, raft.Config{NodeID: "n1", Logger: logger})
//	…
//	queue, err := engine.Open(dataDir, engine.Options{Metastore: meta})
//	…
//	queue.Close()
//	meta.Close()
//
// Without peers the node is the only voter, opens no port, and leads by the time Open returns. With peers Open returns when the node
// has caught up with the leader, so that its replica is as new as the data that the node has.
//
// # Reads and changes
//
// Reads come from the replica of this node and wait for nobody. A change is planned and proposed at the leader, one at a time:
//
//	R1  The leader plans a change against a state that holds everything committed before: it passes a barrier once in each term
//	    before its first plan, and answers a refusal only after a majority has confirmed that it still leads.
//	R2  The entry names the number of the state that it was planned against, and is refused wherever it is applied to another. So two
//	    changes that race, even across leaders, never undo one another.
//	R3  A change that returns nil is on the disks of a majority, and durable and visible in this node's replica.
//	R4  An entry that this program does not know, or that the disk refuses for half a minute, stops the store: nothing after it is
//	    applied, Raft is left, changes answer metastore.ErrFailed, and Config.OnStop is called. The entry is applied after a restart.
//	R5  The index of an entry is stored in one transaction with its effects. What is in fsm.db is applied, and what is applied is there.
//
// A follower answers a change with a [*NoLeaderError], which says who leads, as far as it knows.
//
// # Files
//
//	raft/raft.db     Raft's log, term and vote (raft-boltdb, synced)
//	raft/fsm.db      the replica (bbolt): buckets topics, schemas and users as package metastore defines their records, and meta
//	raft/snapshots/  the last two snapshots, which are copies of fsm.db
//
// The bucket meta has the keys format (1), index and term (of the last entry applied) and sequence (the number of the state), each 8
// bytes, big-endian.
//
// The directory is made under the name raft.new and renamed when it is complete. If the data directory has the two files of
// [narad/metastore.Local] by then, what they hold becomes the first snapshot; then their directory is renamed from metastore to
// metastore.imported, so that nobody takes them for new. To go back to them loses all changes since.
//
// Open refuses files that do not belong together: a replica without Raft's files, or one that is newer than they are.
//
// A restore writes fsm.db.restore, syncs and reads it, and renames it over fsm.db.
//
// File map: config.go, store.go (Open, changes, Close), boot.go (first start, import, what fits together), fsm.go (applying),
// disk.go (fsm.db), snapshot.go, status.go, transport.go, log.go.
package raft
