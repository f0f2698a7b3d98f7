package wal

import (
	"errors"
	"io/fs"
)

// compact removes the sealed segments that are wholly below the durable checkpoint, oldest first, each name
// made durable before the next goes, so that what is left is always a run without a gap. When all that is
// left is done with, it has the active segment rolled, to remove it afterwards.
func (l *Log) compact() {
	_, durable := l.Checkpoint()
	for {
		seg := l.removable(durable)
		if seg == nil {
			break
		}
		if !l.removeSegment(seg) {
			return // the next synced checkpoint tries again
		}
	}
	l.wantIdleRoll(durable)
}

// removable returns the oldest segment if nothing in it is needed.
func (l *Log) removable(durable uint64) *segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) < 2 || l.segments[0].next > durable {
		return nil
	}
	return l.segments[0]
}

// removeSegment removes a segment, reports that, and tells whether it was done. A file that is kept as the prepared one is
// reported before it can be used, so that events come in the order of what they tell.
func (l *Log) removeSegment(seg *segment) bool {
	claimed := l.claimRecycling()
	recycled, err := l.unlinkSegment(seg, claimed)
	l.event(SegmentRemoved{First: seg.first, Next: seg.next, Recycled: recycled, Err: err})
	if claimed {
		state := prepareNone
		if recycled && err == nil {
			state = prepareStale
		}
		l.settlePreparation(state, nil)
	}
	return err == nil
}

// unlinkSegment takes the segment's name from it: it removes the file or, if recycle, gives it the name of the prepared
// one. It becomes one only after the directory was synced: after a failed sync the file may yet come back under its old
// name, so nothing new may be written into it.
func (l *Log) unlinkSegment(seg *segment, recycle bool) (recycled bool, err error) {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if recycle {
		recycled = l.dir.Rename(seg.name(), preparedName) == nil
	}
	if !recycled {
		if err := l.dir.Remove(seg.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	l.env.Point("wal: segment removed, directory not synced")
	if err := l.dir.Sync(); err != nil {
		return recycled, err
	}
	l.mu.Lock()
	l.segments = l.segments[1:]
	l.mu.Unlock()
	return recycled, nil
}

// wantIdleRoll asks the sync task to roll when the active segment holds nothing that is needed.
func (l *Log) wantIdleRoll(durable uint64) {
	l.mu.Lock()
	active := l.segments[len(l.segments)-1]
	idle := active.next <= durable && active.size >= l.options.IdleRollBytes && l.open.records == 0 &&
		!active.prepared // its space is taken whatever is in it, so a roll would free nothing
	l.rollWanted = l.rollWanted || idle
	l.mu.Unlock()
	if idle {
		l.wake.Unpark()
	}
}
