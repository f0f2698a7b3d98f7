package engine

import (
	"errors"
	"sync"

	"narad/env"
)

// waiter is a consume request that found nothing and waits its turn. Its fields are guarded by topic.mu.
type waiter struct {
	partition int32
	ready     *env.Waiter // unparked when served, cancelled, or when the engine closes
	state     waiterState
	delivery  *Delivery
	err       error
}

type waiterState uint8

const (
	queued waiterState = iota // in its FIFO
	popped                    // in the pump's hand
	served                    // delivery or err is set
	left                      // gave up; whoever meets it skips it
)

// fifo is a queue of waiters. One that leaves is marked where it stands and swept out when marked entries
// outnumber live ones (PUMP-20).
type fifo struct {
	entries []*waiter
	live    int
}

func (f *fifo) push(w *waiter) {
	f.entries = append(f.entries, w)
	f.live++
}

// pop takes the first live waiter out, nil when there is none.
func (f *fifo) pop() *waiter {
	for len(f.entries) > 0 {
		w := f.entries[0]
		f.entries[0] = nil
		f.entries = f.entries[1:]
		if w.state == queued {
			f.live--
			return w
		}
	}
	f.entries = nil
	return nil
}

// putBack returns a popped waiter to the head: it keeps its turn (PUMP-16).
func (f *fifo) putBack(w *waiter) {
	f.entries = append([]*waiter{w}, f.entries...)
	f.live++
}

// leave marks a queued waiter as gone.
func (f *fifo) leave() {
	f.live--
	if len(f.entries) <= 2*f.live+1 {
		return
	}
	kept := f.entries[:0]
	for _, w := range f.entries {
		if w.state == queued {
			kept = append(kept, w)
		}
	}
	clear(f.entries[len(kept):])
	f.entries = kept
}

// fifoOf returns the queue for a partition: a pinned waiter has one of its own, so that it never stands in
// front of waiters that could be served from elsewhere (PUMP-14, PUMP-17). It needs t.mu.
func (t *topic) fifoOf(partition int32) *fifo {
	if partition == AnyPartition {
		return &t.shared
	}
	return &t.pinned[partition]
}

// refreshFlagLocked recomputes the flag that notify reads. It needs t.mu.
func (t *topic) refreshFlagLocked() {
	any := t.shared.live > 0
	for i := range t.pinned {
		any = any || t.pinned[i].live > 0
	}
	t.flag.Store(any)
}

// notify says that records may have become available: the high watermark moved, a lease ended, a cap was
// freed, a log closed (PUMP-06, Q-20). Without a waiter it is one atomic load and allocates nothing (PUMP-08, PUMP-09).
func (t *topic) notify() {
	if t.flag.Load() {
		t.engine.pump.mark(t)
	}
}

// await parks the request in its queue until it is served, cancelled, or its deadline comes.
func (t *topic) await(r *ConsumeRequest, deadline env.Instant) (*Delivery, error) {
	e := t.engine
	w := &waiter{partition: r.Partition, ready: e.env.NewWaiter()}
	r.attach(w)
	defer r.attach(nil)
	t.mu.Lock()
	t.fifoOf(w.partition).push(w)
	t.flag.Store(true)
	t.mu.Unlock()
	e.pump.mark(t) // a consumer that comes after the data must not wait for the next commit (PUMP-05)
	if e.gate.isClosed() || r.isCancelled() {
		w.ready.Unpark() // what closed or cancelled may have looked before we stood in the queue
	}
	for {
		inTime := w.ready.ParkUntil(deadline)
		cancelled := r.isCancelled()
		d, err, done := t.collect(w, !inTime || cancelled || e.gate.isClosed())
		switch {
		case !done:
			continue // a stray permit
		case cancelled && d != nil:
			t.giveBack(d, CauseCancel)
			return nil, ErrCancelled
		case cancelled:
			return nil, ErrCancelled
		case d == nil && err == nil && e.gate.isClosed():
			return nil, ErrClosed
		case d == nil && err == nil:
			return nil, ErrEmpty
		}
		return d, err
	}
}

// collect returns what the pump gave the waiter. With giveUp a waiter that has nothing leaves its queue; from
// then on the pump hands it nothing (PUMP-23).
func (t *topic) collect(w *waiter, giveUp bool) (d *Delivery, err error, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w.state == served:
		return w.delivery, w.err, true
	case !giveUp:
		return nil, nil, false
	}
	if w.state == queued {
		w.state = left
		t.fifoOf(w.partition).leave()
		t.refreshFlagLocked()
	}
	w.state = left
	return nil, nil, true
}

// wakeAllWaiters makes every parked request look at the engine's state again.
func (e *Engine) wakeAllWaiters() {
	for _, t := range e.allTopics() {
		t.mu.Lock()
		for i := range t.pinned {
			t.pinned[i].unparkAll()
		}
		t.shared.unparkAll()
		t.mu.Unlock()
	}
}

func (f *fifo) unparkAll() {
	for _, w := range f.entries {
		w.ready.Unpark()
	}
}

// pump is the one task that serves parked requests, for all topics (PUMP-02). It reserves only once it has
// taken a waiter off its queue (PUMP-10), hands each record to exactly that one (PUMP-03), and leaves the others alone.
type pump struct {
	engine *Engine
	wake   *env.Waiter
	task   *env.Group

	mu       sync.Mutex // guards the fields below
	dirty    []*topic   // to be pumped, each once
	marked   map[*topic]bool
	stopping bool
}

func newPump(e *Engine) *pump {
	return &pump{engine: e, wake: e.env.NewWaiter(), task: e.env.NewGroup(), marked: make(map[*topic]bool)}
}

func (p *pump) start() { p.task.Go("pump", p.run) }

func (p *pump) stop() {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.wake.Unpark()
	p.task.Wait()
}

// mark asks for a topic to be pumped.
func (p *pump) mark(t *topic) {
	p.mu.Lock()
	if !p.marked[t] {
		p.marked[t] = true
		p.dirty = append(p.dirty, t)
	}
	p.mu.Unlock()
	p.wake.Unpark()
}

func (p *pump) run() {
	for {
		t, stopping := p.next()
		switch {
		case stopping:
			return
		case t == nil:
			p.wake.Park()
		default:
			p.serve(t)
		}
	}
}

// next takes a topic to pump. Its mark goes first, so that what happens from now on marks it again.
func (p *pump) next() (t *topic, stopping bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping || len(p.dirty) == 0 {
		return nil, p.stopping
	}
	t = p.dirty[0]
	p.dirty[0] = nil
	p.dirty = p.dirty[1:]
	delete(p.marked, t)
	return t, false
}

// serve pumps one topic: pinned queues first, because a pinned consumer can take from nowhere else (PUMP-18).
func (p *pump) serve(t *topic) {
	for i := range t.pinned {
		p.serveFIFO(t, int32(i))
	}
	p.serveFIFO(t, AnyPartition)
}

// serveFIFO goes on until a waiter it has nothing for: all waiters of one queue look at the same partitions (PUMP-15).
func (p *pump) serveFIFO(t *topic, partition int32) {
	for {
		w := t.popWaiter(partition)
		if w == nil {
			return
		}
		p.engine.env.Point("engine: waiter popped, not served")
		d, err := t.scan(partition, HandoutPump)
		if errors.Is(err, ErrEmpty) {
			p.putBack(t, w)
			return
		}
		if !t.handOver(w, d, err) && d != nil {
			t.giveBack(d, CauseCancel) // the request left while it was in our hand (PUMP-11)
		}
	}
}

func (t *topic) popWaiter(partition int32) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.fifoOf(partition).pop()
	if w != nil {
		w.state = popped
	}
	return w
}

// putBack returns a waiter that could not be served. While it was in the pump's hand the topic may have
// looked waiter-less, so that notify dropped a wake-up; then the topic is pumped again (PUMP-07).
func (p *pump) putBack(t *topic, w *waiter) {
	t.mu.Lock()
	if w.state == left {
		t.refreshFlagLocked()
		t.mu.Unlock()
		return
	}
	w.state = queued
	t.fifoOf(w.partition).putBack(w)
	again := !t.flag.Swap(true)
	t.mu.Unlock()
	p.engine.emit(PumpPutBack{t.info.Name, again})
	if again {
		p.mark(t)
	}
	if p.engine.gate.isClosed() {
		w.ready.Unpark() // closing looked at the queue while the waiter was not in it
	}
}

// handOver gives the waiter its answer; it reports false when the waiter left meanwhile.
func (t *topic) handOver(w *waiter, d *Delivery, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refreshFlagLocked()
	if w.state == left {
		return false
	}
	w.state, w.delivery, w.err = served, d, err
	w.ready.Unpark()
	return true
}
