package observe

import (
	"sync/atomic"
	"time"

	"narad/committer"
	"narad/env"
)

// lateness follows how long the files of one partition are behind its acks. An ack is in memory at once, in the page cache after
// the next write of the window, and on the disk after the next writeout; what is measured is the oldest ack that each of these
// brings over. Instants are those of the engine's clock, 0 for none.
type lateness struct {
	first    atomic.Int64 // oldest ack that is in memory only
	last     atomic.Int64 // newest ack
	unsynced atomic.Int64 // oldest ack that is not on the disk
	snapshot atomic.Int64 // when the state in the page cache was taken
}

// acked notes an ack. Those of one partition come one at a time.
func (l *lateness) acked(at env.Instant) {
	l.last.Store(int64(at))
	if l.first.Load() == 0 {
		l.first.Store(int64(at))
	}
	if l.unsynced.Load() == 0 {
		l.unsynced.Store(int64(at))
	}
}

// written notes a window in the page cache, and returns how old the oldest ack in it is.
func (l *lateness) written(v committer.WindowWritten) (late time.Duration, ok bool) {
	l.snapshot.Store(int64(v.SnapshotAt))
	return brought(&l.first, &l.last, v.SnapshotAt, v.End)
}

// writtenOut is the same for the disk, which has what was in the page cache.
func (l *lateness) writtenOut(v committer.WrittenOut) (late time.Duration, ok bool) {
	return brought(&l.unsynced, &l.last, env.Instant(l.snapshot.Load()), v.End)
}

// brought takes the acks up to the given instant off.
func brought(oldest, newest *atomic.Int64, upTo, now env.Instant) (late time.Duration, ok bool) {
	at := oldest.Load()
	if at == 0 || at > int64(upTo) {
		return 0, false
	}
	rest := int64(0)
	if newest.Load() > int64(upTo) {
		rest = int64(upTo) + 1 // or a little later: an ack that came meanwhile
	}
	oldest.CompareAndSwap(at, rest)
	return now.Sub(env.Instant(at)), true
}

// waiting is how long the oldest ack has waited for the page cache and for the disk, now.
func (l *lateness) waiting(now env.Instant) (cache, disk time.Duration) {
	return since(&l.first, now), since(&l.unsynced, now)
}

func since(oldest *atomic.Int64, now env.Instant) time.Duration {
	if at := oldest.Load(); at != 0 {
		return max(now.Sub(env.Instant(at)), 0)
	}
	return 0
}
