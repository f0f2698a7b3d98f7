package report

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/model"
	"narad/sim/shrink"
	"narad/sim/workload"
)

// planted is a world with a failure that has nothing to do with the engine: a message came again, because a process crash undid its ack.
func planted(o workload.Options) workload.Result {
	r := workload.Run(o)
	if r.Causes[model.CrashedAcked.String()] > 0 && r.Err == nil {
		r.Err = model.Violate("INV-00", "an ack was undone")
	}
	return r
}

// smallFailing records a small world with the planted failure.
func smallFailing(t *testing.T) *Recording {
	o := workload.Options{Profile: workload.NodeProfile}
	for o.Seed = 1; o.Seed < 400; o.Seed++ {
		o.Limits = &workload.Limits{Operations: 40, Strikes: 3, Traffic: 8 * time.Second, Producers: 2, Consumers: 2, Topics: 1, Partitions: 1, Size: 100, FaultsBelow: 1, Batch: 1}
		if p := planted(o); p.Err != nil && p.Operations <= exploreCalls {
			c := workload.NewCase(o, p)
			r := Record(c, c.Options())
			r.Result.Err = p.Err
			return r
		}
	}
	t.Fatal("no seed has the planted failure")
	return nil
}

func none(workload.Case, shrink.NeighbourOptions) ([]shrink.Decision, error) { return nil, nil }

// The fault and the calls that a failure hangs on are named, and what is said of them holds.
func TestExplore(t *testing.T) {
	r := smallFailing(t)
	require.NoError(t, r.explore(planted, none))
	n := r.Needed
	require.NotNil(t, n)
	require.Equal(t, Gone, n.Spared["fault"], "no ack is undone without a crash")
	require.Regexp(t, `the (process crash|power loss) of n1 at \d`, n.Fault)
	require.NotEmpty(t, n.Calls)
	require.Positive(t, n.neededCalls())
	require.Less(t, n.neededCalls(), len(n.Calls), "not every call of a drawn world matters")
	for _, c := range n.Calls {
		l := r.Result.Used
		l.Without = append(slices.Clone(l.Without), c.Number)
		slices.Sort(l.Without)
		o := r.Case.Options()
		o.Choices, o.Limits = r.Result.Choices, &l
		again := workload.Fingerprint(planted(o).Err)
		require.Equal(t, c.Without == Same, again == "INV-00: an ack was undone", "without call %d the world %s", c.Number, c.Without)
	}
	require.Contains(t, r.decisive(), "Decisive is the ")
	var page bytes.Buffer
	require.NoError(t, r.HTML(&page))
	require.Contains(t, page.String(), n.Fault)
	require.Contains(t, page.String(), "calls of the traffic")
}

// A world that passes, one that is too large and one that does not repeat are left alone.
func TestExploreLeavesAlone(t *testing.T) {
	c := workload.NewCase(workload.Options{Seed: 7, Profile: workload.NodeProfile}, workload.Result{})
	r := Record(c, c.Options())
	require.NoError(t, r.Explore())
	require.Nil(t, r.Needed)
	r.Result.Err = model.Violate("INV-00", "what no run repeats")
	require.NoError(t, r.Explore())
	require.Nil(t, r.Needed)
	r.Result.Operations = exploreCalls
	require.NoError(t, r.Explore())
	require.Nil(t, r.Needed)
	require.NotEmpty(t, r.decisive())
}

// A failure without a fault says so.
func TestDecisiveWithoutFaults(t *testing.T) {
	r := &Recording{}
	r.Result.Err = model.Violate("INV-17", "all is at rest")
	require.Contains(t, r.decisive(), "No fault happens in this world, and none is needed: no crash")
	r.Result.Err = model.Violate("INV-03", "a batch is said to be durable, and a power loss now could take of data/a: sector 0 of a")
	require.Contains(t, r.decisive(), "The check asks the simulated disk")
}
