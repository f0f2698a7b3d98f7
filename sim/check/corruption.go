package check

import (
	"narad/engine"
	"narad/env"
	"narad/sim/model"
)

// Rotted tells that the frame with these messages, from offset base on, was damaged on the disk for good. It excuses them, once
// the engine says that it skipped them, and nothing else (LOG-11, LOG-12).
func (n *Node) Rotted(key engine.Key, base int64, ids []int) {
	p := n.parts[key]
	if p == nil {
		return
	}
	if p.rotten == nil {
		p.rotten = map[int64]int{}
	}
	for i, id := range ids {
		p.rotten[base+int64(i)] = id
	}
}

// MayRot reports whether a frame of offsets is whole, visible, and holds something that is not settled.
func (n *Node) MayRot(key engine.Key, from, to int64) bool {
	p := n.parts[key]
	if p == nil || to > p.model.HW {
		return false
	}
	open := false
	for o := from; o < to; o++ {
		if _, done := p.rotten[o]; done {
			return false
		}
		open = open || !p.model.IsSettled(o)
	}
	return open
}

// IsVisible reports whether an offset is below the high watermark.
func (n *Node) IsVisible(key engine.Key, offset int64) bool {
	p := n.parts[key]
	return p != nil && offset < p.model.HW
}

// IsRotten reports whether an offset was damaged.
func (n *Node) IsRotten(key engine.Key, offset int64) bool {
	p := n.parts[key]
	if p == nil {
		return false
	}
	_, rotten := p.rotten[offset]
	return rotten
}

// recoveredGarbage notes what a log shows beyond what was confirmed, after a power loss that left garbage: it may be unreadable, and
// is stored again elsewhere.
func (p *part) recoveredGarbage(next int64) {
	if !p.garbled {
		return
	}
	p.garbled = false
	if p.garbage == nil {
		p.garbage = map[int64]bool{}
	}
	for o := p.model.HW; o < next; o++ {
		p.garbage[o] = true
	}
}

// corruptSkipped checks that a record which is given up had been damaged: what can be read on another try, or lies beside the
// damage, is not corrupt (LOG-12, LOG-13).
func (n *Node) corruptSkipped(p *part, v engine.CorruptSkipped) {
	id, rotten := p.rotten[v.Offset]
	switch {
	case rotten:
		n.Messages.list[id].corrupt = true
		n.Corrupt++
	case p.garbage[v.Offset]:
		n.Goal("garbage of a commit that was not confirmed was skipped")
	default:
		n.failPart(p, model.Violate("INV-02", "offset %d was skipped as corrupt although no corruption was injected: %v", v.Offset, v.Err))
		return
	}
	before, _ := p.model.Committed()
	if v.Offset == before+1 {
		n.Goal("S-26 head")
	} else {
		n.Goal("S-26 middle")
	}
	if lease, ok := p.model.Lease(v.Offset); ok {
		n.instantOp(p, v.Offset, model.OpRelease, lease.Nonce)
	}
	delete(p.unanswered, v.Offset)
	n.failPart(p, p.model.Skip(v.Offset, v.Committed))
}

// deadline is when a lease would have ended but for an extend, and when it ends since.
type deadline struct{ offset, nonce, was, is int64 }

// superseded notes the deadline that an extend replaces.
func (p *part) superseded(v engine.LeaseExtended) {
	if l, ok := p.model.Lease(v.Lease.Offset); ok && l.Nonce == v.Lease.Nonce && l.Expiry < int64(v.Lease.Expiry) {
		p.stale = append(p.stale, deadline{v.Lease.Offset, l.Nonce, l.Expiry, int64(v.Lease.Expiry)})
	}
}

// touched tells that the owner looked at the deadlines of a partition: one that was superseded and has come must have ended
// nothing (S-07, INF-17).
func (n *Node) touched(p *part, at env.Instant) {
	kept := p.stale[:0]
	for _, d := range p.stale {
		l, live := p.model.Lease(d.offset)
		switch {
		case !live || l.Nonce != d.nonce:
		case int64(at) >= d.was && int64(at) < l.Expiry:
			n.Goal("S-07")
		case int64(at) < d.was:
			kept = append(kept, d)
		}
	}
	p.stale = kept
}
