package check

import (
	"fmt"
	"strings"

	"narad/engine"
)

// Drained reports whether every partition is settled up to its high watermark and the ingress log is
// dispatched. While that is not so, pending says what is left and why.
func (n *Node) Drained() (drained bool, pending string) {
	var b strings.Builder
	if !n.serving {
		fmt.Fprintf(&b, "%s is not serving; ", n.name)
	}
	if done := min(n.log.prefix, n.log.stored); n.log.durable > done { // what a crash left above the checkpoint is committed again (WAL-05, WAL-28)
		fmt.Fprintf(&b, "%s has records %d to %d in the ingress log that are not committed; ", n.name, done, n.log.durable-1)
	}
	for _, p := range n.order {
		if p.gone {
			continue
		}
		if why := p.pending(); why != "" {
			fmt.Fprintf(&b, "%s %s/%d: %s; ", n.name, p.key.Topic, p.key.Partition, why)
		}
	}
	return b.Len() == 0, strings.TrimSuffix(b.String(), "; ")
}

func (p *part) pending() string {
	m := p.model
	committed, open := m.Committed()
	if resting, ok := m.Resting(); ok {
		committed, open = resting, true
	}
	switch {
	case m.HW == 0:
		return ""
	case !open:
		return fmt.Sprintf("%d records, no consumer has touched it since the start", m.HW)
	case committed >= m.HW-1:
		return ""
	}
	hole := committed + 1
	lease, leased := m.Lease(hole)
	state := "free"
	if leased {
		state = fmt.Sprintf("leased under nonce %d until %d", lease.Nonce, lease.Expiry)
	}
	return fmt.Sprintf("frontier %d, high watermark %d, %d leases, %d acked ahead; offset %d is %s, its last lease ended: %s",
		committed, m.HW, m.Leases(), m.Ahead(), hole, state, m.LastEnding(hole))
}

// WasAcked reports whether an ack of an offset was ever accepted.
func (n *Node) WasAcked(key engine.Key, offset int64) bool {
	p := n.parts[key]
	return p != nil && p.model.WasAcked(offset)
}
