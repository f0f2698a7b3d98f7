package check

import (
	"errors"
	"strings"

	"narad/committer"
	"narad/engine"
	"narad/sim/model"
	"narad/wal"
)

// What a failing disk excuses. The windows of INV-08 and INV-09 are then counted from what was written or synced last without
// an error, and produces may fail once the ingress log has (WAL-11).

// troubles is what failed under the consumer state of one partition in this life.
type troubles struct {
	cache bool // the page cache is not known to hold the last window: no full one was written since a write or a sync failed
	disk  bool // no writeout succeeded since something failed
	// windowAt and durableAt are the true times of the snapshots that were last written, and last made durable.
	windowAt, durableAt int64
}

// failed notes that a prime, a window write or a writeout failed: only what is durable is known.
func (p *part) failed() {
	p.model.Cached = p.model.Durable
	p.slots.cachedSafe = nil // at once: without a shard the next one is seeded from what the cache holds now
	p.slots.troubles.cache, p.slots.troubles.disk = true, true
}

func (t *troubles) wrote(s *model.Snapshot) {
	t.cache = false
	if s != nil {
		t.windowAt = s.At
	}
}

func (t *troubles) wroteOut() {
	t.disk = false
	t.durableAt = t.windowAt
}

// Latched reports whether the ingress log has failed in this life: produces may fail until a restart.
func (n *Node) Latched() bool { return n.LatchedIn(n.life) }

// LatchedIn is Latched for a life, or a later one: an answer may be taken when the process that gave it has been replaced.
func (n *Node) LatchedIn(life int) bool { return n.latchedIn >= max(life, 1) }

// Life counts the starts of the node.
func (n *Node) Life() int { return n.life }

func (n *Node) seeLatch(v wal.Event) {
	switch v := v.(type) {
	case wal.Failed:
		n.latchedIn = n.life
		n.Goal("S-42") // the disk under the ingress log failed
	case wal.BatchSynced:
		if v.Err != nil {
			n.latchedIn = n.life
		}
	case wal.RollFailed:
		n.latchedIn = n.life
	}
}

// reached follows situations of the consumer state of one partition that take several steps.
type reached struct {
	unsynced     int64 // true time of the first window since the last writeout; 0: none
	failedOut    bool  // the last writeout failed
	statFailed   bool  // the last attempt failed where it looked for a path
	evicted      bool  // its descriptor was closed to make room
	again        bool  // and it was opened again
	cutOff       bool  // a process died between a tick and its writeout; nothing was primed since
	primedCutOff bool  // and then a prime, and no window since
}

// reach counts the situations S-12 to S-23 that the committer's events show.
func (n *Node) reach(v committer.Event) {
	switch v := v.(type) {
	case committer.Primed:
		r := n.reachedBy(v.Key, v.Err)
		if v.Err == nil {
			r.primedCutOff, r.cutOff = r.cutOff, false
		}
	case committer.WindowWritten:
		r := n.reachedBy(v.Key, v.Err)
		r.primedCutOff = false
		if v.Err != nil {
			return
		}
		if r.failedOut {
			r.failedOut = false
			n.Goal("S-12") // a full rewrite after a writeout that failed
		}
		if r.unsynced == 0 {
			r.unsynced = n.now()
		}
	case committer.WrittenOut:
		r := n.reachedBy(v.Key, v.Err)
		r.failedOut = v.Err != nil
		if v.Err == nil && r.unsynced != 0 && n.now()-r.unsynced > int64(n.Interval) {
			n.Goal("S-22") // overdue, and so off its turn
		}
		if v.Err == nil {
			r.unsynced = 0
		}
	case committer.Evicted:
		n.reachedBy(v.Key, nil).evicted = true
	case committer.Reopened:
		r := n.reachedBy(v.Key, nil)
		switch {
		case v.OneOff:
			n.Goal("S-16")
		case v.Err != nil && r.evicted && r.again:
			n.Goal("S-15") // evicted, reopened, and a reopen refused
		case v.Err == nil && r.evicted:
			r.again = true
		}
	}
}

// reachedBy returns what partition k has reached, after looking at the error of what it tried.
func (n *Node) reachedBy(k committer.Key, err error) *reached {
	p := n.partOf(k)
	if p == nil {
		return new(reached)
	}
	r := &p.slots.reached
	switch {
	case err != nil:
		r.statFailed = r.statFailed || strings.Contains(err.Error(), ": stat ") || strings.Contains(err.Error(), ": reopen ")
	case r.statFailed:
		r.statFailed = false
		n.Goal("S-18") // EIO where a path was looked up, tried again
	}
	return r
}

// reachCrash counts the crashes of S-11.
func (n *Node) reachCrash(p *part, power bool) {
	r := &p.slots.reached
	switch {
	case !power:
		r.cutOff = r.cutOff || p.slots.window >= 0
	case r.cutOff:
		n.Goal("S-11 before prime")
	case r.primedCutOff:
		n.Goal("S-11 primed")
	}
	*r = reached{cutOff: r.cutOff && !power}
}

// reachRecovery counts the recovery of S-11.
func (n *Node) reachRecovery(p *part, v engine.ShardOpened) {
	for i, s := range v.Report.Slots.Slot {
		if errors.Is(s.Err, committer.ErrChecksum) && v.Report.Slots.Newest == 1-i {
			n.Goal("S-11 torn")
		}
	}
}

// severalSectors offsets, a bit each, do not fit into the sector that a window begins with.
const severalSectors = 4200

// WideWindow reports whether the node has written consumer state of several sectors for a partition, and not synced it.
func (n *Node) WideWindow() bool {
	for _, p := range n.order {
		if p.slots.window >= 0 && len(p.model.Cached.Ahead) > severalSectors {
			return true
		}
	}
	return false
}
