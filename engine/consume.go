package engine

import (
	"errors"
	"sync"
	"time"

	"narad/inflight"
	"narad/segment"
)

// Delivery is a message handed to one consumer, with the lease under which it is held.
type Delivery struct {
	Topic       string
	Partition   int32
	Offset      int64
	Key         []byte
	Payload     []byte
	TimestampMs int64 // unix milliseconds of the commit, on the wall clock of this node
	Handle      inflight.Handle
}

// ConsumeRequest asks for one message. It serves one call of Consume.
type ConsumeRequest struct {
	Topic     string
	Partition int32         // AnyPartition or the one to take from
	Wait      time.Duration // how long to wait for a message; 0 answers at once; at most MaxWait is used

	mu        sync.Mutex // guards the fields below
	cancelled bool
	parked    *waiter
}

// Cancel makes Consume return ErrCancelled as soon as it can. It may be called at any instant, more than
// once, by any task. A message that is handed over at that very instant is released at once (INF-37).
func (r *ConsumeRequest) Cancel() {
	r.mu.Lock()
	r.cancelled = true
	w := r.parked
	r.mu.Unlock()
	if w != nil {
		w.ready.Unpark()
	}
}

func (r *ConsumeRequest) isCancelled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cancelled
}

// attach tells Cancel whom to wake.
func (r *ConsumeRequest) attach(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parked = w
}

// Consume leases the lowest unresolved message of a partition to the caller and returns it. The lease lasts
// the topic's visibility timeout from the reservation; within it, [Engine.Ack] settles the message for
// good. When nothing can be handed out, it waits in the topic's queue until the request's wait ends, and
// then returns ErrEmpty.
func (e *Engine) Consume(r *ConsumeRequest) (*Delivery, error) {
	if !e.gate.enter() {
		return nil, ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(r.Topic)
	if err != nil {
		return nil, err
	}
	if err := t.checkPartition(r.Partition); err != nil {
		return nil, err
	}
	deadline := e.env.Now().Add(min(max(r.Wait, 0), MaxWait))
	d, err := t.scan(r.Partition, HandoutScan)
	if err == nil && r.isCancelled() {
		t.giveBack(d, CauseCancel)
		return nil, ErrCancelled
	}
	if !errors.Is(err, ErrEmpty) || r.Wait <= 0 {
		return d, err
	}
	return t.await(r, deadline)
}

// scan tries the partitions once, beginning at a start that rotates, and takes the first record it
// finds. A partition that cannot be read fails the scan when the scan reaches it, not earlier (CON-15).
func (t *topic) scan(pinned int32, via Handout) (*Delivery, error) {
	if pinned != AnyPartition {
		return t.partitions[pinned].take(via)
	}
	n := uint32(len(t.partitions))
	start := t.start.Add(1)
	for i := range n {
		d, err := t.partitions[(start+i)%n].take(via)
		if !errors.Is(err, ErrEmpty) {
			return d, err
		}
	}
	return nil, ErrEmpty
}

// takeAttempts bounds how often one take starts over because a log was closed or a lease lapsed under it.
const takeAttempts = 3

// take reserves the lowest unresolved record and then reads it: never the other way round (INF-09, INF-10).
func (p *partition) take(via Handout) (*Delivery, error) {
	for attempt := 1; ; {
		log, err := p.open()
		if err != nil {
			return nil, err
		}
		lease, err := p.reserve(log, via)
		if err != nil {
			return nil, err
		}
		p.topic.engine.env.Point("engine: reserved, not read")
		rec, err := log.Read(lease.Offset)
		if err == nil && p.stillLeased(lease) {
			return p.delivery(lease, rec), nil
		}
		retry, counts := true, true
		switch {
		case err == nil: // the read outlasted the lease, and the offset is somebody else's or free again
			err = ErrEmpty
		default:
			retry, counts = p.unread(lease, err)
		}
		if !retry || counts && attempt == takeAttempts {
			return nil, err
		}
		if counts {
			attempt++
		}
	}
}

// reserve claims the lowest unresolved offset. The high watermark is read first: it only grows.
func (p *partition) reserve(log *segment.Log, via Handout) (inflight.Lease, error) {
	hw, oldest := log.HighWatermark(), log.Oldest()
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return inflight.Lease{}, ErrClosed
	}
	now := e.env.Now()
	expired := p.purgeLocked(now)
	lease, outcome, effect := p.shard.Reserve(now, hw)
	if outcome == inflight.Reserved && e.listening() {
		e.emit(Leased{p.key, lease, now, hw, oldest, via})
	}
	p.mu.Unlock()
	p.act(expired | effect)
	if outcome != inflight.Reserved {
		return inflight.Lease{}, ErrEmpty
	}
	return lease, nil
}

func (p *partition) stillLeased(lease inflight.Lease) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shard == nil {
		return false
	}
	live, ok := p.shard.Lookup(lease.Offset)
	return ok && live.Nonce == lease.Nonce && p.topic.engine.env.Now() < live.Expiry
}

// unread deals with a reservation whose record could not be read. It reports whether to try again, and whether that
// counts as an attempt: what resolves an offset does not, because it cannot happen again to the same one.
func (p *partition) unread(lease inflight.Lease, err error) (retry, counts bool) {
	var below *segment.FloorError
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &below):
		p.jump(below.Oldest)
		return true, false
	case errors.As(err, &corrupt):
		p.skip(lease, err)
		return true, false
	}
	// A closed log is not a gap and an I/O error is not corruption: give the reservation back (LOG-13, LOG-17).
	p.release(lease, CauseReadFail)
	return errors.Is(err, segment.ErrClosed) && !p.topic.engine.gate.isClosed(), true
}

// jump moves the frontier over what retention deleted, in one step (INF-32). The loser of a race finds its
// reservation dropped and simply reserves again (INF-34).
func (p *partition) jump(oldest int64) {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return
	}
	jumped, effect := p.shard.JumpTo(oldest)
	p.mu.Unlock()
	if jumped {
		e.emit(FrontierJumped{p.key, oldest})
	}
	p.act(effect)
}

// skip resolves an offset that can never be read, so that it costs itself and nothing else (LOG-11, LOG-12).
func (p *partition) skip(lease inflight.Lease, cause error) {
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return
	}
	skipped, effect := p.shard.SkipCorrupt(lease.Offset, lease.Nonce)
	p.mu.Unlock()
	if skipped {
		p.topic.engine.emit(CorruptSkipped{p.key, lease.Offset, cause})
	}
	p.act(effect)
}

// release gives a reservation back; it is a no-op when the lease is gone.
func (p *partition) release(lease inflight.Lease, cause Cause) {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return
	}
	released, effect := p.shard.Release(lease.Offset, lease.Nonce)
	if released && e.listening() {
		e.emit(LeaseEnded{p.key, lease.Offset, lease.Nonce, cause, e.env.Now()})
	}
	p.mu.Unlock()
	p.act(effect)
}

func (p *partition) delivery(lease inflight.Lease, rec segment.Record) *Delivery {
	return &Delivery{
		Topic: p.key.Topic, Partition: p.index, Offset: lease.Offset, Key: rec.Key, Payload: rec.Payload,
		TimestampMs: rec.CommittedMs,
		Handle:      inflight.Handle{Partition: p.index, Offset: lease.Offset, Nonce: lease.Nonce},
	}
}

// giveBack releases a record that has nobody to receive it.
func (t *topic) giveBack(d *Delivery, cause Cause) {
	t.partitions[d.Partition].release(inflight.Lease{Offset: d.Offset, Nonce: d.Handle.Nonce}, cause)
}
