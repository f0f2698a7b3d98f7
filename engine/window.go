package engine

import "fmt"

// window is the run of sequence numbers from the lowest one that is not committed to the highest one read.
type window struct {
	base      uint64 // lowest not committed: the checkpoint
	committed []bool // of base, base+1, …
	head      int    // index of base in committed
}

func (w *window) size() int { return len(w.committed) - w.head }

func (w *window) add(seq uint64) {
	if seq != w.base+uint64(w.size()) {
		panic(fmt.Sprintf("engine: ingress record %d follows %d", seq, w.base+uint64(w.size())-1))
	}
	if w.head > 0 && w.head >= len(w.committed)/2 { // reclaim the front, amortised
		w.committed = w.committed[:copy(w.committed, w.committed[w.head:])]
		w.head = 0
	}
	w.committed = append(w.committed, false)
}

func (w *window) done(seq uint64) {
	w.committed[w.head+int(seq-w.base)] = true
	for w.head < len(w.committed) && w.committed[w.head] {
		w.head++
		w.base++
	}
}
