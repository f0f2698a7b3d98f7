package inflight

import "narad/env"

// Outcome tells what a reserve did, and why not when it did not.
type Outcome int

const (
	Reserved    Outcome = iota // an offset was leased
	Empty                      // everything below the high watermark is settled
	InFlightCap                // as many offsets are leased as may be
	AheadCap                   // the acked-ahead set is full, the hole is leased, and free offsets above it are withheld
	AllReserved                // every offset below the high watermark is leased or resolved
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	switch o {
	case Reserved:
		return "reserved"
	case Empty:
		return "empty"
	case InFlightCap:
		return "cap"
	case AheadCap:
		return "ahead_full"
	case AllReserved:
		return "all_reserved"
	}
	return "unknown"
}

// Reserve releases the lapsed leases and leases the lowest free offset below hw, the high watermark (exclusive), with a
// fresh nonce until now plus the visibility timeout. Only then may the caller read the record. The effect tells of
// offsets that the lapsed leases freed for others.
func (s *Shard) Reserve(now env.Instant, hw int64) (Lease, Outcome, Effect) {
	was := s.capped()
	effect := s.purge(now)
	lease, outcome := s.reserve(now, hw)
	if s.returned.count == 0 {
		effect &^= Freed // this caller took what was freed
	}
	return lease, outcome, effect | s.uncapped(was)
}

func (s *Shard) reserve(now env.Instant, hw int64) (Lease, Outcome) {
	if s.leases.count >= s.opts.MaxInFlight {
		return Lease{}, InFlightCap
	}
	hole := s.committed + 1
	if hole >= hw {
		return Lease{}, Empty
	}
	offset := s.lowestFree(hw)
	if offset >= hw {
		return Lease{}, AllReserved
	}
	if offset != hole && s.acked.count >= s.opts.MaxAckedAhead {
		return Lease{}, AheadCap
	}
	if offset == s.next {
		s.next++
	} else {
		s.returned.clear(offset)
	}
	lease := Lease{Offset: offset, Nonce: s.nonce(), Expiry: now.Add(s.opts.Visibility)}
	s.leases.put(lease)
	s.deadlines.push(lease)
	s.deadlines.compact(&s.leases)
	return lease, Reserved
}

// lowestFree returns the lowest free offset, or one at or above hw when there is none below it.
func (s *Shard) lowestFree(hw int64) int64 {
	if s.returned.count > 0 {
		return s.returned.first()
	}
	for s.next < hw && (s.acked.has(s.next) || s.skipped.has(s.next)) {
		s.next++ // restored offsets; each is passed once
	}
	return s.next
}

// nonce draws 63 random bits that are not all zero. That two reservations of one offset ever draw the same has
// probability 2^-63.
func (s *Shard) nonce() int64 {
	if s.nonces == nil {
		s.nonces = env.NewStream(s.opts.Seed)
	}
	for {
		if n := int64(s.nonces.Uint64() >> 1); n > 0 {
			return n
		}
	}
}
