package workload

import (
	"time"

	"narad/engine"
	"narad/sim"
	"narad/sim/model"
)

// wide: thousands of messages of one partition are acked ahead of one that is not, so that what the committer writes of them takes
// many sectors, which a power loss can tear, and at last more than a slot holds.
func wide(w *sim.World, p *plan) { widen(w, p, pick(w, wideTorn, wideTorn, wideFull)) }

// wideTorn messages make a window of some sectors, wideFull more than a slot holds, which reaches 32,416 offsets behind the
// frontier.
const (
	wideTorn = 12_000
	wideFull = 34_000
)

func widen(w *sim.World, p *plan, messages int) {
	p.Wide = messages
	p.Producers, p.Consumers = 0, 0
	p.Habits = habits{}
	p.Traffic = 25 * time.Second
	p.Interval = 3 * time.Second
	p.Crashes = 1
	p.Size = 1
	p.Segment, p.WALSegment = 64<<20, 64<<20
	p.Topics = p.Topics[:1]
	p.Topics[0].Partitions = 1
	p.Topics[0].Visibility = time.Minute
	p.Topics[0].MaxInFlight, p.Topics[0].MaxAckedAhead = 2*p.Wide, 2*p.Wide
}

// wideLoop produces and takes much, and acks it in any order, all but the lowest message.
func (n *node) wideLoop() {
	r := n.run
	n.createTopics()
	c := n.newConsumer(0)
	for produced := 0; !r.stopping; {
		if produced < r.plan.Wide {
			n.produceWide(c.spec)
			produced += engine.MaxProduceBatch
		}
		for range 12 { // a little more than was produced
			q := c.question(0)
			q.count = engine.MaxConsumeBatch + 20 // more than there is in one answer
			if n.call("consume", time.Minute, q.ask) != answered {
				c.held = nil // the process is gone, and the leases with it
				break
			}
			for _, h := range c.accept(q) {
				if h.handle.Offset != 0 {
					c.held = append(c.held, h)
				}
			}
			n.ackSome(c)
		}
		r.e.Sleep(r.pause(40 * time.Millisecond))
	}
}

// ackSome acks a part of what is held, from all over it, so that much of the state changes between two ticks.
func (n *node) ackSome(c *consumer) {
	r := n.run
	var now []held
	for range min(len(c.held), engine.MaxConsumeBatch/2) {
		i, last := r.w.Choose(len(c.held)), len(c.held)-1
		now = append(now, c.held[i])
		c.held[i], c.held = c.held[last], c.held[:last]
	}
	if len(now) > 0 {
		c.settleBatch(now, model.OpAck, engine.OpAck)
	}
}

func (n *node) produceWide(spec engine.TopicSpec) {
	ids, messages := make([]int, engine.MaxProduceBatch), make([]engine.Message, engine.MaxProduceBatch)
	for i := range ids {
		ids[i], messages[i] = n.newMessage(spec)
		messages[i].Key, messages[i].Partition = nil, 0
	}
	n.produce(ids, messages)
}

// tearLoop cuts the power while a window of many sectors is written and not synced.
func (n *node) tearLoop() {
	r := n.run
	for !r.stopping && r.plan.Wide == wideTorn {
		r.e.Sleep(r.pause(100 * time.Millisecond))
		if r.stopping || n.engine == nil || !n.check.WideWindow() {
			continue
		}
		r.e.Sleep(r.duration(0, 20*time.Millisecond))
		if !r.stopping && r.mayStrike() {
			n.m.PowerLoss()
		}
	}
}
