package check

import (
	"time"

	"narad/committer"
	"narad/env"
	"narad/sim/model"
)

// Idle checks that what nobody uses is closed: since is the true time since when no client has asked the node for anything, after the
// time after which a partition counts as unused. A shard goes when its files are durable and level, which they are 30 s later at
// most; a log whose partition has leases, or skips that are in memory only, stays (INV-32).
func (n *Node) Idle(since env.Instant, after time.Duration) {
	if !n.serving || n.closing {
		return
	}
	limit := after + after/4 + committer.LevelEvery + n.Interval + n.tick + 2*n.slack() + 5*time.Second
	for _, topic := range n.topics {
		for _, queue := range n.waiters[topic].live { // order-free: is there one
			if len(queue) > 0 {
				return // what somebody waits for is not closed
			}
		}
	}
	for _, p := range n.order {
		_, open := p.model.Committed()
		if p.gone || !open && p.openLogs == 0 || p.model.Leases() > 0 || p.model.Skips() > 0 {
			continue
		}
		from := max(int64(since), p.movedAt, n.waitedAt, int64(n.booted), int64(n.pausedUntil))
		if unused := time.Duration(n.now() - from); unused > limit+limit/1_000_000*driftPPM {
			n.failPart(p, model.Violate("INV-32", "nobody has used the partition for %v, and it is not closed (lease table open: %t, logs open: %d); unused ones go after %v",
				unused, open, p.openLogs, after))
		}
	}
}
