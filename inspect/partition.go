package inspect

import (
	"fmt"
	"math"

	"narad/committer"
	"narad/segment"
	"narad/vfs"
)

// partitionDirectory looks at a partition: its segments, in order, and what its consumers have settled.
func (x *inspector) partitionDirectory(d vfs.Dir, n *Node, entries []vfs.Info, o owner) {
	n.Kind = KindPartitionDir
	var bases []int64
	for _, e := range entries {
		if base, ok := parseLogName(e.Name); ok && !e.Dir {
			bases = append(bases, base)
		}
	}
	p, newest := &Partition{}, int64(0)
	n.Partition = p
	if len(bases) > 0 {
		newest = bases[len(bases)-1]
		p.Oldest, p.HighWatermark = bases[0], newest
	}
	var ahead, offset *Node
	var bounds *segment.StoredBounds
	var indexes []*segment.Index
	stamp := int64(math.MinInt64)
	at, unread := 0, x.report.Totals.Unread
	for _, e := range entries {
		c := x.child(n, e)
		switch {
		case e.Dir:
			x.stray(d, c)
		case c.Kind == KindLog:
			x.partitionLog(d, c, bases, at, &stamp, p)
			at++
		case c.Kind == KindIndex:
			index := x.indexFile(d, c)
			x.successor(c, index, newest)
			if index != nil {
				indexes = append(indexes, index)
			}
		case c.Kind == KindBounds:
			bounds = x.boundsFile(d, c, o)
		case c.Kind == KindAhead:
			ahead = c
			x.aheadFile(d, c, o)
		case c.Kind == KindOffset:
			offset = c
			x.offsetFile(d, c)
		default:
			x.stray(d, c)
		}
	}
	if end := x.endOf(o); p.HighWatermark < end && x.report.Totals.Unread == unread {
		x.damage(n, -1, 0, "log-shorter-than-it-was", fmt.Sprintf("the log ended before offset %d at the graceful stop and ends before %d now", end, p.HighWatermark),
			"The broker refuses every call to this partition, until the log is restored or the file clean is removed.", adviceLost)
	}
	if x.report.Totals.Unread == unread {
		x.bounded(n, bounds, p)
		x.exchanged(n, indexes)
		x.settled(d, n, ahead, offset, o)
	}
	x.partitionSummary(n)
}

func (x *inspector) partitionLog(d vfs.Dir, n *Node, bases []int64, at int, stamp *int64, p *Partition) {
	limit := int64(math.MaxInt64)
	if at < len(bases)-1 {
		limit = bases[at+1]
	}
	x.open(d, n, func(s *source) { x.logSegment(n, s, bases[at], limit, stamp) })
	if n.Log == nil {
		return // it could not be opened
	}
	p.Lost += n.Log.Lost
	p.HighWatermark = max(p.HighWatermark, n.Log.Next)
}

// settled says what a start would take to be settled, and holds it against the log.
func (x *inspector) settled(d vfs.Dir, n, ahead, offset *Node, o owner) {
	p := n.Partition
	s, r, err := committer.Recover(d, o.identity(), p.HighWatermark)
	if err != nil {
		return // reported with the file that could not be read
	}
	c := &Consumers{Frontier: s.Committed, Ahead: len(s.Ahead), Wins: "none"}
	p.Consumer = c
	p.LostUnsettled = p.Lost - settledOf(n.Children, s)
	c.Waiting = max(0, p.HighWatermark-1-max(s.Committed, p.Oldest-1)-int64(len(s.Ahead))-p.LostUnsettled)
	if w := r.Slots.Newest; w >= 0 {
		frontier := r.Slots.Slot[w].State.Committed
		c.AheadFrontier, c.Wins = &frontier, aheadName
	}
	if offset != nil && offset.Frontier != nil {
		c.OffsetFrontier = offset.Frontier
		switch {
		case c.AheadFrontier == nil || *c.AheadFrontier < *c.OffsetFrontier:
			c.Wins = offsetName
		case *c.AheadFrontier == *c.OffsetFrontier:
			c.Wins = "both"
		}
	}
	if c.AheadFrontier != nil && c.OffsetFrontier != nil && c.Wins != "both" {
		offset.Summary += fmt.Sprintf("; %s wins, with %d", c.Wins, max(*c.AheadFrontier, *c.OffsetFrontier))
	}
	if c.Wins == offsetName && c.AheadFrontier != nil {
		x.note(offset, 0, "offset-leads", fmt.Sprintf("its frontier %d is above that of consumer.ahead, %d", *c.OffsetFrontier, *c.AheadFrontier),
			"The higher one counts. An older release that ran in between leaves this, or a power failure after an unclean stop.")
	}
	if r.Clamped {
		x.clamped(ahead, offset, p, r)
	}
}

// settledOf counts the lost offsets that are settled: nobody waits for those.
func settledOf(files []*Node, s committer.State) (settled int64) {
	for _, f := range files {
		if f.Log == nil {
			continue
		}
		for _, g := range f.Log.Gaps {
			settled += max(0, min(g.To, s.Committed+1)-g.From)
			for _, o := range s.Ahead {
				settled += int64(count(g.From <= o && o < g.To))
			}
		}
	}
	return settled
}

// clamped reports state that settles offsets which the log does not have.
func (x *inspector) clamped(ahead, offset *Node, p *Partition, r committer.Report) {
	effect := fmt.Sprintf("The end of the log is missing: it ends before offset %d. The broker takes everything that is left as settled up to %d; messages that get those offsets anew are delivered.", p.HighWatermark, p.HighWatermark-1)
	if ahead != nil && r.Slots.Newest >= 0 {
		s := r.Slots.Slot[r.Slots.Newest].State
		top := s.Committed
		if len(s.Ahead) > 0 {
			top = s.Ahead[len(s.Ahead)-1]
		}
		if top >= p.HighWatermark {
			x.damage(ahead, int64(r.Slots.Newest)*aheadSlotSize, 0, "settled-above-log", fmt.Sprintf("offsets up to %d are settled, the log ends before offset %d", top, p.HighWatermark), effect, adviceLost)
		}
	}
	if offset != nil && r.OffsetFrontier >= p.HighWatermark {
		x.damage(offset, 0, 8, "settled-above-log", fmt.Sprintf("offsets up to %d are settled, the log ends before offset %d", r.OffsetFrontier, p.HighWatermark), effect, adviceLost)
	}
}

func (x *inspector) partitionSummary(n *Node) {
	p := n.Partition
	if p.HighWatermark == p.Oldest {
		n.Summary = fmt.Sprintf("empty, the next offset is %d", p.HighWatermark)
	} else {
		n.Summary = offsets(p.Oldest, p.HighWatermark)
	}
	if p.Lost > 0 {
		n.Summary += fmt.Sprintf(", %d LOST", p.Lost)
		if p.Consumer != nil {
			n.Summary += fmt.Sprintf(" (%d not consumed before)", p.LostUnsettled)
		}
	}
	if c := p.Consumer; c != nil && p.HighWatermark > p.Oldest {
		n.Summary += "; " + settledText(c.Frontier, c.Ahead, "")
		n.Summary += fmt.Sprintf("; %d to deliver", c.Waiting)
	}
}
