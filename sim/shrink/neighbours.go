package shrink

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Drawn is a choice of a failing run.
type Drawn struct {
	At    time.Duration // true time
	Task  string
	Site  string // which function drew it
	N     uint64
	Value uint32
	Then  string // the next line that the task logged
}

// Decision is a choice that was varied.
type Decision struct {
	Drawn
	Index int
	Tried int // other values
	Gone  int // of these: how often the failure disappeared
	Other int // of these: how often another failure came instead
}

// Decisive reports whether no other value led to the failure.
func (d Decision) Decisive() bool { return d.Gone == d.Tried }

// NeighbourOptions say what to vary.
type NeighbourOptions struct {
	Drawn       []Drawn
	Run         func(choices []uint32) (fingerprint string)
	Fingerprint string // of the failure
	Count       int    // how many decisions to vary, the latest ones; default 50
	Workers     int
	// Prefer tells which decisions come before all others; nil: those that are not drawn by the kernel or the disk for single
	// calls.
	Prefer func(Drawn) bool
}

// routine are the places that decide how long a call takes, who runs next and what happens in the background.
var routine = []string{"sim.(*World).pick", "sim.(*Process).enter", "sim.(*World).takePermit", "sim.(*World).spawn", "sim.New", "sim.(*World).setPolicy", ").latency"}

// Telling reports whether a decision is one of clients, faults or crashes, and not of scheduling or timing.
func Telling(d Drawn) bool {
	return !slices.ContainsFunc(routine, func(r string) bool { return strings.Contains(d.Site, r) })
}

// Neighbours varies one decision at a time, those that are not tame first and the latest of them first, and tells for
// which the failure disappears. All others stay, but what follows a decision may mean something else.
func Neighbours(o NeighbourOptions) ([]Decision, error) {
	if o.Fingerprint == "" {
		return nil, ErrPasses
	}
	if o.Prefer == nil {
		o.Prefer = Telling
	}
	if o.Count < 1 {
		o.Count = 50
	}
	choices := make([]uint32, len(o.Drawn))
	for i, d := range o.Drawn {
		choices[i] = d.Value
	}
	if o.Run(choices) != o.Fingerprint {
		return nil, errors.New("shrink: the run does not repeat its failure")
	}
	decisions := pickDecisions(o)
	var next atomic.Int64
	var group sync.WaitGroup
	for range max(o.Workers, 1) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(decisions); i = int(next.Add(1)) - 1 {
				decisions[i].vary(choices, o)
			}
		})
	}
	group.Wait()
	slices.SortFunc(decisions, func(a, b Decision) int { return a.Index - b.Index })
	return decisions, nil
}

// pickDecisions takes the latest decisions that are preferred and not tame, then those that are tame, then all others.
func pickDecisions(o NeighbourOptions) (picked []Decision) {
	for class := 0; class < 4; class++ {
		for i := len(o.Drawn) - 1; i >= 0 && len(picked) < o.Count; i-- {
			d := o.Drawn[i]
			of := 0
			if d.Value == 0 {
				of++
			}
			if !o.Prefer(d) {
				of += 2
			}
			if of == class {
				picked = append(picked, Decision{Drawn: d, Index: i})
			}
		}
	}
	return picked
}

// vary runs the neighbours of a decision.
func (d *Decision) vary(choices []uint32, o NeighbourOptions) {
	for _, v := range others(d.N, d.Value) {
		c := slices.Clone(choices)
		c[d.Index] = v
		d.Tried++
		switch f := o.Run(c); {
		case f == "":
			d.Gone++
		case f != o.Fingerprint:
			d.Gone++
			d.Other++
		}
	}
}

// others lists up to four other values in [0,n): the tame one, the nearest ones, one far off.
func others(n uint64, v uint32) (list []uint32) {
	for _, x := range []uint64{0, uint64(v) + 1, uint64(v) - 1, (uint64(v) + n/2) % n, n - 1} {
		if x < n && x != uint64(v) && !slices.Contains(list, uint32(x)) && len(list) < 4 {
			list = append(list, uint32(x))
		}
	}
	return list
}
