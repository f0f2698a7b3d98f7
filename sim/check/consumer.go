package check

import (
	"maps"
	"slices"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim/model"
)

// slotShadow is what the committer must do with the slots of consumer.ahead (INV-12), and which acks are safe.
type slotShadow struct {
	primed  bool
	anchor  int // -1: none
	window  int // slot of the newest window write since the last flip, -1: none
	levelAt int64
	// levelled: the committer, which holds the partition, has written consumer.offset.
	levelled bool
	// Acks that returned within these spans must survive: the first set every process crash and the next
	// power loss not, the second set everything.
	cachedSafe, durableSafe []span

	troubles troubles
	reached  reached
}

// span is a stretch of true time, its end excluded.
type span struct{ from, to int64 }

func within(spans []span, at int64) (span, bool) {
	for _, s := range spans {
		if at >= s.from && at < s.to {
			return s, true
		}
	}
	return span{}, false
}

func newSlotShadow() slotShadow { return slotShadow{anchor: -1, window: -1, levelAt: -1} }

// tickShadow follows the cadence of one life of the committer, in true time.
type tickShadow struct {
	seen      bool
	lastStart int64 // of the newest tick that ended
	lastEnd   int64
	longest   int64
}

func (n *Node) seeConsumer(v committer.Event) {
	n.reach(v)
	switch v := v.(type) {
	case committer.Primed:
		n.primed(n.partOf(v.Key), v)
	case committer.WindowWritten:
		n.windowWritten(n.partOf(v.Key), v)
	case committer.WrittenOut:
		n.writtenOut(n.partOf(v.Key), v)
	case committer.Levelled:
		n.levelled(n.partOf(v.Key), v)
	case committer.TickDone:
		n.tickDone(v)
	case committer.TickLate:
		n.Goal("S-21") // a tick longer than T
	case committer.Stranded:
		p := n.partOf(v.Key)
		if !p.gone && !n.meddled[p.key] {
			n.failPart(p, model.Violate("INV-25", "the partition was stranded although nobody touched its directory"))
		}
		p.stranded = true
	case committer.Forgotten:
		n.forgotten(engine.Key{Topic: v.Key.Topic, Partition: v.Key.Partition})
	}
}

func (n *Node) partOf(k committer.Key) *part {
	return n.parts[engine.Key{Topic: k.Topic, Partition: k.Partition}]
}

func (n *Node) primed(p *part, v committer.Primed) {
	if v.Err != nil {
		p.failed()
		return
	}
	p.slots.primed, p.slots.anchor, p.slots.window = true, v.Anchor, -1
	if v.Anchor == 1 {
		n.Goal("S-13") // the newest slot was slot 1 at a prime
	}
	p.model.WroteOut() // a prime syncs what it read
}

func (n *Node) windowWritten(p *part, v committer.WindowWritten) {
	n.writesState(v)
	if !p.slots.primed {
		n.failPart(p, model.Violate("INV-12", "slot %d was written before the file was primed (COM-23)", v.Slot))
	}
	if v.Slot == p.slots.anchor {
		n.failPart(p, model.Violate("INV-12", "slot %d was written while it is the anchor (COM-14)", v.Slot))
	}
	if v.Err != nil {
		p.failed() // the window may be half written
		return
	}
	p.slots.troubles.wrote(p.model.Taken())
	if v.Stored != v.Ahead {
		n.Goal("S-23")
		p.model.Truncate(v.Stored) // INV-13: the lowest are kept
	}
	p.slots.window = v.Slot
	p.model.WroteWindow()
}

func (n *Node) writtenOut(p *part, v committer.WrittenOut) {
	if v.Err != nil {
		p.failed()
		return
	}
	p.slots.troubles.wroteOut()
	if p.slots.window != v.Slot {
		n.failPart(p, model.Violate("INV-12", "slot %d became the anchor, the window written last is %d (COM-15)", v.Slot, p.slots.window))
	}
	p.slots.anchor, p.slots.window = v.Slot, -1
	p.model.WroteOut()
}

// levelled checks consumer.offset: never ahead of the frontier, at most every 30 s (INV-14).
func (n *Node) levelled(p *part, v committer.Levelled) {
	if v.Err != nil {
		return
	}
	if v.Frontier > p.model.Durable.Committed { // consumer.ahead comes first
		n.failPart(p, model.Violate("INV-14", "consumer.offset says %d, the durable frontier is %d", v.Frontier, p.model.Durable.Committed))
	}
	if at := p.slots.levelAt; at >= 0 && !n.closing && n.now()-at < int64(committer.LevelEvery)*99/100 {
		n.failPart(p, model.Violate("INV-14", "consumer.offset was levelled twice within %v", time.Duration(n.now()-at)))
	}
	p.slots.levelAt, p.slots.levelled = n.now(), true
}

// tickDone checks that ticks keep their cadence: the next begins T after the last one began, or at once when
// that took longer (COM-03, COM-54).
func (n *Node) tickDone(v committer.TickDone) {
	t := &n.ticks
	end := n.now()
	start := end - int64(v.Took) - int64(v.Took)/1_000_000*driftPPM - 1000 // Took is by the machine's clock
	if t.seen && n.pausedUntil < env.Instant(t.lastStart) {
		due := max(t.lastStart+int64(n.tick), t.lastEnd)
		if late := time.Duration(start - due); late > n.slack() {
			n.fail(model.Violate("INV-08", "a tick began %v after it was due", late))
		}
	}
	t.seen, t.lastStart, t.lastEnd = true, start, end
	t.longest = max(t.longest, int64(v.Took))
}

// slack is how late a task may be that has nothing to wait for: by being starved, and by clock drift.
func (n *Node) slack() time.Duration { return n.Starve + 5*time.Millisecond }

// openShard compares what was recovered with everything that had to be there.
func (n *Node) openShard(p *part, v engine.ShardOpened) error {
	recovered := snapshot(v.State, n.now())
	n.reachRecovery(p, v)
	if err := p.onlyRecent(recovered); err != nil {
		return err
	}
	if recovered.Committed >= 0 || len(recovered.Ahead) > 0 {
		n.Goal("recovered consumer state")
	}
	return p.model.OpenShard(recovered)
}

// onlyRecent checks how old the acks are that crashes undid (INV-08, INV-09), from the cadences alone: whatever
// the committer says of its writes.
func (p *part) onlyRecent(recovered *model.Snapshot) error {
	undone := p.model.Undone(recovered)
	for _, o := range slices.Sorted(maps.Keys(undone)) {
		at := undone[o]
		if s, safe := within(p.slots.durableSafe, at); safe {
			return model.Violate("INV-09", "the ack of offset %d came back, it was %v older than a power loss may undo", o, time.Duration(s.to-at))
		}
		if s, safe := within(p.slots.cachedSafe, at); safe {
			return model.Violate("INV-08", "the ack of offset %d came back, it was %v older than a process crash may undo", o, time.Duration(s.to-at))
		}
	}
	return nil
}

// safeAtCrash notes which acks of the life that ends must survive: those before the last tick that ended began survive
// the process, those older than D + T + the delays of ticks and syncs survive a power loss. (TIM-04, DEL-07, DEL-08)
func (n *Node) safeAtCrash(p *part, power bool) {
	s, t := &p.slots, n.ticks
	n.reachCrash(p, power)
	s.primed, s.anchor, s.window, s.levelAt, s.levelled = false, -1, -1, -1, false
	if power || s.troubles.cache {
		s.cachedSafe = nil
	}
	if !t.seen {
		return
	}
	ongoing := max(0, n.now()-t.lastEnd-int64(n.tick)) // a tick that had not ended
	bound := int64(n.Interval+n.tick+n.slack()) + 2*t.longest + ongoing
	safe := n.now() - bound
	if int64(n.pausedUntil) > safe { // what was due while the machine stood still came as much later
		safe = min(safe, int64(n.pausedFrom)-bound)
	}
	if s.troubles.disk {
		safe = min(safe, s.troubles.durableAt)
	}
	s.durableSafe = append(s.durableSafe, span{int64(n.booted), safe})
	if !power && !s.troubles.cache {
		s.cachedSafe = append(s.cachedSafe, span{int64(n.booted), t.lastStart})
	}
}
