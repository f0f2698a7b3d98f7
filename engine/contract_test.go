package engine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

// Clauses of the delivery contract that no other test pins, each as one short story.

// unsettled takes all that can be handed out at once, and keeps the leases.
func (l *lab) unsettled() (all []*Delivery) {
	l.t.Helper()
	for {
		d, err := l.consume("t", 0)
		if errors.Is(err, ErrEmpty) {
			return all
		}
		require.NoError(l.t, err)
		all = append(all, d)
	}
}

// next takes the next message, which must be there at once.
func (l *lab) next() *Delivery {
	l.t.Helper()
	d, err := l.consume("t", 0)
	require.NoError(l.t, err)
	return d
}

var crashes = map[string]func(m *sim.Machine){
	"process crash": (*sim.Machine).CrashProcess,
	"power loss":    func(m *sim.Machine) { m.PowerLoss() },
}

// WAL-01, WAL-05, WAL-06, WAL-28: a 202 stands for a record of the node's own ingress log, which stays there until its partition has
// it: after a crash the dispatcher commits it without anybody asking.
func TestDispatchGoesOnAfterACrash(t *testing.T) {
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.topic(one(0))
				l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, Only: named(".log")})
				l.sendTo(0, 5)
				l.sleep(time.Second)
				require.Empty(t, l.dispatchedTo(0))
				crash(l.m)
				l.m.ClearFaults()
				l.mustBoot()
				l.sleep(time.Second) // no client does anything
				require.Equal(t, []uint64{1, 2, 3, 4, 5}, l.dispatchedTo(0))
				require.Len(t, l.unsettled(), 5)
			})
		})
	}
}

// WAL-15, WAL-16, DEL-10, FAIL-11, LOG-10: what was committed above the checkpoint is known in memory only, so a crash commits it
// again, at a new offset. The two copies are independent: both can be leased at once, and each is acked by itself.
func TestCommittedAgainAboveTheCheckpoint(t *testing.T) {
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.topic(TopicSpec{Name: "t", Partitions: 2, Visibility: time.Minute})
				l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, Only: only("p00000")})
				l.sendTo(0, 1) // holds the checkpoint back
				l.sendTo(1, 1)
				l.sleep(time.Second)
				stored, _ := l.engine.wal.Checkpoint()
				require.EqualValues(t, 1, stored)
				require.Equal(t, []uint64{2}, l.dispatchedTo(1))
				crash(l.m)
				l.m.ClearFaults()
				l.mustBoot()
				l.sleep(time.Second)
				require.Equal(t, []uint64{2, 2}, l.dispatchedTo(1))
				stored, _ = l.engine.wal.Checkpoint()
				require.EqualValues(t, 3, stored)
				var copies []*Delivery
				for _, d := range l.unsettled() {
					if d.Partition == 1 {
						copies = append(copies, d)
					}
				}
				require.Len(t, copies, 2, "both are out at the same time")
				require.Equal(t, copies[0].Payload, copies[1].Payload)
				require.EqualValues(t, []int64{0, 1}, []int64{copies[0].Offset, copies[1].Offset})
				require.NotEqual(t, copies[0].Handle.Nonce, copies[1].Handle.Nonce)
				require.NoError(t, l.ack(copies[1]))
				l.call(func(e *Engine) { require.NoError(t, e.Extend("t", copies[0].Handle), "the ack of one settles one") })
				require.NoError(t, l.ack(copies[0]))
				require.ErrorIs(t, l.ack(copies[1]), ErrLeaseGone)
			})
		})
	}
}

// WAL-08, FAIL-08, DEL-09, DEL-19: a produce that a crash cuts off may have been accepted or not. Who sends it again loses nothing and may
// get it twice: there is no deduplication.
func TestProduceWithoutAnAnswer(t *testing.T) {
	copies := map[int]bool{}
	for n := 1; ; n++ {
		struck := false
		inWorld(t, func(l *lab) {
			l.mustBoot()
			l.topic(one(0))
			l.m.ArmCrash(sim.ProcessCrash, n)
			answered := l.proc.Call("produce", env.Forever, func() {
				require.NoError(t, l.engine.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("m")}))
			}) == sim.Done
			struck = !answered
			if !struck {
				return
			}
			l.mustBoot()
			l.produce("t", "m")
			l.sleep(time.Second)
			got := l.unsettled()
			for _, d := range got {
				require.Equal(t, "m", string(d.Payload))
			}
			copies[len(got)] = true
		})
		if !struck {
			break
		}
	}
	require.Equal(t, map[int]bool{1: true, 2: true}, copies)
}

// WAL-14: of a batch whose produce got no answer any part may have been accepted, message by message; what is there is whole, and
// there once.
func TestBatchWithoutAnAnswer(t *testing.T) {
	const size = 4
	parts := map[int]int{}
	for seed := range uint64(8) {
		for n := 1; ; n++ {
			struck := false
			inSeed(t, seed<<32+uint64(n), func(l *lab) {
				l.mustBoot()
				l.topic(one(0))
				var batch []Message
				sent := map[string]bool{}
				for i := range size { // each fills more than a sector: the disk may keep some of them
					payload := fmt.Sprintf("%d %02000d", i, i)
					sent[payload] = true
					batch = append(batch, Message{Partition: 0, Payload: []byte(payload)})
				}
				l.m.ArmCrash(sim.PowerFailure, n)
				struck = l.proc.Call("produce", env.Forever, func() { require.NoError(t, l.engine.ProduceBatch("t", batch)) }) != sim.Done
				if !struck {
					return
				}
				l.mustBoot()
				l.sleep(time.Second)
				got := l.unsettled()
				for _, d := range got {
					require.True(t, sent[string(d.Payload)])
					delete(sent, string(d.Payload))
				}
				parts[len(got)]++
			})
			if !struck {
				break
			}
		}
	}
	require.True(t, parts[0] > 0 && parts[size] > 0 && len(parts) > 2, "%v", parts)
}

// LOG-01: a partition is one directory, and what is stored there is the only copy of a message beside the ingress log's.
func TestOneDirectoryForAPartition(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		for p := range int32(3) {
			l.call(func(e *Engine) {
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: p, Payload: fmt.Appendf(nil, "message %d", p)}))
			})
		}
		l.sleep(time.Second)
		require.Len(t, l.unsettled(), 3)
		l.close()
		root, err := disk.FS(l.m.Disk()).OpenRoot("data/topics", false)
		require.NoError(t, err)
		files := map[string]string{}
		readAll(t, root, "", files)
		for p := range 3 {
			var holders []string
			for name, content := range files {
				if strings.Contains(content, fmt.Sprintf("message %d", p)) {
					holders = append(holders, name)
				}
			}
			require.Equal(t, []string{fmt.Sprintf("/t/p%05d/%020d.log", p, 0)}, holders)
		}
	})
}

// readAll reads all files below a directory.
func readAll(t *testing.T, dir vfs.Dir, at string, files map[string]string) {
	infos, err := dir.List()
	require.NoError(t, err)
	for _, info := range infos {
		if info.Dir {
			sub, err := dir.OpenDir(info.Name)
			require.NoError(t, err)
			readAll(t, sub, at+"/"+info.Name, files)
			continue
		}
		f, err := dir.Open(info.Name)
		require.NoError(t, err)
		content := make([]byte, info.Size)
		_, err = f.ReadAt(content, 0)
		require.NoError(t, err)
		files[at+"/"+info.Name] = string(content)
	}
}

// FAIL-01, FAIL-02, DEL-04: a consumer that dies with a lease changes nothing for producers and other consumers; its message comes
// back after the visibility timeout, not before, and nothing is lost.
func TestConsumerDies(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(2 * time.Second))
		l.produce("t", "a")
		taken := l.w.Now()
		require.Equal(t, "a", string(l.mustConsume("t").Payload)) // and is never heard of again
		l.produce("t", "b")
		require.NoError(t, l.ack(l.mustConsume("t")))
		again, err := l.consume("t", 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, "a", string(again.Payload))
		require.GreaterOrEqual(t, l.w.Now().Sub(taken), 2*time.Second)
		require.Less(t, l.w.Now().Sub(taken), 3100*time.Millisecond)
		require.NoError(t, l.ack(again))
		require.Empty(t, l.unsettled())
	})
}

// FAIL-03, FAIL-04, DEL-04: a handler that outlives the visibility timeout loses its message to another consumer, and its late ack is
// gone; one that extends its lease in time keeps it, for as long as it goes on.
func TestSlowHandler(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(2 * time.Second))
		l.produce("t", "slow", "careful")
		slow, careful := l.mustConsume("t"), l.mustConsume("t")
		for range 6 {
			l.sleep(1500 * time.Millisecond)
			l.call(func(e *Engine) { require.NoError(t, e.Extend("t", careful.Handle)) })
		}
		other := l.next()
		require.Equal(t, slow.Offset, other.Offset)
		require.Empty(t, l.unsettled(), "the lease that is extended is still held")
		require.ErrorIs(t, l.ack(slow), ErrLeaseGone)
		require.NoError(t, l.ack(other))
		require.NoError(t, l.ack(careful))
	})
}

// ORD-03, INV-34, DEL-05, Q-61: a message whose lease lapses, or that is given back, comes after newer ones; given back, it comes at
// once, to whoever asks.
func TestRedeliveryReorders(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(2 * time.Second))
		l.produce("t", "a", "b", "c")
		l.sleep(100 * time.Millisecond)
		a := l.next()
		require.EqualValues(t, 1, l.next().Offset)
		l.call(func(e *Engine) { require.NoError(t, e.Nack("t", a.Handle)) })
		require.EqualValues(t, 0, l.next().Offset, "after a newer one")
		require.NoError(t, l.ack(l.next()))
		l.sleep(2 * time.Second)
		require.EqualValues(t, 0, l.next().Offset, "after two newer ones")
	})
}

// ORD-04, INV-34, Q-60, CON-08: behind a stranded lease a partition hands out nothing, not even what was produced since, once the acked-ahead
// set is full; a consume that waits is answered at the end of its wait, or when the lease lapses. Then the rest comes.
func TestStrandedLeaseReorders(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1, Visibility: 5 * time.Second, MaxAckedAhead: 2})
		l.produce("t", "a", "b", "c", "d")
		taken := l.w.Now()
		hole := l.mustConsume("t")
		for range 2 {
			require.NoError(t, l.ack(l.mustConsume("t")))
		}
		asked := l.w.Now()
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrEmpty)
		require.Less(t, l.w.Now().Sub(asked), 50*time.Millisecond, "CON-08: without a wait it is not held")
		asked = l.w.Now()
		_, err = l.consume("t", time.Second)
		require.ErrorIs(t, err, ErrEmpty)
		require.InDelta(t, 1, l.w.Now().Sub(asked).Seconds(), 0.1, "not at once")
		again, err := l.consume("t", 10*time.Second)
		require.NoError(t, err)
		require.Equal(t, hole.Offset, again.Offset, "after newer ones")
		require.Less(t, l.w.Now().Sub(taken), 6100*time.Millisecond)
		require.NoError(t, l.ack(again))
		require.Equal(t, "d", string(l.next().Payload))
	})
}

// ORD-05, INV-34, DEL-07, DEL-08: acks of the last moments before a crash are undone, and their messages come after newer ones, which
// consumers had finished long before.
func TestCrashReorders(t *testing.T) {
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.topic(one(time.Minute))
				l.produce("t", "a", "b", "c")
				l.sleep(100 * time.Millisecond)
				a, b := l.next(), l.next()
				require.NoError(t, l.ack(b))
				l.sleep(1300 * time.Millisecond) // this one is safe
				require.NoError(t, l.ack(a))
				crash(l.m) // within a tick of it
				l.mustBoot()
				l.sleep(100 * time.Millisecond)
				require.Equal(t, a.Offset, l.next().Offset, "after b, and although its ack was answered")
				require.EqualValues(t, 2, l.next().Offset)
				require.Empty(t, l.unsettled())
			})
		})
	}
}

// FAIL-14, INV-09: a lower durability interval shortens what a power loss undoes: with D = 10 ms T is 10 ms too, and an ack is safe
// after about two of them and a sync.
func TestShortDurabilityInterval(t *testing.T) {
	inWorld(t, func(l *lab) {
		o := Options{CommitInterval: 10 * time.Millisecond}
		require.NoError(t, l.boot(o))
		l.topic(one(0))
		l.produce("t", "a", "b", "c")
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.sleep(300 * time.Millisecond) // the file is primed
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.sleep(50 * time.Millisecond)
		l.m.PowerLoss()
		require.NoError(t, l.boot(o))
		require.EqualValues(t, 2, l.mustConsume("t").Offset)
	})
}

// PUMP-01, PUMP-02: one pump serves all topics: a topic starts no task of its own, and neither does a consume that parks.
func TestOnePump(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0)) // the first and the others alike
		const topics, consumers = 5, 20
		before := l.w.Stats().Tasks
		for i := range topics {
			l.topic(TopicSpec{Name: fmt.Sprint("t", i), Partitions: 4})
		}
		require.EqualValues(t, topics, l.w.Stats().Tasks-before, "a task for each call, which the test makes")
		before = l.w.Stats().Tasks
		got := 0
		for i := range consumers {
			l.proc.Env().Go("consumer", func() {
				if _, err := l.engine.Consume(&ConsumeRequest{Topic: fmt.Sprint("t", i%topics), Partition: AnyPartition, Wait: MaxWait}); err == nil {
					got++
				}
			})
		}
		l.sleep(2 * time.Second)
		require.EqualValues(t, consumers, l.w.Stats().Tasks-before)
		for i := range topics {
			l.produce(fmt.Sprint("t", i), "a", "b", "c", "d")
		}
		l.sleep(2 * time.Second)
		require.Equal(t, consumers, got)
	})
}

// PUMP-26: a waiter that never takes its answer gets one record, once, and the pump goes on to the next waiter.
func TestPumpWaitsForNobody(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(time.Minute))
		dead := &waiter{partition: AnyPartition}
		l.call(func(e *Engine) {
			dead.ready.Init(e.env)
			require.True(t, e.topics["t"].waiting.join(dead, func() {}))
		})
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		l.produce("t", "a", "b", "c")
		d, err := answer()
		require.NoError(t, err)
		require.Equal(t, "b", string(d.Payload))
		require.Equal(t, "c", string(l.mustConsume("t").Payload))
		require.Equal(t, served, dead.state)
		require.Equal(t, "a", string(dead.delivery.Payload))
	})
}

// PUMP-25: a busy topic does not use the pump: who finds a record by himself is not parked, and commits that nobody waits for notify
// nobody.
func TestBusyTopicsDoNotPump(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		const n = 50
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		l.produce("t", "quiet")
		_, err := answer()
		require.NoError(t, err)
		require.Positive(t, count[PumpPass](l), "a quiet one does")
		l.events = nil
		for i := range n {
			l.produce("t", fmt.Sprint(i))
		}
		l.sleep(100 * time.Millisecond)
		for i := range n {
			l.produce("t", fmt.Sprint(n+i))
			require.NoError(t, l.ack(l.mustConsume("t")))
		}
		require.Zero(t, count[PumpPass](l))
		require.Zero(t, count[WaiterJoined](l))
	})
}

// Q-23, LOG-13: the pump reads what it hands out. When it cannot, the record is free again, who waited for it is told, and nobody
// else's wait suffers.
func TestPumpCannotRead(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1, MaxInFlight: 1})
		l.topic(TopicSpec{Name: "u", Partitions: 1})
		for range 3 {
			l.produce("t", strings.Repeat("x", 600_000)) // more than is read at once
			l.sleep(time.Second)
		}
		l.close()
		l.mustBoot() // nothing is cached
		require.NoError(t, l.ack(l.mustConsume("t")))
		before := l.mustConsume("t")
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		var other *Delivery
		served := l.start(func(e *Engine) {
			var err error
			other, err = e.Consume(&ConsumeRequest{Topic: "u", Partition: AnyPartition, Wait: 20 * time.Second})
			require.NoError(t, err)
		})
		l.m.SetFaults(sim.FaultPlan{ReadEIO: 1_000_000, Only: only("p00000")})
		require.NoError(t, l.ack(before)) // frees the cap: the pump takes the next one
		_, err := answer()
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, 1, count[LeaseEnded](l))
		l.produce("u", "other")
		served()
		require.Equal(t, "other", string(other.Payload))
		l.m.ClearFaults()
		require.EqualValues(t, 2, l.next().Offset, "it is not lost, and not skipped")
	})
}

// an offset that was skipped as corrupt and lies above the frontier at a restart is skipped again, and counted again: what is
// counted is skips, not offsets.
func TestSkipsAreCountedAgain(t *testing.T) {
	dir := rottenMiddle(t, one(time.Minute))
	for range 2 {
		var skipped []int64
		e, err := Open(dir, Options{Listener: func(v Event) {
			if s, ok := v.(CorruptSkipped); ok {
				skipped = append(skipped, s.Offset)
			}
		}})
		require.NoError(t, err)
		for _, want := range []string{"message 0", "message 2"} { // neither is acked
			d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
			require.NoError(t, err)
			require.Equal(t, want, string(d.Payload))
		}
		require.NoError(t, e.Close())
		require.Equal(t, []int64{1}, skipped)
	}
}

// LOG-21, CON-13: a pass over many partitions resolves their logs under one lock, looks at the openings of the topic once and reads the clock
// once, as long as nothing is opened meanwhile.
func TestManyLogsAtOnce(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 8})
		require.Empty(t, l.unsettled()) // opens them all
		l.call(func(e *Engine) {
			topic := e.topics["t"]
			instants := map[env.Instant]int{}
			first := true
			err := topic.pass(AnyPartition, func(p *partition, log *segment.Log, now env.Instant) (bool, bool, error) {
				if first {
					first = false
					require.Nil(t, log, "the first is resolved by the visit")
					return false, true, nil
				}
				require.NotNil(t, log)
				instants[now]++
				if len(instants) == 1 && instants[now] == 1 {
					topic.logs.mu.Lock() // who needs the table again waits for ever, which fails the world
				}
				return false, true, nil
			})
			topic.logs.mu.Unlock()
			require.NoError(t, err)
			require.Len(t, instants, 1)
		})
	})
}
