package check

import (
	"maps"
	"slices"

	"narad/engine"
	"narad/segment"
	"narad/sim/model"
)

// Every stored copy of a message has a cause (INV-15, DEL-09…DEL-11): a produce of its own, a commit of the same record of the
// ingress log after a crash, at or above the checkpoint that was recovered (WAL-16), or a commit that was stored and never confirmed
// (WAL-20).

// storage is what is known of how the records of one partition came there.
type storage struct {
	seqs        map[int64]uint64 // record of the ingress log, by offset, of commits that were confirmed
	unconfirmed map[int64]bool   // offsets of records that were found stored, or whose confirmation a crash cut off
	waiting     map[int64]bool   // visible, confirmation not told yet
	failed      bool             // a commit failed since the log was opened
}

func newStorage() storage {
	return storage{seqs: map[int64]uint64{}, unconfirmed: map[int64]bool{}, waiting: map[int64]bool{}}
}

// seeStored follows the log of a partition.
func (n *Node) seeStored(p *part, v segment.Event) {
	s := &p.stored
	switch v := v.(type) {
	case segment.CommitFailed, segment.Poisoned:
		s.failed = true
	case segment.Committed:
		for o := v.Base; o < v.Next; o++ {
			s.waiting[o] = true
		}
	case segment.Recovered:
		if v.Next > p.model.HW && p.opened == n.life && !s.failed {
			n.failPart(p, model.Violate("INV-15", "the log was opened again and holds offsets [%d, %d), which no commit of this life left behind", p.model.HW, v.Next))
		}
		for o := p.model.HW; o < v.Next; o++ {
			s.unconfirmed[o] = true
		}
		s.failed = false
	}
}

// recommitted checks a confirmed commit of a record: once in a life, and not below the checkpoint that the life began with.
func (n *Node) recommitted(p *part, v engine.Dispatched) {
	delete(p.stored.waiting, v.Offset)
	p.stored.seqs[v.Offset] = v.Seq
	if n.log.sent[v.Seq] {
		n.failPart(p, model.Violate("INV-15", "record %d was committed twice in one life of the process", v.Seq))
	}
	n.log.sent[v.Seq] = true
	if v.Seq < n.log.recoveredAt {
		n.failPart(p, model.Violate("INV-15", "record %d was committed again, the checkpoint recovered is %d", v.Seq, n.log.recoveredAt))
	}
}

// allConfirmed checks, when the engine has stopped gracefully, that the sender of everything that is stored was told so: what it was not told
// it sends again, and that copy has no cause.
func (n *Node) allConfirmed() {
	for _, p := range n.order {
		if p.gone || p.succeeds || n.parts[p.key] != p || len(p.stored.waiting) == 0 {
			continue
		}
		offsets := slices.Sorted(maps.Keys(p.stored.waiting))
		n.failPart(p, model.Violate("INV-15", "offset %d and %d more are stored and visible, and their sender was never told", offsets[0], len(offsets)-1))
	}
}

// endStored ends the life of the process: what was not confirmed never will be.
func (p *part) endStored() {
	for o := range p.stored.waiting { // order-free: moves keys
		p.stored.unconfirmed[o] = true
	}
	clear(p.stored.waiting)
}

// location is a stored copy.
type location struct {
	p      *part
	offset int64
}

// storedAt notes a stored copy of the message.
func (e *message) storedAt(at location) {
	if e.copies == nil {
		e.copies = map[location]bool{}
	}
	e.copies[at] = true
}

// Copies checks the causes of all copies that clients received.
func (m *Messages) Copies() error {
	for id := range m.list {
		e := &m.list[id]
		if len(e.copies) < 2 {
			continue
		}
		seqs := map[uint64]bool{}
		for c := range e.copies { // order-free: collects, and what fails fails the same way
			if c.p.succeeds || c.p.gone { // the end of a commit may be told for another incarnation
				continue
			}
			seq, confirmed := c.p.stored.seqs[c.offset]
			switch {
			case confirmed:
				seqs[seq] = true
			case !c.p.stored.unconfirmed[c.offset] && !c.p.stored.waiting[c.offset]:
				return model.Violate("INV-15", "message %d is stored at %s/%d offset %d, which no commit put there", id, c.p.key.Topic, c.p.key.Partition, c.offset)
			}
		}
		if len(seqs) > e.attempts {
			return model.Violate("INV-15", "message %d was produced %d times and accepted as %d records", id, e.attempts, len(seqs))
		}
	}
	return nil
}
