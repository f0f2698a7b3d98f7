package check

import (
	"narad/engine"
	"narad/sim/model"
)

// Floor is what a partition certainly held when a replay was sent.
type Floor struct {
	p       *part
	low, hw int64
}

// Low returns the oldest offset.
func (f Floor) Low() int64 { return f.low }

// HighWatermark returns the next offset.
func (f Floor) HighWatermark() int64 { return f.hw }

// Floor returns what a replay of a partition that is about to be sent must find.
func (n *Node) Floor(topic string, partition int32) Floor {
	p := n.parts[engine.Key{Topic: topic, Partition: partition}]
	if p == nil {
		return Floor{}
	}
	// A removal that was not completed is undone by a crash, and the log may be opened while the replay is under way.
	return Floor{p, min(p.kept.low, p.kept.durable), p.model.HW}
}

// same reports whether the partition is of the incarnation that the replay was sent to, and was all the time.
func (n *Node) same(f Floor) bool {
	return f.p != nil && !f.p.gone && n.parts[f.p.key] == f.p && !n.changing(f.p.key.Topic)
}

// ReplayFoundNothing judges the answer that an offset is not there yet.
func (n *Node) ReplayFoundNothing(f Floor, offset int64) error {
	if n.same(f) && offset < f.hw {
		return model.Violate("INV-04", "%s %s/%d: a replay of offset %d found nothing, the high watermark was %d and the oldest offset %d (Q-50)",
			n.name, f.p.key.Topic, f.p.key.Partition, offset, f.hw, f.low)
	}
	return nil
}

// Replayed judges a message that a replay answered: it is within [oldest, high watermark), and it is the one of that offset (CON-09).
func (n *Node) Replayed(f Floor, offset int64, id int) error {
	if !n.same(f) {
		return nil
	}
	switch {
	case offset < f.low:
		return model.Violate("INV-29", "%s %s/%d: a replay of offset %d was answered with message %d, the oldest offset was %d before it was asked (CON-09)",
			n.name, f.p.key.Topic, f.p.key.Partition, offset, id, f.low)
	case offset >= f.p.model.HW:
		return model.Violate("INV-04", "%s %s/%d: a replay of offset %d was answered, the high watermark is %d", n.name, f.p.key.Topic, f.p.key.Partition, offset, f.p.model.HW)
	}
	return n.holds(f.p, offset, id)
}

// holds checks that an offset never holds two messages (LOG-07, Q-48).
func (n *Node) holds(p *part, offset int64, id int) error {
	if before, seen := p.contents[offset]; seen && before != id {
		return model.Violate("INV-04", "%s %s/%d: offset %d holds message %d, message %d was read from it before", n.name, p.key.Topic, p.key.Partition, offset, id, before)
	}
	if p.contents == nil {
		p.contents = map[int64]int{}
	}
	p.contents[offset] = id
	return nil
}
