package shrink

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim"
)

// toy is a world with a planted failure: a counter that two of its writers update without care, and that only a
// crash at the wrong time shows.
func toy(in Input, trace *sim.Trace) Outcome {
	choices := in.Choices
	if choices == nil && in.Tail == 0 {
		choices = []uint32{}
	}
	w := sim.New(sim.Options{Seed: in.Tail, Tail: in.Tail != 0, Choices: choices, Record: true, Trace: trace, MaxSteps: 20_000})
	writers := min(1+w.Choose(6), int(in.Bounds[0]))
	rounds := min(1+w.Choose(40), int(in.Bounds[1]))
	plan := w.Drawn()
	counter, crashed, done := 0, false, 0
	used := 0
	for i := range writers {
		w.Go(fmt.Sprintf("writer%d", i), func() {
			for range rounds {
				seen := counter
				w.Env().Sleep(w.Duration(0, 5*time.Millisecond))
				counter = seen + 1
				used++
				if w.Choose(10) == 7 {
					crashed = true
				}
			}
			done++
		})
	}
	w.Go("watcher", func() {
		for done < writers {
			w.Env().Sleep(time.Millisecond)
		}
		if counter != writers*rounds && crashed {
			w.Fail(fmt.Errorf("lost updates"))
		}
	})
	o := Outcome{Plan: plan, Bounds: []int64{int64(writers), int64(rounds)}, Weight: 0}
	if err := w.Run(time.Minute); err != nil {
		o.Fingerprint = strings.SplitN(err.Error(), ":", 2)[0]
	}
	o.Choices, o.Weight = w.Choices(), int64(used)
	return o
}

func failingToy(t *testing.T) (Input, Outcome) {
	for seed := uint64(1); seed < 100; seed++ {
		in := Input{Tail: seed, Bounds: []int64{100, 100}}
		if o := toy(in, nil); o.Fingerprint == "lost updates" && len(o.Choices) > 200 {
			return in, o
		}
	}
	t.Fatal("no seed fails")
	return Input{}, Outcome{}
}

func shrinkToy(t *testing.T, in Input, workers int) Result {
	r, err := Shrink(context.Background(), in, Options{
		Run: func(in Input) Outcome { return toy(in, nil) }, Least: []int64{1, 1}, Workers: workers, Runs: 5000,
		Label: func(in Input) (labels []string) {
			toy(in, &sim.Trace{Choice: func(sim.Choice) { labels = append(labels, Site()) }})
			return labels
		},
	})
	require.NoError(t, err)
	return r
}

// A failure gets at least ten times shorter and stays the same failure.
func TestShrink(t *testing.T) {
	in, before := failingToy(t)
	r := shrinkToy(t, in, 2)
	require.True(t, r.Done)
	require.LessOrEqual(t, len(r.Input.Choices)*10, len(before.Choices))
	require.LessOrEqual(t, r.Outcome.Weight*10, before.Weight)
	require.Equal(t, []int64{2, 1}, r.Outcome.Bounds, "two writers and one round are the least that lose an update")
	again := toy(r.Input, nil)
	require.Equal(t, "lost updates", again.Fingerprint)
}

// How many runs are made at a time decides nothing.
func TestShrinkIsDeterministic(t *testing.T) {
	in, _ := failingToy(t)
	one, four := shrinkToy(t, in, 1), shrinkToy(t, in, 4)
	require.Equal(t, one.Input, four.Input)
	require.Equal(t, one.Accepted, four.Accepted)
}

func TestShrinkWhatPasses(t *testing.T) {
	_, err := Shrink(context.Background(), Input{Bounds: []int64{1, 1}}, Options{Run: func(in Input) Outcome { return toy(in, nil) }})
	require.ErrorIs(t, err, ErrPasses)
}

func TestShrinkKeepsItsBudget(t *testing.T) {
	in, _ := failingToy(t)
	r, err := Shrink(context.Background(), in, Options{Run: func(in Input) Outcome { return toy(in, nil) }, Least: []int64{1, 1}, Runs: 20})
	require.NoError(t, err)
	require.False(t, r.Done)
	require.Less(t, r.Runs, 120)
}

// The decision without which nothing fails is named.
func TestNeighbours(t *testing.T) {
	in, _ := failingToy(t)
	r := shrinkToy(t, in, 2)
	var drawn []Drawn
	toy(r.Input, &sim.Trace{Choice: func(c sim.Choice) {
		drawn = append(drawn, Drawn{At: c.At.Sub(0), Task: c.Task.String(), Site: Site(), N: c.N, Value: c.Value})
	}})
	list, err := Neighbours(NeighbourOptions{
		Drawn: drawn, Fingerprint: "lost updates", Count: 100,
		Run: func(c []uint32) string { return toy(Input{Choices: c, Bounds: r.Outcome.Bounds}, nil).Fingerprint },
	})
	require.NoError(t, err)
	var decisive []string
	for _, d := range list {
		if d.Decisive() && d.N == 10 {
			decisive = append(decisive, fmt.Sprint(d.Value))
			require.Contains(t, d.Site, "toy")
			require.Contains(t, d.Task, "writer")
		}
	}
	require.Equal(t, []string{"7"}, decisive, "the crash alone")
}

func TestOthers(t *testing.T) {
	require.Equal(t, []uint32{1}, others(2, 0))
	require.Equal(t, []uint32{0, 8, 6, 2}, others(10, 7))
	require.Empty(t, others(1, 0))
}

// A task that reads the order of a map makes two runs differ; the place that draws is named.
func TestCompareFindsNondeterminism(t *testing.T) {
	run := func(tr *sim.Trace) {
		w := sim.New(sim.Options{Seed: 1, Trace: tr})
		w.Go("steady", func() {
			for range 50 {
				w.Env().Sleep(w.Duration(0, time.Millisecond))
			}
		})
		w.Go("planted", func() {
			m := map[int]int{}
			for i := range 64 {
				m[i] = i
			}
			for range 20 {
				for k := range m { // order-free: not at all, this is the planted bug
					w.Env().Sleep(time.Duration(k) * time.Microsecond)
				}
			}
		})
		if err := w.Run(time.Minute); err != nil {
			panic(err)
		}
	}
	d := Compare(run)
	require.NotNil(t, d)
	require.Positive(t, d.Event)
	require.NotEqual(t, d.Sides[0].What, d.Sides[1].What)
	text := d.String()
	require.Contains(t, text, "planted", "the task is named")
	require.Contains(t, text, "TestCompareFindsNondeterminism", "with its stack")
	require.NotEmpty(t, d.Sides[0].Before)
}

// A choice among another number of things is found where it is drawn.
func TestCompareFindsChoices(t *testing.T) {
	n := make(chan int, 2)
	n <- 5
	n <- 6
	d := Compare(func(tr *sim.Trace) {
		among := <-n
		w := sim.New(sim.Options{Seed: 1, Trace: tr})
		w.Go("one", func() { w.Choose(among) })
		w.Run(time.Minute)
	})
	require.NotNil(t, d)
	require.Contains(t, d.Sides[0].What, "draws")
	require.Contains(t, d.Sides[0].Stack+d.Sides[1].Stack, "TestCompareFindsChoices")
}

func TestCompareEqualAndShorter(t *testing.T) {
	steps := func(tr *sim.Trace, n int) {
		w := sim.New(sim.Options{Seed: 1, Trace: tr})
		w.Go("one", func() {
			for range n {
				w.Env().Sleep(time.Millisecond)
			}
		})
		w.Run(time.Minute)
	}
	require.Nil(t, Compare(func(tr *sim.Trace) { steps(tr, 30) }))
	lengths := make(chan int, 2)
	lengths <- 3
	lengths <- 4
	d := Compare(func(tr *sim.Trace) { steps(tr, <-lengths) })
	require.NotNil(t, d)
	require.Contains(t, d.Sides[0].What+d.Sides[1].What, "ended")
}

// A traced world is the same world.
func TestTraceChangesNothing(t *testing.T) {
	in := Input{Tail: 9, Bounds: []int64{100, 100}}
	var last env.Instant
	quiet := toy(in, nil)
	traced := toy(in, &sim.Trace{
		Step: func(s sim.Step) { last = s.At }, Choice: func(sim.Choice) { Site() }, Line: func(sim.Line) {}, Disk: func(sim.DiskCall) {}, End: func() {},
	})
	require.Equal(t, quiet, traced)
	require.Positive(t, last)
}
