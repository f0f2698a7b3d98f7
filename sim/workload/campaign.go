package workload

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"narad/sim"
)

// Campaign is a run of many seeds, one world per core at a time.
type Campaign struct {
	Profile  Profile
	First    uint64 // the first seed
	Seeds    int
	Workers  int  // default: all cores
	Twice    bool // run every seed twice and compare the trace hashes
	FailFast bool // start no further seed after a failure
}

// Summary sums up a campaign.
type Summary struct {
	Seeds               int
	Failures            []Result
	Diverged            []uint64 // seeds whose two runs differed
	Undecided           []uint64 // seeds with a history that porcupine could not decide in time: they have not passed
	Real                time.Duration
	Simulated           time.Duration
	Total               Result // counters of all runs, added up
	WithoutProcessCrash int    // of those that did not end early
	Conceded            int    // ended early: the disk broke a rule that the contract rests on

	lengths             []time.Duration // of the worlds, simulated
	shortSim, shortReal time.Duration   // of worlds without hours
}

// Median returns the simulated length that half of the worlds stay below.
func (s *Summary) Median() time.Duration {
	if len(s.lengths) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.lengths))
	return sorted[len(sorted)/2]
}

// ShortRatio returns how many times faster than real time one core ran the worlds that are not hours long; those are nearly
// empty and would lift the figure.
func (s *Summary) ShortRatio() float64 {
	if s.shortReal == 0 {
		return 0
	}
	return s.shortSim.Seconds() / s.shortReal.Seconds()
}

// Run runs the campaign and hands each result, in the order in which worlds end, to each (never two at a time).
func (c Campaign) Run(each func(Result)) Summary {
	workers := c.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	start := time.Now()
	var next atomic.Int64
	var failed atomic.Bool
	results := make(chan outcome)
	var group sync.WaitGroup
	for range min(workers, max(c.Seeds, 1)) {
		group.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(c.Seeds) || c.FailFast && failed.Load() {
					return
				}
				o := c.one(c.First + uint64(i))
				if o.result.Err != nil || o.diverged {
					failed.Store(true)
				}
				results <- o
			}
		})
	}
	go func() {
		group.Wait()
		close(results)
	}()
	s := Summary{Total: Result{
		Goals: map[string]int{}, Causes: map[string]int{},
		Stats: sim.Stats{Points: map[string]sim.PlaceCount{}, Calls: map[sim.CallPlace]sim.PlaceCount{}, Faults: map[sim.FaultCount]int{}},
	}}
	for o := range results {
		s.add(o)
		each(o.result)
	}
	s.Real = time.Since(start)
	return s
}

type outcome struct {
	result   Result
	diverged bool
}

func (c Campaign) one(seed uint64) outcome {
	o := outcome{result: timed(Options{Seed: seed, Profile: c.Profile})}
	if c.Twice {
		again := Run(Options{Seed: seed, Profile: c.Profile})
		o.diverged = again.Hash != o.result.Hash
	}
	return o
}

func timed(o Options) Result {
	start := time.Now()
	r := Run(o)
	r.Real = time.Since(start)
	return r
}

func (s *Summary) add(o outcome) {
	r := o.result
	s.Seeds++
	s.Simulated += r.Simulated
	s.lengths = append(s.lengths, r.Simulated)
	if r.Simulated < time.Hour {
		s.shortSim += r.Simulated
		s.shortReal += r.Real
	}
	if r.Err != nil {
		s.Failures = append(s.Failures, r)
	}
	if r.UnknownHistories > 0 {
		s.Undecided = append(s.Undecided, r.Seed)
	}
	if o.diverged {
		s.Diverged = append(s.Diverged, r.Seed)
	}
	if r.Conceded {
		s.Conceded++
	} else if r.Stats.ProcessCrashes == 0 {
		s.WithoutProcessCrash++
	}
	s.Total.sum(r)
}

// sum adds the counters of another run.
func (t *Result) sum(r Result) {
	t.Stats.Steps += r.Stats.Steps
	t.Stats.Switches += r.Stats.Switches
	t.Stats.Boots += r.Stats.Boots
	t.Stats.ProcessCrashes += r.Stats.ProcessCrashes
	t.Stats.PowerLosses += r.Stats.PowerLosses
	t.Stats.ArmedCrashes += r.Stats.ArmedCrashes
	t.Stats.Pauses += r.Stats.Pauses
	t.Stats.PartialWrites += r.Stats.PartialWrites
	t.Stats.Losses.SectorsLost += r.Stats.Losses.SectorsLost
	t.Stats.Losses.TornWrites += r.Stats.Losses.TornWrites
	t.Stats.Losses.NamesLost += r.Stats.Losses.NamesLost
	t.Stats.DiskOps += r.Stats.DiskOps
	t.Stats.Stalls += r.Stats.Stalls
	t.Stats.Starved += r.Stats.Starved
	for p, n := range r.Stats.Points { // order-free: sums
		at := t.Stats.Points[p]
		at.Add(n)
		t.Stats.Points[p] = at
	}
	for p, n := range r.Stats.Calls { // order-free: sums
		at := t.Stats.Calls[p]
		at.Add(n)
		t.Stats.Calls[p] = at
	}
	for f, n := range r.Stats.Faults { // order-free: sums
		t.Stats.Faults[f] += n
	}
	t.Corrupt += r.Corrupt
	t.Tried += r.Tried
	t.Accepted += r.Accepted
	t.Acked += r.Acked
	t.Delivered += r.Delivered
	t.Leases += r.Leases
	t.Commits += r.Commits
	t.Quiets += r.Quiets
	t.GracefulStops += r.GracefulStops
	t.RecoveryCrashes += r.RecoveryCrashes
	t.Histories += r.Histories
	t.UnknownHistories += r.UnknownHistories
	for g, n := range r.Goals { // order-free: sums
		t.Goals[g] += n
	}
	for c, n := range r.Causes { // order-free: sums
		t.Causes[c] += n
	}
}
