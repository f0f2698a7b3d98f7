package engine

import (
	"sync"
	"sync/atomic"

	"narad/env"
)

// waiter is a consume request that found nothing and waits its turn. Its fields are guarded by waitQueue.mu.
type waiter struct {
	seq       uint64 // in the order of joining, within the topic
	partition int32
	ready     env.Waiter // unparked when served, cancelled, or when the topic or the engine goes
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

// waitQueue holds the parked requests of one topic: a FIFO for each partition that somebody is pinned to, so that
// such a waiter never stands in front of one that could be served from elsewhere (PUMP-14, PUMP-17), and a shared one.
//
// A popped waiter is in no FIFO. The flag may be clear while the pump holds one; see putBack.
type waitQueue struct {
	present atomic.Bool // a waiter may be in a FIFO; read by notify without the lock (PUMP-08)

	mu         sync.Mutex // guards the fields below and all waiters
	joined     uint64
	live       int    // in all FIFOs
	pinnedLive int    // of those, in the pinned ones
	pinned     []fifo // by partition, as far as somebody was ever pinned
	shared     fifo
	retired    bool // the topic is gone: nobody joins any more
}

// fifoOf needs q.mu.
func (q *waitQueue) fifoOf(partition int32) *fifo {
	if partition == AnyPartition {
		return &q.shared
	}
	for int(partition) >= len(q.pinned) {
		q.pinned = append(q.pinned, fifo{})
	}
	return &q.pinned[partition]
}

// count keeps the totals when the FIFO of a partition gained or lost a live waiter. It needs q.mu.
func (q *waitQueue) count(partition int32, by int) {
	q.live += by
	if partition != AnyPartition {
		q.pinnedLive += by
	}
}

// join puts a waiter at the end of its FIFO; it reports false when the topic is gone. joined is told while nothing else
// can happen to the queue.
func (q *waitQueue) join(w *waiter, joined func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.retired {
		return false
	}
	q.joined++
	w.seq = q.joined
	q.fifoOf(w.partition).pushBack(w)
	q.count(w.partition, 1)
	q.present.Store(true)
	joined()
	return true
}

// pop takes the first waiter of a FIFO out, nil when there is none.
func (q *waitQueue) pop(partition int32) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.fifoOf(partition).pop()
	if w != nil {
		w.state = popped
		q.count(partition, -1)
	}
	return w
}

// putBack returns a popped waiter to the head of its FIFO: it keeps its turn (PUMP-16). It reports false when the waiter
// left meanwhile. While it was in the pump's hand the topic may have looked waiter-less, so that notify dropped
// a wake-up; then missed is true and the topic must be pumped again (PUMP-07).
func (q *waitQueue) putBack(w *waiter) (back, missed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == left {
		q.present.Store(q.live > 0)
		return false, false
	}
	w.state = queued
	q.fifoOf(w.partition).pushFront(w)
	q.count(w.partition, 1)
	return true, !q.present.Swap(true)
}

// handOver gives a popped waiter its answer; it reports false when the waiter left meanwhile.
func (q *waitQueue) handOver(w *waiter, d *Delivery, err error, handed func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.present.Store(q.live > 0)
	if w.state == left {
		return false
	}
	w.state, w.delivery, w.err = served, d, err
	handed()
	w.ready.Unpark()
	return true
}

// leave takes a waiter out that was not served, wherever it is. From then on nobody hands it anything (PUMP-23).
// It reports false when the waiter has its answer already.
func (q *waitQueue) leave(w *waiter, gone func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.state == served {
		return false
	}
	was := w.state
	w.state = left
	if was == queued {
		q.count(w.partition, -1)
		q.fifoOf(w.partition).leave()
		q.present.Store(q.live > 0)
	}
	gone()
	return true
}

// isServed reports whether the waiter has its answer.
func (q *waitQueue) isServed(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.state == served
}

// answer returns what a served waiter was given.
func (q *waitQueue) answer(w *waiter) (*Delivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.delivery, w.err
}

// nextPinned returns the lowest partition from the given one on that a waiter is pinned to, -1 for none.
func (q *waitQueue) nextPinned(from int32) int32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pinnedLive == 0 {
		return -1
	}
	for i := from; int(i) < len(q.pinned); i++ {
		if q.pinned[i].live > 0 {
			return i
		}
	}
	return -1
}

// isRetired reports whether the topic is gone.
func (q *waitQueue) isRetired() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retired
}

// retire refuses further waiters and lets those that are parked look at the state of the world again.
func (q *waitQueue) retire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retired = true
	q.unparkAllLocked()
}

// unparkAll lets every parked request look at the state of the world again.
func (q *waitQueue) unparkAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unparkAllLocked()
}

func (q *waitQueue) unparkAllLocked() {
	for i := range q.pinned {
		q.pinned[i].unparkAll()
	}
	q.shared.unparkAll()
}

// fifo is a queue of waiters in a ring: both ends cost O(1). A waiter that leaves is marked where it stands and swept
// out when marked entries outnumber live ones (PUMP-20), so leaving costs O(1) amortised.
type fifo struct {
	ring []*waiter // its length is zero or a power of two
	head int
	n    int // entries, marked ones included
	live int
}

// fifoSmall is the ring that an emptied queue may keep.
const fifoSmall = 64

func (f *fifo) slot(i int) **waiter { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) pushBack(w *waiter) {
	f.makeRoom()
	*f.slot(f.n) = w
	f.n++
	f.live++
}

func (f *fifo) pushFront(w *waiter) {
	f.makeRoom()
	f.head = (f.head - 1) & (len(f.ring) - 1)
	*f.slot(0) = w
	f.n++
	f.live++
}

// pop takes the first live waiter out, nil when there is none.
func (f *fifo) pop() *waiter {
	for f.n > 0 {
		first := f.slot(0)
		w := *first
		*first = nil
		f.head++
		f.n--
		if w.state == queued {
			f.live--
			f.sweep()
			return w
		}
	}
	f.resize(0)
	return nil
}

// leave is told that a waiter in the queue was marked.
func (f *fifo) leave() {
	f.live--
	f.sweep()
}

// sweep removes the marked entries when they outnumber the live ones by more than one.
func (f *fifo) sweep() {
	if f.n-f.live <= f.live+1 {
		return
	}
	kept := 0
	for i := range f.n {
		if w := *f.slot(i); w.state == queued {
			*f.slot(kept) = w
			kept++
		}
	}
	for i := kept; i < f.n; i++ {
		*f.slot(i) = nil
	}
	f.n = kept
	if len(f.ring) > fifoSmall && f.n <= len(f.ring)/4 {
		f.resize(len(f.ring) / 2)
	}
}

func (f *fifo) makeRoom() {
	if f.n == len(f.ring) {
		f.resize(max(4, 2*len(f.ring)))
	}
}

// resize moves the entries to a ring of that size; 0 lets go of a large one that is empty.
func (f *fifo) resize(size int) {
	if size == 0 {
		if len(f.ring) > fifoSmall {
			f.ring, f.head = nil, 0
		}
		return
	}
	ring := make([]*waiter, size)
	for i := range f.n {
		ring[i] = *f.slot(i)
	}
	f.ring, f.head = ring, 0
}

func (f *fifo) unparkAll() {
	for i := range f.n {
		(*f.slot(i)).ready.Unpark()
	}
}
