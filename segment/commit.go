package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// request is one call of Commit, or of roll, that waits for the leader.
type request struct {
	recs   []Record
	roll   bool // begin a new segment instead, if the first record of the active one is older than cutoff
	cutoff int64
	bytes  int // about what they take in a frame
	base   int64
	err    error
	done   bool        // base and err are set
	lead   bool        // the caller is the leader now
	wait   *env.Waiter // nil for a caller that leads at once
}

// Commit appends records and returns the offset of the first; the others follow densely. When it returns
// nil they are stored, synced, read back and verified, and visible, in this order. On error none of them is
// visible now; a crash before the disk forgets them may still bring back some.
//
// Concurrent calls are committed in the order of the calls; those that wait for the disk together share one
// frame and its outcome. The records are not kept. Errors: ErrClosed, *PoisonedError, ErrTooLarge (nothing
// was tried), anything else is one of the disk. Committing no records only reports whether one could, and
// where.
func (l *Log) Commit(recs []Record) (base int64, err error) {
	bytes := 0
	for i := range recs {
		size := record.RecordSize(len(recs[i].Key), len(recs[i].Payload))
		if size > record.MaxFrameRecord {
			return 0, fmt.Errorf("segment: commit of record %d of %d bytes: %w", i, size, ErrTooLarge)
		}
		bytes += size
	}
	l.mu.Lock()
	if err := l.refuseLocked(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	if len(recs) == 0 {
		l.mu.Unlock()
		return l.hw.Load(), nil
	}
	r := requests.Get().(*request)
	r.recs, r.bytes = recs, bytes
	l.joinLocked(r)
	base, err = r.base, r.err
	*r = request{} // nobody else knows it any more
	requests.Put(r)
	return base, err
}

// requests are used again; which of them a call gets is never visible.
var requests = sync.Pool{New: func() any { return new(request) }}

// joinLocked queues a request and returns, with mu released, when it is done, by whichever task.
func (l *Log) joinLocked(r *request) {
	if l.leading {
		l.queue = append(l.queue, r)
		r.wait = l.env.NewWaiter()
		for !r.done && !r.lead {
			l.mu.Unlock()
			r.wait.Park()
			l.mu.Lock()
		}
	} else { // the queue is empty, and no batch of it is under way
		l.space = append(l.space[:0], r)
		l.queue = l.space
	}
	if r.done {
		l.mu.Unlock()
		return
	}
	l.leading = true
	l.mu.Unlock()
	l.lead()
}

// roll seals the active segment and begins another one, between two commits, unless a commit was faster.
func (l *Log) roll(cutoff int64) error {
	r := &request{roll: true, cutoff: cutoff}
	l.mu.Lock()
	if err := l.refuseLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	l.joinLocked(r)
	return r.err
}

// refuseLocked says why no commit may start.
func (l *Log) refuseLocked() error {
	if l.closed {
		return ErrClosed
	}
	return l.poison
}

// lead commits the requests at the head of the queue, the leader's own first among them, and makes the next
// waiting caller the leader.
func (l *Log) lead() {
	batch := l.takeBatch()
	base, err := l.commitBatch(batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range batch {
		r.finish(base, err)
		base += int64(len(r.recs))
	}
	if refused := l.refuseLocked(); refused != nil {
		for _, r := range l.queue {
			r.finish(0, refused)
		}
		l.queue = nil
	}
	if len(l.queue) == 0 {
		l.queue, l.leading = nil, false
		l.space[0] = nil
		l.wakeCloserLocked()
		return
	}
	l.queue[0].lead = true
	l.queue[0].wait.Unpark()
}

func (r *request) finish(base int64, err error) {
	r.base, r.err, r.done = base, err, true
	if err != nil {
		r.base = 0
	}
	if r.wait != nil {
		r.wait.Unpark()
	}
}

// takeBatch removes from the queue what fits one frame, and at least one request.
func (l *Log) takeBatch() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, sum := 0, 0
	for _, r := range l.queue {
		if n > 0 && (r.roll || l.queue[0].roll || sum+r.bytes > l.opt.FrameBytes) {
			break
		}
		n, sum = n+1, sum+r.bytes
	}
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	return batch
}

// commitBatch commits the records of all requests as one run and returns the offset of the first.
func (l *Log) commitBatch(batch []*request) (int64, error) {
	l.mu.Lock()
	err := l.refuseLocked()
	l.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if batch[0].roll {
		return 0, l.rollOld(batch[0].cutoff)
	}
	active, err := l.writable()
	if err != nil {
		err = fmt.Errorf("segment: begin %s: %w", fileName(l.hw.Load()), err)
		l.opt.Event(CommitFailed{err})
		return 0, err
	}
	w := newWriter(l, active)
	defer w.free()
	start := l.env.Now()
	if err := w.write(batch); err != nil {
		err = fmt.Errorf("segment: commit to %s at byte %d: %w", active.name(), w.at, err)
		l.discard(active, w, err)
		l.opt.Event(CommitFailed{err})
		return 0, err
	}
	l.env.Point("segment: read back, not visible")
	l.bounds.reach(w.next, true, w.crc)
	base := l.publish(active, w)
	if l.told {
		l.opt.Event(Committed{
			Base: base, Next: w.next, Records: int(w.next - base), Bytes: w.bytes, StampMs: w.stamp,
			Took: l.env.Now().Sub(start), Syncs: w.syncs, SyncTook: w.syncTook,
		})
	}
	l.env.Point("segment: visible, not confirmed")
	l.opt.OnAdvance()
	return base, nil
}

// rollOld begins a new segment when the first record of the active one is older than the cutoff. One that is empty already has a
// durable name after it.
func (l *Log) rollOld(cutoff int64) error {
	l.mu.Lock()
	active := l.segs[len(l.segs)-1]
	empty := active.size == 0
	old := !empty && active.first < cutoff
	l.mu.Unlock()
	switch {
	case empty && !active.named:
		return l.rename(active)
	case old:
		_, err := l.begin()
		return err
	}
	return nil
}

// publish raises the high watermark over what the writer stored.
func (l *Log) publish(active *segment, w *writer) (base int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range w.frames {
		active.addFrame(e.Offset, e.At, false)
	}
	base = active.end
	if active.size == 0 {
		active.first = w.stamp
	}
	active.lastAt, active.last = w.frames[len(w.frames)-1].At, w.stamp
	active.size, active.end = w.at, w.next
	l.floor = w.stamp
	l.hw.Store(w.next)
	return base
}

// discard hides what a failed commit wrote: nothing above the high watermark stays in the file, and the next
// commit takes its place and its offsets. Caches hold nothing to purge, because blocks are only read below
// the watermark. After a sync that failed nothing is tried: what the file shows is no longer what the disk
// holds, and only recovery, which writes again what it believes, may go on from there.
func (l *Log) discard(active *segment, w *writer, cause error) {
	var s *syncError
	if errors.As(cause, &s) {
		l.latch(cause)
		return
	}
	l.env.Point("segment: commit failed, not cut")
	if err := w.cut(); err != nil {
		l.latch(errors.Join(cause, fmt.Errorf("cut %s: %w", active.name(), err)))
	}
}

// cut takes back what was written, the last frame first, each cut synced before the next one: a cut that a
// power failure tears may damage the frame it removes, and must not find intact ones behind it.
func (w *writer) cut() error {
	for {
		if err := w.file.Truncate(w.at); err != nil {
			return err
		}
		w.env.Point("segment: commit failed, cut, not synced")
		if err := w.file.Sync(); err != nil {
			return err
		}
		n := len(w.frames)
		if n == 0 {
			return nil
		}
		w.at = w.frames[n-1].At
		w.frames = w.frames[:n-1]
	}
}

// latch poisons the log.
func (l *Log) latch(cause error) {
	poison := &PoisonedError{cause}
	l.mu.Lock()
	l.poison = poison
	l.mu.Unlock()
	l.opt.Event(Poisoned{poison})
}

// syncError marks a sync that failed; after it nothing may be believed.
type syncError struct{ cause error }

func (e *syncError) Error() string { return "sync: " + e.cause.Error() }
func (e *syncError) Unwrap() error { return e.cause }

func wrapSync(err error) error {
	if err == nil {
		return nil
	}
	return &syncError{err}
}

// writer stores the frames of one commit. Its buffers are shared by all logs, so that an idle log holds none.
type writer struct {
	env   *env.Env
	opt   *Options
	file  vfs.File
	at    int64 // byte where the next frame goes
	next  int64 // offset of the next record
	bytes int64 // written so far
	stamp int64 // commit time of the records

	syncs    int
	syncTook time.Duration // together

	frame  record.FrameWriter
	crc    uint32 // of the last frame
	buf    []byte
	back   []byte // what is read back
	frames []IndexEntry
}

// writerBytesMax bounds the buffers that are kept for the next commit.
const writerBytesMax = 4 << 20

var writers = sync.Pool{New: func() any { return new(writer) }}

func newWriter(l *Log, active *segment) *writer {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := writers.Get().(*writer)
	w.env, w.opt, w.file, w.frames = l.env, &l.opt, active.file, w.frames[:0]
	w.at, w.next, w.bytes = active.size, active.end, 0
	w.syncs, w.syncTook = 0, 0
	w.stamp = max(l.env.Wall().UnixMilli(), l.floor)
	return w
}

func (w *writer) free() {
	if cap(w.buf) > writerBytesMax || cap(w.back) > writerBytesMax {
		return
	}
	w.env, w.opt, w.file = nil, nil, nil
	writers.Put(w)
}

// write stores the records of the requests in frames of about FrameBytes.
func (w *writer) write(batch []*request) error {
	w.frame.Level = w.opt.Level
	w.frame.Reset(w.buf[:0], w.next, w.opt.Codec)
	for _, r := range batch {
		for i := range r.recs {
			key, payload := r.recs[i].Key, r.recs[i].Payload
			if w.frame.Count() > 0 && w.frame.Size()+record.RecordSize(len(key), len(payload)) > w.opt.FrameBytes {
				if err := w.store(); err != nil {
					return err
				}
				w.frame.Reset(w.buf[:0], w.next, w.opt.Codec)
			}
			w.frame.AddRecord(key, w.stamp, payload)
		}
	}
	return w.store()
}

// store writes one frame, syncs it, reads it back and verifies it. Every frame has a sync of its own, so
// that at any instant only the last frame of a log can be unsynced: recovery relies on it.
func (w *writer) store() error {
	count := w.frame.Count()
	buf, err := w.frame.Finish()
	w.buf = buf
	if err != nil {
		return err
	}
	if _, err := w.file.WriteAt(buf, w.at); err != nil {
		return err
	}
	w.env.Point("segment: written, not synced")
	start := w.env.Now()
	if err := w.file.Sync(); err != nil {
		return wrapSync(err)
	}
	w.syncs, w.syncTook = w.syncs+1, w.syncTook+w.env.Now().Sub(start)
	w.env.Point("segment: synced, not read back")
	if err := w.verify(); err != nil {
		return err
	}
	w.frames = append(w.frames, IndexEntry{w.next, w.at})
	w.at += int64(len(buf))
	w.bytes += int64(len(buf))
	w.next += int64(count)
	return nil
}

// verify reads the frame back. The operating system normally answers from memory: this is a check of the
// bytes as they were handed over and of their place, not of the medium.
func (w *writer) verify() error {
	if cap(w.back) < len(w.buf) {
		w.back = make([]byte, 0, cap(w.buf))
	}
	back := w.back[:len(w.buf)]
	if n, err := w.file.ReadAt(back, w.at); n < len(back) {
		return fmt.Errorf("read back: %w", noEOF(err))
	}
	f, _, err := record.ParseFrame(back)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReadBack, err)
	}
	if f.Base != w.next || !bytes.Equal(back, w.buf) {
		return ErrReadBack
	}
	w.crc = f.CRC
	return nil
}

// writable returns the active segment, beginning a new one when there is none or the last is full. Whatever
// it returns has a durable name: a frame is never written into a file whose name is not. Therefore a segment
// found empty after a restart, whose name may not be, gets it once more.
func (l *Log) writable() (*segment, error) {
	l.mu.Lock()
	var active *segment
	var size int64
	if n := len(l.segs); n > 0 {
		active = l.segs[n-1]
		size = active.size
	}
	l.mu.Unlock()
	switch {
	case active == nil || size >= l.opt.SegmentBytes:
		return l.begin()
	case size == 0 && !active.named:
		return active, l.rename(active)
	}
	return active, nil
}

// begin creates the segment that starts at the high watermark and makes it the active one.
func (l *Log) begin() (*segment, error) {
	s := &segment{base: l.hw.Load(), end: l.hw.Load()}
	s.warm(l.env)
	s.last, s.indexed = l.floor, true
	file, err := l.create(s.name())
	if err != nil {
		return nil, err
	}
	s.file, s.named = file, true
	l.mu.Lock()
	var sealed *segment
	var victims []vfs.File
	if n := len(l.segs); n > 0 {
		sealed = l.segs[n-1]
		sealed.users++ // until its index is saved
		l.hot = append(l.hot, sealed)
		victims = l.evictLocked()
	} else {
		l.oldest.Store(s.base)
	}
	l.segs = append(l.segs, s)
	l.mu.Unlock()
	closeAll(victims)
	if sealed != nil {
		if len(sealed.lost) == 0 {
			l.saveIndex(sealed, sealed.file, sealed.index, sealed.lastAt)
		}
		l.releaseUse(sealed)
	}
	l.opt.Event(Rolled{Base: s.base})
	return s, nil
}

// create makes the file of a new segment, and its name durable.
func (l *Log) create(name string) (vfs.File, error) {
	l.naming.Lock()
	defer l.naming.Unlock()
	file, err := l.dir.Create(name)
	if errors.Is(err, fs.ErrExist) {
		// Only a creation that failed half-way in this log can have left it, and then it is empty.
		if info, serr := l.dir.Stat(name); serr == nil && !info.Dir && info.Size == 0 {
			file, err = l.replace(name)
		}
	}
	if err != nil {
		return nil, err
	}
	l.bounds.ensure()
	l.env.Point("segment: created, name not synced")
	if err := l.syncName(file); err != nil {
		return nil, err
	}
	l.bounds.nameSynced()
	return file, nil
}

// rename gives the empty active segment its name again, by a new file moved over it.
func (l *Log) rename(active *segment) error {
	l.naming.Lock()
	defer l.naming.Unlock()
	file, err := l.replace(active.name())
	if err != nil {
		return err
	}
	l.env.Point("segment: renamed, name not synced")
	if err := l.syncName(file); err != nil {
		return err
	}
	l.mu.Lock()
	old := active.file
	active.file, active.named = file, true
	l.mu.Unlock()
	old.Close()
	return nil
}

// replace puts a new, empty file in the place of an empty one.
func (l *Log) replace(name string) (vfs.File, error) {
	temp := name[:nameDigits] + tempSuffix
	if err := l.dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := l.dir.Create(temp)
	if err != nil {
		return nil, err
	}
	if err := l.dir.Rename(temp, name); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// syncName makes the name of a new file durable. When that fails the log is poisoned: a second sync of the
// directory would prove nothing.
func (l *Log) syncName(file vfs.File) error {
	err := l.dir.Sync()
	if err == nil {
		return nil
	}
	file.Close()
	err = fmt.Errorf("directory: %w", wrapSync(err))
	l.latch(err)
	return err
}
