package wal

import (
	"encoding/binary"

	"narad/env"
	"narad/record"
)

// writer is one Append that waits for its records to become durable. The permit of its waiter is given
// exactly once, when first and err are final.
type writer struct {
	waiter   env.Waiter
	link     *writer  // next in the list that it is in
	payloads [][]byte // while it waits for room
	sums     []uint32 // checksums of its payloads
	need     int      // bytes of its frames
	first    uint64   // sequence number of its first record
	count    int      // number of its records
	err      error
}

// next returns the sequence number behind its last record.
func (w *writer) next() uint64 { return w.first + uint64(w.count) }

// sum computes the checksums, which needs no lock.
func (w *writer) sum(payloads [][]byte) {
	w.sums = w.sums[:0]
	for _, p := range payloads {
		w.sums = append(w.sums, record.WALChecksum(p))
	}
}

// writerList is a FIFO of writers.
type writerList struct {
	head, tail *writer
	count      int
}

func (q *writerList) push(w *writer) {
	w.link = nil
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.link = w
	}
	q.tail = w
	q.count++
}

func (q *writerList) pop() *writer {
	w := q.head
	q.head = w.link
	if q.head == nil {
		q.tail = nil
	}
	w.link = nil
	q.count--
	return w
}

// take moves all of other to the end of q.
func (q *writerList) take(other *writerList) {
	if other.head == nil {
		return
	}
	if q.tail == nil {
		q.head = other.head
	} else {
		q.tail.link = other.head
	}
	q.tail = other.tail
	q.count += other.count
	*other = writerList{}
}

// takeBelow moves those whose records are all below next, which are the first ones of other, to the end of q.
func (q *writerList) takeBelow(other *writerList, next uint64) {
	if other.tail != nil && other.tail.next() <= next {
		q.take(other)
		return
	}
	for other.head != nil && other.head.next() <= next {
		q.push(other.pop())
	}
}

// finish gives every writer of q its outcome and wakes it. The list is empty afterwards: a woken writer may
// be in another list at once.
func (q *writerList) finish(err error) {
	for q.head != nil {
		w := q.pop()
		w.err = err
		w.waiter.Unpark()
	}
}

// finishInTurn is finish without an error for writers who are expected back: each of them wakes the next one, the last one gives
// a permit to end.
func (q *writerList) finishInTurn(r *env.Relay, end *env.Waiter, deadline env.Instant) {
	for q.head != nil {
		r.Add(&q.pop().waiter)
	}
	r.Start(end, deadline)
}

// batch is a run of frames that will be written together, and the writers that wait for it.
type batch struct {
	frames  []byte
	first   uint64 // sequence number of the first frame
	records int
	writers writerList
}

// fits reports whether need more bytes may be staged. An empty batch takes anything.
func (b *batch) fits(need, limit int) bool {
	return b.records == 0 || len(b.frames)+need <= limit
}

// stage copies the payloads into b as frames with sequence numbers from first on.
func (b *batch) stage(w *writer, first uint64, payloads [][]byte, limit int) {
	if b.records == 0 {
		b.first = first
	}
	b.grow(w.need, limit)
	w.first, w.count = first, len(payloads)
	for i, p := range payloads {
		b.frames = record.AppendSummedWALFrame(b.frames, first+uint64(i), p, w.sums[i])
	}
	b.records += len(payloads)
	b.writers.push(w)
}

// grow makes room for need bytes, doubling up to limit; only a single larger append goes beyond it.
func (b *batch) grow(need, limit int) {
	size := len(b.frames) + need
	if size <= cap(b.frames) {
		return
	}
	grown := make([]byte, len(b.frames), max(size, min(2*cap(b.frames), limit)))
	copy(grown, b.frames)
	b.frames = grown
}

// reset empties b for its next use. It keeps no more than limit bytes of memory.
func (b *batch) reset(limit int) {
	b.frames, b.first, b.records = b.frames[:0], 0, 0
	if cap(b.frames) > limit {
		b.frames = nil
	}
}

// framesSize returns the bytes that payloads take as frames, or ErrSize.
func framesSize(payloads [][]byte) (int, error) {
	if len(payloads) == 0 {
		return 0, ErrSize
	}
	size := 0
	for _, p := range payloads {
		if len(p) == 0 || len(p) > record.MaxWALRecord {
			return 0, ErrSize
		}
		size += record.WALHeaderSize + len(p)
	}
	return size, nil
}

// wholeFrames returns how many bytes of frames, which this package encoded, are whole frames within limit,
// and how many frames that is.
func wholeFrames(frames []byte, limit int64) (size, records int) {
	for size < len(frames) {
		n := frameSize(frames[size:])
		if int64(size+n) > limit {
			break
		}
		size += n
		records++
	}
	return size, records
}

// frameSize returns the size of the frame at the start of frames, which this package encoded.
func frameSize(frames []byte) int {
	return record.WALHeaderSize + int(binary.BigEndian.Uint32(frames[4:]))
}
