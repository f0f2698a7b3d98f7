// Package inflight is the lease table of one partition: which offsets are out with a consumer, until when, and
// which are settled. It is a pure core. It does no I/O, starts no task, holds no lock and reads no clock; the
// caller passes the instant in and guards a [Shard] with a mutex of its own.
//
// # State
//
//	committed          next                              high watermark
//	    |                |                                     |
//	----+--+--+--+--+--+-+-------------------------------------+
//	    |L |A |F |S |L | |  never handed out (may hold restored A)
//
// An offset above the frontier, committed, is in exactly one state: leased (L), acked ahead of a gap (A),
// skipped as corrupt (S), or free. A free offset below next was handed out before and came back (F). The
// lowest free offset below the high watermark is the one handed out next. committed is inclusive; -1 means that
// nothing is settled yet.
//
// # Invariants
//
//	I1  Everything at or below committed is settled. committed never moves back and never passes an offset that
//	    is neither acked nor skipped nor below the retention floor.
//	I2  Leases, acked-ahead offsets, skips and returned offsets lie above committed; the four sets are disjoint.
//	    committed+1 is never acked ahead or skipped: the frontier would have moved over it.
//	I3  A lease is live while now < expiry. Calls that take now release the lapsed leases before they look at
//	    anything, so an operation at or after the expiry finds no lease, whether or not anybody polled.
//	I4  Ack, extend, nack, give-back and skip act only on the live lease that carries the very nonce given.
//	I5  Each live lease has at least one entry with its nonce and its expiry in the deadline heap. Any other entry is
//	    stale and releases nothing. Stale entries are at most as many as the lease table has slots (or 64).
//	I6  A reserve needs fewer leases than MaxInFlight. When MaxAckedAhead offsets are acked ahead it hands out
//	    committed+1 or nothing. No ack is ever refused for a cap, so acked-ahead stays below MaxInFlight+MaxAckedAhead,
//	    and no offset handed out is above committed + MaxInFlight + MaxAckedAhead + skips.
//	I7  Nonces come from a random stream that the caller seeds afresh for every shard; they are positive.
//
// # Cost
//
// Reserve, ack, nack and extend are O(1) amortised apart from the heap's logarithm, and allocate nothing once the
// tables have grown to the traffic. Memory follows what is in flight, never the backlog: 24 bytes a lease slot,
// 24 bytes a heap entry, three bits an offset of the window. A shard that was never touched holds no table.
//
// # Crash safety
//
// Nothing here is durable. [Shard.Snapshot] is what the committer persists, the frontier and the acked-ahead set;
// [New] takes it back. Leases, nonces and corrupt skips above the frontier are forgotten by a crash, and the messages
// are delivered again.
//
// # Files
//
// shard.go (Shard, limits, snapshot), reserve.go, settle.go (ack, extend, nack, give-back, skip, jump), expiry.go
// (deadline heap), table.go (leases by offset), bits.go (sets of offsets), handle.go (receipt handles).
package inflight
