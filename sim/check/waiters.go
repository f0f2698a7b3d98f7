package check

import (
	"maps"
	"slices"
	"time"

	"narad/engine"
	"narad/env"
	"narad/sim/model"
)

// waitShadow is what the queues of one topic must look like (INV-19).
type waitShadow struct {
	live   map[int32][]uint64 // waiters by queue, in the order of joining
	joined uint64             // the newest that ever joined
	pass   uint64             // the newest that had joined when the current pass of the pump began
	tried  map[int32]bool     // queues whose head was put back in this pass
	pumped int32              // the partition that the pump reserved from last
}

func newWaitShadow() *waitShadow {
	return &waitShadow{live: map[int32][]uint64{}, tried: map[int32]bool{}}
}

func (n *Node) waitersOf(topic, incarnation string) *waitShadow {
	key := topicKey{topic, incarnation}
	s := n.waiters[key]
	if s == nil {
		s = newWaitShadow()
		n.waiters[key] = s
		n.topics = append(n.topics, key)
	}
	return s
}

// topicKey names an incarnation of a topic.
type topicKey struct{ name, incarnation string }

// seeWaiter follows the queues of parked requests.
func (n *Node) seeWaiter(v engine.Event) {
	n.waitedAt = n.now()
	switch v := v.(type) {
	case engine.WaiterJoined:
		s := n.waitersOf(v.Waiter.Topic, v.Waiter.Incarnation)
		s.live[v.Waiter.Partition] = append(s.live[v.Waiter.Partition], v.Waiter.Seq)
		s.joined = v.Waiter.Seq
	case engine.WaiterLeft:
		n.fail(n.waitersOf(v.Waiter.Topic, v.Waiter.Incarnation).leave(v.Waiter))
	case engine.WaiterServed:
		n.fail(n.waitersOf(v.Waiter.Topic, v.Waiter.Incarnation).serve(v.Waiter, v.Err))
	case engine.PumpPass:
		s := n.waitersOf(v.Topic, v.Incarnation)
		s.pass = s.joined
		clear(s.tried)
	case engine.PumpPutBack:
		if v.Again {
			n.Goal("S-01") // the pump put a waiter back, found the flag cleared and ran again
		}
		s := n.waitersOf(v.Waiter.Topic, v.Waiter.Incarnation)
		s.tried[v.Waiter.Partition] = true
		n.fail(s.first("put back", v.Waiter))
	}
}

// first checks that a waiter is the one whose turn it is in its queue.
func (s *waitShadow) first(what string, w engine.WaiterID) error {
	if queue := s.live[w.Partition]; len(queue) == 0 || queue[0] != w.Seq {
		return model.Violate("INV-19", "waiter %d of %s (partition %d) was %s, the queue is %v", w.Seq, w.Topic, w.Partition, what, head(queue))
	}
	return nil
}

func head(queue []uint64) []uint64 { return queue[:min(len(queue), 5)] }

// serve checks the turn of a waiter that is served. A request that found a record by itself never waited, and may overtake.
func (s *waitShadow) serve(w engine.WaiterID, err error) error {
	if verr := s.first("served", w); verr != nil {
		return verr
	}
	s.live[w.Partition] = s.live[w.Partition][1:]
	if w.Partition != engine.AnyPartition || err != nil {
		return nil
	}
	if pinned := s.live[s.pumped]; len(pinned) > 0 && pinned[0] <= s.pass && !s.tried[s.pumped] { // PUMP-18
		return model.Violate("INV-19", "shared waiter %d of %s got a record of partition %d before waiter %d, which is pinned to it", w.Seq, w.Topic, s.pumped, pinned[0])
	}
	return nil
}

func (s *waitShadow) leave(w engine.WaiterID) error {
	queue := s.live[w.Partition]
	i := slices.Index(queue, w.Seq)
	if i < 0 {
		return model.Violate("INV-19", "waiter %d of %s (partition %d) left, it was not in its queue", w.Seq, w.Topic, w.Partition)
	}
	if i == 0 {
		s.live[w.Partition] = queue[1:]
		s.tried[w.Partition] = true // it may have been in the hand of the pump, which has nothing for this queue then
	} else {
		s.live[w.Partition] = slices.Delete(queue, i, i+1)
	}
	return nil
}

// delivered checks that a message leaves the engine once, under a lease that lives (INV-18, CON-19).
func (n *Node) delivered(p *part, v engine.Delivered) {
	nonce, reserved := p.unanswered[v.Offset]
	lease, live := p.model.Lease(v.Offset)
	switch {
	case p.foreign[v.Nonce]:
		n.failPart(p, model.Violate("INV-01", "offset %d was answered under nonce %d, which an old incarnation's consume took: it read the old log (LOG-20)", v.Offset, v.Nonce))
	case !reserved || nonce != v.Nonce:
		n.failPart(p, model.Violate("INV-18", "offset %d was answered under nonce %d, which is not a reservation that waits for its answer", v.Offset, v.Nonce))
	case !live || lease.Nonce != v.Nonce || int64(v.At) >= lease.Expiry:
		n.failPart(p, model.Violate("INV-18", "offset %d was answered under nonce %d, whose lease does not live any more", v.Offset, v.Nonce))
	}
	delete(p.unanswered, v.Offset)
}

// Quiet checks what must hold when all is at rest: nothing in the process goes on before time passes or a client acts.
// monotonic is what the clock of the process shows.
func (n *Node) Quiet(monotonic env.Instant) {
	n.Quiets++
	n.Tidied()
	n.Retried()
	n.held()
	for _, p := range n.order {
		n.orphans(p, int64(monotonic))
	}
	for _, topic := range n.topics {
		s := n.waiters[topic]
		if t := n.cycle.known[topic]; t != nil && t.gone {
			n.fail(s.nobody(topic, "the topic is gone (Q-24)"))
		}
		for _, p := range n.order {
			if p.key.Topic != topic.name || p.topic.ID != topic.incarnation || len(s.live[engine.AnyPartition]) == 0 && len(s.live[p.key.Partition]) == 0 {
				continue
			}
			offset, ok := p.model.Reservable(int(p.topic.MaxInFlight), int(p.topic.MaxAckedAhead))
			if ok {
				n.failPart(p, model.Violate("INV-17", "all is at rest, offset %d can be handed out, and %d waiters for it are parked (%d of them pinned)",
					offset, len(s.live[engine.AnyPartition])+len(s.live[p.key.Partition]), len(s.live[p.key.Partition])))
			}
			n.withheldWhileParked(p)
		}
	}
}

// QuietClosing checks what must hold when all is at rest while the engine closes: nobody is parked, or the stop would wait for him.
func (n *Node) QuietClosing() {
	for _, topic := range n.topics {
		n.fail(n.waiters[topic].nobody(topic, "the engine closes"))
	}
}

// nobody checks that all requests that were parked have been told to look again.
func (s *waitShadow) nobody(topic topicKey, why string) error {
	for _, queue := range slices.Sorted(maps.Keys(s.live)) {
		if n := len(s.live[queue]); n > 0 {
			return model.Violate("INV-17", "all is at rest, %s, and %d requests for %s (partition %d) are still parked", why, n, topic.name, queue)
		}
	}
	return nil
}

// orphans checks that every lease was answered (INV-18), and so that none was taken for a waiter to come (PUMP-10).
func (n *Node) orphans(p *part, now int64) {
	if len(p.unanswered) == 0 {
		return
	}
	offsets := make([]int64, 0, len(p.unanswered))
	for o := range p.unanswered { // order-free: sorted next
		offsets = append(offsets, o)
	}
	slices.Sort(offsets)
	for _, o := range offsets {
		nonce := p.unanswered[o]
		if l, live := p.model.Lease(o); live && l.Nonce == nonce && now < l.Expiry {
			n.failPart(p, model.Violate("INV-18", "all is at rest, offset %d is leased for another %v, and no request was given it", o, time.Duration(l.Expiry-now)))
			return
		}
		delete(p.unanswered, o)
	}
}

// withheldWhileParked notes that somebody waits at a cap.
func (n *Node) withheldWhileParked(p *part) {
	if p.model.Leases() >= int(p.topic.MaxInFlight) {
		n.Goal("a waiter is parked at the in-flight cap")
	}
}
