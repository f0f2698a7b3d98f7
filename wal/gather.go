package wal

import (
	"time"

	"narad/env"
)

const (
	// gatherShare is the part of a sync that the sync task spends on waiting for writers: 1/gatherShare, and as much again
	// when most of them are back by then.
	gatherShare = 4
	// gatherRest is the largest number of batches that go without a wait after writers did not come back.
	gatherRest = 64
	// averageWeight is how many syncs the average reaches back.
	averageWeight = 8
)

// gather decides how long a batch that could be written waits for the writers of the batch before it.
//
// Writers that append in a loop come back a moment after they were woken. If what was staged in the meantime
// were written at once, they would find a sync under way, and from then on two groups would take turns,
// each in half of the syncs. So the next batch waits until those who were woken have staged again, for a fraction of
// a sync, and once more for the last ones when most are back. A writer that is alone never waits: it is all that is waited for. When most of the
// writers do not come back, because they are requests of a kind that come once, the next batches go
// without a wait, twice as many each time.
//
// It is a value without I/O, guarded by Log.mu.
type gather struct {
	average time.Duration // of a write with its sync
	target  int           // writers to wait for; 0: do not wait
	woken   int           // how many of them have to come back
	until   env.Instant   // end of the wait; 0: it has not begun
	longer  bool          // the wait was extended
	rest    int           // length of the last rest, in batches
	resting int           // batches that are still to go without a wait
}

// synced tells that a batch of so many writers took so long, and that staged others have come meanwhile.
func (g *gather) synced(took time.Duration, writers, staged int) {
	if g.average == 0 {
		g.average = took
	}
	g.average += (took - g.average) / averageWeight
	g.target = 0
	if writers+staged < 2 {
		return
	}
	if g.resting > 0 {
		g.resting--
		return
	}
	g.target, g.woken, g.until, g.longer = writers+staged, writers, 0, false
}

// wakeAt returns how many staged writers the sync task has to be woken for.
func (g *gather) wakeAt() int { return max(1, g.target) }

// waits reports whether a batch with so many writers has to wait, and until when. full tells that no more
// fits into it. An answer of no ends the wait.
func (g *gather) waits(staged int, full bool, now env.Instant) (until env.Instant, wait bool) {
	if g.target == 0 {
		return 0, false
	}
	if g.until == 0 {
		g.until = now.Add(g.average / gatherShare)
	}
	most := 2*(g.woken-(g.target-staged)) >= g.woken // of them are back
	if now >= g.until && most && !g.longer {
		g.longer, g.until = true, g.until.Add(g.average/gatherShare)
	}
	if staged < g.target && !full && now < g.until {
		return g.until, true
	}
	if full || most {
		g.rest = 0
	} else {
		g.rest = min(max(1, 2*g.rest), gatherRest)
		g.resting = g.rest
	}
	g.target = 0
	return 0, false
}
