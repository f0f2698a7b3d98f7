package inflight

import mathbits "math/bits"

// table holds leases by offset: open addressing, linear probing, at most half full. Removal moves later entries of the
// probe run back, so there are no tombstones and no rehash in steady state.
type table struct {
	slots []Lease // a power of two of them, or none; a zero nonce marks a free one
	count int
}

const tableSlotsMin = 8

// home is where the probe for an offset begins. Multiplying spreads runs of offsets, which are the rule.
func (t *table) home(offset int64) int {
	return int(uint64(offset) * 0x9e3779b97f4a7c15 >> (64 - uint(mathbits.TrailingZeros(uint(len(t.slots))))))
}

// get returns the lease of an offset, or nil. The pointer is good until the next put or remove.
func (t *table) get(offset int64) *Lease {
	if t.count == 0 {
		return nil
	}
	for i := t.home(offset); ; i = (i + 1) & (len(t.slots) - 1) {
		switch l := &t.slots[i]; {
		case l.Nonce == 0:
			return nil
		case l.Offset == offset:
			return l
		}
	}
}

// put adds a lease of an offset that has none.
func (t *table) put(l Lease) {
	if 2*(t.count+1) > len(t.slots) {
		t.resize(max(tableSlotsMin, 2*len(t.slots)))
	}
	i := t.home(l.Offset)
	for t.slots[i].Nonce != 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = l
	t.count++
}

// remove deletes the lease of an offset, which has one.
func (t *table) remove(offset int64) {
	mask := len(t.slots) - 1
	hole := t.home(offset)
	for t.slots[hole].Offset != offset || t.slots[hole].Nonce == 0 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; t.slots[i].Nonce != 0; i = (i + 1) & mask {
		// The entry at i may fill the hole unless its probe begins after the hole.
		if home := t.home(t.slots[i].Offset); (i-home)&mask >= (i-hole)&mask {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = Lease{}
	t.count--
}

// removeBelow deletes the leases of all offsets below bound.
func (t *table) removeBelow(bound int64) {
	for i := range t.slots {
		// A removal may move a later entry here, so look again.
		for t.slots[i].Nonce != 0 && t.slots[i].Offset < bound {
			t.remove(t.slots[i].Offset)
		}
	}
}

// countFrom counts the leases of offsets at or above from.
func (t *table) countFrom(from int64) (n int64) {
	for i := range t.slots {
		if t.slots[i].Nonce != 0 && t.slots[i].Offset >= from {
			n++
		}
	}
	return n
}

// appendTo appends all leases in the order of their slots.
func (t *table) appendTo(dst []Lease) []Lease {
	for _, l := range t.slots {
		if l.Nonce != 0 {
			dst = append(dst, l)
		}
	}
	return dst
}

func (t *table) resize(slots int) {
	old := t.slots
	t.slots, t.count = make([]Lease, slots), 0
	for _, l := range old {
		if l.Nonce != 0 {
			t.put(l)
		}
	}
}

// trim makes the table as small as its leases allow.
func (t *table) trim() {
	if t.count == 0 {
		t.slots = nil
		return
	}
	slots := tableSlotsMin
	for 2*(t.count+1) > slots {
		slots *= 2
	}
	if slots < len(t.slots) {
		t.resize(slots)
	}
}
