package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"narad/record"
	"narad/vfs"
)

// Retained says what a call of Retain did and when the next one can have something to do.
type Retained struct {
	Segments int
	Records  int64 // offsets that are gone
	Bytes    int64
	Oldest   int64 // lowest offset that the log holds now
	// Next is a commit time, in unix milliseconds: a Retain whose cutoff is not above it has nothing to do, unless
	// records were committed since. NeverMs when the log is empty.
	Next int64
}

// NeverMs is later than every commit time.
const NeverMs = math.MaxInt64

// Retain removes, oldest first, the segments whose records were all committed before cutoffMs (unix milliseconds, on
// the clock that stamps them): a record lives at least until the cutoff passes it, and goes with the last one of its
// segment. So that this ends on a quiet log too, the active segment is sealed once its first record is that old. When all
// records are, an empty segment is left, whose name keeps the next offset.
//
// Offsets below the new Oldest answer *FloorError from the moment of the removal on; reads that are under way answer
// their record or that. When Retain returns nil the removal is durable. On error some of it may be left to the next call.
// Errors: ErrClosed, *PoisonedError, or one of the disk.
//
// Crash safety: a new segment is durable before the one before it is removed, so offsets never begin again (G2). Files are
// unlinked oldest first, each unlink synced before the next one, so that a crash leaves a contiguous end of the log; how
// much is gone, or gone and back, is open until Retain returns.
func (l *Log) Retain(cutoffMs int64) (Retained, error) {
	l.retaining.Lock()
	defer l.retaining.Unlock()
	l.mu.Lock()
	if err := l.refuseLocked(); err != nil {
		l.mu.Unlock()
		return Retained{}, err
	}
	l.readers++ // Close waits
	l.mu.Unlock()
	defer l.leave()

	var r Retained
	err := l.retain(cutoffMs, &r)
	r.Oldest = l.oldest.Load()
	if err != nil {
		return r, fmt.Errorf("segment: retain: %w", err)
	}
	return r, nil
}

func (l *Log) retain(cutoff int64, r *Retained) error {
	if err := l.unlink(); err != nil {
		return err
	}
	if err := l.removeExpired(cutoff, r); err != nil {
		return err
	}
	first, err := l.firstOfActive()
	if err != nil {
		return err
	}
	if first != unknownMs && first < cutoff {
		l.env.Point("segment: active segment too old, not rolled")
		if err := l.roll(cutoff); err != nil {
			return err
		}
		if err := l.removeExpired(cutoff, r); err != nil {
			return err
		}
		if first, err = l.firstOfActive(); err != nil { // commits may have come
			return err
		}
	}
	r.Next, err = l.next(first)
	return err
}

// next returns the commit time that a cutoff must pass before there is something to remove or to roll.
func (l *Log) next(firstOfActive int64) (int64, error) {
	for _, s := range l.sealed() {
		if last, err := l.lastOf(s); last != unknownMs || err != nil {
			return last, err
		}
	}
	if firstOfActive != unknownMs {
		return firstOfActive, nil
	}
	return NeverMs, nil
}

// sealed returns the sealed segments as they are now.
func (l *Log) sealed() []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segs) == 0 {
		return nil
	}
	return append([]*segment(nil), l.segs[:len(l.segs)-1]...)
}

// removeExpired removes the sealed segments whose last record is older than the cutoff. One of which no record can be read
// goes with its successor.
func (l *Log) removeExpired(cutoff int64, r *Retained) error {
	n, newest := 0, int64(unknownMs)
	for i, s := range l.sealed() {
		last, err := l.lastOf(s)
		if err != nil {
			return err
		}
		if last == unknownMs {
			continue
		}
		if last >= cutoff {
			break
		}
		n, newest = i+1, last
	}
	if n == 0 {
		return nil
	}
	v := l.detach(n, newest)
	r.Segments += v.Segments
	r.Records += v.Records
	r.Bytes += v.Bytes
	l.opt.Event(v)
	l.env.Point("segment: segments removed, files still there")
	return l.unlink()
}

// detach takes the n oldest segments out of the log: from here on nobody finds them.
func (l *Log) detach(n int, lastMs int64) Removed {
	l.mu.Lock()
	v := Removed{Segments: n, Oldest: l.segs[n].base, LastMs: lastMs}
	v.Records = v.Oldest - l.oldest.Load()
	var files []vfs.File
	for _, s := range l.segs[:n] {
		v.Bytes += s.size
		s.warm(l.env)
		s.gone = true
		l.doomed = append(l.doomed, s.base)
		if f := s.abandonedLocked(); f != nil {
			files = append(files, f)
		}
	}
	l.segs = append([]*segment(nil), l.segs[n:]...)
	kept := l.hot[:0]
	for _, s := range l.hot {
		if !s.gone {
			kept = append(kept, s)
		}
	}
	clear(l.hot[len(kept):])
	l.hot = kept
	l.cache.dropBelow(v.Oldest)
	l.oldest.Store(v.Oldest)
	l.mu.Unlock()
	closeAll(files)
	return v
}

// unlink removes the files of segments that are out of the log, which the bounds say durably before. It goes on where an earlier call failed, and never out of
// order, so that what a crash leaves is contiguous.
func (l *Log) unlink() error {
	if len(l.doomed) > 0 {
		if err := l.nameLast(); err != nil {
			return err
		}
		if err := l.raise(); err != nil {
			return err
		}
		l.env.Point("segment: oldest offset raised, files still there")
	}
	for len(l.doomed) > 0 {
		if err := l.unlinkOne(l.doomed[0]); err != nil {
			return err
		}
		l.doomed = l.doomed[1:]
	}
	l.doomed = nil
	return nil
}

// nameLast makes the name of the only segment that is left durable, when it is an empty one. A name that was found at an open may be one whose
// sync failed: lost in a power failure, it would leave no segment at all to bounds that say where the log begins.
func (l *Log) nameLast() error {
	l.mu.Lock()
	last := l.segs[len(l.segs)-1]
	found := len(l.segs) == 1 && last.size == 0 && !last.named
	l.mu.Unlock()
	if !found {
		return nil
	}
	return l.roll(unknownMs)
}

func (l *Log) raise() error {
	l.naming.Lock()
	defer l.naming.Unlock()
	return l.bounds.raise(l.oldest.Load())
}

// unlinkOne removes the files of one segment durably.
func (l *Log) unlinkOne(base int64) error {
	l.naming.Lock()
	defer l.naming.Unlock()
	for _, name := range []string{indexName(base), fileName(base)} {
		if err := l.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l.env.Point("segment: unlinked, not synced")
	return l.dir.Sync()
}

// firstOfActive returns the commit time of the first readable record of the active segment, unknownMs when it has none.
func (l *Log) firstOfActive() (int64, error) {
	l.mu.Lock()
	if len(l.segs) == 0 || l.segs[len(l.segs)-1].size == 0 {
		l.mu.Unlock()
		return unknownMs, nil
	}
	active := l.segs[len(l.segs)-1]
	first, base := active.first, active.base
	next := active.end
	file := active.file
	active.users++ // it may be rolled and evicted meanwhile
	l.mu.Unlock()
	defer l.releaseUse(active)
	if first != unknownMs {
		return first, nil
	}
	for offset := base; offset < next; { // one turn, unless records are damaged
		b, err := l.block(active, file, offset)
		if err != nil {
			return 0, err
		}
		if first = b.firstStamp(); first != unknownMs {
			break
		}
		offset = max(b.to, offset+1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	active.first = first
	return first, nil
}

// firstStamp returns the commit time of the first readable record of a block.
func (b *block) firstStamp() int64 {
	for _, f := range b.frames {
		for _, raw := range f.records {
			if r, err := record.ParseRecord(raw); err == nil {
				return r.CommittedMs
			}
		}
	}
	return unknownMs
}

// lastOf returns the commit time of the last readable record of a sealed segment, unknownMs when there is none. It is read
// once: a sealed segment does not change.
func (l *Log) lastOf(s *segment) (int64, error) {
	l.mu.Lock()
	s.warm(l.env)
	last := s.last
	l.mu.Unlock()
	if last != unknownMs {
		return last, nil
	}
	last, err := l.readLast(s)
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.last = last
	return last, nil
}

// readLast reads the last frame of a sealed segment.
func (l *Log) readLast(s *segment) (int64, error) {
	file, err := l.dir.Open(s.name())
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if x, _ := l.loadIndex(s, file); x != nil {
		if last, err := stampAt(file, x.LastAt, s.size); last != unknownMs || err != nil {
			return last, err
		}
	}
	return scanLast(file, s.base, s.end, s.size)
}

// stampAt returns the commit time of the last record of the frame in bytes [at, end) of a file.
func stampAt(file vfs.File, at, end int64) (int64, error) {
	b := make([]byte, end-at)
	if n, err := file.ReadAt(b, at); n < len(b) {
		return 0, noEOF(err)
	}
	return frameStamp(b), nil
}

// scanLast looks for the last readable record of a segment: by the headers of the frames, and with all checksums when the
// last frame is not what its header says.
func scanLast(file vfs.File, base, end, size int64) (last int64, err error) {
	for _, sums := range []bool{false, true} {
		var found *scanned
		scan := scanner{file: file, size: size, limit: end, sums: sums}
		if _, _, _, err := scan.scan(base, func(f scanned) { found = f.keep(found) }); err != nil {
			return 0, err
		}
		if found == nil {
			return unknownMs, nil
		}
		if last, err = stampAt(file, found.at, found.endAt()); last != unknownMs || err != nil {
			return last, err
		}
	}
	return unknownMs, nil
}

// frameStamp returns the newest commit time of the records in a frame, unknownMs when none can be read.
func frameStamp(frame []byte) (last int64) {
	last = unknownMs
	f, _, err := record.ParseFrame(frame)
	if err != nil {
		return last
	}
	for _, b := range f.Records() {
		if r, err := record.ParseRecord(b); err == nil {
			last = max(last, r.CommittedMs)
		}
	}
	return last
}

// Peek returns what Retain would call Next of the log in a directory, without opening it and without changing anything:
// the commit time that a cutoff must pass before a Retain can have something to do. known is false when the answer takes
// an open log.
func Peek(dir vfs.Dir) (next int64, known bool, err error) {
	entries, err := dir.List()
	if err != nil {
		return 0, false, fmt.Errorf("segment: peek: %w", err)
	}
	var segs []*segment
	for _, info := range entries {
		if base, ok := parseName(info.Name, fileSuffix); ok && !info.Dir {
			if n := len(segs); n > 0 {
				segs[n-1].end = base
			}
			segs = append(segs, &segment{base: base, end: base, size: info.Size})
		}
	}
	if len(segs) == 0 || len(segs) == 1 && segs[0].size == 0 {
		return NeverMs, true, nil
	}
	if len(segs) > 1 {
		next, err = (&Log{dir: dir}).readLast(segs[0])
	} else {
		next, err = peekFirst(dir, segs[0])
	}
	if err != nil {
		return 0, false, fmt.Errorf("segment: peek: %w", err)
	}
	return next, next != unknownMs, nil
}

// peekFirst reads the first frame of a segment.
func peekFirst(dir vfs.Dir, s *segment) (int64, error) {
	file, err := dir.Open(s.name())
	if err != nil {
		return 0, err
	}
	defer file.Close()
	scan := scanner{file: file, size: s.size, limit: math.MaxInt64}
	f, cause, err := scan.frameAt(0, s.base)
	if err != nil || cause != nil {
		return unknownMs, err
	}
	b, err := readFrame(file, f)
	if err != nil {
		return 0, err
	}
	return firstStamp(b), nil
}

// firstStamp returns the commit time of the first readable record in a frame.
func firstStamp(frame []byte) int64 {
	f, _, err := record.ParseFrame(frame)
	if err != nil {
		return unknownMs
	}
	for _, b := range f.Records() {
		if r, err := record.ParseRecord(b); err == nil {
			return r.CommittedMs
		}
	}
	return unknownMs
}
