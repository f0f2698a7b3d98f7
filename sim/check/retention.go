package check

import (
	"time"

	"narad/engine"
	"narad/segment"
	"narad/sim/model"
)

// kept is what a checker knows of the age of the records of a partition whose topic has a retention (INV-29).
type kept struct {
	low     int64 // the lowest offset that the log held when it last told
	highest int64 // the highest such offset: a removal may have come undone by a crash
	durable int64 // the lowest offset of a removal that was completed
	records []written
	jumps   []jump

	shorter  int64 // a retention in milliseconds that was shorter than the one now, and may still be applied; 0: none
	shorterT int64 // true time until when
	retuned  int64 // true time when the retention was altered last
}

// written is when a record was written.
type written struct {
	earliest, latest int64 // true time
	wall             int64 // how much the wall clock showed more than true time
	life             int   // of the node
}

// jump is one of the frontier over what retention removed.
type jump struct {
	to      int64 // the frontier after it
	at      int64 // true time
	life    int   // of the node
	stopped bool  // a graceful stop has made it durable
}

// retention is what a checker knows of the retention of its node.
type retention struct {
	wall     int64                 // how much the wall clock showed more than true time when the life began to serve
	moved    int64                 // by how much the wall clock was moved in all
	down     int64                 // for how long the node was down in all
	downFrom int64                 // true time; since then it is down, while it does not serve
	accepted []uint64              // sequence numbers of this life, in order
	sent     map[uint64]int        // messages that were answered 202, by sequence number
	copies   map[uint64][]location // where the records went
}

// Gone counts what retention did.
type Gone struct {
	Segments, Records int64
	Jumps             int
	Messages          int // accepted, never acked
}

// wallOffset is how much the machine's wall clock shows more than true time, in nanoseconds from a fixed point.
func (n *Node) wallOffset() int64 { return int64(n.Machine.Wall()) - n.now() }

// WallJumped tells that the wall clock was moved.
func (n *Node) WallJumped(by time.Duration) { n.age.moved += int64(by.Abs()) }

// keeps returns the shadow of a partition whose topic has a retention, nil for others.
func (n *Node) keeps(key engine.Key) *part {
	if p := n.parts[key]; p != nil && p.topic.RetentionMs > 0 {
		return p
	}
	return nil
}

// seeRetention follows what matters for retention.
func (n *Node) seeRetention(v engine.Event) {
	switch v := v.(type) {
	case engine.Opened:
		n.age.wall = n.wallOffset()
		n.age.accepted = n.age.accepted[:0]
		n.age.down += n.now() - n.age.downFrom
	case engine.Accepted:
		if n.keeps(v.Key) != nil {
			n.age.accepted = append(n.age.accepted, v.Seq)
		}
	case engine.Dispatched:
		if p := n.keeps(v.Key); p != nil {
			if n.age.copies == nil {
				n.age.copies = map[uint64][]location{}
			}
			n.age.copies[v.Seq] = append(n.age.copies[v.Seq], location{p, v.Offset})
		}
	case engine.Log:
		if p := n.keeps(v.Key); p != nil && v.Incarnation == p.topic.ID {
			n.failPart(p, n.aged(p, v.Event))
		}
	case engine.RetentionRemoved:
		p := n.cycle.all[incKey{v.Key, v.Incarnation}]
		n.Removed.Segments += int64(v.Segments)
		n.Removed.Records += v.Records
		p.kept.durable = max(p.kept.durable, v.Oldest)
	case engine.ShardOpened:
		if p := n.keeps(v.Key); p != nil {
			n.failPart(p, p.jumpsSurvive(v.State.Committed))
		}
	case engine.FrontierJumped:
		n.jumped(n.parts[v.Key], v)
	case engine.JumpLost:
		n.Goal("S-25") // two consumes met at one retention gap
	}
}

// aged follows the log: when records were written, and that none goes early.
func (n *Node) aged(p *part, v segment.Event) error {
	k := &p.kept
	switch v := v.(type) {
	case segment.Committed:
		took := int64(n.Machine.Wall()) - v.StampMs*int64(time.Millisecond) // a stamp that was raised is in the future
		since := n.now() - min(max(took, 0), int64(time.Minute))
		k.write(v.Next, written{since, n.now(), n.wallOffset(), n.life})
	case segment.Recovered:
		if v.Oldest < k.durable || v.Oldest > k.highest {
			return model.Violate("INV-29", "the log begins at offset %d, a completed removal had brought it to %d, and nothing was removed from %d on", v.Oldest, k.durable, k.highest)
		}
		k.low = v.Oldest
		s := written{latest: n.now(), wall: n.wallOffset(), life: n.life}
		if before := len(k.records); before > 0 { // stored and not told: between the last one that was and now
			s.earliest, s.wall = k.records[before-1].earliest, min(s.wall, k.records[before-1].wall)
		}
		k.write(v.Next, s)
	case segment.Removed:
		k.low = v.Oldest
		k.highest = max(k.highest, v.Oldest)
		return n.ripe(p, v.Oldest-1)
	}
	return nil
}

// write notes when the records below next were written, of those that are not known.
func (k *kept) write(next int64, s written) {
	for int64(len(k.records)) < next {
		k.records = append(k.records, s)
	}
}

// ripe checks that the newest record that was removed had lived for the retention (RET-03). What a clock did while the process did
// not run, or that a process before it saw, cannot be known.
func (n *Node) ripe(p *part, newest int64) error {
	if newest >= int64(len(p.kept.records)) {
		return model.Violate("INV-29", "offset %d was removed and never written", newest)
	}
	s := p.kept.records[newest]
	keep := p.retention()
	if p.kept.shorter > 0 && n.now() < p.kept.shorterT {
		keep = min(keep, p.kept.shorter*int64(time.Millisecond))
	}
	need := keep - keep/1_000_000*driftPPM - int64(2*time.Second)
	if s.life != n.life {
		need -= max(0, n.age.wall-s.wall)
	}
	if age := n.now() - s.earliest; age < need {
		return model.Violate("INV-29", "offset %d was removed at the age of %v, the retention is %v (RET-03)", newest, time.Duration(age), time.Duration(p.retention()))
	}
	return nil
}

func (p *part) retention() int64 { return p.topic.RetentionMs * int64(time.Millisecond) }

// retuned is told that the retention was altered. A round of the reaper that is under way may still go by the one before.
func (p *part) retuned(ms, now int64) {
	if before := p.topic.RetentionMs; before > 0 && before < ms {
		p.kept.shorter, p.kept.shorterT = before, now+int64(2*time.Minute)
	}
	p.topic.RetentionMs, p.kept.retuned = ms, now
}

// Kept checks that nothing is left that is older than about twice the retention (RET-05).
func (n *Node) Kept() {
	const settle = 15 * time.Minute // rounds, closed partitions, and the clocks' drift
	if !n.serving || n.closing || n.World.Now() < n.booted.Add(settle) {
		return
	}
	for _, p := range n.order {
		k := &p.kept
		if p.topic.RetentionMs == 0 || p.gone || k.low >= int64(len(k.records)) {
			continue
		}
		age := n.now() - k.records[k.low].latest
		if limit := 2*p.retention() + int64(settle) + n.age.moved + n.age.down; age > limit && n.now()-k.retuned > limit {
			n.failPart(p, model.Violate("INV-29", "offset %d is still there at the age of %v, the retention is %v (RET-05)", k.low, time.Duration(age), time.Duration(p.retention())))
		}
	}
}

// jumped follows a jump of the frontier: in one step to the oldest record that is left.
func (n *Node) jumped(p *part, v engine.FrontierJumped) {
	if p.kept.highest == 0 {
		n.failPart(p, model.Violate("INV-29", "the frontier jumped to %d although nothing was deleted", v.Oldest))
		return
	}
	if v.Oldest != p.kept.low {
		n.failPart(p, model.Violate("INV-29", "the frontier jumped from %d to %d, the oldest retained offset is %d", v.From, v.Oldest-1, p.kept.low))
	}
	dropped, err := p.model.Jump(v.From, v.Oldest)
	n.failPart(p, err)
	for _, d := range dropped {
		n.instantOp(p, d.Offset, model.OpRelease, d.Nonce)
		delete(p.unanswered, d.Offset)
	}
	p.kept.jumps = append(p.kept.jumps, jump{to: v.Oldest - 1, at: n.now(), life: n.life})
	n.Removed.Jumps++
	n.Goal("the frontier jumped over a retention gap")
}

// jumpsSurvive checks that jumps are persisted like acks (COM-60).
func (p *part) jumpsSurvive(frontier int64) error {
	for _, j := range p.kept.jumps {
		_, cached := within(p.slots.cachedSafe, j.at)
		_, durable := within(p.slots.durableSafe, j.at)
		if j.to > frontier && (j.stopped || cached || durable) {
			return model.Violate("INV-29", "the frontier had jumped to %d, and was persisted; the recovered one is %d (COM-60)", j.to, frontier)
		}
	}
	p.kept.jumps = p.kept.jumps[:0]
	return nil
}

// endRetention ends the given life of the node. A stop makes durable what the shard of that life holds, and no jump of an earlier
// one, which a crash may have undone.
func (n *Node) endRetention(life int, gracefully bool) {
	n.age.downFrom = n.now()
	for _, p := range n.order {
		for i := range p.kept.jumps {
			if j := &p.kept.jumps[i]; j.life == life {
				j.stopped = gracefully
			}
		}
	}
}

// lowest is the floor under which a reservation may still find the frontier: it is checked when it jumps.
func (p *part) lowest(v engine.Leased) int64 {
	if p.topic.RetentionMs > 0 {
		return min(v.Oldest, v.Lease.Offset)
	}
	return v.Oldest
}

// AcceptedAs tells, from within the process and at the instant of a 202, which messages it was for.
func (n *Node) AcceptedAs(topic string, ids []int) {
	if newest := len(n.accepted) - len(ids); newest >= 0 {
		n.inTurn(n.accepted[newest:], ids)
	}
	n.accepted = n.accepted[:0]
	if n.keeps(engine.Key{Topic: topic}) == nil || len(n.age.accepted) < len(ids) {
		return
	}
	if n.age.sent == nil {
		n.age.sent = map[uint64]int{}
	}
	for i, seq := range n.age.accepted[len(n.age.accepted)-len(ids):] {
		n.age.sent[seq] = ids[i]
	}
}

// Expire excuses the messages of which every copy was removed by retention, as its events told (RET-07, FAIL-32).
func (n *Node) Expire() {
	for seq, id := range n.age.sent { // order-free: each message on its own
		copies := n.age.copies[seq]
		left := len(copies) == 0
		for _, c := range copies {
			left = left || c.offset >= c.p.kept.low
		}
		if e := &n.Messages.list[id]; !left && !e.acked && !e.expired {
			e.expired = true
			n.Removed.Messages++
		}
	}
}

// Low returns the lowest offset that a partition holds, as far as it was told.
func (n *Node) Low(topic string, partition int32) int64 {
	if p := n.parts[engine.Key{Topic: topic, Partition: partition}]; p != nil {
		return p.kept.low
	}
	return 0
}
