package report

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/sim/model"
	"narad/sim/workload"
	"narad/wal"
)

// dumped finds a Go value that was printed as it is.
var dumped = regexp.MustCompile(`\{[A-Z]\w*:|\b(engine|wal|segment|committer)\.[A-Z]`)

// Every row of the story has its place in the lanes, and the lanes show who acts and what goes on meanwhile.
func TestSequence(t *testing.T) {
	r := failing(t, 6)
	f, story := r.Focus(), r.Story()
	q := r.sequence(f, story)
	require.True(t, q.State)
	require.LessOrEqual(t, len(q.Lanes), laneMax+leaseLanes)
	kinds := map[string]int{}
	for _, l := range q.Lanes {
		kinds[l.Kind]++
		require.NotEmpty(t, l.Name)
	}
	require.Equal(t, 1, kinds["lease"], "the offset of the failure has a lane")
	require.Positive(t, kinds["client"])
	leased := 0
	for i, row := range q.Rows {
		require.Len(t, row.Cells, len(q.Lanes))
		require.Empty(t, dumped.FindString(row.Text), row.Text)
		dots := 0
		for _, c := range row.Cells {
			if c.Dot != "" && c.Dot != "served" {
				dots++
			}
			if c.On == "leased" {
				leased++
			}
		}
		if i == len(q.Rows)-1 {
			require.Equal(t, "failure", row.Kind)
			continue
		}
		require.Equal(t, 1, dots, "one acts in %q", row.Text)
	}
	require.Positive(t, leased)
	require.NotEmpty(t, q.Rows[len(q.Rows)-1].Frontier, "the last row says how the partition stands")
}

// The steps are few, in order, and tell a call together with what came of it.
func TestSteps(t *testing.T) {
	r := failing(t, 6)
	s := r.sequencer(r.Focus())
	list := s.steps(r.Story())
	require.NotEmpty(t, list)
	require.LessOrEqual(t, len(list), stepsMax)
	text := ""
	for i, st := range list {
		if i > 0 && st.At != "" && list[i-1].At != "" {
			require.GreaterOrEqual(t, st.Raw, list[i-1].Raw)
		}
		require.Empty(t, dumped.FindString(st.Text), st.Text)
		text += st.Who + ": " + st.Text + "\n"
	}
	require.Regexp(t, `producer \d+: produce of message .*202 for record`, text)
	require.Regexp(t, `consumer \d+: settle .*accepted; the frontier is`, text)
}

func TestFewSteps(t *testing.T) {
	var list []step
	for i := range 40 {
		list = append(list, step{At: "x", Text: "s", Raw: float64(i), core: i > 5})
	}
	few := fewSteps(list)
	require.Len(t, few, stepsMax)
	require.InDelta(t, 6, few[0].Raw, 0, "what came before anything about the failure is left out")
	require.InDelta(t, 39, few[len(few)-1].Raw, 0, "the end is told")
	require.Contains(t, few[stepsMax/4].Text, "more steps, see below")
}

// No event is told as a Go value, not even one that has no sentence of its own, and instants are true time.
func TestWords(t *testing.T) {
	say := func(v engine.Event) string {
		return Event{Event: workload.Event{At: env.Instant(3e9), Clock: env.Instant(1000e9), Life: 2, Event: v}}.words()
	}
	key := engine.Key{Topic: "topic0", Partition: 3}
	for want, v := range map[string]engine.Event{ // order-free: each on its own
		"the node serves again, after an unclean stop":                             engine.Opened{},
		"retention failed: key topic0/3, err boom":                                 engine.RetentionFailed{Key: key, Err: errBoom},
		"record 7 of the ingress log: written and said to be synced":               engine.WAL{Event: wal.BatchSynced{First: 7, Next: 8}},
		"records 7 to 9 of the ingress log: written and said to be synced":         engine.WAL{Event: wal.BatchSynced{First: 7, Next: 10}},
		"the ingress log is recovered: no records, checkpoint 4":                   engine.WAL{Event: wal.Recovered{First: 4, Next: 4, Checkpoint: 4}},
		"the caps of topic0/3: 4 leased at a time, 2 acked ahead":                  engine.LimitsSet{Key: key, MaxInFlight: 4, MaxAckedAhead: 2},
		"offset 5 of topic0/3 is leased under nonce …0007 until 3.500000":          leased(key, 5, 7, env.Instant(1000e9+5e8)),
		"a purge of topic0/3 releases 1 expired lease":                             engine.LeasesExpired{Key: key, Count: 1},
		"topic topic0 is gone, durably":                                            engine.TopicDeleted{Name: "topic0"},
		"the ingress log takes nothing any more until it is opened again: " + boom: engine.WAL{Event: wal.Failed{Err: errBoom}},
	} {
		require.Equal(t, want, say(v))
	}
}

const boom = "boom"

type boomError struct{}

func (boomError) Error() string { return boom }

var errBoom error = boomError{}

func leased(k engine.Key, offset, nonce int64, until env.Instant) engine.Event {
	v := engine.Leased{Key: k}
	v.Lease.Offset, v.Lease.Nonce, v.Lease.Expiry = offset, nonce, until
	return v
}

// What the check says leads to the partition, the file and the hole.
func TestFocusOfChecks(t *testing.T) {
	focus := func(err error) Focus {
		r := &Recording{}
		r.Result.Err = err
		return r.Focus()
	}
	scene := engine.Key{Topic: "scene", Partition: 2}
	require.Equal(t, scene, focus(errorAt("n1", scene, model.Violate("INV-12", "slot 0 was written while it is the anchor"))).Key)
	f := focus(model.Violate("INV-12", "n1: primed, and a power loss now could take of data/topics/scene/p00002/consumer.ahead: the name consumer.ahead in p00002"))
	require.Equal(t, scene, f.Key)
	require.Equal(t, []string{"data/topics/scene/p00002/consumer.ahead"}, f.Files)
	require.Equal(t, []int64{0, 1}, focus(errorAt("n1", scene, model.Violate("INV-07", "after the ack of 1 the frontier is 1, expected -1"))).Offsets)
	require.Equal(t, demands[lifeCycle], focus(model.Violate("INV-02", "n1: the life cycle of topic topic0 is not legal:\n…")).Demand)
	for id := range demands { // order-free: each on its own
		require.NotEmpty(t, demands[id])
	}
}

// What is missing is named: the write, or the new name, that no sync followed.
func TestMissing(t *testing.T) {
	const file = "data/ingress/produce/00000000000000000001.wal"
	call := func(at int, op sim.Op, path string) DiskCall {
		return DiskCall{DiskCall: sim.DiskCall{End: env.Instant(time.Duration(at) * time.Second), Machine: "n1", Op: op, Path: path, Text: "ok"}, Who: "n1.1/wal sync#15"}
	}
	missing := func(what string, calls ...DiskCall) string {
		r := &Recording{Disk: calls}
		r.Result.Err = errorAt("n1", engine.Key{}, model.Violate("INV-03", "a batch is said to be durable, and a power loss now could take of %s: %s", file, what))
		return r.missing(r.Focus())
	}
	sector, name := "sector 0 of 00000000000000000001.wal", "the name 00000000000000000001.wal in produce"
	require.Equal(t, "ingress/produce/00000000000000000001.wal was written last at 2.000000 by n1.1/wal sync#15, and no sync of the file returned after that.",
		missing(sector, call(1, sim.OpSync, file), call(2, sim.OpWrite, file)))
	require.Empty(t, missing(sector, call(1, sim.OpWrite, file), call(2, sim.OpSync, file)), "it was synced: the cause is another")
	require.Contains(t, missing(name, call(1, sim.OpCreate, file), call(2, sim.OpSync, file)), "no sync of its directory returned")
	require.Empty(t, missing(name, call(1, sim.OpCreate, file), call(2, sim.OpSyncDir, "data/ingress/produce")))
	require.Empty(t, missing("something else"))
	var told []string
	f := Focus{Node: "n1", Files: []string{file}}
	for _, c := range f.fileCalls([]DiskCall{call(1, sim.OpWrite, file), call(2, sim.OpRead, file), call(3, sim.OpWrite, "data/other"), call(4, sim.OpSyncDir, "data/ingress/produce")}) {
		told = append(told, c.Op.String())
	}
	require.Equal(t, "write syncdir", strings.Join(told, " "), "only what bears on the file is told")
}

// An ack that came back, and of which nothing had been written until the crash, says so.
func TestUnwritten(t *testing.T) {
	key := engine.Key{Topic: "topic0", Partition: 1}
	event := func(order int, v engine.Event) Event {
		return Event{Event: workload.Event{At: env.Instant(order * 1e6), Node: "n1", Event: v}, Order: order}
	}
	missing := func(events ...Event) string {
		r := &Recording{Events: events, Crashes: []Crashed{{Crashed: workload.Crashed{At: env.Instant(9e6), Node: "n1"}, Order: 9}}}
		r.Result.Err = errorAt("n1", key, model.Violate("INV-08", "the ack of offset 4 came back"))
		return r.missing(r.Focus())
	}
	window := func(partition int32) engine.Event {
		v := committer.WindowWritten{}
		v.Key.Topic, v.Key.Partition = key.Topic, partition
		return engine.Consumer{Event: v}
	}
	acked := event(2, engine.Settled{Key: key, Offset: 4})
	want := "The ack of offset 4 was accepted at 0.002000. Until the crash at 0.009000, 7ms later, no window of topic0/1 was written."
	require.Equal(t, want, missing(acked))
	require.Equal(t, want, missing(event(1, window(1)), acked, event(3, window(0)), event(10, window(1))), "before, after, and of another partition")
	require.Empty(t, missing(acked, event(3, window(1))))
	require.Empty(t, missing())
}
