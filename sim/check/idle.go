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

// untidy follows directories that could not be removed: that is tried again until it succeeds, or the process ends (INV-32).
func (n *Node) untidy(v engine.Event) {
	switch v := v.(type) {
	case engine.TidyFailed:
		n.cycle.messes[v.Name] = n.now()
	case engine.StaleRemoved:
		delete(n.cycle.messes, v.Stale)
	case engine.DoubtRemains: // one task does both
	default:
		return
	}
	n.cycle.tidiedAt = n.now()
}

// tidyPause is how long nothing is tried after something could not be tidied up.
const tidyPause = time.Second

// Tidied checks that somebody still tries to remove what could not be removed.
func (n *Node) Tidied() {
	if !n.serving || n.closing || n.World.Now() < n.pausedUntil.Add(5*time.Second) {
		return
	}
	rested := time.Duration(n.now() - n.cycle.tidiedAt)
	limit := 8*time.Second + n.slack() + 2*time.Second*time.Duration(len(n.cycle.messes)) // one is tried after the other
	for _, name := range slices.Sorted(maps.Keys(n.cycle.messes)) {
		if _, topic := n.cycle.absent[name]; topic {
			continue // it was to be put in its place, which nothing tells of when it succeeds
		}
		if since := time.Duration(n.now() - n.cycle.messes[name]); since > limit {
			n.fail(model.Violate("INV-32", "topics/%s could not be removed %v ago, and was not tried again", name, since))
		}
		if rested > tidyPause+n.slack()+tidyPause/1_000_000*driftPPM {
			n.fail(model.Violate("INV-32", "all is at rest, topics/%s could not be removed, and nothing was tried for %v", name, rested))
		}
	}
}

// LastIdled returns the partition that was closed last because nobody used it.
func (n *Node) LastIdled() engine.Key { return n.idled }

// Idle checks that what nobody uses is closed: since is the true time since when no client has asked the node for anything, after the
// time after which a partition counts as unused. A shard goes when its files are durable and level, which they are 60 s later at
// most: consumer.offset is written within 30 s, and synced within 30 more when it still says what it should; a log whose partition has leases, or skips that are in memory only, stays (INV-32).
func (n *Node) Idle(since env.Instant, after time.Duration) {
	if !n.serving || n.closing {
		return
	}
	limit := after + after/4 + 2*committer.LevelEvery + n.Interval + n.tick + 2*n.slack() + 5*time.Second
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
		from := max(int64(since), p.movedAt, p.expiredAt, n.waitedAt, int64(n.booted), int64(n.pausedUntil))
		if unused := time.Duration(n.now() - from); unused > limit+limit/1_000_000*driftPPM {
			n.failPart(p, model.Violate("INV-32", "nobody has used the partition for %v, and it is not closed (lease table open: %t, logs open: %d); unused ones go after %v",
				unused, open, p.openLogs, after))
		}
	}
}
