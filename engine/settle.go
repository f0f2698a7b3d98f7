package engine

import (
	"narad/env"
	"narad/inflight"
)

// Ack settles a message for good: it is never delivered again by this incarnation of the node, and after a
// crash only within the windows of the delivery contract. ErrLeaseGone means that the handle names no live
// lease: it lapsed, was given back, or was settled before; nothing changed (INF-12…INF-15).
//
// Durability: the ack is in memory when Ack returns (INF-38), in the page cache within about T, on disk
// within about D + T (see Options.CommitInterval).
func (e *Engine) Ack(topic string, h inflight.Handle) error {
	return e.settle(topic, h, func(p *partition) bool { return p.ack(h) })
}

// Extend re-arms the lease to one visibility timeout from now (INF-16).
func (e *Engine) Extend(topic string, h inflight.Handle) error {
	return e.settle(topic, h, func(p *partition) bool { return p.extend(h) })
}

// Nack ends the lease at once; the message is handed out again, to whoever comes first (INF-19).
func (e *Engine) Nack(topic string, h inflight.Handle) error {
	return e.settle(topic, h, func(p *partition) bool { return p.nack(h) })
}

func (e *Engine) settle(topic string, h inflight.Handle, apply func(*partition) bool) error {
	if !e.gate.enter() {
		return ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(topic)
	if err != nil {
		return err
	}
	if h.Partition < 0 || int(h.Partition) >= len(t.partitions()) {
		return ErrLeaseGone // a handle carries no topic: this one belongs to another
	}
	if !apply(t.partitions()[h.Partition]) {
		return ErrLeaseGone
	}
	return nil
}

// ack settles under the lock and reports to the committer after it: a drop may land in between, which is
// why the committer takes the live state and nothing from here (INF-39, COM-37).
func (p *partition) ack(h inflight.Handle) bool {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return false // no shard, no lease (INF-42)
	}
	now := e.env.Now()
	expired := p.purgeLocked(now) // a lapsed lease settles nothing, whoever asks (INF-14)
	ok, effect := p.shard.Ack(now, h.Offset, h.Nonce)
	if e.listening() || e.opts.Tally != nil {
		p.tellAck(ok, h, now)
	}
	p.mu.Unlock()
	e.env.Point("engine: acked, not reported")
	p.act(expired | effect)
	return ok
}

// tellAck reports the outcome of an ack. It needs p.mu.
func (p *partition) tellAck(ok bool, h inflight.Handle, now env.Instant) {
	switch e := p.topic.engine; {
	case !ok:
		e.emit(HandleRefused{p.key, h, now})
	case e.opts.Tally != nil:
		e.opts.Tally.Settled(p.key, now)
	default:
		e.emit(Settled{p.key, h.Offset, h.Nonce, p.shard.Committed(), now})
	}
}

func (p *partition) extend(h inflight.Handle) bool {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return false
	}
	now := e.env.Now()
	expired := p.purgeLocked(now)
	expiry, ok, effect := p.shard.Extend(now, h.Offset, h.Nonce)
	if e.listening() {
		if ok {
			e.emit(LeaseExtended{p.key, inflight.Lease{Offset: h.Offset, Nonce: h.Nonce, Expiry: expiry}, now})
		} else {
			e.emit(HandleRefused{p.key, h, now})
		}
	}
	p.mu.Unlock()
	p.act(expired | effect)
	return ok
}

func (p *partition) nack(h inflight.Handle) bool {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return false
	}
	now := e.env.Now()
	expired := p.purgeLocked(now) // a lapsed lease settles nothing, whoever asks (INF-14)
	ok, effect := p.shard.Nack(now, h.Offset, h.Nonce)
	if e.listening() {
		if ok {
			e.emit(LeaseEnded{p.key, h.Offset, h.Nonce, CauseNack, now})
		} else {
			e.emit(HandleRefused{p.key, h, now})
		}
	}
	p.mu.Unlock()
	p.act(expired | effect)
	return ok
}

// act does what a change of the lease table calls for: persist it, wake those who wait. It must be called
// without p.mu.
func (p *partition) act(effect inflight.Effect) {
	if effect.Dirties() {
		p.tellLate()
		p.topic.engine.committer.Dirty(p.committerKey())
	}
	if effect.Wakes() {
		p.wake()
	}
}

// SettleOp is what AckBatch does with each handle.
type SettleOp uint8

// The operations.
const (
	OpAck SettleOp = iota
	OpExtend
	OpNack
)

// AckBatch acks, extends or nacks handles of one topic, in their order, each exactly as the single call would, and returns
// the answer for each (API-16). One that is refused has no bearing on the others.
func (e *Engine) AckBatch(topic string, handles []inflight.Handle, op SettleOp) []error {
	single := e.Ack
	switch op {
	case OpExtend:
		single = e.Extend
	case OpNack:
		single = e.Nack
	}
	answers := make([]error, len(handles))
	for i, h := range handles {
		answers[i] = single(topic, h)
	}
	return answers
}
