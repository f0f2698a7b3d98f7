package workload

import (
	"time"

	"narad/engine"
	"narad/sim"
)

// left is a consume that was cancelled before it had returned, in a process of the node.
type left struct {
	proc     *sim.Process
	returned bool
}

// leftAreGone checks, when all is at rest, that whoever was cancelled does not go on waiting (INF-37).
func (n *node) leftAreGone() {
	for _, l := range n.left {
		if !l.returned && l.proc == n.proc {
			n.run.fail("INF-37", "%s: all is at rest, and a consume that was cancelled still waits", n.name)
		}
	}
	n.left = n.left[:0]
}

// leaks checks that topics which are gone have left nothing in memory (PUMP-13). It is asked some time after the last went.
func (n *node) leaks() {
	seats, partitions := 0, 0
	if n.call("seats", time.Minute, func(eng *engine.Engine) {
		seats = eng.Seats()
		for _, t := range eng.Topics("", 1000) {
			partitions += int(t.Partitions)
		}
	}) == answered && seats > partitions {
		n.run.fail("PUMP-13", "%s: %d partitions have a place in memory, there are %d", n.name, seats, partitions)
	}
}
