package check

import (
	"time"

	"narad/engine"
	"narad/sim/model"
)

// Served tells that a consume of a whole topic was answered from a partition. Scans begin at one partition after the other, so
// none whose records can be handed out is passed over by many in a row.
func (n *Node) Served(topic string, partition int32) error {
	parts := 0
	for _, p := range n.order {
		if p.key.Topic == topic && !p.gone && n.parts[p.key] == p {
			parts++
		}
	}
	for _, p := range n.order {
		switch {
		case p.key.Topic != topic || p.gone || n.parts[p.key] != p:
		case p.key.Partition == partition || p.passedLife != n.life || !p.offers():
			p.passed, p.passedLife = 0, n.life
		default:
			p.passed++
			if p.passed > 2*parts+30 { // a few are under way side by side
				return model.Violate("INV-31", "%s %s/%d: the last %d answers to consumes of the whole topic came from other partitions, it had something to hand out all the time (Q-22)",
					n.name, topic, p.key.Partition, p.passed)
			}
		}
	}
	return nil
}

// offers reports whether a consume that comes to the partition gets something.
func (p *part) offers() bool {
	if _, open := p.model.Committed(); open {
		_, ok := p.model.Reservable(int(p.topic.MaxInFlight), int(p.topic.MaxAckedAhead))
		return ok
	}
	newest := p.model.HW - 1
	_, rotten := p.rotten[newest]
	return newest >= 0 && newest >= p.kept.low && !p.model.WasAcked(newest) && !rotten && !p.garbage[newest]
}

// turn are the partitions that messages without a key and without a choice went to.
type turn struct {
	partition int32
	inARow    int
	life      int
}

// inTurn follows where messages go that the engine chooses a partition for, at the instant of their 202: to one after the other (WAL-24,
// Answers may overtake each other, so only a long run of one partition is wrong.
func (n *Node) inTurn(accepted []engine.Accepted, ids []int) {
	for i, v := range accepted {
		a := n.Messages.list[ids[i]].address
		if a.Partition != engine.AnyPartition || len(a.Key) > 0 || a.Fewest < 2 {
			continue
		}
		key := topicKey{v.Key.Topic, v.Incarnation}
		t := n.turns[key]
		if t == nil || t.life != n.life || t.partition != v.Key.Partition {
			t = &turn{partition: v.Key.Partition, life: n.life}
			n.turns[key] = t
		}
		if t.inARow++; t.inARow > 16 {
			n.fail(model.Violate("INV-01", "the last %d messages to %s without a key all went to partition %d of at least %d (WAL-24)", t.inARow, v.Key.Topic, t.partition, a.Fewest))
		}
	}
}

// Stamped checks the commit time of a message against true time: between its first produce and now. Wall clocks that nobody moved are
// off by little.
func (n *Node) Stamped(id int, d *engine.Delivery) error {
	const off = 30 * time.Second
	if n.age.moved > 0 {
		return nil
	}
	at := d.TimestampMs*int64(time.Millisecond) - n.wallOffset()
	if first := n.Messages.list[id].first; at < first-int64(off) || at > n.now()+int64(off) {
		return model.Violate("INV-01", "%s: message %d of %s was first sent at %v and is stamped with %v", n.name, id, d.Topic, time.Duration(first), time.Duration(at))
	}
	return nil
}
