package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
)

// primesBesideRolls has the logs of some partitions roll with each commit while the committer primes and levels their consumer state, on a disk
// that now and then loses names for good when the sync of a partition's directory fails; then the power goes. It returns how many
// records were committed.
func primesBesideRolls(seed uint64) (committed int, err error) {
	const partitions = 8
	w := sim.New(sim.Options{Seed: seed, MaxSteps: 2_000_000})
	latency := sim.DefaultLatency()
	latency.Stalls = 0
	plan := sim.FaultPlan{SyncDirLost: 150_000, Only: func(path string) bool { return strings.Contains(path, "topics/t/p") }}
	m := w.Machine("n1", sim.MachineConfig{Personality: disk.Personality(seed % 2), Latency: latency})
	ends := [partitions]int64{}
	listener := func(v Event) {
		if log, ok := v.(Log); ok {
			if c, ok := log.Event.(segment.Committed); ok {
				ends[log.Key.Partition] = c.Next
				committed += c.Records
			}
		}
	}
	o := Options{SegmentBytes: 4096, CommitInterval: 20 * time.Millisecond, WriteoutInterval: 10 * time.Millisecond}
	w.Go("driver", func() {
		m.Boot(func(e *env.Env) {
			o := o
			o.Env, o.Listener = e, listener
			engine, err := Open("data", o)
			if err == nil {
				_, err = engine.CreateTopic(TopicSpec{Name: "t", Partitions: partitions, Visibility: time.Minute})
			}
			if err != nil {
				w.Fail(err)
				return
			}
			m.SetFaults(plan)
			g := e.NewGroup()
			for p := range int32(partitions) {
				g.Go("producer", func() {
					for range 12 {
						engine.Produce(Message{Topic: "t", Partition: p, Payload: make([]byte, 4200)})
					}
				})
				g.Go("consumer", func() {
					for range 12 {
						d, err := engine.Consume(&ConsumeRequest{Topic: "t", Partition: p, Wait: time.Second})
						if err == nil && d != nil {
							engine.Ack(d.Topic, d.Handle)
						}
					}
				})
			}
			g.Wait()
		}).WaitUntil(w.Now().Add(time.Minute))
		m.PowerLoss()
		m.ClearFaults()
		m.Boot(func(e *env.Env) {
			o := o
			o.Env = e
			engine, err := Open("data", o)
			if err != nil {
				w.Fail(err)
				return
			}
			t, err := engine.topic("t")
			if err != nil {
				w.Fail(err)
				return
			}
			for _, p := range t.partitions() {
				log, err := p.openLog()
				if err != nil {
					w.Fail(err)
					return
				}
				for offset := range ends[p.index] {
					if _, err := log.Read(offset); err != nil {
						w.Fail(fmt.Errorf("committed record %d of %v is gone: %w", offset, p.key, err))
					}
				}
			}
			engine.Close()
		}).Wait()
		w.Stop()
	})
	err = w.Run(time.Hour)
	return committed, err
}

// LOG-02, INV-04: a sync of a partition's directory that fails for the committer does not take the name of a segment that is just beginning.
func TestPrimeBesideARoll(t *testing.T) {
	total := 0
	for seed := range uint64(160) {
		n, err := primesBesideRolls(seed)
		require.NoError(t, err, "seed %d", seed)
		total += n
	}
	require.Greater(t, total, 10_000)
}
