package engine

import (
	"errors"
	"fmt"

	"narad/env"
	"narad/segment"
)

// Bounds of a batch consume.
const (
	// MaxConsumeBatch is the largest number of messages that one ConsumeBatch returns; larger wishes are clamped.
	MaxConsumeBatch = 100
	// MaxConsumeBytes bounds the keys and payloads of a batch: the scan ends with the message that reaches it (CON-29).
	MaxConsumeBytes = 4 << 20
)

// ConsumeBatch leases up to count messages in one pass over the partitions and returns them in the order in which they were
// reserved. It begins where a single consume would and stays on a partition until that has nothing more to hand out,
// so the messages of a partition come in the order of their offsets (CON-28, CON-49). Each has a lease and a handle of its own.
//
// It never waits to fill a batch: with a wait, and nothing there, it parks like Consume, and tops up the message that the
// wait brought with one more pass.
func (e *Engine) ConsumeBatch(r *ConsumeRequest, count int) ([]*Delivery, error) {
	if count < 1 {
		return nil, fmt.Errorf("%w: a batch of %d messages", ErrInvalid, count)
	}
	if !e.gate.enter() {
		return nil, ErrClosed
	}
	defer e.gate.leave()
	count = min(count, MaxConsumeBatch)
	deadline := e.waitUntil(r)
	for {
		t, err := e.topicFor(r)
		if err != nil {
			return nil, err
		}
		b := batch{topic: t, count: count}
		if err = b.scan(r.Partition); waits(r, err) {
			var d *Delivery
			if d, err = t.await(r, deadline); err == nil {
				b.add(d)
				_ = b.scan(r.Partition) // there is an answer already
			}
		}
		switch {
		case errors.Is(err, errRetired), errors.Is(err, errLapsed):
			continue
		case err != nil:
			return nil, err
		case r.isCancelled():
			b.cut(0, CauseCancel)
			return nil, ErrCancelled
		}
		if b.answer(r.Fit); len(b.items) > 0 {
			return b.items, nil
		}
	}
}

// batch is what one request has taken so far.
type batch struct {
	topic *topic
	count int // at most
	items []*Delivery
	bytes int
}

func (b *batch) full() bool { return len(b.items) >= b.count || b.bytes >= MaxConsumeBytes }

func (b *batch) add(d *Delivery) {
	if b.items == nil {
		b.items = make([]*Delivery, 0, b.count)
	}
	b.items = append(b.items, d)
	b.bytes += d.Size()
}

// scan takes what there is, within the bounds. It answers ErrEmpty when the batch has nothing after it, and the failure of
// a partition only if nothing was found on those before it (CON-15).
func (b *batch) scan(pinned int32) error {
	err := b.topic.pass(pinned, func(p *partition, log *segment.Log, now env.Instant) (bool, bool, error) {
		quick, err := b.drain(p, log, now)
		return b.full(), quick, err
	})
	switch {
	case len(b.items) > 0:
		return nil
	case err == nil:
		b.topic.want()
		return ErrEmpty
	}
	return err
}

// drain takes the records of one partition until it has no more to give or the batch is full.
func (b *batch) drain(p *partition, log *segment.Log, now env.Instant) (quick bool, err error) {
	quick = true
	for last := b.lastOf(p.index); !b.full(); {
		if !quick {
			now = p.topic.engine.env.Now()
		}
		d, q, err := p.take(log, now, HandoutScan)
		quick = quick && q
		if errors.Is(err, ErrEmpty) {
			return quick, nil
		}
		if err != nil {
			return quick, err
		}
		if d.Offset < last { // a lower offset came back while we read: it is the next request's (CON-49)
			b.topic.giveBack(d, CauseCut)
			return quick, nil
		}
		last = d.Offset
		b.add(d)
	}
	return quick, nil
}

// lastOf returns the highest offset taken from a partition, -1 for none.
func (b *batch) lastOf(partition int32) int64 {
	last := int64(-1)
	for _, d := range b.items {
		if d.Partition == partition {
			last = d.Offset
		}
	}
	return last
}

// answer makes the batch final: what lapsed while the rest was read is left out, what does not fit is given back, and the
// others are about to leave the engine.
func (b *batch) answer(fit func(*Delivery) bool) {
	b.dropLapsed()
	for i, d := range b.items {
		if fit != nil && !fit(d) && i > 0 {
			b.cut(i, CauseCut)
			break
		}
	}
	b.topic.answered(b.items...)
}

// dropLapsed removes the messages whose lease did not last until here (CON-19).
func (b *batch) dropLapsed() {
	kept := b.items[:0]
	for rest := b.items; len(rest) > 0; {
		n := runOf(rest)
		kept = b.topic.partitions()[rest[0].Partition].appendLive(kept, rest[:n])
		rest = rest[n:]
	}
	clear(b.items[len(kept):])
	b.items = kept
}

// appendLive appends those of the partition's messages to dst whose leases still live.
func (p *partition) appendLive(dst, ds []*Delivery) []*Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.topic.engine.env.Now()
	for _, d := range ds {
		if p.isLeased(d.lease(), now) {
			dst = append(dst, d)
		}
	}
	return dst
}

// cut gives back the messages from the i-th on.
func (b *batch) cut(i int, cause Cause) {
	for _, d := range b.items[i:] {
		b.topic.giveBack(d, cause)
	}
	clear(b.items[i:])
	b.items = b.items[:i]
}
