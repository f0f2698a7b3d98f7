package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/wal"
)

// found is what a start tells of the topic that there is.
var found = engine.TopicOpened{Topic: engine.Topic{Name: "t", Partitions: 1, VisibilityMs: 1000, MaxInFlight: 10, MaxAckedAhead: 10}}

func logged(v segment.Event) engine.Event { return engine.Log{Key: key, Event: v} }

// ask sends an empty answer to the checker, as a client that asked now.
func ask(w *sim.World, n *Node) {
	if err := n.Empty("t", engine.AnyPartition, w.Now()); err != nil {
		w.Fail(err)
	}
}

// INV-24: a partition with records is quiet for a visibility timeout and a second, and no longer.
func TestQuietWindow(t *testing.T) {
	start := []engine.Event{found, engine.Opened{}, stored(5), open(-1), leased(0, 1)}
	require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(start...)
		w.Env().Sleep(1900 * time.Millisecond)
		ask(w, n) // the lease may have been held until a moment ago
	}))
	for name, c := range map[string]struct {
		fails bool
		feed  func(w *sim.World, n *Node, see func(...engine.Event))
	}{
		"too long": {true, func(w *sim.World, n *Node, _ func(...engine.Event)) {
			w.Env().Sleep(2100 * time.Millisecond)
			ask(w, n)
		}},
		"a commit came": {false, func(w *sim.World, n *Node, see func(...engine.Event)) {
			w.Env().Sleep(2 * time.Second)
			see(logged(segment.Committed{Base: 5, Next: 6}))
			w.Env().Sleep(time.Second)
			ask(w, n)
		}},
		"the machine stood still": {false, func(w *sim.World, n *Node, _ func(...engine.Event)) {
			n.Paused(w.Now().Add(2 * time.Second))
			w.Env().Sleep(3 * time.Second)
			ask(w, n)
		}},
		"asked before": {false, func(w *sim.World, n *Node, _ func(...engine.Event)) {
			asked := w.Now().Add(time.Second)
			w.Env().Sleep(9 * time.Second)
			if err := n.Empty("t", 0, asked); err != nil {
				w.Fail(err)
			}
		}},
		"another partition": {false, func(w *sim.World, n *Node, _ func(...engine.Event)) {
			w.Env().Sleep(9 * time.Second)
			if err := n.Empty("t", 3, w.Now()); err != nil {
				w.Fail(err)
			}
		}},
	} {
		err := watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
			see(start...)
			c.feed(w, n, see)
		})
		if !c.fails {
			require.NoError(t, err, name)
			continue
		}
		var v *model.Violation
		require.ErrorAs(t, err, &v, name)
		require.Equal(t, "INV-24", v.Invariant)
	}
}

// INV-26: who holds a closed log changes nothing but to give its reservation back.
func TestClosedLogIsInert(t *testing.T) {
	closed := []engine.Event{found, engine.Opened{}, stored(5), open(-1), logged(segment.Closed{Next: 5}), leased(0, 1)}
	give := engine.LeaseEnded{Key: key, Nonce: spread(1), Cause: engine.CauseReadFail}
	require.NoError(t, watched(t, func(_ *sim.World, _ *Node, see func(...engine.Event)) { see(append(closed, give)...) }))
	for name, v := range map[string]engine.Event{
		"jump":      engine.FrontierJumped{Key: key, From: -1, Oldest: 1},
		"lost jump": engine.JumpLost{Key: key, Oldest: 1},
		"skip":      engine.CorruptSkipped{Key: key},
		"delivered": engine.Delivered{Key: key, Nonce: spread(1)},
	} {
		err := watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) {
			n.Rotted(key, 0, nil)
			see(append(closed, v)...)
		})
		require.ErrorContains(t, err, "INV-26", name)
	}
	err := watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) {
		see(append(closed[:5:5], logged(segment.Recovered{Next: 5}), leased(0, 1), engine.JumpLost{Key: key, Oldest: 1})...)
	})
	require.NoError(t, err, "it was opened again before")
}

// INV-15: a copy that nothing explains is found.
func TestCopiesHaveCauses(t *testing.T) {
	feed := func(attempts int, events func(n *Node) []engine.Event) (err error) {
		m := &Messages{}
		id, payload := m.New("n1", "t", 20)
		for range attempts {
			m.Attempted(id)
		}
		w := sim.New(sim.Options{Seed: 1})
		n := New(Config{World: w, Machine: w.Machine("n1", sim.MachineConfig{}), Interval: time.Second, Messages: m})
		n.Topic(engine.Topic{Name: "t", Partitions: 1, VisibilityMs: 1000, MaxInFlight: 10, MaxAckedAhead: 10})
		w.Go("feed", func() {
			listen := n.Listen()
			for _, v := range events(n) {
				if v == nil { // a crash
					n.Crashed(sim.ProcessCrash, disk.Report{})
					listen = n.Listen()
					continue
				}
				listen(v)
			}
			listen(open(-1))
			for o := range n.parts[engine.Key{Topic: "t"}].model.HW {
				l := leased(o, o+1)
				l.HW = n.parts[engine.Key{Topic: "t"}].model.HW
				listen(l)
				if err := n.Belongs(id, &engine.Delivery{Topic: "t", Offset: o, Payload: payload, Handle: inflight.Handle{Offset: o, Nonce: spread(o + 1)}}); err != nil {
					w.Fail(err)
				}
			}
		})
		if err := w.Run(time.Hour); err != nil {
			return err
		}
		return m.Copies()
	}
	commit := func(at int64) engine.Event { return logged(segment.Committed{Base: at, Next: at + 1}) }
	sent := func(seq uint64, at int64) engine.Event { return engine.Dispatched{Key: key, Seq: seq, Offset: at} }
	synced := engine.WAL{Event: wal.BatchSynced{First: 1, Next: 9}}
	reborn := func(checkpoint uint64) []engine.Event {
		return []engine.Event{engine.WAL{Event: wal.Recovered{First: 1, Next: 9, Checkpoint: checkpoint}}, found, engine.Opened{}}
	}
	all := func(parts ...[]engine.Event) (list []engine.Event) {
		for _, p := range parts {
			list = append(list, p...)
		}
		return list
	}
	first := all(reborn(1), []engine.Event{synced, commit(0), sent(1, 0)})
	for name, c := range map[string]struct {
		attempts int
		fails    bool
		events   []engine.Event
	}{
		"once":                            {1, false, first},
		"a second produce":                {2, false, all(first, []engine.Event{commit(1), sent(2, 1)})},
		"a record that nobody produced":   {1, true, all(first, []engine.Event{commit(1), sent(2, 1)})},
		"committed twice":                 {1, true, all(first, []engine.Event{commit(1), sent(1, 1)})},
		"again after a crash":             {1, false, all(first, []engine.Event{nil}, reborn(1), []engine.Event{logged(segment.Recovered{Next: 1}), commit(1), sent(1, 1)})},
		"again below the checkpoint":      {1, true, all(first, []engine.Event{engine.WAL{Event: wal.CheckpointStored{Seq: 2}}, nil}, reborn(2), []engine.Event{logged(segment.Recovered{Next: 1}), commit(1), sent(1, 1)})},
		"stored by a commit that failed":  {1, false, all(first, []engine.Event{logged(segment.CommitFailed{}), logged(segment.Recovered{Next: 2})})},
		"stored by nothing":               {1, true, all(reborn(1), []engine.Event{logged(segment.Recovered{}), synced, commit(0), sent(1, 0), logged(segment.Recovered{Next: 2})})},
		"visible and never told, a crash": {1, false, all(first, []engine.Event{commit(1), nil}, reborn(1), []engine.Event{logged(segment.Recovered{Next: 2})})},
		"a crash before it was visible":   {1, false, all(first, []engine.Event{nil}, reborn(1), []engine.Event{logged(segment.Recovered{Next: 2})})},
	} {
		err := feed(c.attempts, func(*Node) []engine.Event { return c.events })
		if c.fails {
			require.ErrorContains(t, err, "INV-15", name)
		} else {
			require.NoError(t, err, name)
		}
	}
}
