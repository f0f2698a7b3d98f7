package workload

import (
	"fmt"
	"io"

	"narad/sim/check"
)

// View looks into a run that has ended and whose tasks are still there.
type View struct{ run *run }

// Nodes returns the checkers of the nodes, with what they know of partitions and logs.
func (v View) Nodes() (nodes []*check.Node) {
	for _, n := range v.run.nodes {
		nodes = append(nodes, n.check)
	}
	return nodes
}

// Dump writes the state of every node, and where each task is parked.
func (v View) Dump(out io.Writer) {
	r := v.run
	fmt.Fprintf(out, "state at %v, step %d, %d choices made\n", r.w.Now().Sub(0), r.w.Steps(), r.w.Drawn())
	fmt.Fprintf(out, "traffic ends: %t, faults healed: %t, drained: %t, %d client calls, %d strikes\n\n", r.stopping, r.draining, r.drained, r.operations, r.strikes)
	for _, n := range r.nodes {
		life := "down"
		switch {
		case n.engine != nil:
			life = "serving"
		case n.proc != nil && n.proc.Alive():
			life = "recovering"
		}
		fmt.Fprintf(out, "%s: %s, boot %d\n", n.name, life, n.boots)
		n.check.Dump(out)
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "tasks")
	for _, t := range r.w.Parked() {
		fmt.Fprintf(out, "%s\n", t)
	}
}
