package shrink

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Input decides a run.
type Input struct {
	Choices []uint32
	Tail    uint64  // what is drawn past the end of Choices: 0 zeros, otherwise the numbers of this seed
	Bounds  []int64 // what the run may come up to, each at least the one of Options.Least
	Without []int   // numbers of calls that are left out, ascending
}

// Outcome is what a run showed.
type Outcome struct {
	Fingerprint string   // names the failure, "" when there is none
	Choices     []uint32 // that were made
	Bounds      []int64  // that the run came up to: with these it would have been the same
	Weight      int64    // how much there is to read in it: operations, faults
	Plan        int      // how many of the first choices decided what kind of run it is
	Without     []int    // calls that were left out
	Calls       []Call   // that could be, in their order
}

// Call is something that a run can be asked to leave out.
type Call struct {
	Number int
	Groups []string // that it is of; whole groups are tried first
}

// Options say how to search.
type Options struct {
	Run   func(Input) Outcome
	Label func(Input) []string // names where each choice was drawn; nil: not known
	Least []int64              // of each bound
	// Small lists bounds of runs that are much smaller than one with the given bounds, the smallest first; nil: nobody knows.
	// Runs within them are drawn anew, many for each, before the fine work begins.
	Small    func(bounds []int64) [][]int64
	Enough   int64          // weight of an outcome that is small enough not to start over
	Workers  int            // runs at a time, default: as many as processors
	Runs     int            // budget, default 20,000
	Time     time.Duration  // budget of real time, default: none
	Progress func(Progress) // now and then; nil: nobody
}

// Progress tells how far a search is.
type Progress struct {
	Pass     string
	Runs     int
	Accepted int
	Choices  int // of the best input so far
	NonZero  int
	Weight   int64
	Elapsed  time.Duration
}

// Result is the smallest failing input that was found.
type Result struct {
	Input    Input
	Outcome  Outcome
	Runs     int
	Accepted int
	Elapsed  time.Duration
	Done     bool // nothing that was tried made it smaller; false: the budget ended
}

// ErrPasses reports an input that does not fail.
var ErrPasses = errors.New("shrink: the run does not fail")

// errBudget ends a search.
var errBudget = errors.New("shrink: budget used up")

// search is one run of Shrink.
type search struct {
	Options
	ctx      context.Context
	start    time.Time
	best     Input
	shown    Outcome
	size     size
	pass     string
	runs     int
	accepted int
	tails    uint64 // handed out
}

// Shrink looks for a smaller input that fails with the same fingerprint. The error is [ErrPasses] or that of a
// context which ended before the first run.
func Shrink(ctx context.Context, in Input, o Options) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if o.Workers < 1 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Runs < 1 {
		o.Runs = 20_000
	}
	s := &search{Options: o, ctx: ctx, start: time.Now(), runs: 1, pass: "first run"}
	first := o.Run(in)
	if first.Fingerprint == "" {
		return Result{}, ErrPasses
	}
	s.adopt(first)
	s.tell()
	err := s.twice()
	return Result{s.best, s.shown, s.runs, s.accepted, time.Since(s.start), err == nil}, nil
}

// twice searches in one order of the passes with half of the budget, and unless that found something small enough, from the start
// again in the other: a run that was small early can be a dead end. The smaller one is the result.
func (s *search) twice() error {
	if s.Small == nil {
		return s.all(s.passes(false))
	}
	first := *s
	runs, limit := s.Runs, s.Time
	s.Runs, s.Time = runs/2, limit/2
	err := s.all(s.passes(true))
	s.Runs, s.Time = runs, limit
	if s.shown.Weight <= s.Enough {
		if errors.Is(err, errBudget) {
			err = s.all(s.passes(true))
		}
		return err
	}
	found := *s
	s.best, s.shown, s.size = first.best, first.shown, first.size
	err = s.all(s.passes(false))
	if found.size.less(s.size) {
		s.best, s.shown, s.size = found.best, found.shown, found.size
	}
	return err
}

// adopt takes the run as the best so far. Its input is what it did: the choices it made without trailing zeros, the bounds it came up to.
func (s *search) adopt(o Outcome) {
	s.best = Input{Choices: trim(o.Choices), Bounds: slices.Clone(o.Bounds), Without: slices.Clone(o.Without)}
	s.shown = o
	s.shown.Choices = s.best.Choices
	s.size = sizeOf(s.shown)
}

func trim(c []uint32) []uint32 {
	n := len(c)
	for n > 0 && c[n-1] == 0 {
		n--
	}
	return slices.Clone(c[:n])
}

// size orders outcomes: what there is to read, how much is not tame, how long it is.
type size [5]int64

func sizeOf(o Outcome) size {
	var bounds, nonzero, bits int64
	for _, b := range o.Bounds {
		bounds += b
	}
	for _, c := range o.Choices {
		if c != 0 {
			nonzero++
		}
		bits += int64(c)
	}
	return size{o.Weight, nonzero, int64(len(o.Choices)), bounds, bits}
}

func (a size) less(b size) bool { return slices.Compare(a[:], b[:]) < 0 }

// try runs candidates and adopts the first of them, in their order, that fails alike and is smaller. It returns its index, or -1.
// Runs behind the one that is adopted are thrown away, so that the outcome does not depend on the number of workers.
func (s *search) try(candidates []Input) (int, error) {
	for from := 0; from < len(candidates); from += s.Workers {
		batch := candidates[from:min(from+s.Workers, len(candidates))]
		if i, err := s.first(batch); i >= 0 || err != nil {
			return from + i, err
		}
	}
	return -1, nil
}

func (s *search) first(batch []Input) (int, error) {
	outcomes, err := s.runAll(batch)
	if err != nil {
		return -1, err
	}
	for i, o := range outcomes {
		s.runs++
		if s.smaller(o) {
			s.accept(o)
			return i, nil
		}
	}
	return -1, nil
}

// tryBest is try, but looks at all candidates and adopts the smallest.
func (s *search) tryBest(candidates []Input) (bool, error) {
	outcomes, err := s.runAll(candidates)
	s.runs += len(outcomes)
	if err != nil {
		return false, err
	}
	found := false
	for _, o := range outcomes {
		if s.smaller(o) {
			s.accept(o)
			found = true
		}
	}
	return found, nil
}

func (s *search) smaller(o Outcome) bool {
	if o.Fingerprint != s.shown.Fingerprint {
		return false
	}
	o.Choices = trim(o.Choices)
	return sizeOf(o).less(s.size)
}

func (s *search) accept(o Outcome) {
	s.adopt(o)
	s.accepted++
	s.tell()
}

// runAll runs the candidates, some at a time.
func (s *search) runAll(candidates []Input) ([]Outcome, error) {
	if err := s.ctx.Err(); err != nil || s.runs >= s.Runs || s.Time > 0 && time.Since(s.start) > s.Time {
		return nil, errBudget
	}
	outcomes := make([]Outcome, len(candidates))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(s.Workers, len(candidates)) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(candidates); i = int(next.Add(1)) - 1 {
				outcomes[i] = s.Run(candidates[i])
			}
		})
	}
	group.Wait()
	return outcomes, nil
}

func (s *search) tell() {
	if s.Progress != nil {
		s.Progress(Progress{s.pass, s.runs, s.accepted, len(s.best.Choices), int(s.size[1]), s.shown.Weight, time.Since(s.start)})
	}
}

// tail returns the seed of another tail, never 0.
func (s *search) tail() uint64 {
	s.tails++
	z := s.tails * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	return (z ^ z>>27) | 1
}
