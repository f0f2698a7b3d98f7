package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
)

func (l *lab) delete(name string) {
	l.t.Helper()
	l.call(func(e *Engine) { require.NoError(l.t, e.DeleteTopic(name)) })
}

func (l *lab) purge(name string) {
	l.t.Helper()
	l.call(func(e *Engine) {
		_, err := e.PurgeTopic(name)
		require.NoError(l.t, err)
	})
}

// directories lists topics/.
func (l *lab) directories() (names []string) {
	l.t.Helper()
	l.call(func(e *Engine) {
		dir, err := e.root.OpenDir(topicsDir)
		require.NoError(l.t, err)
		defer dir.Close()
		entries, err := dir.List()
		require.NoError(l.t, err)
		for _, entry := range entries {
			names = append(names, entry.Name)
		}
	})
	return names
}

// all consumes and acks until there is nothing.
func (l *lab) all(topic string) (payloads []string) {
	l.t.Helper()
	for {
		d, err := l.consume(topic, time.Second)
		if errors.Is(err, ErrEmpty) {
			return payloads
		}
		require.NoError(l.t, err)
		payloads = append(payloads, string(d.Payload))
		require.NoError(l.t, l.ack(d))
	}
}

// INF-42, LOG-18: a deleted topic is gone at once and for good, and a new one of its name begins empty.
func TestDeleteTopic(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a", "b")
		old := l.mustConsume("t")
		l.delete("t")
		l.call(func(e *Engine) {
			require.ErrorIs(t, e.DeleteTopic("t"), ErrTopicNotFound)
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Payload: []byte("x")}), ErrTopicNotFound)
			require.ErrorIs(t, e.Ack("t", old.Handle), ErrTopicNotFound)
			_, err := e.Replay("t", 0, 0)
			require.ErrorIs(t, err, ErrTopicNotFound)
			_, err = e.Stats("t")
			require.ErrorIs(t, err, ErrTopicNotFound)
			_, err = e.Topic("t")
			require.ErrorIs(t, err, ErrTopicNotFound)
			require.Empty(t, e.Topics("", 0))
		})
		_, err := l.consume("t", time.Second)
		require.ErrorIs(t, err, ErrTopicNotFound)
		l.m.PowerLoss()
		l.mustBoot()
		l.call(func(e *Engine) { require.Empty(t, e.Topics("", 0)) })
		l.topic(one(0))
		require.ErrorIs(t, l.ack(old), ErrLeaseGone, "a handle of the old incarnation")
		l.produce("t", "new")
		require.Equal(t, []string{"new"}, l.all("t"))
		l.sleep(time.Second)
		require.Equal(t, []string{"t"}, l.directories(), "what was set aside is removed")
	})
}

// A purge deletes what is stored, what is leased and what is accepted and not dispatched; offsets begin again.
func TestPurgeTopic(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1, MaxInFlight: 7})
		l.produce("t", "a", "b", "c")
		acked, leased := l.mustConsume("t"), l.mustConsume("t")
		require.NoError(t, l.ack(acked))
		var before, after Topic
		l.call(func(e *Engine) {
			before, _ = e.Topic("t")
			require.NoError(t, e.Produce(Message{Topic: "t", Payload: []byte("not dispatched")}))
			var err error
			after, err = e.PurgeTopic("t")
			require.NoError(t, err)
			now, err := e.Topic("t")
			require.NoError(t, err)
			require.Equal(t, after, now)
			_, err = e.PurgeTopic("none")
			require.ErrorIs(t, err, ErrTopicNotFound)
		})
		require.NotEqual(t, before.ID, after.ID)
		before.ID = after.ID
		require.Equal(t, before, after, "the settings stay")
		require.ErrorIs(t, l.ack(leased), ErrLeaseGone)
		_, err := l.consume("t", time.Second)
		require.ErrorIs(t, err, ErrEmpty)
		l.produce("t", "new")
		d := l.mustConsume("t")
		require.Equal(t, "new", string(d.Payload))
		require.Zero(t, d.Offset)
		require.NoError(t, l.ack(d))
		l.close()
		l.mustBoot()
		require.Empty(t, l.all("t"))
	})
}

// struckAt runs a change with a crash armed at its n-th operation, for every n and both kinds, until the crash comes too late.
func struckAt(t *testing.T, change func(e *Engine) error, prepare func(l *lab), verify func(l *lab, done bool)) {
	for _, kind := range []sim.CrashKind{sim.ProcessCrash, sim.PowerFailure} {
		for n := 1; ; n++ {
			struck := false
			inWorld(t, func(l *lab) {
				l.mustBoot()
				prepare(l)
				l.m.ArmCrash(kind, n)
				done := false
				l.proc.Call("change", env.Forever, func() { done = change(l.engine) == nil })
				struck = !l.proc.Alive()
				l.m.Disarm()
				if struck {
					l.mustBoot()
				}
				verify(l, done)
				l.sleep(2 * time.Second)
				l.m.PowerLoss() // what the start found is durable
				l.mustBoot()
				l.sleep(time.Second)
				for _, name := range l.directories() {
					require.NotContains(t, name, "-", "a directory was left behind by a crash at operation %d", n)
				}
			})
			if !struck {
				require.Greater(t, n, 5)
				break
			}
		}
	}
}

func TestDeleteTopicCrashAtEveryOperation(t *testing.T) {
	struckAt(t, func(e *Engine) error { return e.DeleteTopic("t") },
		func(l *lab) {
			l.topic(one(0))
			l.produce("t", "a", "b")
			require.NoError(l.t, l.ack(l.mustConsume("t")))
			l.sleep(300 * time.Millisecond)
		},
		func(l *lab, done bool) {
			var exists bool
			l.call(func(e *Engine) { exists = len(e.Topics("", 0)) == 1 })
			require.False(l.t, done && exists, "a deletion that was answered is durable")
			if exists {
				require.Contains(l.t, l.all("t"), "b", "a deletion that did not happen deleted nothing")
				l.delete("t")
			}
			l.topic(one(0))
			l.produce("t", "new")
			require.Equal(l.t, []string{"new"}, l.all("t"))
		})
}

// BUG-117, B089: a recreated topic delivers all of its own messages and none of its predecessor's.
func TestRecreateTopicCrashAtEveryOperation(t *testing.T) {
	struckAt(t, func(e *Engine) error {
		if err := e.DeleteTopic("t"); err != nil {
			return err
		}
		if _, err := e.CreateTopic(one(0)); err != nil {
			return err
		}
		return e.Produce(Message{Topic: "t", Payload: []byte("new")})
	}, func(l *lab) {
		l.topic(one(0))
		l.produce("t", "a", "b", "c", "d")
		require.Len(l.t, l.all("t"), 4)
		l.produce("t", "e")
	}, func(l *lab, done bool) {
		l.call(func(e *Engine) {
			if _, err := e.Topic("t"); err != nil {
				require.False(l.t, done)
				_, err := e.CreateTopic(one(0))
				require.NoError(l.t, err)
			}
		})
		l.produce("t", "newer")
		got := strings.Join(l.all("t"), " ")
		if done {
			require.Contains(l.t, []string{"new newer", "newer new"}, got)
		} else {
			require.Contains(l.t, got, "newer")
			require.False(l.t, strings.Contains(got, "e ") && strings.Contains(got, "new "), got)
		}
	})
}

func TestPurgeTopicCrashAtEveryOperation(t *testing.T) {
	var before Topic
	struckAt(t, func(e *Engine) error {
		_, err := e.PurgeTopic("t")
		return err
	}, func(l *lab) {
		l.topic(one(0))
		l.produce("t", "a", "b", "c")
		require.Equal(l.t, "a", string(l.mustConsume("t").Payload))
		l.call(func(e *Engine) { before, _ = e.Topic("t") })
	}, func(l *lab, done bool) {
		var now Topic
		l.call(func(e *Engine) {
			var err error
			now, err = e.Topic("t")
			require.NoError(l.t, err, "a purge never leaves a name without its topic")
		})
		purged := now.ID != before.ID
		require.False(l.t, done && !purged)
		l.produce("t", "new")
		got := l.all("t")
		if purged {
			require.Equal(l.t, []string{"new"}, got, "all or nothing")
		} else {
			require.Subset(l.t, got, []string{"a", "b", "c", "new"}, "all or nothing")
		}
	})
}

func TestAlterTopicCrashAtEveryOperation(t *testing.T) {
	partitions, limit, retention := 4, 9, int64(3_600_000)
	patch := TopicPatch{Partitions: &partitions, MaxInFlight: &limit, RetentionMs: &retention}
	var before Topic
	struckAt(t, func(e *Engine) error {
		_, err := e.AlterTopic("t", patch)
		return err
	}, func(l *lab) {
		l.topic(one(0))
		l.produce("t", "old")
		l.sleep(time.Second) // until its commit is checkpointed: a crash stores it once
		l.call(func(e *Engine) { before, _ = e.Topic("t") })
	}, func(l *lab, done bool) {
		after := before
		after.Partitions, after.MaxInFlight, after.RetentionMs = 4, 9, retention
		l.call(func(e *Engine) {
			now, err := e.Topic("t")
			require.NoError(l.t, err)
			if done || now != before {
				require.Equal(l.t, after, now, "all or nothing")
			}
			got, err := e.AlterTopic("t", patch)
			require.NoError(l.t, err)
			require.Equal(l.t, after, got)
			for i := range int32(4) {
				require.NoError(l.t, e.Produce(Message{Topic: "t", Partition: i, Payload: fmt.Append(nil, i)}))
			}
		})
		require.ElementsMatch(l.t, []string{"old", "0", "1", "2", "3"}, l.all("t"))
	})
}

func TestAlterTopicRefuses(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		number := func(n int) *int { return &n }
		short, negative, forever := int64(1), int64(-1), int64(0)
		l.call(func(e *Engine) {
			for _, bad := range []TopicPatch{
				{}, {Partitions: number(2)}, {Partitions: number(MaxPartitions + 1)}, {MaxInFlight: number(-1)},
				{MaxAckedAhead: number(maxCap + 1)}, {RetentionMs: &short}, {RetentionMs: &negative},
			} {
				_, err := e.AlterTopic("t", bad)
				require.ErrorIs(t, err, ErrInvalid, "%+v", bad)
			}
			_, err := e.AlterTopic("none", TopicPatch{RetentionMs: &forever})
			require.ErrorIs(t, err, ErrTopicNotFound)
			got, err := e.AlterTopic("t", TopicPatch{MaxInFlight: number(5), Partitions: number(3)})
			require.NoError(t, err)
			require.EqualValues(t, 5, got.MaxInFlight)
			got, err = e.AlterTopic("t", TopicPatch{MaxInFlight: number(0)})
			require.NoError(t, err)
			require.EqualValues(t, 1024, got.MaxInFlight, "0 means the default")
		})
	})
}

// Q-20, PUMP-19 (BUG-08): a consumer that waits is served when a cap is raised, and from a partition that comes into being.
func TestAlterTopicWakes(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1, MaxInFlight: 1})
		l.produce("t", "a", "b")
		l.mustConsume("t")
		var d *Delivery
		var err error
		wait := l.start(func(e *Engine) {
			d, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 20 * time.Second})
		})
		l.sleep(time.Second)
		two := 2
		l.call(func(e *Engine) { _, err := e.AlterTopic("t", TopicPatch{MaxInFlight: &two}); require.NoError(t, err) })
		began := l.w.Now()
		wait()
		require.NoError(t, err)
		require.Equal(t, "b", string(d.Payload))
		require.Less(t, l.w.Now().Sub(began), 100*time.Millisecond)
		wait = l.start(func(e *Engine) {
			d, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 20 * time.Second})
		})
		l.sleep(time.Second)
		l.call(func(e *Engine) {
			_, err := e.AlterTopic("t", TopicPatch{Partitions: &two})
			require.NoError(t, err)
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 1, Payload: []byte("c")}))
		})
		wait()
		require.NoError(t, err)
		require.Equal(t, "c", string(d.Payload))
		require.EqualValues(t, 1, d.Partition)
	})
}

// who waits on a topic that is deleted is told so; on one that is replaced he goes on waiting.
func TestWaitersOfAChangedTopic(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		var d *Delivery
		var err error
		park := func() func() {
			wait := l.start(func(e *Engine) { d, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 0, Wait: 20 * time.Second}) })
			l.sleep(time.Second)
			return wait
		}
		wait := park()
		began := l.w.Now()
		l.delete("t")
		wait()
		require.ErrorIs(t, err, ErrTopicNotFound)
		require.Less(t, l.w.Now().Sub(began), 100*time.Millisecond)

		l.topic(one(0))
		wait = park()
		l.purge("t")
		l.sleep(time.Second)
		l.produce("t", "new")
		wait()
		require.NoError(t, err)
		require.Equal(t, "new", string(d.Payload))
	})
}

// A topic that somebody waits for is not idle: closing it would wake him for nothing.
func TestWaitersKeepATopicOpen(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{IdleAfter: time.Second}))
		l.topic(one(0))
		wait := l.start(func(e *Engine) {
			_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0, Wait: 20 * time.Second})
			require.ErrorIs(t, err, ErrEmpty)
		})
		l.sleep(10 * time.Second)
		require.NotNil(t, l.engine.topics["t"].partitions()[0].log)
		require.Zero(t, count[ShardDropped](l))
		wait()
		l.sleep(5 * time.Second)
		require.Nil(t, l.engine.topics["t"].partitions()[0].log)
	})
}

// LOG-17, LOG-19, LOG-20, BUG-44: a consume that holds the closed log of an incarnation which is gone can reserve on its successor's
// lease table; it gives the reservation back, and the successor's offset is delivered at once, with its frontier unmoved.
func TestReservationOnASuccessor(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "old 0", "old 1", "old 2")
		l.mustConsume("t")
		l.call(func(e *Engine) {
			old, _ := e.topic("t")
			p := old.partitions()[0]
			log, err := p.openLog()
			require.NoError(t, err)
			_, err = e.PurgeTopic("t")
			require.NoError(t, err)
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("new 0")}))
			now, _ := e.topic("t")
			next := now.partitions()[0]
			fresh, err := next.open()
			require.NoError(t, err)
			for fresh.HighWatermark() == 0 {
				e.env.Sleep(time.Millisecond)
			}

			leases := count[Leased](l)
			_, _, err = p.take(log, e.env.Now(), HandoutScan)
			require.ErrorIs(t, err, errRetired)
			require.Equal(t, leases+1, count[Leased](l), "it did reserve")
			require.Equal(t, 1, count[LeaseEnded](l), "and gave it back")
			require.Zero(t, count[FrontierJumped](l)+count[CorruptSkipped](l)+count[JumpLost](l))
			s, err := e.Stats("t")
			require.NoError(t, err)
			require.EqualValues(t, -1, s[0].Committed)
			require.Zero(t, s[0].Leases)

			// What the old log said while it was open is nothing to the successor either.
			p.jump(3)
			lease, _, _ := func() (inflight.Lease, inflight.Outcome, inflight.Effect) {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.shard.Reserve(e.env.Now(), 1)
			}()
			p.skip(lease, &segment.CorruptError{})
			p.release(lease, CauseReadFail)
			s, err = e.Stats("t")
			require.NoError(t, err)
			require.EqualValues(t, -1, s[0].Committed)
		})
		require.Equal(t, "new 0", string(l.mustConsume("t").Payload), "deliverable at once")
	})
}

// INF-39, COM-37, BUG-118: an ack whose report to the committer comes after its shard was dropped writes nothing.
func TestAckReportedAfterADrop(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "old 0", "old 1")
		old := l.mustConsume("t")
		l.call(func(e *Engine) {
			p := e.topics["t"].partitions()[0]
			p.mu.Lock()
			ok, effect := p.shard.Ack(e.env.Now(), old.Offset, old.Handle.Nonce)
			p.mu.Unlock()
			require.True(t, ok)
			_, err := e.PurgeTopic("t")
			require.NoError(t, err)
			p.act(effect)
		})
		l.sleep(3 * time.Second)
		for _, v := range l.events {
			if c, ok := v.(Consumer); ok {
				require.NotContains(t, fmt.Sprintf("%T", c.Event), "Window", "%+v", c.Event)
			}
		}
		l.produce("t", "new 0", "new 1")
		require.Equal(t, []string{"new 0", "new 1"}, l.all("t"))
	})
}

// COM-50, COM-51, REC-12, S-20, BUG-124: whichever of a creation of a shard and a drop comes first, no shard that was seeded from the old
// directory is there after the drop.
func TestShardCreateRacesDrop(t *testing.T) {
	createdFirst, droppedFirst := 0, 0
	for seed := range uint64(600) {
		inSeed(t, seed, func(l *lab) {
			l.mustBoot()
			l.topic(one(0))
			l.produce("t", "a", "b", "c")
			require.Len(t, l.all("t"), 3)
			l.close()
			l.mustBoot()
			l.events = nil
			old := l.engine.topics["t"].partitions()[0]
			var err error
			purged := l.start(func(e *Engine) {
				_, err := e.PurgeTopic("t")
				require.NoError(t, err)
			})
			l.sleep(time.Duration(seed) * 40 * time.Microsecond)
			l.call(func(e *Engine) { _, err = old.open() })
			purged()
			if err == nil {
				createdFirst++
				require.Equal(t, 1, count[ShardOpened](l))
				require.Equal(t, 1, count[ShardDropped](l))
			} else {
				droppedFirst++
				require.ErrorIs(t, err, errRetired)
				require.Equal(t, count[ShardOpened](l), count[ShardDropped](l))
			}
			require.Nil(t, old.shard)
			l.produce("t", "x", "y")
			require.ElementsMatch(t, []string{"x", "y"}, l.all("t"))
		})
	}
	require.Positive(t, createdFirst)
	require.Positive(t, droppedFirst)
}

func inSeed(t *testing.T, seed uint64, story func(l *lab)) {
	t.Helper()
	w := sim.New(sim.Options{Seed: seed})
	l := &lab{t: t, w: w}
	config := sim.MachineConfig{Latency: sim.DefaultLatency()}
	config.Latency.Stalls = 0
	l.m = w.Machine("n1", config)
	w.Go("story", func() {
		story(l)
		w.Stop()
	})
	require.NoError(t, w.Run(time.Hour), "seed %d", seed)
}

// INV-01, INV-02, LOG-18, LOG-20, S-45: under any interleaving of producers, consumers, crashes and an operator who deletes, recreates,
// purges and alters, a message is delivered only under the incarnation that it was accepted for, and every one that was accepted
// for the last one is delivered.
func TestLifeCycleRaces(t *testing.T) {
	purged, recreated, delivered, crashes := 0, 0, 0, 0
	for seed := range uint64(60) {
		inSeed(t, seed, func(l *lab) {
			options := Options{IdleAfter: time.Second, CommitInterval: 100 * time.Millisecond, SegmentBytes: 4096, WALSegmentBytes: 4096}
			require.NoError(t, l.boot(options))
			l.topic(TopicSpec{Name: "t", Partitions: 2, Visibility: 500 * time.Millisecond})
			accepted := map[string]string{} // payload: incarnation
			seen := map[string]bool{}
			// sure returns the incarnation that fn certainly met, if it is certain.
			sure := func(e *Engine, fn func()) string {
				before, err := e.Topic("t")
				fn()
				if after, aerr := e.Topic("t"); err == nil && aerr == nil && before.ID == after.ID {
					return before.ID
				}
				return ""
			}
			got := func(e *Engine, wait time.Duration) error {
				var d *Delivery
				var err error
				id := sure(e, func() { d, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: wait}) })
				if err != nil {
					require.True(t, errors.Is(err, ErrEmpty) || errors.Is(err, ErrTopicNotFound) || errors.Is(err, ErrClosed), "%v", err)
					return err
				}
				of, payload := accepted[string(d.Payload)], string(d.Payload)
				require.True(t, id == "" || of == "" || id == of, "%s was accepted for %s and is delivered from %s", payload, of, id)
				delivered++
				if err = e.Ack("t", d.Handle); err == nil {
					seen[payload] = true
				}
				return nil
			}
			stop := l.w.Now().Add(3 * time.Second)
			var tasks []func()
			client := func(step func(e *Engine)) {
				done := l.w.Env().NewEvent()
				tasks = append(tasks, done.Wait)
				l.w.Go("client", func() {
					for l.w.Now() < stop {
						if e := l.engine; e != nil && l.proc.Alive() {
							l.proc.Call("step", env.Forever, func() { step(e) })
						}
						l.sleep(l.w.Duration(0, 20*time.Millisecond))
					}
					done.Set()
				})
			}
			n := 0
			for range 2 {
				client(func(e *Engine) {
					n++
					payload := fmt.Sprint("message ", n)
					var err error
					id := sure(e, func() { err = e.Produce(Message{Topic: "t", Partition: int32(n % 2), Payload: []byte(payload)}) })
					if err == nil {
						accepted[payload] = id
					}
				})
			}
			for range 3 {
				client(func(e *Engine) { _ = got(e, l.w.Duration(0, 300*time.Millisecond)) })
			}
			client(func(e *Engine) {
				switch l.w.Choose(5) {
				case 0:
					if e.DeleteTopic("t") == nil {
						e.env.Sleep(l.w.Duration(0, 5*time.Millisecond))
					}
				case 1, 2:
					if _, err := e.PurgeTopic("t"); err == nil {
						purged++
					}
				default:
					more := 2 + l.w.Choose(3)
					_, _ = e.AlterTopic("t", TopicPatch{MaxInFlight: &more})
				}
				if _, err := e.CreateTopic(TopicSpec{Name: "t", Partitions: 2, Visibility: 500 * time.Millisecond}); err == nil {
					recreated++
				}
			})
			for l.w.Now() < stop {
				l.sleep(l.w.Duration(0, time.Second))
				if l.w.Choose(2) == 0 {
					continue
				}
				crashes++
				l.engine = nil
				if l.w.Choose(2) == 0 {
					l.m.CrashProcess()
				} else {
					l.m.PowerLoss()
				}
				require.NoError(t, l.boot(options))
			}
			for _, wait := range tasks {
				wait()
			}
			l.call(func(e *Engine) {
				if _, err := e.CreateTopic(TopicSpec{Name: "t", Partitions: 2}); err == nil {
					return
				}
				for got(e, 2*time.Second) == nil {
				}
				last, err := e.Topic("t")
				require.NoError(t, err)
				for payload, id := range accepted {
					require.True(t, id != last.ID || seen[payload], "%s, accepted for %s, was never delivered", payload, id)
				}
			})
		})
	}
	t.Log(purged, "purges,", recreated, "recreations,", delivered, "deliveries,", crashes, "crashes")
	require.Greater(t, purged, 200)
	require.Greater(t, recreated, 50)
	require.Greater(t, delivered, 1000)
	require.Greater(t, crashes, 50)
}

// PUMP-13, INV-32, BUG-21, B020: uniquely named topics that come and go leave nothing behind, in memory or on the disk.
func TestNameChurn(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		for i := range 40 {
			name := fmt.Sprint("topic", i)
			l.topic(TopicSpec{Name: name, Partitions: 2})
			l.produce(name, "a", "b", "c")
			require.NoError(t, l.ack(l.mustConsume(name)))
			if i%3 == 0 {
				l.purge(name)
				l.produce(name, "d")
			}
			wait := l.start(func(e *Engine) {
				for range 3 { // until there is nothing, and the topic goes
					_, _ = e.Consume(&ConsumeRequest{Topic: name, Partition: AnyPartition, Wait: time.Minute})
				}
			})
			l.delete(name)
			wait()
		}
		l.sleep(5 * time.Second)
		e := l.engine
		require.Empty(t, e.topics)
		require.Empty(t, e.sorted)
		require.Empty(t, e.seats.byKey)
		require.Empty(t, e.seats.vacant)
		require.Empty(t, e.dispatcher.lanes)
		require.Empty(t, e.dispatcher.all)
		require.Empty(t, e.dispatcher.waiting)
		require.Zero(t, e.dispatcher.window.size(), "nothing of a deleted topic holds the checkpoint back")
		require.Empty(t, e.pump.dirty)
		require.Empty(t, l.directories())
	})
}

// B009, B015: what was accepted for an incarnation that is gone is discarded, counted, and never stored in its successor.
func TestAcceptedForADeletedIncarnation(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, Only: contains(".log")}) // nothing can be dispatched
		l.produce("t", "old 0", "old 1")
		l.sleep(100 * time.Millisecond)
		l.m.CrashProcess()
		l.mustBoot()
		l.delete("t")
		l.topic(one(0))
		l.produce("t", "new")
		l.m.SetFaults(sim.FaultPlan{})
		require.Equal(t, []string{"new"}, l.all("t"))
		require.Equal(t, 2, count[RecordDiscarded](l))
		l.m.CrashProcess() // and again from the ingress log
		l.mustBoot()
		require.Empty(t, l.all("t"))
	})
}

// A directory that cannot be set aside is never served from, and never in the way.
func TestDirectoryThatCannotBeSetAside(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "old")
		require.NotNil(t, l.mustConsume("t"))
		broken := func() {
			l.m.SetFaults(sim.FaultPlan{MetaEIO: 1_000_000, Only: contains("topics/t.stale")})
		}
		healed := func() { l.m.SetFaults(sim.FaultPlan{}) }
		broken()
		l.purge("t")
		require.Equal(t, 1, count[RetireFailed](l))
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrNotPlaced, "better nothing than the old messages")
		l.produce("t", "new")
		l.sleep(3 * time.Second)
		require.Positive(t, count[TidyFailed](l))
		healed()
		l.sleep(3 * time.Second)
		require.Equal(t, []string{"new"}, l.all("t"))

		broken()
		l.delete("t")
		require.Equal(t, 2, count[RetireFailed](l))
		healed()
		l.topic(one(0))
		require.Empty(t, l.all("t"))
		l.sleep(2 * time.Second)
		require.Equal(t, []string{"t"}, l.directories())
	})
}

// A topic may have the name that a directory which was set aside would have.
func TestTopicNamedLikeAStaleDirectory(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		var info Topic
		l.call(func(e *Engine) { info, _ = e.Topic("t") })
		like := "t" + staleMark + info.ID
		l.topic(TopicSpec{Name: like, Partitions: 1})
		l.produce(like, "kept")
		l.delete("t")
		l.sleep(2 * time.Second)
		require.Equal(t, []string{like}, l.directories())
		require.NotNil(t, l.mustConsume(like))
		l.m.CrashProcess()
		l.mustBoot()
		l.sleep(2 * time.Second)
		require.Equal(t, []string{"kept"}, l.all(like))

		// And the other way round: the directory is there first.
		l.topic(one(0))
		l.call(func(e *Engine) {
			info, _ = e.Topic("t")
			require.NoError(t, e.DeleteTopic("t"))
			_, err := e.CreateTopic(TopicSpec{Name: "t" + staleMark + info.ID, Partitions: 1})
			require.NoError(t, err)
		})
		l.produce("t"+staleMark+info.ID, "kept")
		l.sleep(3 * time.Second)
		require.Equal(t, []string{"kept"}, l.all("t"+staleMark+info.ID))
	})
}

// A metastore that was lost takes no topic's messages with it.
func TestOpenWithoutItsMetastore(t *testing.T) {
	dir := t.TempDir()
	e := openReal(t, dir)
	_, err := e.CreateTopic(TopicSpec{Name: "t"})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "metastore")))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "there is no metastore")
	require.DirExists(t, filepath.Join(dir, "topics", "t"))
}

// LOG-22: a scan that finds a message on its first partition opens and stamps only that one.
func TestScanStampsWhatItUses(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{}))
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		l.call(func(e *Engine) {
			for i := range int32(3) {
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: i, Payload: []byte("x")}))
			}
		})
		l.sleep(time.Second)
		l.close()
		l.mustBoot()
		l.sleep(time.Second)
		began := l.proc.Env().Now()
		d := l.mustConsume("t")
		for i, p := range l.engine.topics["t"].partitions() {
			require.Equal(t, int32(i) == d.Partition, p.log != nil)
			require.Equal(t, int32(i) == d.Partition, env.Instant(p.used.Load()) >= began)
		}
	})
}

// A partition that nobody uses is closed when its files say all that its memory says, not before, and goes on where it was.
func TestIdlePartitionsClose(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{IdleAfter: 2 * time.Second}))
		l.topic(one(time.Minute))
		p := func() *partition { return l.engine.topics["t"].partitions()[0] }
		l.produce("t", "a", "b", "c")
		a, b := l.mustConsume("t"), l.mustConsume("t")
		require.NoError(t, l.ack(b))
		l.sleep(40 * time.Second)
		require.NotNil(t, p().shard, "there is a lease")
		require.NoError(t, l.ack(a))
		l.sleep(70 * time.Second) // consumer.offset is level after 30 s at most, and synced after 30 more
		require.Nil(t, p().shard)
		require.Nil(t, p().log)
		l.m.PowerLoss()
		require.NoError(t, l.boot(Options{IdleAfter: 2 * time.Second}))
		require.Equal(t, []string{"c"}, l.all("t"))
		l.sleep(70 * time.Second)
		require.Nil(t, p().shard)
		l.produce("t", "d")
		require.Equal(t, []string{"d"}, l.all("t"))
		drops := 0
		for _, v := range l.events {
			if d, ok := v.(ShardDropped); ok {
				require.Equal(t, DropIdle, d.Why)
				drops++
			}
		}
		require.GreaterOrEqual(t, drops, 2)
	})
}

// An ack is never lost by closing an idle partition, not even one that the committer has not been told of, or cannot write.
func TestIdlePartitionWithUnwrittenAcks(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{IdleAfter: time.Second}))
		l.topic(one(time.Minute))
		l.produce("t", "a", "b")
		a := l.mustConsume("t")
		l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, MetaEIO: 1_000_000, Only: contains("consumer.")})
		require.NoError(t, l.ack(a))
		l.sleep(time.Minute)
		p := l.engine.topics["t"].partitions()[0]
		require.NotNil(t, p.shard)
		l.m.SetFaults(sim.FaultPlan{})
		l.sleep(time.Minute)
		require.Nil(t, p.shard)
		require.Equal(t, []string{"b"}, l.all("t"))
		// The committer is told after the lock is released.
		l.produce("t", "c")
		c := l.mustConsume("t")
		l.sleep(time.Second)
		l.call(func(e *Engine) {
			p.mu.Lock()
			ok, effect := p.shard.Ack(e.env.Now(), c.Offset, c.Handle.Nonce)
			p.mu.Unlock()
			require.True(t, ok)
			e.env.Sleep(50 * time.Second)
			require.NotNil(t, p.shard)
			p.act(effect)
		})
		l.sleep(time.Minute)
		require.Nil(t, p.shard)
		require.Empty(t, l.all("t"))
	})
}

// contains limits faults to paths with a part in them.
func contains(part string) func(string) bool {
	return func(path string) bool { return strings.Contains(path, part) }
}

// INV-32: a partition that is closed costs a few hundred bytes.
func TestIdlePartitionIsSmall(t *testing.T) {
	e := openReal(t, t.TempDir())
	const topics = 100
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	kept := make([]*topic, topics)
	for i := range kept {
		kept[i] = newTopic(e, Topic{Name: fmt.Sprint("t", i), ID: "0123456789abcdef", Partitions: MaxPartitions}, true)
	}
	each := (heap() - before) / (topics * MaxPartitions)
	t.Log(each, "bytes a partition")
	require.Less(t, each, uint64(700))
	runtime.KeepAlive(kept)
	require.NoError(t, e.Close())
}

// The same races on the operating system's disk and scheduler, for the race detector.
func TestLifeCycleRacesForReal(t *testing.T) {
	e := openReal(t, t.TempDir())
	spec := TopicSpec{Name: "t", Partitions: 2, Visibility: 50 * time.Millisecond}
	_, err := e.CreateTopic(spec)
	require.NoError(t, err)
	stop := time.Now().Add(time.Second)
	var clients sync.WaitGroup
	client := func(step func(i int) error) {
		clients.Go(func() {
			for i := 0; time.Now().Before(stop); i++ {
				if err := step(i); err != nil && !errors.Is(err, ErrTopicNotFound) && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrLeaseGone) && !errors.Is(err, ErrTopicExists) {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		client(func(i int) error {
			return e.Produce(Message{Topic: "t", Partition: AnyPartition, Payload: fmt.Append(nil, i)})
		})
	}
	for pin := range int32(3) {
		client(func(int) error {
			d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: pin - 1, Wait: 20 * time.Millisecond})
			if err == nil {
				err = e.Ack("t", d.Handle)
			}
			return err
		})
	}
	client(func(int) error { _, err := e.Stats("t"); return err })
	client(func(i int) error {
		limit := 1 + i%5
		_, err := e.AlterTopic("t", TopicPatch{MaxInFlight: &limit})
		return err
	})
	client(func(i int) error {
		time.Sleep(20 * time.Millisecond)
		if i%2 == 0 {
			_, err := e.PurgeTopic("t")
			return err
		}
		if err := e.DeleteTopic("t"); err != nil {
			return err
		}
		_, err := e.CreateTopic(spec)
		return err
	})
	clients.Wait()
	require.NoError(t, e.Close())
}
