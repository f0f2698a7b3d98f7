package check

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"narad/committer"
	"narad/env"
	"narad/sim/model"
)

// How often the committer of one life goes to the disk, one thing at a time, and what it warns of. All of it is on the clock of the
// process, so nothing here needs slack.

// cadence follows the committer of one life.
type cadence struct {
	life    int
	ticks   int         // that ended
	lastEnd env.Instant // of the last prime or writeout
	outs    map[committer.Key]*out

	ended      env.Instant // the last tick
	tick, late warning
	// phases is the turn of each partition, as far as it is known, across lives.
	phases map[committer.Key]int
}

// out is what the committer has written of a partition and not made durable.
type out struct {
	unsynced bool
	oldest   env.Instant // snapshot of the oldest window since
	retry    bool        // the last writeout failed
	doubt    bool        // a window failed, and whether anything of it was written is not told
	tried    int         // number of ticks that had ended when it was written out last, or tried to; -1: never
}

// warning follows one that is given at most once a minute.
type warning struct {
	given bool
	last  env.Instant
	owed  bool   // the event that comes next has to be it
	not   string // why it may not come now
}

// held checks, when all is at rest, that no more descriptors are held than may be: one for a single use is closed by then (COM-33).
func (n *Node) held() {
	if handles := n.Machine.Disk().Held(committer.AheadFile); n.Files > 0 && handles > n.Files {
		n.fail(model.Violate("INV-32", "all is at rest, and %d descriptors of %s are held, at most %d may be (COM-33)", handles, committer.AheadFile, n.Files))
	}
}

// warnEvery is how often a warning may be given, at most (COM-55).
const warnEvery = time.Minute

func (w *warning) due(at env.Instant) bool { return !w.given || at.Sub(w.last) >= warnEvery }

// seeCadence judges an event of the committer.
func (n *Node) seeCadence(v committer.Event) {
	c := &n.rhythm
	if c.life != n.life {
		*c = cadence{life: n.life, outs: map[committer.Key]*out{}, phases: c.phases}
	}
	if _, other := v.(committer.Forgotten); !other {
		n.warned(v)
	}
	switch v := v.(type) {
	case committer.Primed:
		n.alone(v.Key, v.Start, v.End)
		if errors.Is(v.Err, fs.ErrNotExist) && strings.Contains(v.Err.Error(), "open directory") {
			n.fail(model.Violate("COM-45", "the directory of %v is gone, and that is taken for an error to be tried again: %v", v.Key, v.Err))
		}
		if v.Err == nil {
			c.outs[v.Key] = &out{tried: -1}
		}
	case committer.WindowWritten:
		o := c.out(v.Key)
		switch {
		case v.Err != nil:
			o.doubt = true
		case !o.unsynced:
			o.unsynced, o.oldest = true, v.SnapshotAt
		}
	case committer.WrittenOut:
		n.alone(v.Key, v.Start, v.End)
		n.onItsTurn(v)
		o := c.out(v.Key)
		o.retry, o.tried = v.Err != nil, c.ticks
		if v.Err == nil {
			o.unsynced, o.doubt = false, false
		}
	case committer.Evicted:
		if c.out(v.Key).unsynced { // COM-34
			n.fail(model.Violate("COM-34", "the descriptor of %v was closed, and its window is not durable", v.Key))
		}
	case committer.Forgotten, committer.Stranded:
		delete(c.outs, keyOf(v))
	case committer.TickDone:
		n.overdue(v)
		c.ticks++
		n.ticked(v)
	}
}

func keyOf(v committer.Event) committer.Key {
	if s, ok := v.(committer.Stranded); ok {
		return s.Key
	}
	return v.(committer.Forgotten).Key
}

// overdue checks, at the end of a tick, that it wrote out what could not wait for its turn: what had waited for a whole interval when it
// began (COM-05), and what the tick before had failed to write out (COM-16).
func (n *Node) overdue(v committer.TickDone) {
	c := &n.rhythm
	for _, p := range n.order {
		k := committer.Key{Topic: p.key.Topic, Partition: p.key.Partition}
		o := c.outs[k]
		if _, open := p.model.Committed(); o == nil || !open || p.gone || n.parts[p.key] != p || !o.unsynced || o.doubt || o.tried == c.ticks {
			continue
		}
		if o.retry && o.tried < c.ticks {
			n.failPart(p, model.Violate("COM-16", "a writeout failed, and the tick after it did not try again"))
		}
		if waited := v.Start.Sub(o.oldest); waited >= n.Interval {
			n.failPart(p, model.Violate("COM-05", "a window had waited for %v when a tick began, which did not write it out; the interval is %v", waited, n.Interval))
		}
	}
}

func (c *cadence) out(k committer.Key) *out {
	o := c.outs[k]
	if o == nil {
		o = &out{tried: -1}
		c.outs[k] = o
	}
	return o
}

// alone checks that syncs of consumer state do not run side by side (COM-09).
func (n *Node) alone(k committer.Key, start, end env.Instant) {
	if start < n.rhythm.lastEnd {
		n.fail(model.Violate("COM-09", "the sync for %v began at %d, the one before it ended at %d", k, start, n.rhythm.lastEnd))
	}
	n.rhythm.lastEnd = max(n.rhythm.lastEnd, end)
}

// ticksAnInterval is how many ticks an interval has.
func (n *Node) ticksAnInterval() int { return max(1, int(n.Interval/min(n.Interval, n.tick))) }

// crowd partitions that all have one of ten turns or more are too many to be chance: of the names that worlds use at most five do.
const crowd = 6

// onItsTurn checks that a partition is written out at one tick of the interval only, its turn, unless it has waited for a whole interval
// or the last try failed (COM-05), and that turns spread (COM-06).
func (n *Node) onItsTurn(v committer.WrittenOut) {
	c, o := &n.rhythm, n.rhythm.out(v.Key)
	if n.closing || o.retry || o.doubt || !o.unsynced || v.Start.Sub(o.oldest) >= n.Interval {
		return
	}
	turn := c.ticks % n.ticksAnInterval()
	if known, ok := c.phases[v.Key]; ok {
		if known != turn {
			n.fail(model.Violate("COM-05", "%v was written out at turn %d of %d after %v, its turn is %d", v.Key, turn, n.ticksAnInterval(), v.Start.Sub(o.oldest), known))
		}
		return
	}
	if c.phases == nil {
		c.phases = map[committer.Key]int{}
	}
	c.phases[v.Key] = turn
	if n.ticksAnInterval() < 10 || len(c.phases) < crowd {
		return
	}
	for _, other := range c.phases { // order-free: all or not
		if other != turn {
			return
		}
	}
	n.fail(model.Violate("COM-06", "%d partitions are written out at the same one of %d turns", len(c.phases), n.ticksAnInterval()))
}

// ticked notes whether a tick calls for its warning, and why not (COM-52, COM-53, COM-55).
func (n *Node) ticked(v committer.TickDone) {
	c, w := &n.rhythm, &n.rhythm.tick
	c.ended = v.Start.Add(v.Took)
	w.owed = false
	switch {
	case v.Took <= n.tick:
		w.not = "the tick was in time"
	case v.Primed > 0:
		w.not = "the tick primed (COM-53)"
	case !w.due(c.ended):
		w.not = "the last one is less than a minute old (COM-55)"
	default:
		w.given, w.last, w.owed = true, c.ended, true
	}
}

// warned judges the event that follows a tick: the warning that the tick called for, or another one.
func (n *Node) warned(v committer.Event) {
	c := &n.rhythm
	switch v := v.(type) {
	case committer.TickLate:
		if !c.tick.owed {
			n.fail(model.Violate("COM-52", "a warning of a late tick that should not have come: %s", c.tick.not))
		}
	case committer.WriteoutLate:
		if !c.late.due(c.ended) || v.Oldest <= 2*n.Interval {
			n.fail(model.Violate("COM-56", "a warning of writeouts that have waited for %v, %v after the last", v.Oldest, c.ended.Sub(c.late.last)))
		}
		c.late.given, c.late.last = true, c.ended
	default:
		if c.tick.owed {
			n.fail(model.Violate("COM-52", "a tick was late, and there was no warning for a minute or more"))
		}
	}
	c.tick.owed = false
}
