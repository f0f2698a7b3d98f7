package wal

import (
	"time"

	"narad/env"
)

const (
	// gatherShare is the part of a sync that a batch waits for writers: 1/gatherShare, and as much again each time that it pays.
	gatherShare = 4
	// gatherMost is how many syncs a batch waits at most.
	gatherMost = 2
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
// a sync, and for as long again while they come faster than a sync takes those who are there. A writer that is alone never waits:
// it is all that is waited for. When most of the
// writers do not come back, because they are requests of a kind that come once, the next batches go
// without a wait, twice as many each time. When all come back, they are woken by a relay the next time, and what is waited for
// first is its end.
//
// It is a value without I/O, guarded by Log.mu.
type gather struct {
	average time.Duration // of a write with its sync
	target  int           // writers to wait for; 0: do not wait
	woken   int           // how many of them have to come back
	until   env.Instant   // end of the wait; 0: it has not begun
	begun   env.Instant   // of the wait
	looked  env.Instant   // when the wait was begun or extended
	seen    int           // how many were staged then
	rest    int           // length of the last rest, in batches
	resting int           // batches that are still to go without a wait
	waking  bool          // some were still to be woken when it was asked last
	all     bool          // everybody came back the last time
}

// relays reports whether the writers who are to be woken are woken by a relay, and until when its end is waited for.
func (g *gather) relays(now env.Instant) (until env.Instant, ok bool) {
	return now.Add(gatherMost * g.average), g.target > 0 && g.all
}

// synced tells that a batch of so many writers took so long, and that staged others have come meanwhile.
func (g *gather) synced(took time.Duration, writers, staged int) {
	if g.average == 0 {
		g.average = took
	}
	g.average += (min(took, 2*g.average) - g.average) / averageWeight // a disk that stalled once is as fast as before
	g.target = 0
	if writers+staged < 2 {
		return
	}
	if g.resting > 0 {
		g.resting--
		return
	}
	g.target, g.woken, g.until, g.seen, g.waking = writers+staged, writers, 0, staged, false
}

// isAlone reports whether the writer that has just staged, as the one that makes them so many, is waited for by nobody and waits for
// nobody: then it can commit by itself.
func (g *gather) isAlone(staged int) bool { return g.target == 0 && staged == 1 }

// isLast reports whether it is the last one of those that are gathered: then the sync task waits for no more.
func (g *gather) isLast(staged int) bool { return staged == g.target }

// waits reports whether a batch with so many writers has to wait, and until when. full tells that no more
// fits into it, waking that some of those who are waited for have still to be woken. An answer of no ends the wait.
func (g *gather) waits(staged int, full, waking bool, now env.Instant) (until env.Instant, wait bool) {
	if g.target == 0 {
		return 0, false
	}
	window := g.average / gatherShare
	if g.until == 0 {
		g.begun, g.looked, g.until = now, now, now.Add(window)
	}
	if waking {
		g.until = g.begun.Add(gatherMost * g.average)
	} else if g.waking { // those who are not back yet had no chance before
		g.looked, g.seen, g.until = now, staged, now.Add(window)
	}
	g.waking = waking
	if now >= g.until && g.pays(staged, now) {
		g.looked, g.seen, g.until = now, staged, now.Add(window)
	}
	if staged < g.target && !full && now < g.until {
		return g.until, true
	}
	g.all = staged >= g.target
	most := 2*(g.woken-(g.target-staged)) >= g.woken // of them are back
	if full || most {
		g.rest = 0
	} else {
		g.rest = min(max(1, 2*g.rest), gatherRest)
		g.resting = g.rest
	}
	g.target = 0
	return 0, false
}

// pays reports whether to wait on: whether writers came faster, since the wait was begun or last extended, than the whole batch would
// become durable if it were written now. Those who are left out have to wait for a sync of their own.
func (g *gather) pays(staged int, now env.Instant) bool {
	came, in := int64(staged-g.seen), now.Sub(g.looked)
	waited := now.Sub(g.begun)
	return waited < gatherMost*g.average && came*int64(waited+g.average) > int64(staged)*int64(in)
}
