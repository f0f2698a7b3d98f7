package inflight

import "narad/env"

// staleMin is the number of stale deadlines that are always tolerated.
const staleMin = 64

// Expire releases the leases that have lapsed at now and returns how many.
func (s *Shard) Expire(now env.Instant) (int, Effect) {
	was, before := s.capped(), s.leases.count
	effect := s.purge(now)
	return before - s.leases.count, effect | s.uncapped(was)
}

// NextExpiry returns the earliest instant at which a lease lapses, and false when there is no lease.
func (s *Shard) NextExpiry() (env.Instant, bool) {
	for len(s.deadlines.entries) > 0 {
		if e := s.deadlines.entries[0]; s.current(e) {
			return e.Expiry, true
		}
		s.deadlines.pop()
	}
	return 0, false
}

// purge releases the leases with now >= expiry.
func (s *Shard) purge(now env.Instant) (effect Effect) {
	for len(s.deadlines.entries) > 0 && s.deadlines.entries[0].Expiry <= now {
		if e := s.deadlines.pop(); s.current(e) {
			s.free(e.Offset)
			effect = Freed
		}
	}
	return effect
}

// current reports whether a deadline is that of a lease as it stands now. One that an extend superseded differs in its
// expiry, one of an earlier lease of the offset in its nonce; neither may end the lease.
func (s *Shard) current(e Lease) bool {
	l := s.leases.get(e.Offset)
	return l != nil && l.Nonce == e.Nonce && l.Expiry == e.Expiry
}

// heap orders deadlines by expiry, the earliest first. Entries of leases that ended or were extended stay until they are
// popped or compacted away.
type heap struct {
	entries []Lease
}

func (h *heap) push(e Lease) {
	h.entries = append(h.entries, e)
	i := len(h.entries) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h.entries[parent].Expiry <= e.Expiry {
			break
		}
		h.entries[i] = h.entries[parent]
		i = parent
	}
	h.entries[i] = e
}

func (h *heap) pop() Lease {
	top := h.entries[0]
	last := len(h.entries) - 1
	e := h.entries[last]
	h.entries = h.entries[:last]
	if last > 0 {
		h.siftDown(0, e)
	}
	return top
}

// siftDown puts e at i or below it.
func (h *heap) siftDown(i int, e Lease) {
	for {
		child := 2*i + 1
		if child >= len(h.entries) {
			break
		}
		if child+1 < len(h.entries) && h.entries[child+1].Expiry < h.entries[child].Expiry {
			child++
		}
		if e.Expiry <= h.entries[child].Expiry {
			break
		}
		h.entries[i] = h.entries[child]
		i = child
	}
	h.entries[i] = e
}

// compact rebuilds the heap when stale entries outnumber the slots of the lease table. The slots bound the cost of a
// rebuild, so it is paid for by the pushes since the last one.
func (h *heap) compact(leases *table) {
	if len(h.entries)-leases.count > max(staleMin, len(leases.slots)) {
		h.rebuild(leases)
	}
}

// rebuild leaves exactly the deadlines of the leases.
func (h *heap) rebuild(leases *table) {
	h.entries = leases.appendTo(h.entries[:0])
	for i := len(h.entries)/2 - 1; i >= 0; i-- {
		h.siftDown(i, h.entries[i])
	}
}

func (h *heap) trim() {
	if len(h.entries) == 0 {
		h.entries = nil
		return
	}
	h.entries = append(make([]Lease, 0, len(h.entries)), h.entries...)
}
