package engine

import (
	"math"
	"slices"
	"sync"
	"time"

	"narad/env"
	"narad/segment"
)

// destination is where the messages for one partition go. The partitions of this engine are destinations; a stand-in for a
// partition of another node can be one as well.
type destination interface {
	// deliver stores records in their order. After a nil error they are fsynced, read back and visible from offset base on
	// (LOG-05). After an error they may have been stored or not; they will be sent again. Their bytes are used for others once
	// it has returned.
	deliver(records []segment.Record) (base int64, err error)
	// awaited reports whether consumers wait for what is stored there.
	awaited(now env.Instant) bool
	// gathers tells by how many lanes more, or fewer, records wait for their commit.
	gathers(by int)
}

// lane is the way to one destination. It is guarded by dispatcher.mu.
//
// queue and skipped together are what the destination has still to get, in the order of the ingress log: everything in
// skipped comes after everything in queue. That is what keeps a later record from overtaking one that was passed over.
type lane struct {
	key  Key
	dest destination

	queue   []pending // from head on; the first flying of them are in flight
	head    int
	flying  int
	bytes   int      // of the queue
	slab    *slab    // where the bytes of the last records are, with room for more; nil: nowhere
	skipped []uint64 // passed over, ascending, to be read again

	started env.Instant   // of the commit in flight
	latency time.Duration // of commits, a moving average; 0: none has succeeded yet
	hung    bool          // its commit holds no slot any more
	failing bool          // the last commit failed: the queue is one record, tried again at retryAt
	retryAt env.Instant
	pause   time.Duration
	listed  bool // in dispatcher.waiting
	retired bool // its topic is gone
}

// pending is a message between its 202 and its commit. Its bytes are in a slab of its lane.
type pending struct {
	seq          uint64
	at           env.Instant // when it was queued
	key, payload []byte
	slab         *slab // that they are in
}

func (r pending) bytes() int { return len(r.key) + len(r.payload) }

// always is before every instant that a clock can show.
const always env.Instant = math.MinInt64

// size returns the number of records in the queue.
func (l *lane) size() int { return len(l.queue) - l.head }

// load is what the lane counts for in the dispatcher's window: a hung commit counts nothing, or a few of them would stop
// everybody else.
func (l *lane) load() (records, bytes int) {
	if l.hung {
		return 0, 0
	}
	return l.size(), l.bytes
}

// accepts reports whether the lane takes one more record into its queue.
func (l *lane) accepts(limit int) bool {
	return !l.hung && !l.failing && l.size() < limit && l.bytes < windowBytes/4
}

// oldest returns when the first record of the queue, which is not empty, came.
func (l *lane) oldest() env.Instant { return l.queue[l.head].at }

// slab is memory that records of a lane share. Those are committed in their order, so it lives little longer than the first of them.
type slab struct {
	buf     []byte
	records int // of the queue that are in it
}

// slabSize is the size of slabs that are used again. Smaller ones are for lanes with little in them, so that what a lane holds is not
// much more than its queue; larger ones are for records that are.
const slabSize = 32 << 10

// slabs holds those that nobody uses; which of them a lane gets is never visible.
var slabs = sync.Pool{New: func() any { return &slab{buf: make([]byte, 0, slabSize)} }}

// slabFor returns the size of the next slab of a lane whose queue has so many bytes.
func slabFor(bytes int) int {
	if bytes >= slabSize/2 {
		return slabSize
	}
	return bytes
}

func newSlab(size int) *slab {
	if size == slabSize {
		return slabs.Get().(*slab)
	}
	return &slab{buf: make([]byte, 0, size)}
}

func (s *slab) release() {
	if cap(s.buf) == slabSize {
		s.buf = s.buf[:0]
		slabs.Put(s)
	}
}

// own makes the bytes of a record those of the lane: the reader reuses its buffer.
func (l *lane) own(r *pending) {
	size := r.bytes()
	if l.slab == nil || cap(l.slab.buf)-len(l.slab.buf) < size {
		l.leaveSlab()
		l.slab = newSlab(max(size, slabFor(l.bytes)))
	}
	s, begin, middle := l.slab, len(l.slab.buf), len(l.slab.buf)+len(r.key)
	s.buf = append(append(s.buf, r.key...), r.payload...)
	r.key, r.payload = s.buf[begin:middle:middle], s.buf[middle:len(s.buf):len(s.buf)]
	s.records++
	r.slab = s
}

// leaveSlab puts nothing more into the slab.
func (l *lane) leaveSlab() {
	if l.slab != nil && l.slab.records == 0 {
		l.slab.release()
	}
	l.slab = nil
}

// disown forgets a record of the queue.
func (l *lane) disown(r *pending) {
	l.bytes -= r.bytes()
	r.slab.records--
	if r.slab.records == 0 && r.slab != l.slab {
		r.slab.release()
	}
	*r = pending{} // the array must not keep it
}

// push queues a record, whose bytes it copies.
func (l *lane) push(r pending) {
	l.own(&r)
	if l.head > 0 && l.head >= len(l.queue)/2 { // reclaim the front, amortised
		n := copy(l.queue, l.queue[l.head:])
		clear(l.queue[n:])
		l.queue, l.head = l.queue[:n], 0
	}
	l.queue = append(l.queue, r)
	l.bytes += r.bytes()
}

// pop removes the first n records.
func (l *lane) pop(n int) {
	for i := range n {
		l.disown(&l.queue[l.head+i])
	}
	l.head += n
	if l.size() == 0 {
		l.leaveSlab()
	}
}

// begin puts as many records in flight as one commit takes.
func (l *lane) begin(now env.Instant) {
	size := 0
	for l.flying = 0; l.flying < l.size() && l.flying < commitRecords && (l.flying == 0 || size < commitBytes); l.flying++ {
		size += l.queue[l.head+l.flying].bytes()
	}
	l.started = now
}

// inFlight returns the records in flight; the slice is valid as long as the lock is held.
func (l *lane) inFlight() []pending { return l.queue[l.head : l.head+l.flying] }

// giveBack returns the records of the queue from the n-th on to the ingress log: they will be read again.
func (l *lane) giveBack(n int) {
	back := l.queue[l.head+n:]
	if len(back) == 0 {
		return
	}
	seqs := make([]uint64, 0, len(back)+len(l.skipped))
	for i := range back {
		seqs = append(seqs, back[i].seq)
		l.disown(&back[i])
	}
	l.queue = l.queue[:l.head+n]
	l.skipped = append(seqs, l.skipped...)
}

// skip notes a record that is to be read again. Only one that had no place before can be lower than others.
func (l *lane) skip(seq uint64) {
	i, _ := slices.BinarySearch(l.skipped, seq)
	l.skipped = slices.Insert(l.skipped, i, seq)
}

// succeeded notes how long a commit took.
func (l *lane) succeeded(took time.Duration) {
	l.failing, l.pause = false, 0
	took = max(took, 1)
	if l.latency == 0 {
		l.latency = took
	}
	l.latency = (7*l.latency + took) / 8
}

// failed backs off. One record stays, to try with (WAL-27); the others make room for those of other destinations.
func (l *lane) failed(now env.Instant) {
	l.failing = true
	l.pause = min(max(2*l.pause, commitRetryMin), commitRetryMax)
	l.retryAt = now.Add(l.pause)
	l.giveBack(1)
}
