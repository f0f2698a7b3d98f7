package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"narad/env"
	"narad/vfs"
)

// syncLoop is the task that commits what no writer commits itself, and rolls.
func (l *Log) syncLoop() {
	for {
		b, roll, ok, until := l.takeWork()
		switch {
		case b != nil:
			l.commitAlone(b)
		case roll:
			l.rollIdle()
			l.endCommit()
		case !ok:
			return
		case until != env.Forever && l.relay.UnderWay():
			l.wake.Park() // the relay gives a permit, at its end and from then on
		case until != env.Forever:
			l.wake.YieldUntil(until)
		default:
			l.wake.Park()
		}
	}
}

// commitAlone commits b for the task that alone may: the one that has set committing. So a failure is latched before
// anything else can be written. It reports whether there is something left for the sync task, to do or to wait for.
func (l *Log) commitAlone(b *batch) (more bool) {
	if !l.commit(b) {
		l.returnBatch(b)
	}
	return l.endCommit()
}

// endCommit lets another task commit.
func (l *Log) endCommit() (more bool) {
	l.lockToStage()
	defer l.mu.Unlock()
	l.committing = false
	return l.open.records > 0 || l.gather.target > 0 || l.queue.head != nil || l.rollWanted || l.closing
}

// takeOpenLocked takes the open batch for a task that commits it. Nobody does yet.
func (l *Log) takeOpenLocked() *batch {
	b := l.open
	l.open, l.spare = l.spare, nil
	l.committing = true
	l.stageQueueLocked()
	return b
}

// takeWork returns the staged batch, or whether a roll is wanted: then the caller is the one that commits. When there is
// nothing to do yet, it tells until when to wait; ok is false when nothing will come any more.
func (l *Log) takeWork() (b *batch, roll, ok bool, until env.Instant) {
	now := l.env.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.committing {
		return nil, false, true, env.Forever // until that task wakes this one
	}
	full := l.queue.head != nil || l.closing
	if until, wait := l.gather.waits(l.open.writers.count, full, l.relay.UnderWay(), now); wait {
		return nil, false, true, until
	}
	if l.open.records > 0 {
		return l.takeOpenLocked(), false, true, 0
	}
	roll, l.rollWanted = l.rollWanted && l.err == nil && !l.closing, false
	l.committing = roll
	return nil, roll, !l.closing, env.Forever
}

// returnBatch makes b, which has failed, the spare one.
func (l *Log) returnBatch(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spareLocked(b)
}

func (l *Log) spareLocked(b *batch) {
	b.reset(l.options.BatchBytes)
	l.spare = b
}

// commit writes b, syncs it, tells its writers and makes it the spare one, unless it reports false: b has failed.
// It is one write and one sync unless b crosses the end of
// a segment or is larger than maxUnsynced: then every part is durable before the next is written.
func (l *Log) commit(b *batch) bool {
	p := part{first: b.first, start: l.env.Now(), writers: b.writers.count}
	rest, left := b.frames, b.records
	for left > 0 {
		size, records := l.nextPart(rest, left)
		if size == 0 {
			if !l.rollFor(b, p.first, frameSize(rest)) {
				return false
			}
			continue
		}
		p.size, p.next = size, p.first+uint64(records)
		took, err := l.writePart(rest[:size])
		if err != nil {
			l.latch(b, err, BatchSynced{First: p.first, Next: p.next, Records: records, Bytes: size, Err: err})
			return false
		}
		rest, left = rest[size:], left-records
		p.took, p.last = took, left == 0
		l.announce(b, p)
		p.first = p.next
	}
	return true
}

// part is what one write and one sync made durable of a batch.
type part struct {
	first, next uint64
	size        int           // bytes
	took        time.Duration // its sync
	last        bool          // nothing is left of the batch

	start   env.Instant // of the commit of the batch
	writers int         // that waited for the batch
}

// nextPart returns how much of the frames goes into the active segment by one write: nothing when the
// segment is full, or is left for one that is prepared.
func (l *Log) nextPart(frames []byte, left int) (size, records int) {
	if l.prefersPrepared(frameSize(frames)) {
		return 0, 0
	}
	room := l.options.SegmentBytes - l.tail.seg.size
	limit := min(room, maxUnsynced)
	if int64(len(frames)) <= limit {
		return len(frames), left
	}
	size, records = wholeFrames(frames, limit)
	if size == 0 && l.tail.seg.size == 0 {
		return frameSize(frames), 1 // larger than a segment: it gets one of its own
	}
	return size, records
}

// writePart makes frames durable at the end of the active segment, and tells how long the sync took.
func (l *Log) writePart(frames []byte) (took time.Duration, err error) {
	seg := l.tail.seg
	l.env.Point("wal: batch staged, not written")
	if seg.prepared && int64(len(frames)) > l.options.SegmentBytes {
		if err := l.trimDurably(); err != nil { // the frame would not end before the trailer
			return 0, err
		}
	}
	if took, err = l.writeAndSync(frames); err != nil {
		return 0, err
	}
	l.env.Point("wal: batch synced, not announced")
	return took, nil
}

// writeAndSync does both in one call where the system can: then the time is that of both. Nothing else in the file is unsynced.
// A failure of either is latched, so that it need not be known which it was.
func (l *Log) writeAndSync(frames []byte) (took time.Duration, err error) {
	seg, file := l.tail.seg, l.tail.file
	start := l.env.Now()
	if both, ok := file.(vfs.SyncWriter); ok {
		if err := both.WriteAtSync(frames, seg.size); err != nil {
			return 0, fmt.Errorf("write %d bytes at %d of %s and sync: %w", len(frames), seg.size, seg.name(), err)
		}
		return l.env.Now().Sub(start), nil
	}
	if _, err := file.WriteAt(frames, seg.size); err != nil {
		return 0, fmt.Errorf("write %d bytes at %d of %s: %w", len(frames), seg.size, seg.name(), err)
	}
	l.env.Point("wal: batch written, not synced")
	start = l.env.Now()
	if err := file.Sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", seg.name(), err)
	}
	return l.env.Now().Sub(start), nil
}

// announce makes a part that is durable visible and wakes the writers whose last record is in it. Those come back for
// the lock at once, so all that needs it is done before.
func (l *Log) announce(b *batch, p part) {
	var done writerList
	now := l.env.Now()
	l.mu.Lock()
	l.tail.seg.extend(p.first, p.next, int64(p.size))
	l.wantPreparationLocked()
	l.next.Store(p.next)
	done.takeBelow(&b.writers, p.next)
	if p.last {
		l.gather.synced(now.Sub(p.start), p.writers, l.open.writers.count)
		l.spareLocked(b)
	}
	until, relays := l.gather.relays(now)
	l.mu.Unlock()
	if l.options.Event != nil { // tested here because an Event is an allocation
		l.options.Event(BatchSynced{First: p.first, Next: p.next, Records: int(p.next - p.first), Bytes: p.size, Took: p.took})
	}
	l.options.OnDurable()
	if relays && !l.relay.UnderWay() {
		done.finishInTurn(&l.relay, &l.wake, until)
	} else {
		done.finish(nil)
	}
}

// latch makes the log refuse everything from now on and fails b and whatever waits. The caller is the task that
// commits, right after the failure, so nothing is written behind it.
func (l *Log) latch(b *batch, cause error, events ...Event) {
	failed := &FailedError{Cause: cause}
	var lost writerList
	l.mu.Lock()
	l.err = failed
	if b != nil {
		lost.take(&b.writers)
	}
	lost.take(&l.open.writers)
	lost.take(&l.queue)
	l.open.reset(l.options.BatchBytes)
	l.mu.Unlock()
	for _, event := range append(events, Failed{Err: failed}) {
		l.event(event)
	}
	lost.finish(failed)
}

// rollFor rolls in the middle of b, whose frame first, of need bytes, is the next to be written. When it reports
// false, b has failed.
func (l *Log) rollFor(b *batch, first uint64, need int) bool {
	latched, err := l.roll(first, need)
	if err == nil {
		return true
	}
	if latched {
		l.latch(b, err)
	} else {
		l.withdraw(b, first, err)
	}
	return false
}

// withdraw fails what is staged although nothing of it has been written from record next on, and takes the
// sequence numbers back. Appends that were not staged yet are staged now, so they try again.
func (l *Log) withdraw(b *batch, next uint64, err error) {
	var lost writerList
	l.mu.Lock()
	lost.take(&b.writers)
	lost.take(&l.open.writers)
	l.open.reset(l.options.BatchBytes)
	l.staged = next
	l.stageQueueLocked()
	l.mu.Unlock()
	lost.finish(err)
}

// rollIdle rolls because every record of the active segment is done with.
func (l *Log) rollIdle() {
	if l.tail.seg.size < l.options.IdleRollBytes {
		return
	}
	if latched, err := l.roll(l.tail.seg.next, 0); latched {
		l.latch(nil, err)
	}
}

// roll makes a new segment for the records from first on the active one; the first frame will have need bytes. All
// that is in the old one is durable already. The new name is durable before roll returns, so before anything in it is
// acknowledged. When it fails, latched tells that the state of the directory is unknown; otherwise nothing has changed.
func (l *Log) roll(first uint64, need int) (latched bool, err error) {
	seg := newSegment(first)
	file, latched, err := l.createSegment(seg, need)
	if err != nil {
		err = fmt.Errorf("create segment %s: %w", seg.name(), err)
		l.event(RollFailed{File: seg.name(), Err: err})
		return latched, err
	}
	if l.tail.seg.prepared {
		l.trim() // zeros that a crash brings back, or an error leaves, are known for what they are
	}
	l.tail.file.Close() // everything in it has been synced; nothing depends on the outcome
	l.mu.Lock()
	l.segments = append(l.segments, seg)
	l.tail.file, l.tail.seg = file, seg
	l.prepared.tried = false
	l.mu.Unlock()
	l.event(SegmentRolled{First: first, Prepared: seg.prepared})
	l.point.wantCompaction()
	return false, nil
}

func (l *Log) createSegment(seg *segment, need int) (file vfs.File, latched bool, err error) {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	file = l.usePrepared(seg, need)
	if seg.prepared = file != nil; !seg.prepared {
		file, err = l.dir.Create(seg.name())
	}
	if errors.Is(err, fs.ErrExist) {
		file, err = l.replaceStray(seg)
	}
	if err != nil {
		return nil, false, err
	}
	l.env.Point("wal: segment created, directory not synced")
	if err := l.dir.Sync(); err != nil {
		file.Close()
		return nil, true, err
	}
	return file, false, nil
}

// replaceStray replaces a file without frames that a creation, or the rename of a prepared one, left although it
// failed.
func (l *Log) replaceStray(seg *segment) (vfs.File, error) {
	info, err := l.dir.Stat(seg.name())
	if err != nil {
		return nil, err
	}
	if info.Dir || info.Size != 0 && info.ID != l.prepared.stray {
		return nil, fs.ErrExist
	}
	if err := l.dir.Remove(seg.name()); err != nil {
		return nil, err
	}
	return l.dir.Create(seg.name())
}
