package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
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

// Q-04, D4: the sync of a clamp's names fails. The files show it nevertheless, and the next open, which finds nothing to clamp, makes it
// durable: a record committed then is not born settled after a power loss.
func TestClampAfterALostName(t *testing.T) {
	for run := range 16 {
		nth := 2 + run%2 // of the directory's syncs: the first is the log's own; then those of consumer.ahead and consumer.offset
		inWorldWith(t, sim.MachineConfig{Personality: disk.Adversarial}, func(l *lab) {
			l.mustBoot()
			l.topic(one(0))
			l.produce("t", "a", "b")
			var identity uint64
			l.call(func(e *Engine) { identity = e.topics["t"].partitions()[0].identity() })
			l.mustConsume("t")
			l.close()
			require.NoError(t, committer.Reseed(l.partitionDir(), identity, committer.State{Committed: 50}))
			l.mustBoot()
			l.m.ArmFault(sim.NamesLost, sim.OpSyncDir, "data/topics/t/p00000", nth)
			_, err := l.consume("t", time.Second)
			require.Error(t, err)
			require.Zero(t, l.m.Armed())
			l.produce("t", "new")
			require.Equal(t, "new", string(l.mustConsume("t").Payload))
			l.sleep(time.Second) // until its commit is checkpointed
			for range run {
				l.w.Choose(2) // another power loss each time
			}
			l.m.PowerLoss()
			l.mustBoot()
			require.Equal(t, "new", string(l.mustConsume("t").Payload))
		})
	}
}

// D4: the sync of the names of new partitions fails, and with it the alteration. The next one finds them, and makes them durable.
func TestAlterAfterALostName(t *testing.T) {
	for run := range 8 {
		inWorldWith(t, sim.MachineConfig{Personality: disk.Adversarial}, func(l *lab) {
			l.mustBoot()
			l.topic(one(0))
			l.m.ArmFault(sim.NamesLost, sim.OpSyncDir, "data/topics/t", 1)
			three := 3
			l.call(func(e *Engine) {
				_, err := e.AlterTopic("t", TopicPatch{Partitions: &three})
				require.Error(t, err)
				_, err = e.AlterTopic("t", TopicPatch{Partitions: &three})
				require.NoError(t, err)
				for p := range int32(3) {
					require.NoError(t, e.Produce(Message{Topic: "t", Partition: p, Payload: []byte("m")}))
				}
			})
			l.sleep(time.Second) // until their commits are checkpointed
			for range run {
				l.w.Choose(2) // another power loss each time
			}
			l.m.PowerLoss()
			l.mustBoot()
			for range 3 {
				l.mustConsume("t")
			}
		})
	}
}
