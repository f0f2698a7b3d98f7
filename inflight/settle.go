package inflight

import "narad/env"

// Ack settles an offset if it has a live lease with this nonce. Otherwise it answers false, which is 410 to the
// client, and settles nothing. It is never refused for a cap.
func (s *Shard) Ack(now env.Instant, offset, nonce int64) (bool, Effect) {
	was := s.capped()
	effect := s.purge(now)
	if !s.held(offset, nonce) {
		return false, effect | s.uncapped(was)
	}
	s.leases.remove(offset)
	if offset == s.committed+1 {
		s.committed = offset
		s.closeGap()
	} else {
		s.acked.set(offset)
	}
	s.version++
	return true, effect | Advanced | s.uncapped(was)
}

// Extend re-arms a live lease with this nonce to one visibility timeout from now. The nonce stays. It answers false, 410
// to the client, when there is none.
func (s *Shard) Extend(now env.Instant, offset, nonce int64) (env.Instant, bool, Effect) {
	was := s.capped()
	effect := s.purge(now)
	if !s.held(offset, nonce) {
		return 0, false, effect | s.uncapped(was)
	}
	l := s.leases.get(offset)
	expiry := now.Add(s.opts.Visibility)
	if expiry != l.Expiry { // else its deadline is in the heap already
		l.Expiry = expiry
		s.deadlines.push(*l)
		s.deadlines.compact(&s.leases)
	}
	return expiry, true, effect | s.uncapped(was)
}

// Nack ends a live lease with this nonce at once and makes the offset free. It answers false, 410 to the client, when
// there is none.
func (s *Shard) Nack(now env.Instant, offset, nonce int64) (bool, Effect) {
	was := s.capped()
	effect := s.purge(now)
	if !s.held(offset, nonce) {
		return false, effect | s.uncapped(was)
	}
	s.free(offset)
	return true, effect | Freed | s.uncapped(was)
}

// Release gives back a reservation that reached nobody: its request was cancelled, its read failed for a passing reason, or
// its log was closed. The frontier and the skips stay as they are. It answers false when the lease is gone.
func (s *Shard) Release(offset, nonce int64) (bool, Effect) {
	if !s.held(offset, nonce) {
		return false, 0
	}
	was := s.capped()
	s.free(offset)
	return true, Freed | s.uncapped(was)
}

// SkipCorrupt resolves a leased offset whose record is permanently unreadable, so that the frontier can pass it. It answers
// false when the lease is gone; the caller then reserves again.
func (s *Shard) SkipCorrupt(offset, nonce int64) (bool, Effect) {
	if !s.held(offset, nonce) {
		return false, 0
	}
	was := s.capped()
	s.leases.remove(offset)
	s.skipped.set(offset)
	var effect Effect
	if s.closeGap() {
		s.version++
		effect = Advanced
	}
	return true, effect | s.uncapped(was)
}

// JumpTo moves the frontier to oldest-1 in one step, because retention removed everything below oldest, so that oldest
// itself is the next offset handed out. Leases and resolved offsets below oldest are dropped. It answers false when
// the frontier is there already: another consume won the race, and the caller reserves again.
func (s *Shard) JumpTo(oldest int64) (bool, Effect) {
	if oldest-1 <= s.committed {
		return false, 0
	}
	was := s.capped()
	s.leases.removeBelow(oldest)
	s.committed = oldest - 1
	s.rebase()
	s.closeGap()
	s.version++
	return true, Advanced | s.uncapped(was)
}

// held reports whether the offset has a lease with this nonce. Lapsed leases were released by the caller.
func (s *Shard) held(offset, nonce int64) bool {
	l := s.leases.get(offset)
	return l != nil && l.Nonce == nonce
}

// free ends a lease without settling its offset.
func (s *Shard) free(offset int64) {
	s.leases.remove(offset)
	s.returned.set(offset)
}
