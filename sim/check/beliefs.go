package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/sim/model"
)

// What the engine takes for granted of its disk is held against what it was told. Much is believed long before anybody acts on it.

// beliefs holds, of the current life, where the engine was told of something that it must not take for granted.
type beliefs struct {
	partial  map[engine.Key]bool // partitions whose last window was not written, or does not hold all, and was not looked at since
	unplaced map[string]unplaced // topics by name
}

// unplaced is a topic whose directory was not in its place when that was tried last.
type unplaced struct {
	at   int64 // true time
	next bool  // it had its name of before still
}

func newBeliefs() beliefs {
	return beliefs{map[engine.Key]bool{}, map[string]unplaced{}}
}

func (n *Node) seeBeliefs(v engine.Event) {
	switch v := v.(type) {
	case engine.Consumer:
		if w, ok := v.Event.(committer.WindowWritten); ok {
			key := engine.Key{Topic: w.Key.Topic, Partition: w.Key.Partition}
			if delete(n.beliefs.partial, key); w.Err != nil || w.Stored < w.Ahead {
				n.beliefs.partial[key] = true
			}
		}
	case engine.RetireFailed:
		n.unplaced(v.Name)
	case engine.TidyFailed:
		if _, ok := n.beliefs.unplaced[v.Name]; ok {
			n.unplaced(v.Name)
		}
	case engine.TopicPurged:
		delete(n.beliefs.unplaced, v.Topic.Name) // the one before it was in place, or it would not have been purged
	}
}

func (n *Node) unplaced(name string) {
	n.beliefs.unplaced[name] = unplaced{n.now(), n.isThere(nextPath(name, n.Incarnation(name)))}
}

// nextPath is where the directory of an incarnation is until its name is free.
func nextPath(name, incarnation string) string {
	return topicsPath + "/" + name + ".next-" + incarnation
}

func (n *Node) isThere(path string) bool {
	_, _, err := n.Machine.Disk().Lookup(n.Machine.Disk().Root(), path)
	return err == nil
}

// Beliefs checks, when all is at rest, what the engine says of its topics; describe asks it.
func (n *Node) Beliefs(describe func(topic string) (engine.TopicView, error)) {
	if !n.serving || n.closing {
		return
	}
	n.written(describe)
	n.placed(describe)
}

// written checks that no state counts as written which is not: a partition that nobody uses would be closed with it (INV-13, COM-36).
func (n *Node) written(describe func(string) (engine.TopicView, error)) {
	keys := slices.SortedFunc(maps.Keys(n.beliefs.partial), func(a, b engine.Key) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, key := range keys {
		delete(n.beliefs.partial, key)
		p := n.parts[key]
		view, err := describe(key.Topic)
		if err != nil || p == nil || p.gone || view.Topic.ID != p.topic.ID || int(key.Partition) >= len(view.Partitions) {
			continue
		}
		if view.Partitions[key.Partition].Written && !p.model.IsWritten() {
			committed, _ := p.model.Committed()
			n.failPart(p, model.Violate("INV-13", "the files count as holding all, frontier %d and %d ahead, and the last window was not written whole", committed, p.model.Ahead()))
		}
	}
}

// placed checks that the directory of a topic that was purged gets to its place, and that the engine knows it: else it serves nothing
// (INV-31). The janitor tries that again after a pause, behind what else it has.
func (n *Node) placed(describe func(string) (engine.TopicView, error)) {
	if n.World.Now() < n.pausedUntil.Add(5*time.Second) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.beliefs.unplaced)) {
		view, err := describe(name)
		if err != nil || view.Placed {
			delete(n.beliefs.unplaced, name)
			continue
		}
		u := n.beliefs.unplaced[name]
		if u.next && !n.isThere(nextPath(name, view.Topic.ID)) { // it was moved, no failure was told since, and nobody is at it
			n.fail(model.Violate("INV-31", "all is at rest, the directory of %s was moved to its place after a purge, and still counts as not placed", name))
		}
		rested := time.Duration(n.now() - max(u.at, n.cycle.tidiedAt))
		if rested > tidyPause+n.slack()+tidyPause/1_000_000*driftPPM {
			n.fail(model.Violate("INV-31", "all is at rest, the directory of %s is not in its place after a purge, and nothing was tried for %v", name, rested))
		}
	}
}
