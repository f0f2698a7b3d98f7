package workload

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim"
	"narad/sim/model"
	"narad/sim/shrink"
)

// planted is Run with a failure that has nothing to do with the engine: a message was delivered again because a crash undid its
// ack.
func planted(o Options) Result {
	r := Run(o)
	if n := r.Causes[model.CrashedAcked.String()]; n > 0 && r.Err == nil {
		r.Err = model.Violate("INV-00", "%d acks were undone", n)
	}
	return r
}

// A failing world becomes much smaller, keeps its fingerprint, and repeats from its plan. How much smaller depends on the world that the
// seed draws; docs/simulator.md has figures.
func TestShrinkWorld(t *testing.T) {
	var first Result
	o := Options{Profile: NodeProfile, Record: true} // not larger than the test has time for
	o.Limits = &Limits{Operations: 250, Strikes: 6, Traffic: 10 * time.Second, Producers: 3, Consumers: 3, Topics: 2, Partitions: 4, Size: 300, Policy: 1}
	for o.Seed = 1; ; o.Seed++ {
		require.Less(t, o.Seed, uint64(100), "no seed has the planted failure")
		if first = planted(o); first.Err != nil && len(first.Choices) > 2000 && first.Operations > 200 {
			break
		}
	}
	c := NewCase(o, Result{})
	small, res, err := shrinkWith(context.Background(), c, shrink.Options{Runs: 2000}, planted)
	require.NoError(t, err)
	require.Equal(t, Fingerprint(first.Err), small.Fingerprint)
	require.LessOrEqual(t, 5*len(res.Input.Choices), len(first.Choices))

	var file bytes.Buffer
	require.NoError(t, small.Write(&file))
	read, err := ReadCase(&file)
	require.NoError(t, err)
	require.Equal(t, small, read)
	again := planted(read.Options())
	require.Equal(t, small.Hash, fmt.Sprintf("%016x", again.Hash))
	require.Equal(t, small.Error, again.Err.Error())
	require.LessOrEqual(t, 5*again.Operations, first.Operations)
	require.LessOrEqual(t, again.Faults(), 3)
}

func TestShrinkAGoodWorld(t *testing.T) {
	_, _, err := Shrink(context.Background(), NewCase(Options{Seed: 7, Profile: NodeProfile}, Result{}), shrink.Options{})
	require.ErrorIs(t, err, shrink.ErrPasses)
}

// A run under the limits that it came up to is the same run: shrinking starts from them.
func TestLimitsThatDoNotCut(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		r := Run(Options{Seed: seed, Profile: NodeProfile})
		l := boundsToLimits(limitsToBounds(r.Used))
		again := Run(Options{Seed: seed, Profile: NodeProfile, Limits: l})
		require.Equal(t, r.Operations, again.Operations, "seed %d", seed)
		require.Equal(t, r.Tried, again.Tried, "seed %d", seed)
		require.Equal(t, r.Stats.Steps, again.Stats.Steps, "seed %d", seed)
	}
}

func TestLimitsCut(t *testing.T) {
	r := Run(Options{Seed: 5, Profile: CapsProfile})
	require.Positive(t, r.Used.Strikes)
	l := r.Used
	l.Operations, l.Strikes = 20, 0
	cut := Run(Options{Seed: 5, Profile: CapsProfile, Limits: &l})
	require.NoError(t, cut.Err)
	require.LessOrEqual(t, cut.Used.Operations, 20)
	require.Zero(t, cut.Stats.ProcessCrashes+cut.Stats.PowerLosses)
	require.Less(t, cut.Tried, r.Tried)
}

// INV names, not numbers and places, tell failures apart.
func TestFingerprint(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("n1 topic0/3: %w", err) }
	same := func(a, b error) { require.Equal(t, Fingerprint(a), Fingerprint(b)) }
	other := func(a, b error) { require.NotEqual(t, Fingerprint(a), Fingerprint(b)) }
	a := wrap(model.Violate("INV-07", "after the ack of %d the frontier is %d", 5, -1))
	same(a, model.Violate("INV-07", "after the ack of %d the frontier is %d", 77, 12))
	other(a, model.Violate("INV-06", "after the ack of %d the frontier is %d", 5, -1))
	other(a, model.Violate("INV-07", "offset %d leased after it was settled", 5))
	same(model.Violate("INV-02", "stored at [{n1 {topic0 3} 5}], for 1m2.5s"), model.Violate("INV-02", "stored at [], for 3ms"))
	same(model.Violate("INV-02", "left: n1 topic0/1: 3 records; n1 topic1/0: more"), model.Violate("INV-02", "left: n1 topic1/0: 8 records"))
	same(&sim.PanicError{Value: "index 3 out of 2", Task: "a"}, &sim.PanicError{Value: "index 7 out of 5", Task: "b"})
	same(fmt.Errorf("%w at 3s: tasks", sim.ErrTime), fmt.Errorf("%w at 9s", sim.ErrTime))
	require.Empty(t, Fingerprint(nil))
	require.Equal(t, "deadlock", Fingerprint(&sim.DeadlockError{}))
	require.Equal(t, "INV-09: the ack of offset N came back, it was N older", Fingerprint(model.Violate("INV-09", "the ack of offset 3 came back, it was 41.6ms older")))
}

func TestReadCaseRefuses(t *testing.T) {
	for text, why := range map[string]string{ // order-free: each on its own
		`{`:                               "not a plan",
		`{"version":2,"profile":"node"}`:  "version 2",
		`{"version":1,"profile":"other"}`: "unknown profile",
		`{"version":1,"profile":"node","surprise":1}`:     "surprise",
		`{"version":1,"profile":"node","choices":"%%"}`:   "not a plan",
		`{"version":1,"profile":"node","choices":"AAAA"}`: "not a plan",
	} {
		_, err := ReadCase(strings.NewReader(text))
		require.ErrorContains(t, err, why, text)
	}
}

func TestChoicesRoundTrip(t *testing.T) {
	for _, c := range []Choices{nil, {}, {0}, {0, 0, 0}, {1, 0, 0, 1<<32 - 1}, make(Choices, 100_000)} {
		b, err := c.MarshalJSON()
		require.NoError(t, err)
		require.Less(t, len(b), 300)
		var again Choices
		require.NoError(t, again.UnmarshalJSON(b))
		require.Equal(t, c, again)
	}
	_, err := unpackChoices([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	require.ErrorIs(t, err, errChoices)
}

// The decision to cut the power is named when nothing fails without it.
func TestNeighboursOfAGoodWorld(t *testing.T) {
	_, err := Neighbours(NewCase(Options{Seed: 7, Profile: NodeProfile}, Result{}), shrink.NeighbourOptions{})
	require.ErrorIs(t, err, shrink.ErrPasses)
}

// Calls that are left out are not made, and nothing is lost by it.
func TestLimitsLeaveOutCalls(t *testing.T) {
	o := Options{Seed: 6, Profile: NodeProfile, Record: true}
	r := Run(o)
	require.NoError(t, r.Err)
	require.Greater(t, len(r.Calls), 50)
	l := r.Used
	for _, c := range r.Calls {
		if c.Name == "produce" {
			l.Without = append(l.Without, c.Number)
		}
	}
	require.NotEmpty(t, l.Without)
	o.Limits = &l
	cut := Run(o)
	require.NoError(t, cut.Err)
	require.Less(t, cut.Operations, r.Operations)
	require.Equal(t, l.Without[0], cut.Used.Without[0])
	require.Less(t, cut.Accepted, r.Accepted)
}

// The number of file calls that fail can be limited.
func TestLimitsSpareFileCalls(t *testing.T) {
	o := Options{Profile: DiskFaultProfile}
	var r Result
	for r.Used.FaultsBelow <= 5 {
		o.Seed++
		r = Run(o)
		require.NoError(t, r.Err)
	}
	r.Used.FaultsBelow = 3
	o.Limits = &r.Used
	cut := Run(o)
	require.NoError(t, cut.Err)
	require.Equal(t, 3, cut.Used.FaultsBelow)
}
