package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/sim"
)

// waiting starts a consume that parks, and returns a function that waits for its answer.
func (l *lab) waiting(partition int32, wait time.Duration) (req *ConsumeRequest, answer func() (*Delivery, error)) {
	req = &ConsumeRequest{Topic: "t", Partition: partition, Wait: wait}
	var d *Delivery
	var err error
	done := l.start(func(e *Engine) { d, err = e.Consume(req) })
	l.sleep(100 * time.Millisecond) // it has scanned and parked
	return req, func() (*Delivery, error) {
		done()
		return d, err
	}
}

// PUMP-05, PUMP-06: a parked consumer is woken by a commit.
func TestWokenByCommit(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		_, answer := l.waiting(AnyPartition, 10*time.Second)
		start := l.w.Now()
		l.produce("t", "a")
		d, err := answer()
		require.NoError(t, err)
		require.Equal(t, "a", string(d.Payload))
		require.Less(t, l.w.Now().Sub(start), time.Second)
	})
}

// INF-19, PUMP-24: a nack wakes a parked consumer at once.
func TestWokenByNack(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a")
		d := l.mustConsume("t")
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		start := l.w.Now()
		l.call(func(e *Engine) { require.NoError(t, e.Nack("t", d.Handle)) })
		again, err := answer()
		require.NoError(t, err)
		require.Equal(t, d.Offset, again.Offset)
		require.NotEqual(t, d.Handle, again.Handle)
		require.Less(t, l.w.Now().Sub(start), time.Second)
	})
}

// INF-21, PUMP-24, TIM-02, DEL-04, FAIL-02, FAIL-03: an expiry wakes a parked consumer within the purge cadence, and no earlier than the visibility timeout.
func TestWokenByExpiry(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(2 * time.Second))
		l.produce("t", "a")
		d := l.mustConsume("t")
		leased := l.w.Now()
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		again, err := answer()
		require.NoError(t, err)
		require.Equal(t, d.Offset, again.Offset)
		require.GreaterOrEqual(t, l.w.Now().Sub(leased), 2*time.Second-10*time.Millisecond)
		require.Less(t, l.w.Now().Sub(leased), 3100*time.Millisecond)
		require.ErrorIs(t, l.ack(d), ErrLeaseGone, "INF-13")
		require.NoError(t, l.ack(again))
	})
}

// API-02: at the cap a consumer waits, and an ack that frees a slot wakes it.
func TestWokenByAckAtTheCap(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 1, MaxInFlight: 1})
		l.produce("t", "a", "b")
		a := l.mustConsume("t")
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrEmpty)
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		require.NoError(t, l.ack(a))
		b, err := answer()
		require.NoError(t, err)
		require.Equal(t, "b", string(b.Payload))
	})
}

// PUMP-22, API-02: a wait that ends is answered with nothing, at its end.
func TestWaitEnds(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		start := l.w.Now()
		_, err := l.consume("t", 2*time.Second)
		require.ErrorIs(t, err, ErrEmpty)
		require.InDelta(t, 2, l.w.Now().Sub(start).Seconds(), 0.1)
		l.produce("t", "a") // and left no reservation behind
		require.Equal(t, "a", string(l.mustConsume("t").Payload))
	})
}

// PUMP-23, INF-37: a cancelled request ends at once and takes nothing with it.
func TestCancel(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		req, answer := l.waiting(AnyPartition, 20*time.Second)
		l.call(func(*Engine) { req.Cancel(); req.Cancel() })
		_, err := answer()
		require.ErrorIs(t, err, ErrCancelled)
		l.produce("t", "a")
		require.Equal(t, "a", string(l.mustConsume("t").Payload))
	})
}

// INF-37, PUMP-11: a record that meets a cancelled request is released at once, whichever of the two comes first.
func TestCancelMeetsHandOver(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		for range 4000 {
			req, answer := l.waiting(AnyPartition, 20*time.Second)
			l.start(func(*Engine) {
				l.sleep(l.w.Duration(0, 4*time.Millisecond)) // about what a commit takes
				req.Cancel()
			})
			l.produce("t", "a")
			d, err := answer()
			if err != nil {
				require.ErrorIs(t, err, ErrCancelled)
				d = l.mustConsume("t") // long before any visibility timeout
			}
			require.NoError(t, l.ack(d))
		}
		require.Positive(t, count[LeaseEnded](l), "no cancel ever met a hand-over: the test proves nothing")
	})
}

// PUMP-16, PUMP-03: parked consumers are served in the order in which they came, one record each.
func TestWaitersAreServedInOrder(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		var answers []func() (*Delivery, error)
		for range 5 {
			_, a := l.waiting(AnyPartition, 20*time.Second)
			answers = append(answers, a)
		}
		for i := range 5 {
			l.produce("t", "a")
			d, err := answers[i]()
			require.NoError(t, err)
			require.EqualValues(t, i, d.Offset)
		}
		require.Equal(t, 5, count[Leased](l), "one reservation for each record")
	})
}

// PUMP-14, PUMP-17: a pinned consumer of an empty partition holds nobody up.
func TestPinnedWaiterBlocksNobody(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		_, pinned := l.waiting(1, 5*time.Second)
		_, free := l.waiting(AnyPartition, 5*time.Second)
		l.call(func(e *Engine) {
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("zero")}))
		})
		d, err := free()
		require.NoError(t, err)
		require.Equal(t, "zero", string(d.Payload))
		_, err = pinned()
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// PUMP-18: of a pinned and a shared waiter the pinned one is served first.
func TestPinnedWaitersComeFirst(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		_, free := l.waiting(AnyPartition, 5*time.Second)
		_, pinned := l.waiting(1, 5*time.Second)
		l.call(func(e *Engine) {
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 1, Payload: []byte("one")}))
		})
		_, err := pinned()
		require.NoError(t, err)
		_, err = free()
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// Close answers parked consumers instead of waiting for them.
func TestCloseAnswersWaiters(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		start := l.w.Now()
		l.close()
		_, err := answer()
		require.ErrorIs(t, err, ErrClosed)
		require.Less(t, l.w.Now().Sub(start), time.Second)
	})
}

// PUMP-08, PUMP-09, PERF-14: on a topic that nobody waits for, the notifier allocates nothing.
func TestNotifyAllocatesNothing(t *testing.T) {
	e := openReal(t, t.TempDir())
	defer e.Close()
	_, err := e.CreateTopic(one(0))
	require.NoError(t, err)
	topic, err := e.topic("t")
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(1000, topic.notify))
}

// PUMP-20, INV-32: whatever is pushed, popped, put back and left, marked entries never outnumber the live ones by more than
// one, the order is kept, and a queue that is empty again holds no large ring.
func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo
		var want []*waiter // the live ones, in order
		var hand *waiter
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				w := &waiter{}
				f.pushBack(w)
				want = append(want, w)
			},
			"pop": func(t *rapid.T) {
				w := f.pop()
				if len(want) == 0 {
					require.Nil(t, w)
					return
				}
				require.Same(t, want[0], w)
				want = want[1:]
				w.state = popped
				hand = w
			},
			"put back": func(t *rapid.T) {
				if hand == nil {
					t.Skip("nothing in hand")
				}
				hand.state = queued
				f.pushFront(hand) // PUMP-16
				want = append([]*waiter{hand}, want...)
				hand = nil
			},
			"leave": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("nobody is there")
				}
				i := rapid.IntRange(0, len(want)-1).Draw(t, "who")
				want[i].state = left
				want = append(append([]*waiter{}, want[:i]...), want[i+1:]...)
				f.leave()
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(want), f.live)
				require.LessOrEqual(t, f.n-f.live, f.live+1)
			},
		})
	})
}

func TestFIFOLetsGoOfItsRing(t *testing.T) {
	var f fifo
	for range 10_000 {
		f.pushBack(&waiter{})
	}
	for f.pop() != nil {
	}
	require.LessOrEqual(t, len(f.ring), fifoSmall)
}

// WAL-19: the window's base is the lowest sequence number that is not committed.
func TestWindow(t *testing.T) {
	w := window{base: 5}
	for seq := uint64(5); seq < 1000; seq++ {
		w.add(seq)
	}
	w.done(6)
	w.done(7)
	require.EqualValues(t, 5, w.base)
	w.done(5)
	require.EqualValues(t, 8, w.base)
	for seq := uint64(999); seq >= 8; seq-- {
		w.done(seq)
	}
	require.EqualValues(t, 1000, w.base)
	require.Zero(t, w.size())
	require.Panics(t, func() { w.add(1001) })
}

// CON-15, LOG-17: a parked consumer is not failed because its partition's log was closed and opened again.
func TestWaiterOutlivesAReopenedLog(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		l.m.ArmFault(sim.SyncLost, sim.OpSync, "data/topics/t/p00000/00000000000000000000.log", 1)
		l.produce("t", "a")
		d, err := answer()
		require.NoError(t, err)
		require.Equal(t, "a", string(d.Payload))
		require.Positive(t, count[DispatchFailed](l), "the log was never closed: the test proves nothing")
	})
}

// CON-19: an answer whose lease lapsed on its way is not given; the request goes on waiting.
func TestLapsedAnswerIsNotGiven(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(time.Second))
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			w := &waiter{partition: AnyPartition}
			w.ready.Init(e.env)
			require.True(t, topic.waiting.join(w, func() {}))
			require.Same(t, w, topic.waiting.pop(AnyPartition))
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("a")}))
			e.env.Sleep(200 * time.Millisecond)
			d, err := topic.scan(AnyPartition, HandoutPump)
			require.NoError(t, err)
			require.True(t, topic.waiting.handOver(w, d, nil, func() {}))
			e.env.Sleep(2 * time.Second)
			_, err = topic.served(w)
			require.ErrorIs(t, err, errLapsed)
		})
	})
}

// PUMP-07: a wake-up that the topic dropped while its only queued waiter left and the pump held another is made up for.
func TestPutBackSeesTheMissedWakeUp(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			a, b := &waiter{partition: AnyPartition}, &waiter{partition: AnyPartition}
			for _, w := range []*waiter{a, b} {
				w.ready.Init(e.env)
				require.True(t, topic.waiting.join(w, func() {}))
			}
			require.Same(t, a, topic.waiting.pop(AnyPartition))
			require.True(t, topic.waiting.leave(b, func() {}))
			require.False(t, topic.waiting.present.Load(), "from here on notify drops what comes")
			back, missed := topic.waiting.putBack(a)
			require.True(t, back)
			require.True(t, missed)
			require.True(t, topic.waiting.present.Load())
			require.Same(t, a, topic.waiting.pop(AnyPartition))
			back, missed = topic.waiting.putBack(a)
			require.True(t, back)
			require.False(t, missed)
		})
	})
}

// PUMP-12, PERF-01, CON-03: ten thousand parked consumers cost nothing while nothing happens.
func TestParkedConsumersCostNothing(t *testing.T) {
	steps := func(parked int) (idle int64) {
		inWorld(t, func(l *lab) {
			l.mustBoot()
			l.topic(TopicSpec{Name: "t", Partitions: 4})
			for i := range parked {
				partition := AnyPartition
				if i%3 == 0 {
					partition = int32(i % 4)
				}
				l.proc.Env().Go("parked", func() {
					l.engine.Consume(&ConsumeRequest{Topic: "t", Partition: partition, Wait: MaxWait})
				})
			}
			l.sleep(5 * time.Second)
			before := l.w.Steps()
			l.sleep(10 * time.Second)
			idle = l.w.Steps() - before
		})
		return idle
	}
	require.Equal(t, steps(0), steps(10_000))
}

// PUMP-03, PUMP-04, PUMP-15 (BUG-01): a commit of one record costs two reservations at most, however many consumers are parked.
func TestCommitCostsWhatItDelivers(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		for range 1000 {
			l.proc.Env().Go("parked", func() {
				l.engine.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: MaxWait})
			})
		}
		l.sleep(time.Second)
		l.events = nil
		l.produce("t", "a")
		l.sleep(time.Second)
		require.Equal(t, 1, count[Leased](l))
		require.Equal(t, 1, count[WaiterServed](l))
		require.LessOrEqual(t, count[PumpPass](l), 2)
		require.LessOrEqual(t, count[PumpPutBack](l), 2)
	})
}

// PUMP-08, PUMP-09: a wake-up of a topic that is marked already allocates nothing either.
func TestMarkAllocatesNothing(t *testing.T) {
	e := env.OS()
	p := &pump{wake: e.NewWaiter(), dirty: make([]*topic, 0, 8)}
	topic := &topic{engine: &Engine{pump: p}}
	topic.waiting.present.Store(true)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		topic.notify()
		topic.notify()
		p.next()
	}))
}
