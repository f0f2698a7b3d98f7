package wal

import (
	"errors"
	"fmt"
	"io/fs"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// zeroChunk is how many bytes of a prepared file are written before they are synced.
const zeroChunk = 1 << 20

// preparation is the file for the next segment, made ahead: zeros on the disk, so that writing a batch into it changes
// neither its size nor the blocks that it has. It is always named preparedName until a roll renames it.
//
// A task that sets prepareBusy, and it alone, may change the file until it settles another state.
type preparation struct {
	wake  env.Waiter // of the prepare task
	stray vfs.ID     // of a file whose rename failed; it belongs to the task that commits

	// The fields below are guarded by Log.mu.
	state  preparationState
	wanted bool
	tried  bool     // since the last roll
	file   vfs.File // when ready, else nil
}

type preparationState int

const (
	prepareNone  preparationState = iota // no file, or one that is not to be used
	prepareStale                         // a segment that was removed, with its old contents
	prepareBusy                          // a task is changing it
	prepareReady
)

// wantPreparationLocked has the next file prepared when it will be needed before long: when the active segment is half
// full, or grows and therefore is to be left early.
func (l *Log) wantPreparationLocked() {
	p, seg := &l.prepared, l.tail.seg
	if !l.options.Preallocate || p.tried || p.state == prepareBusy || p.state == prepareReady {
		return
	}
	from := l.options.SegmentBytes
	if !seg.prepared {
		from = min(from, l.options.IdleRollBytes)
	}
	if seg.size >= from/2 {
		p.tried, p.wanted = true, true
		p.wake.Unpark()
	}
}

// prepareLoop is the task that prepares files.
func (l *Log) prepareLoop() {
	for !l.isClosing() {
		recycle, ok := l.takePreparation()
		if !ok {
			l.prepared.wake.Park()
			continue
		}
		file, err := l.prepare(recycle)
		if err != nil {
			err = fmt.Errorf("prepare the next segment: %w", err)
		}
		if file != nil || err != nil {
			l.event(SegmentPrepared{Recycled: recycle, Err: err}) // before a roll can use it, and report that
		}
		state := prepareNone
		if file != nil {
			state = prepareReady
		}
		l.settlePreparation(state, file)
	}
}

// takePreparation tells whether a file is to be prepared, and whether out of one that is there.
func (l *Log) takePreparation() (recycle, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.prepared
	if !p.wanted || l.err != nil || p.state == prepareBusy {
		return false, false
	}
	recycle, p.wanted, p.state = p.state == prepareStale, false, prepareBusy
	return recycle, true
}

// settlePreparation ends a time of prepareBusy. Only with prepareReady there is a file.
func (l *Log) settlePreparation(state preparationState, file vfs.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepared.state, l.prepared.file = state, file
	if l.prepared.wanted {
		l.prepared.wake.Unpark()
	}
}

// prepare returns a file of zeros that are on the disk. Without an error the file is nil when the log is
// closed meanwhile. When it fails, for example because the disk is full, the next segment grows instead.
func (l *Log) prepare(recycle bool) (vfs.File, error) {
	file, err := l.preparedFile(recycle)
	if err != nil {
		return nil, err
	}
	done, err := l.zero(file)
	if done && err == nil {
		return file, nil
	}
	file.Close()
	l.dropPrepared()
	return nil, err
}

func (l *Log) preparedFile(recycle bool) (vfs.File, error) {
	if recycle {
		return l.dir.Open(preparedName)
	}
	l.dropPrepared()
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	return l.dir.Create(preparedName)
}

// dropPrepared removes the file, and with it what it takes of the disk. That need not be durable.
func (l *Log) dropPrepared() {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.dir.Remove(preparedName)
}

// zero overwrites all of the file, so that nothing is left of an earlier use, and makes the zeros durable before
// the file can become a segment. It goes in steps and pauses after each for as long as it took, so that the syncs of
// appends do not queue up behind it. It reports false when the log was closed before it was done.
func (l *Log) zero(file vfs.File) (done bool, err error) {
	limit := l.options.SegmentBytes
	if err := resize(file, limit+record.WALTrailerSize); err != nil {
		return false, err
	}
	zeros := make([]byte, min(zeroChunk, limit))
	for at := int64(0); at < limit; {
		start := l.env.Now()
		n := min(int64(len(zeros)), limit-at)
		if _, err := file.WriteAt(zeros[:n], at); err != nil {
			return false, err
		}
		if at += n; at == limit {
			break
		}
		if err := file.Sync(); err != nil {
			return false, err
		}
		now := l.env.Now()
		l.prepared.wake.ParkUntil(now.Add(now.Sub(start)))
		if l.isClosing() {
			return false, nil
		}
	}
	if _, err := file.WriteAt(record.AppendWALTrailer(nil, limit), limit); err != nil {
		return false, err
	}
	l.env.Point("wal: segment prepared, not synced")
	return true, file.Sync()
}

// resize gives the file that size and the blocks for it.
func resize(file vfs.File, size int64) error {
	now, err := file.Size()
	if err != nil {
		return err
	}
	if now > size {
		if err := file.Truncate(size); err != nil {
			return err
		}
	}
	return file.Preallocate(size)
}

// prefersPrepared reports whether the active segment grows and is left for a prepared one, into which a frame of need bytes fits.
// A log that is never idle would otherwise grow its first segment to the end.
func (l *Log) prefersPrepared(need int) bool {
	seg := l.tail.seg
	if !l.options.Preallocate || seg.prepared || seg.size == 0 || int64(need) > l.options.SegmentBytes {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prepared.state == prepareReady
}

// usePrepared makes the prepared file, if there is one, the file of seg, whose first frame has need bytes. The name is
// not durable yet. It returns nil when a file has to be created. The caller holds dirMu.
func (l *Log) usePrepared(seg *segment, need int) vfs.File {
	if int64(need) > l.options.SegmentBytes {
		return nil
	}
	l.mu.Lock()
	file := l.prepared.file
	if file != nil {
		l.prepared.state, l.prepared.file = prepareBusy, nil
	}
	l.mu.Unlock()
	if file == nil {
		return nil
	}
	if _, err := l.dir.Stat(seg.name()); !errors.Is(err, fs.ErrNotExist) {
		l.settlePreparation(prepareReady, file) // a creation deals with what is there
		return nil
	}
	err := l.dir.Rename(preparedName, seg.name())
	if err != nil {
		l.abandonPrepared(seg, file, err)
		return nil
	}
	l.settlePreparation(prepareNone, nil)
	if renamed, err := l.dir.Open(seg.name()); err == nil {
		file.Close()
		return renamed // its errors bear the right name
	}
	return file
}

// abandonPrepared gives up a file whose rename failed, whichever name it has now.
func (l *Log) abandonPrepared(seg *segment, file vfs.File, err error) {
	if info, err := l.dir.Stat(seg.name()); err == nil && info.ID == file.ID() {
		l.dir.Remove(seg.name())
	}
	l.dir.Remove(preparedName)
	l.prepared.stray = file.ID()
	file.Close()
	l.event(SegmentPrepared{Err: fmt.Errorf("use the prepared segment: %w", err)})
	l.settlePreparation(prepareNone, nil)
}

// claimRecycling reports whether a segment that is removed should be kept as the next prepared file; then the
// caller must call settlePreparation.
func (l *Log) claimRecycling() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.options.Preallocate || l.prepared.state != prepareNone || l.err != nil {
		return false
	}
	l.prepared.state = prepareBusy
	return true
}

// closePrepared removes the file when the log is closed; the next one could not tell what is on the disk of it.
func (l *Log) closePrepared() {
	if !l.options.Preallocate {
		return
	}
	if file := l.prepared.file; file != nil {
		file.Close()
	}
	if l.err == nil {
		l.dropPrepared()
	}
}

// trim cuts the zeros off the active segment, which was prepared and gets no more frames.
func (l *Log) trim() error {
	seg := l.tail.seg
	if err := l.tail.file.Truncate(seg.size); err != nil {
		return fmt.Errorf("trim %s: %w", seg.name(), err)
	}
	return nil
}

// trimDurably makes the active segment one that grows.
func (l *Log) trimDurably() error {
	if err := l.trim(); err != nil {
		return err
	}
	seg := l.tail.seg
	if err := l.tail.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name(), err)
	}
	l.mu.Lock()
	seg.prepared = false
	l.mu.Unlock()
	return nil
}
