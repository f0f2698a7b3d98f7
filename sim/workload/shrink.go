package workload

import (
	"context"
	"slices"
	"time"

	"narad/sim"
	"narad/sim/shrink"
)

// Weights of what there is to read in a run: a fault weighs as much as so many client operations.
const faultWeight = 5

// smallEnough is the weight of a world that a reader can follow: thirty operations and three faults.
const smallEnough = 30 + 3*faultWeight

// stepsFactor bounds how much longer than the first run a candidate may get, in steps.
const stepsFactor = 3

// Shrink looks for a smaller case that fails with the same fingerprint. Of o it takes the budget, the workers and
// the progress.
func Shrink(ctx context.Context, c Case, o shrink.Options) (Case, shrink.Result, error) {
	return shrinkWith(ctx, c, o, Run)
}

func shrinkWith(ctx context.Context, c Case, o shrink.Options, run func(Options) Result) (Case, shrink.Result, error) {
	first := c.Options()
	first.Record = true
	r := run(first)
	at := shrinker{c: c, steps: stepsFactor*r.Stats.Steps + 10_000, world: run}
	o.Run, o.Label, o.Least, o.Small, o.Enough = at.run, at.label, leastLimits, smallLimits, smallEnough
	all := at.outcome(r)
	in := shrink.Input{Choices: r.Choices, Bounds: all.Bounds, Without: all.Without}
	res, err := shrink.Shrink(ctx, in, o)
	if err != nil {
		return c, res, err
	}
	c.Choices, c.Limits = res.Input.Choices, boundsToLimits(res.Input.Bounds)
	c.Limits.Without = res.Input.Without
	c.saw(run(c.Options()))
	return c, res, nil
}

type shrinker struct {
	c     Case
	steps int64
	world func(Options) Result
}

func (s *shrinker) options(in shrink.Input) Options {
	o := s.c.Options()
	o.Choices, o.Tail, o.Limits = in.Choices, in.Tail, boundsToLimits(in.Bounds)
	o.Limits.Without = in.Without
	if o.Choices == nil {
		o.Choices = []uint32{}
	}
	o.Record, o.MaxSteps = true, s.steps
	return o
}

func (s *shrinker) run(in shrink.Input) shrink.Outcome { return s.outcome(s.world(s.options(in))) }

func (s *shrinker) outcome(r Result) shrink.Outcome {
	calls := make([]shrink.Call, len(r.Calls))
	for i, c := range r.Calls {
		calls[i] = shrink.Call{Number: c.Number, Groups: []string{c.Client, c.Name, c.Client + " " + c.Name}}
	}
	return shrink.Outcome{
		Without: r.Used.Without, Calls: calls,
		Fingerprint: Fingerprint(r.Err), Choices: r.Choices, Bounds: limitsToBounds(r.Used), Plan: r.PlanChoices,
		Weight: int64(r.Operations + faultWeight*r.Faults()),
	}
}

// label names where each choice of a run is drawn.
func (s *shrinker) label(in shrink.Input) (labels []string) {
	o := s.options(in)
	o.Watch = &Watch{Trace: sim.Trace{Choice: func(sim.Choice) { labels = append(labels, shrink.Site()) }}}
	Run(o)
	return labels
}

// leastLimits are the smallest values of the limits, in the order of limitsToBounds.
var leastLimits = []int64{0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1}

// limitsToBounds lists the limits in the order in which lowering them pays most.
func limitsToBounds(l Limits) []int64 {
	return []int64{
		int64(l.Policy), int64(l.Operations), int64(l.Strikes), int64(l.FaultsBelow), int64(l.Producers), int64(l.Consumers), int64(l.Topics),
		int64(l.Partitions), int64((l.Traffic + time.Millisecond - 1) / time.Millisecond), int64(l.Size), int64(l.Batch),
	}
}

func boundsToLimits(b []int64) *Limits {
	return &Limits{
		Policy: int(b[0]), Operations: int(b[1]), Strikes: int(b[2]), FaultsBelow: int(b[3]), Producers: int(b[4]), Consumers: int(b[5]),
		Topics: int(b[6]), Partitions: int(b[7]), Traffic: time.Duration(b[8]) * time.Millisecond, Size: int(b[9]), Batch: int(b[10]),
	}
}

// smallLimits lists limits of worlds that are much smaller than one that came up to b: as few operations as a reader can follow, in
// two sizes of everything else.
func smallLimits(b []int64) (list [][]int64) {
	used := boundsToLimits(b)
	for _, operations := range []int{8, 15, 24, 40, 70} {
		if 2*operations > used.Operations {
			break
		}
		for _, tight := range []bool{true, false} {
			l := *used
			l.Operations, l.Strikes = operations, min(l.Strikes, 1+operations/15)
			if tight {
				l.Producers, l.Consumers, l.Topics, l.Partitions = min(l.Producers, 1), min(l.Consumers, 2), 1, min(l.Partitions, 2)
				l.Traffic = min(l.Traffic, 8*time.Second)
				l.FaultsBelow = min(l.FaultsBelow, 4)
			}
			list = append(list, limitsToBounds(l))
		}
	}
	return list
}

// Faults counts what went wrong in the world, not in the engine.
func (r *Result) Faults() int {
	n := r.Stats.ProcessCrashes + r.Stats.PowerLosses + r.Stats.Pauses
	for f, k := range r.Stats.Faults { // order-free: sums
		if f.Fault != sim.Stall {
			n += k
		}
	}
	return n
}

// Neighbours varies single decisions of a failing case; see [shrink.Neighbours].
func Neighbours(c Case, o shrink.NeighbourOptions) ([]shrink.Decision, error) {
	r := Run(c.Options())
	at := shrinker{c: c, steps: stepsFactor*r.Stats.Steps + 10_000, world: Run}
	limits := r.Used
	if c.Limits != nil {
		limits = *c.Limits
	}
	o.Run = func(choices []uint32) string {
		return at.run(shrink.Input{Choices: choices, Bounds: limitsToBounds(limits), Without: limits.Without}).Fingerprint
	}
	o.Fingerprint = Fingerprint(r.Err)
	var drawn []shrink.Drawn
	again := c.Options()
	open := map[int64][]int{} // decisions of a task about which no line was logged yet
	again.Watch = &Watch{Trace: sim.Trace{
		Choice: func(v sim.Choice) {
			open[v.Task.ID()] = append(open[v.Task.ID()], len(drawn))
			drawn = append(drawn, shrink.Drawn{At: v.At.Sub(0), Task: v.Task.String(), Site: shrink.Site(), N: v.N, Value: v.Value})
		},
		Line: func(l sim.Line) {
			for _, i := range open[l.Task.ID()] {
				drawn[i].Then = l.Text
			}
			delete(open, l.Task.ID())
		},
	}}
	Run(again)
	o.Drawn = slices.Clip(drawn)
	return shrink.Neighbours(o)
}
