package inflight

import (
	"time"

	"narad/env"
)

// Defaults of [Options].
const (
	DefaultVisibility    = 30 * time.Second
	DefaultMaxInFlight   = 1024
	DefaultMaxAckedAhead = 1024
)

// restoreSpanMax bounds how far above the frontier a restored acked-ahead offset may lie, and with it the bitmap
// that a hostile or confused state file can make a shard allocate (8 MiB). Offsets beyond are delivered again.
const restoreSpanMax = 1 << 26

// Options are the limits of one partition's shard. Zero and negative limits mean the default.
type Options struct {
	Visibility    time.Duration // how long a lease lasts; default 30 s
	MaxInFlight   int           // leases at most; default 1024
	MaxAckedAhead int           // acked-ahead offsets at which only the frontier hole is handed out; default 1024
	// Seed starts the nonce stream. It must be fresh for every shard: a repeated seed repeats the nonces, and handles
	// given out before a crash would settle leases taken after it.
	Seed [32]byte
}

func (o Options) withDefaults() Options {
	if o.Visibility <= 0 {
		o.Visibility = DefaultVisibility
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.MaxAckedAhead <= 0 {
		o.MaxAckedAhead = DefaultMaxAckedAhead
	}
	return o
}

// State is the part of a shard that outlives it.
type State struct {
	Committed int64   // the frontier, inclusive; -1: nothing is settled
	Ahead     []int64 // offsets above Committed+1 that were acked, ascending
}

// Effect tells what a call changed, so that the caller knows whom to wake and what to persist.
type Effect uint8

const (
	// Freed: an offset that was leased can be reserved again, by expiry, nack or give-back.
	Freed Effect = 1 << iota
	// Uncapped: a cap withheld offsets before the call and withholds none now.
	Uncapped
	// Advanced: the frontier or the acked-ahead set changed, so [Shard.Version] did and the partition is dirty.
	Advanced
)

// Wakes reports whether a consumer that found nothing before the call may find something now.
func (e Effect) Wakes() bool { return e&(Freed|Uncapped) != 0 }

// Dirties reports whether there is something new to persist.
func (e Effect) Dirties() bool { return e&Advanced != 0 }

// String names the bits, for failure reports.
func (e Effect) String() string {
	s := ""
	for i, name := range []string{"freed", "uncapped", "advanced"} {
		if e&(1<<i) != 0 {
			if s != "" {
				s += "+"
			}
			s += name
		}
	}
	if s == "" {
		return "none"
	}
	return s
}

// Lease is a claim on one offset. It is live while now < Expiry.
type Lease struct {
	Offset int64
	Nonce  int64 // > 0
	Expiry env.Instant
}

// Shard is the lease table of one partition of one owner incarnation. It is not safe for concurrent use: the caller
// holds its mutex around every call, and holds it across nothing that can block.
type Shard struct {
	opts    Options
	version uint64

	committed int64 // the frontier, inclusive
	next      int64 // the lowest offset never handed out by this shard; > committed

	leases    table // live leases and lapsed ones not yet released
	deadlines heap  // one valid entry for each lease, and stale ones
	acked     bits  // acked above the frontier
	skipped   bits  // permanently corrupt, above the frontier
	returned  bits  // free again below next

	nonces *env.Stream // nil until the first reserve
}

// New returns a shard without leases that goes on from s. Restored offsets at or below the frontier are dropped,
// and those that continue it without a gap move it up.
func New(o Options, s State) *Shard {
	sh := &Shard{opts: o.withDefaults(), committed: max(s.Committed, -1)}
	sh.rebase()
	for _, offset := range s.Ahead {
		if offset > sh.committed && offset-sh.committed <= restoreSpanMax {
			sh.acked.set(offset)
		}
	}
	sh.closeGap()
	return sh
}

// SetLimits replaces the limits; o.Seed is ignored. Leases already granted keep their expiry, and an extend gives them
// the new visibility.
func (s *Shard) SetLimits(o Options) Effect {
	was := s.capped()
	o.Seed = s.opts.Seed
	s.opts = o.withDefaults()
	return s.uncapped(was)
}

// Snapshot returns what must be persisted: the frontier and the acked-ahead offsets, ascending, in dst's storage.
// Corrupt skips above the frontier are not part of it; the frontier may have passed others.
func (s *Shard) Snapshot(dst []int64) State {
	return State{Committed: s.committed, Ahead: s.acked.appendTo(dst[:0])}
}

// Version changes exactly when what Snapshot returns changes.
func (s *Shard) Version() uint64 { return s.version }

// Committed returns the frontier: everything at or below it is settled.
func (s *Shard) Committed() int64 { return s.committed }

// Leases returns the number of leases, including lapsed ones that no call has released yet.
func (s *Shard) Leases() int { return s.leases.count }

// AckedAhead returns the number of acked offsets above the frontier.
func (s *Shard) AckedAhead() int { return s.acked.count }

// Skipped returns the number of corrupt offsets above the frontier.
func (s *Shard) Skipped() int { return s.skipped.count }

// Lookup returns the lease of an offset as it stands in the table, live or lapsed.
func (s *Shard) Lookup(offset int64) (Lease, bool) {
	l := s.leases.get(offset)
	if l == nil {
		return Lease{}, false
	}
	return *l, true
}

// Available estimates how many records below hw could be reserved now, in a log whose oldest retained offset is
// oldest: those between the frontier (or the retention floor) and hw that are neither leased nor resolved, and no more
// than the caps let out. It is 0 while a cap withholds everything.
func (s *Shard) Available(hw, oldest int64) int64 {
	if s.capped() {
		return 0
	}
	from := max(s.committed+1, oldest)
	taken := s.acked.countFrom(from, hw) + s.skipped.countFrom(from, hw)
	if from == s.committed+1 {
		taken += int64(s.leases.count)
	} else {
		taken += s.leases.countFrom(from)
	}
	room := int64(s.opts.MaxInFlight - s.leases.count)
	if s.acked.count >= s.opts.MaxAckedAhead {
		room = 1 // the hole, which is free: the shard is not capped
	}
	return max(0, min(hw-from-taken, room))
}

// Trim gives back the memory that a past burst left behind. It costs as much as the tables are large.
func (s *Shard) Trim() {
	s.leases.trim()
	s.deadlines.rebuild(&s.leases)
	s.deadlines.trim()
	s.acked.trim()
	s.skipped.trim()
	s.returned.trim()
}

// capped reports whether a cap withholds every offset: the lease table is full, or so many offsets are acked ahead that
// only the hole may go out and the hole is out already.
func (s *Shard) capped() bool {
	if s.leases.count >= s.opts.MaxInFlight {
		return true
	}
	return s.acked.count >= s.opts.MaxAckedAhead && s.leases.get(s.committed+1) != nil
}

func (s *Shard) uncapped(was bool) Effect {
	if was && !s.capped() {
		return Uncapped
	}
	return 0
}

// closeGap moves the frontier over the settled run above it and reports whether it moved.
func (s *Shard) closeGap() bool {
	from := s.committed
	for s.acked.clear(s.committed+1) || s.skipped.clear(s.committed+1) {
		s.committed++
	}
	s.rebase()
	return s.committed != from
}

// rebase makes everything that refers to the frontier follow it.
func (s *Shard) rebase() {
	base := s.committed + 1
	s.next = max(s.next, base)
	s.acked.rebase(base)
	s.skipped.rebase(base)
	s.returned.rebase(base)
}
