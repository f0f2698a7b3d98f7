package check

import (
	"narad/inflight"
	"narad/sim/model"
)

// No checker asks for an order beyond that of first deliveries (ORD-01). That there is none to rely on has to be seen, or the worlds
// are too tame: each way in which a partition hands out an older record after a newer one is a goal (INV-34).

// orderShadow is what was handed out of a partition, across all lives.
type orderShadow struct {
	newest   int64 // the highest offset ever leased
	stranded bool  // the partition had nothing to hand out because of the lease of hole
	hole     int64
}

// reordered notes that a lease went to a record that is older than one before it.
func (n *Node) reordered(p *part, why model.Ending, offset int64) {
	if offset >= p.handed.newest {
		p.handed.newest = offset
		return
	}
	switch {
	case why == model.Expired && p.handed.stranded && offset == p.handed.hole: // ORD-04
		n.Goal("INV-34 quiet")
		p.handed.stranded = false
	case why == model.Expired, why == model.Nacked: // ORD-03
		n.Goal("INV-34 redelivery")
	case why == model.CrashedAcked: // ORD-05
		n.Goal("INV-34 restart")
	}
}

// noteStranded notes that records are withheld because of the lease at the frontier.
func (p *part) noteStranded(why inflight.Outcome) {
	if why == inflight.AheadCap || why == inflight.AllReserved {
		committed, _ := p.model.Committed()
		p.handed.stranded, p.handed.hole = true, committed+1
	}
}
