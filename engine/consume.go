package engine

import (
	"errors"
	"sync"
	"time"

	"narad/env"
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

// Size is what a message counts for in the bound of a batch, in bytes.
func (d *Delivery) Size() int { return len(d.Key) + len(d.Payload) }

// ConsumeRequest asks for messages. It serves one call of Consume or ConsumeBatch.
type ConsumeRequest struct {
	Topic     string
	Partition int32         // AnyPartition or the one to take from
	Wait      time.Duration // how long to wait for a message; 0 answers at once; at most MaxWait is used
	// Fit is asked about each message of a batch, in the order of the answer, whether it fits in beside those before it,
	// for an answer whose encoding is bounded. From the first that does not on, all are given back before ConsumeBatch
	// returns, so that a consume issued on receipt of the answer can have them (CON-30, CON-32). The first message is part
	// of the answer whatever Fit says. Nil: all fit.
	Fit func(*Delivery) bool
	// Waiting is called by the call itself when it has found nothing and is about to wait, perhaps more than once: whoever can
	// Cancel only with some effort need not take it for a message that is there. Nil: nothing is called.
	Waiting func()

	mu        sync.Mutex // guards the fields below
	cancelled bool
	parked    *waiter
}

// Cancel makes the call return ErrCancelled as soon as it can. It may be called at any instant, more than
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
	deadline := e.waitUntil(r)
	for {
		t, err := e.topicFor(r)
		if err != nil {
			return nil, err
		}
		d, err := t.scan(r.Partition, HandoutScan)
		if waits(r, err) {
			d, err = t.await(r, deadline)
		}
		switch {
		case errors.Is(err, errRetired), errors.Is(err, errLapsed):
			continue
		case err != nil:
			return nil, err
		case r.isCancelled():
			t.giveBack(d, CauseCancel)
			return nil, ErrCancelled
		}
		t.answered(d)
		return d, nil
	}
}

// waitUntil is when the request's wait ends.
func (e *Engine) waitUntil(r *ConsumeRequest) env.Instant {
	return e.env.Now().Add(min(max(r.Wait, 0), MaxWait))
}

// topicFor resolves what a request names. It is asked again whenever the request starts over: the topic may be gone, or be
// another one of that name.
func (e *Engine) topicFor(r *ConsumeRequest) (*topic, error) {
	t, err := e.topic(r.Topic)
	if err != nil {
		return nil, err
	}
	return t, t.checkPartition(r.Partition)
}

// waits reports whether a scan that ended with err is followed by a wait.
func waits(r *ConsumeRequest, err error) bool {
	return r.Wait > 0 && (errors.Is(err, ErrEmpty) || transient(err))
}

// answered reports that messages are about to leave the engine.
func (t *topic) answered(ds ...*Delivery) {
	switch e := t.engine; {
	case e.opts.Tally != nil:
		for len(ds) > 0 {
			n, bytes := runOf(ds), 0
			for _, d := range ds[:n] {
				bytes += d.Size()
			}
			e.opts.Tally.Delivered(Key{t.info.Name, ds[0].Partition}, n, bytes)
			ds = ds[n:]
		}
	case e.listening():
		for _, d := range ds {
			e.emit(Delivered{Key{d.Topic, d.Partition}, d.Offset, d.Handle.Nonce, d.Size(), e.env.Now()})
		}
	}
}

// runOf returns how many of the first messages are of one partition.
func runOf(ds []*Delivery) int {
	for i, d := range ds {
		if d.Partition != ds[0].Partition {
			return i
		}
	}
	return len(ds)
}

// lease names the lease behind a delivery.
func (d *Delivery) lease() inflight.Lease {
	return inflight.Lease{Offset: d.Offset, Nonce: d.Handle.Nonce}
}

// isLive reports whether the lease behind a delivery still lives.
func (t *topic) isLive(d *Delivery) bool { return t.partitions()[d.Partition].stillLeased(d.lease()) }

// giveBack releases a record that has nobody to receive it.
func (t *topic) giveBack(d *Delivery, cause Cause) {
	t.partitions()[d.Partition].release(d.lease(), cause)
}

// manyPartitions is the largest number of partitions whose logs a scan resolves at once (CON-14).
const manyPartitions = 16

// scan tries the partitions once and takes the first record it finds.
func (t *topic) scan(pinned int32, via Handout) (found *Delivery, err error) {
	err = t.pass(pinned, func(p *partition, log *segment.Log, now env.Instant) (bool, bool, error) {
		var quick bool
		var err error
		found, quick, err = p.take(log, now, via)
		if errors.Is(err, ErrEmpty) {
			return false, quick, nil
		}
		return true, quick, err
	})
	if found == nil && err == nil {
		if via == HandoutScan {
			t.want()
		}
		return nil, ErrEmpty
	}
	return found, err
}

// pass visits the pinned partition, or all of them from a start that rotates, until visit is done. The log of the
// first is resolved alone, by the visit (CON-12). Only when that is not enough are the others looked up, in one go: one
// lock, one reading of the clock (CON-13); visit gets a nil log for those that are not open, and for all when there are
// many (CON-14). So a partition that cannot be opened fails the pass when the pass reaches it, not earlier (CON-15). A visit
// that was not quick took time, and the clock is read again.
func (t *topic) pass(pinned int32, visit func(p *partition, log *segment.Log, now env.Instant) (done, quick bool, err error)) error {
	all := t.partitions()
	if pinned != AnyPartition {
		_, _, err := visit(all[pinned], nil, 0)
		return err
	}
	n := uint32(len(all))
	start := t.start.Add(1) % n
	if done, _, err := visit(all[start], nil, 0); done || err != nil || n == 1 {
		return err
	}
	var open [manyPartitions]*segment.Log
	var now env.Instant
	opened := t.opens.Load()
	if n <= manyPartitions {
		t.logs.many(open[:])
		now = t.engine.env.Now()
	}
	for i := uint32(1); i < n; i++ {
		at := (start + i) % n
		var log *segment.Log
		if n <= manyPartitions {
			log = open[at]
		}
		done, quick, err := visit(all[at], log, now)
		if done || err != nil {
			return err
		}
		if !quick && n <= manyPartitions {
			now = t.engine.env.Now()
		}
		if opens := t.opens.Load(); log == nil || opens != opened { // that takes a while: the next lease must not begin in the past
			opened, now = opens, t.engine.env.Now()
		}
	}
	return nil
}

// takeAttempts bounds how often one take starts over because a log was closed or a lease lapsed under it.
const takeAttempts = 3

// transient reports whether a take failed only because its log was closed under it: the next attempt finds things in
// order.
func transient(err error) bool { return errors.Is(err, segment.ErrClosed) }

// errNoShard reports that the partition's consumer state is not loaded.
var errNoShard = errors.New("no consumer state")

// take reserves the lowest unresolved record and then reads it: never the other way round (INF-09, INF-10). A log that the
// caller has resolved already comes with the instant of that; nil lets take do it. With quick it did nothing that takes time.
func (p *partition) take(log *segment.Log, now env.Instant, via Handout) (d *Delivery, quick bool, err error) {
	e := p.topic.engine
	quick = log != nil
	for failed := 0; ; log, quick = nil, false {
		if log == nil {
			if log, err = p.open(); err != nil {
				return nil, false, err
			}
			e.env.Point("engine: log resolved, nothing reserved")
			now = e.env.Now()
		}
		p.stamp(now)
		lease, err := p.reserve(log, now, via)
		if errors.Is(err, errNoShard) {
			continue
		}
		if err != nil {
			return nil, quick, err
		}
		e.env.Point("engine: reserved, not read")
		rec, err := e.read(log, lease.Offset)
		if err == nil && p.stillLeased(lease) {
			return p.delivery(lease, rec), false, nil
		}
		slow := err == nil // the read outlasted the lease; whoever has the offset now is served by its own read
		if slow {
			p.release(lease, CauseReadFail)
			err = ErrEmpty
		} else if p.unread(lease, err) {
			continue
		}
		if failed++; !slow && !transient(err) || failed == takeAttempts {
			return nil, false, err
		}
		if e.gate.isClosed() {
			return nil, false, ErrClosed
		}
	}
}

// read returns a record for a delivery.
func (e *Engine) read(log *segment.Log, offset int64) (segment.Record, error) {
	if e.opts.SharedReads {
		return log.View(offset)
	}
	return log.Read(offset)
}

// reserve claims the lowest unresolved offset. The high watermark is read first: it only grows.
func (p *partition) reserve(log *segment.Log, now env.Instant, via Handout) (inflight.Lease, error) {
	hw, oldest := log.HighWatermark(), log.Oldest()
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil {
		p.mu.Unlock()
		return inflight.Lease{}, errNoShard
	}
	expired := p.purgeLocked(now)
	lease, outcome, effect := p.shard.Reserve(now, hw)
	if e.listening() {
		p.tellReserve(lease, outcome, now, hw, oldest, via)
	}
	p.mu.Unlock()
	p.act(expired | effect)
	if outcome != inflight.Reserved {
		return inflight.Lease{}, ErrEmpty
	}
	return lease, nil
}

// tellReserve reports a reservation, or what withheld one although there are records (OBS-09).
func (p *partition) tellReserve(lease inflight.Lease, outcome inflight.Outcome, now env.Instant, hw, oldest int64, via Handout) {
	switch outcome {
	case inflight.Reserved:
		if !p.topic.engine.detailed() {
			return
		}
		p.topic.engine.emit(Leased{p.key, p.topic.info.ID, lease, now, hw, oldest, via})
	case inflight.Empty:
	default:
		p.topic.engine.emit(Withheld{p.key, outcome})
	}
}

func (p *partition) stillLeased(lease inflight.Lease) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isLeased(lease, p.topic.engine.env.Now())
}

// isLeased needs p.mu.
func (p *partition) isLeased(lease inflight.Lease, now env.Instant) bool {
	if p.shard == nil {
		return false
	}
	live, ok := p.shard.Lookup(lease.Offset)
	return ok && live.Nonce == lease.Nonce && now < live.Expiry
}

// unread deals with a reservation whose record could not be read, and reports whether the offset is resolved, so that the
// next reservation is another one.
func (p *partition) unread(lease inflight.Lease, err error) (resolved bool) {
	var below *segment.FloorError
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &below):
		p.jump(below.Oldest)
		return true
	case errors.As(err, &corrupt):
		p.skip(lease, err)
		return true
	}
	// A closed log is not a gap and an I/O error is not corruption: give the reservation back (LOG-13, LOG-17).
	p.release(lease, CauseReadFail)
	return false
}

// jump moves the frontier over what retention deleted, in one step (INF-32). The loser of a race finds its
// reservation dropped and simply reserves again (INF-34).
func (p *partition) jump(oldest int64) {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil || p.gone != nil { // what the old log said is nothing to a successor's shard
		p.mu.Unlock()
		return
	}
	from := p.shard.Committed()
	jumped, effect := p.shard.JumpTo(oldest)
	if e.listening() {
		if jumped {
			e.emit(FrontierJumped{p.key, from, oldest})
		} else {
			e.emit(JumpLost{p.key, oldest})
		}
	}
	p.mu.Unlock()
	p.act(effect)
}

// skip resolves an offset that can never be read, so that it costs itself and nothing else (LOG-11, LOG-12).
func (p *partition) skip(lease inflight.Lease, cause error) {
	e := p.topic.engine
	p.mu.Lock()
	if p.shard == nil || p.gone != nil {
		p.mu.Unlock()
		return
	}
	skipped, effect := p.shard.SkipCorrupt(lease.Offset, lease.Nonce)
	if skipped && e.listening() {
		e.emit(CorruptSkipped{p.key, lease.Offset, p.shard.Committed(), cause})
	}
	p.mu.Unlock()
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
