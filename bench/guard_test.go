package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/wal"
)

// Costs that are deterministic are held here, in virtual time, where a seed is a run: a change that makes the engine sync more
// often fails a test and not only a benchmark.

// ledger counts what an engine tells.
type ledger struct {
	batches, records int // syncs of the ingress log, and what was in them
	writeouts        int // syncs of consumer state
}

func (l *ledger) listen(v engine.Event) {
	switch v := v.(type) {
	case engine.WAL:
		if b, ok := v.Event.(wal.BatchSynced); ok {
			l.batches++
			l.records += b.Records
		}
	case engine.Consumer:
		if _, ok := v.Event.(committer.WrittenOut); ok {
			l.writeouts++
		}
	}
}

// inWorld runs story with an engine on a simulated machine.
func inWorld(t *testing.T, partitions int, story func(w *sim.World, call func(func(*engine.Engine)), l *ledger)) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	latency := sim.DefaultLatency()
	latency.Stalls = 0
	m := w.Machine("n1", sim.MachineConfig{Latency: latency})
	w.Go("story", func() {
		defer w.Stop()
		l := &ledger{}
		var e *engine.Engine
		var err error
		opened := w.Env().NewEvent()
		p := m.Boot(func(world *env.Env) {
			e, err = engine.Open("data", engine.Options{Env: world, Listener: l.listen})
			opened.Set()
		})
		require.True(t, opened.WaitUntil(w.Now().Add(time.Minute)))
		require.NoError(t, err)
		call := func(fn func(*engine.Engine)) {
			require.Equal(t, sim.Done, p.Call("call", env.Forever, func() { fn(e) }))
		}
		call(func(e *engine.Engine) {
			_, err := e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: partitions})
			require.NoError(t, err)
		})
		story(w, call, l)
	})
	require.NoError(t, w.Run(time.Hour))
}

func produce(t *testing.T, e *engine.Engine, partition int32) {
	require.NoError(t, e.Produce(engine.Message{Topic: "t", Partition: partition, Payload: []byte("x")}))
}

// One writer takes one sync of the ingress log for each message, a batch takes one for all of it.
func TestSyncsOfOneWriter(t *testing.T) {
	inWorld(t, 3, func(w *sim.World, call func(func(*engine.Engine)), l *ledger) {
		for i := range 50 {
			call(func(e *engine.Engine) { produce(t, e, 0) })
			require.Equal(t, i+1, l.batches)
		}
		call(func(e *engine.Engine) {
			batch := make([]engine.Message, 100)
			for i := range batch {
				batch[i] = engine.Message{Partition: engine.AnyPartition, Payload: []byte("x")}
			}
			require.NoError(t, e.ProduceBatch("t", batch))
		})
		require.Equal(t, 51, l.batches)
		require.Equal(t, 150, l.records)
	})
}

// Sixty-four writers share syncs: on average at least a quarter of them a sync.
func TestSyncsOfManyWriters(t *testing.T) {
	const writers, each = 64, 20
	inWorld(t, 3, func(w *sim.World, call func(func(*engine.Engine)), l *ledger) {
		group := w.Env().NewGroup()
		for i := range writers {
			group.Go(fmt.Sprint("writer ", i), func() {
				for range each {
					call(func(e *engine.Engine) { produce(t, e, engine.AnyPartition) })
				}
			})
		}
		group.Wait()
		require.Equal(t, writers*each, l.records)
		t.Logf("%d messages in %d syncs", l.records, l.batches)
		require.LessOrEqual(t, l.batches, writers*each/16)
	})
}

// Acks cost no sync of their own: a partition is written out once in an interval, however many are acked (COM-05, COM-06).
func TestSyncsOfAcks(t *testing.T) {
	const partitions, seconds, pause = 8, 5, 20 * time.Millisecond
	inWorld(t, partitions, func(w *sim.World, call func(func(*engine.Engine)), l *ledger) {
		begin, acks := w.Now(), 0
		for w.Now().Sub(begin) < seconds*time.Second {
			call(func(e *engine.Engine) {
				for p := range int32(partitions) {
					produce(t, e, p)
					require.NoError(t, takeOne(e, "t", p))
					acks++
				}
			})
			w.Env().Sleep(pause)
		}
		t.Logf("%d acks, %d writeouts", acks, l.writeouts)
		require.Greater(t, acks, 20*partitions)
		require.LessOrEqual(t, l.writeouts, partitions*(seconds+2))
		require.GreaterOrEqual(t, l.writeouts, partitions*(seconds-2))
	})
}
