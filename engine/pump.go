package engine

import (
	"errors"
	"sync"

	"narad/env"
)

// notify says that records may have become available: the high watermark moved, a lease ended, a cap was
// freed, a log closed (PUMP-06, Q-20). Without a waiter it is one atomic load and allocates nothing (PUMP-08, PUMP-09).
func (t *topic) notify() {
	if t.waiting.present.Load() {
		t.engine.pump.mark(t)
	}
}

// Outcomes of a wait that are no answer to the client: the request looks again, with what is left of its wait.
var (
	errRetired = errors.New("the topic is gone or was replaced")
	errLapsed  = errors.New("the lease lapsed before the answer left")
)

// await parks the request in its queue until it is served, cancelled, or its deadline comes.
func (t *topic) await(r *ConsumeRequest, deadline env.Instant) (*Delivery, error) {
	e := t.engine
	w := &waiter{partition: r.Partition}
	w.ready.Init(e.env)
	r.attach(w)
	defer r.attach(nil)
	if r.Waiting != nil {
		r.Waiting()
	}
	e.env.Point("engine: found nothing, not parked")
	if !t.waiting.join(w, func() { t.tell(w, waiterJoined) }) {
		return nil, errRetired
	}
	e.pump.mark(t) // a consumer that comes after the data must not wait for the next commit (PUMP-05)
	if e.gate.isClosed() || r.isCancelled() {
		w.ready.Unpark() // what closed or cancelled may have looked before we stood in the queue
	}
	for {
		inTime := w.ready.ParkUntil(deadline)
		e.env.Point("engine: served, answer not taken")
		switch {
		case t.waiting.isServed(w):
			return t.served(w)
		case r.isCancelled():
			return t.giveUp(w, ErrCancelled)
		case e.gate.isClosed():
			return t.giveUp(w, ErrClosed)
		case t.waiting.isRetired():
			return t.giveUp(w, errRetired)
		case !inTime:
			return t.giveUp(w, ErrEmpty)
		}
	}
}

// giveUp leaves the queue and answers err, unless the pump was faster.
func (t *topic) giveUp(w *waiter, err error) (*Delivery, error) {
	if !t.waiting.leave(w, func() { t.tell(w, waiterLeft) }) {
		return t.served(w)
	}
	return nil, err
}

// served returns what the pump gave. A lease that lapsed while the answer waited for this task is not handed on: no
// handle is issued without a live reservation behind it (CON-19).
func (t *topic) served(w *waiter) (*Delivery, error) {
	d, err := t.waiting.answer(w)
	if err == nil && !t.isLive(d) {
		return nil, errLapsed
	}
	return d, err
}

// Kinds of waiter events.
const (
	waiterJoined = iota
	waiterLeft
	waiterServed
)

// tell reports what became of a waiter.
func (t *topic) tell(w *waiter, what int) {
	if !t.engine.detailed() {
		return
	}
	switch id := (WaiterID{t.info.Name, t.info.ID, w.partition, w.seq}); what {
	case waiterJoined:
		t.engine.emit(WaiterJoined{id})
	case waiterLeft:
		t.engine.emit(WaiterLeft{id})
	case waiterServed:
		t.engine.emit(WaiterServed{id, w.err})
	}
}

// wakeAllWaiters makes every parked request look at the engine's state again.
func (e *Engine) wakeAllWaiters() {
	for _, t := range e.allTopics() {
		t.waiting.unparkAll()
	}
}

// pump is the one task that serves parked requests, for all topics (PUMP-02). It reserves only once it has
// taken a waiter off its queue (PUMP-10), hands each record to exactly that one (PUMP-03), and leaves the others alone.
type pump struct {
	engine *Engine
	wake   *env.Waiter
	task   *env.Group

	mu       sync.Mutex // guards the fields below and topic.marked
	dirty    []*topic   // to be pumped, each once, from head on
	head     int
	stopping bool
}

func newPump(e *Engine) *pump {
	return &pump{engine: e, wake: e.env.NewWaiter(), task: e.env.NewGroup()}
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
	fresh := !t.marked
	if fresh {
		t.marked = true
		p.dirty = append(p.dirty, t)
	}
	p.mu.Unlock()
	if fresh {
		p.wake.Unpark()
	}
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
	if p.stopping || p.head == len(p.dirty) {
		return nil, p.stopping
	}
	t = p.dirty[p.head]
	p.dirty[p.head] = nil
	p.head++
	t.marked = false
	if p.head > len(p.dirty)/2 { // reclaim the front, amortised
		n := copy(p.dirty, p.dirty[p.head:])
		clear(p.dirty[n:])
		p.dirty, p.head = p.dirty[:n], 0
	}
	return t, false
}

// serve pumps one topic: pinned queues first, because a pinned consumer can take from nowhere else (PUMP-18).
func (p *pump) serve(t *topic) {
	if p.engine.detailed() {
		p.engine.emit(PumpPass{t.info.Name, t.info.ID})
	}
	for i := t.waiting.nextPinned(0); i >= 0; i = t.waiting.nextPinned(i + 1) {
		p.serveFIFO(t, i)
	}
	p.serveFIFO(t, AnyPartition)
}

// serveFIFO goes on until a waiter it has nothing for: all waiters of one queue look at the same partitions, those that
// are there now (PUMP-15, PUMP-19).
func (p *pump) serveFIFO(t *topic, partition int32) {
	for {
		w := t.waiting.pop(partition)
		if w == nil {
			return
		}
		p.engine.env.Point("engine: waiter popped, not served")
		d, err := t.scan(partition, HandoutPump)
		p.engine.env.Point("engine: scanned for a waiter, not answered")
		if errors.Is(err, ErrEmpty) || transient(err) {
			p.putBack(t, w, transient(err))
			return
		}
		if !t.waiting.handOver(w, d, err, func() { t.tell(w, waiterServed) }) && d != nil {
			t.giveBack(d, CauseCancel) // the request left while it was in our hand (PUMP-11)
		}
	}
}

// putBack returns a waiter that could not be served; with again it is tried once more.
func (p *pump) putBack(t *topic, w *waiter, again bool) {
	back, missed := t.waiting.putBack(w)
	if !back {
		return
	}
	if p.engine.detailed() {
		p.engine.emit(PumpPutBack{WaiterID{t.info.Name, t.info.ID, w.partition, w.seq}, missed})
	}
	if missed || again {
		p.mark(t)
	}
	if p.engine.gate.isClosed() || t.waiting.isRetired() {
		w.ready.Unpark() // closing looked at the queue while the waiter was not in it
	}
}
