package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"narad/engine"
	"narad/sim/model"
)

// Dump writes what the checker knows of the node: the ingress log, and each partition with its leases and slots.
func (n *Node) Dump(w io.Writer) {
	l := &n.log
	fmt.Fprintf(w, "  ingress log: synced below record %d, 202 given below %d, committed below %d and at %v\n",
		l.durable, l.acceptedEnd, l.prefix, slices.Sorted(maps.Keys(l.confirmed)))
	fmt.Fprintf(w, "  checkpoint: %d stored, %d synced\n", l.stored, l.synced)
	fmt.Fprintf(w, "  ticks: every %v, D %v; the last ended at %v, the longest took %v\n", n.tick, n.Interval, time.Duration(n.ticks.lastEnd), time.Duration(n.ticks.longest))
	for _, p := range n.order {
		p.dump(w)
	}
}

func (p *part) dump(w io.Writer) {
	m := p.model
	fmt.Fprintf(w, "  %s/%d: high watermark %d", p.key.Topic, p.key.Partition, m.HW)
	committed, open := m.Committed()
	if !open {
		fmt.Fprintf(w, ", not opened in this life")
	} else {
		fmt.Fprintf(w, ", frontier %d, %d leases, %d acked ahead %v", committed, m.Leases(), m.Ahead(), m.AheadOffsets())
	}
	fmt.Fprintln(w)
	for _, o := range m.Leased() {
		lease, _ := m.Lease(o)
		fmt.Fprintf(w, "    offset %d leased under nonce %d until %v on the clock of the process\n", o, lease.Nonce, time.Duration(lease.Expiry))
	}
	fmt.Fprintf(w, "    consumer.ahead: primed %t, anchor in slot %s, window in slot %s\n", p.slots.primed, slotName(p.slots.anchor), slotName(p.slots.window))
	fmt.Fprintf(w, "    in the page cache: %s; on the disk: %s\n", stateText(m.Cached), stateText(m.Durable))
}

func slotName(s int) string {
	if s < 0 {
		return "none"
	}
	return fmt.Sprint(s)
}

func stateText(s *model.Snapshot) string {
	return fmt.Sprintf("frontier %d, ahead %v", s.Committed, s.Ahead)
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.name }

// drawBudget bounds the search for an order of the operations that are drawn.
const drawBudget = time.Second

// DrawCopy writes porcupine's page about the history of one stored copy, and reports whether there is one.
func (n *Node) DrawCopy(w io.Writer, key engine.Key, offset int64) bool {
	p := n.parts[key]
	if p == nil || p.copies[offset] == nil {
		return false
	}
	ops := model.Operations(p.copies[offset].ops)
	short := map[int64]int64{} // nonces are too long to be drawn: they are numbered
	for i := range ops {
		in := ops[i].Input.(model.CopyInput)
		if short[in.Nonce] == 0 {
			short[in.Nonce] = int64(len(short) + 1)
		}
		in.Nonce = short[in.Nonce]
		ops[i].Input = in
		ops[i].Return = min(ops[i].Return, n.now()+1) // an operation without an answer would stretch the page
	}
	spec := model.Copy()
	_, info := porcupine.CheckOperationsVerbose(spec, ops, drawBudget)
	return porcupine.Visualize(spec, info, w) == nil
}
