package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/inflight"
	"narad/record"
	"narad/sim"
)

// A commit that hung has its slot taken away once, and when it ends at last there is none too few and none too many (WAL-19).
func TestSlotsComeBack(t *testing.T) {
	latency := sim.DefaultLatency()
	latency.Stalls, latency.Stall = 0, sim.Range{Min: 4 * time.Second, Max: 4 * time.Second}
	inWorldWith(t, sim.MachineConfig{Latency: latency}, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.sendTo(0, 1)
		l.sleep(time.Second)
		l.m.ArmFault(sim.Stall, sim.OpSync, "data/topics/t/p00000/00000000000000000000.log", 1)
		l.sendTo(0, 10)
		l.sleep(2 * time.Second)
		require.Equal(t, 1, count[DestinationHung](l))
		require.Zero(t, l.engine.dispatcher.running, "while it hangs")
		l.sleep(5 * time.Second)
		require.Len(t, l.dispatchedTo(0), 11)
		require.Zero(t, l.engine.dispatcher.running, "when it has ended")
	})
}

// Once the records that fitted nowhere have a place, what comes after them is not held any more.
func TestHeldKeysAreLetGo(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.call(func(e *Engine) {
			info, err := e.Topic("t")
			require.NoError(t, err)
			_, err = e.wal.Append(record.AppendProduce(nil, record.Produce{Topic: "t", Incarnation: info.ID, Partition: 2, Payload: []byte("early")}))
			require.NoError(t, err)
			l.sleep(100 * time.Millisecond)
			three := 3
			_, err = e.AlterTopic("t", TopicPatch{Partitions: &three})
			require.NoError(t, err)
		})
		l.sleep(3 * time.Second)
		require.Len(t, l.dispatchedTo(2), 1)
		l.sendTo(2, 1)
		l.sleep(walRetry / 2)
		require.Len(t, l.dispatchedTo(2), 2)
		require.Empty(t, l.engine.dispatcher.intake.heldKeys)
	})
}

// LOG-17: a waiter that could not be served for a reason that passes is tried again, although nothing wakes the pump.
func TestPutBackForAPassingReason(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			for _, again := range []bool{false, true} {
				w, other := &waiter{partition: AnyPartition}, &waiter{partition: AnyPartition}
				for _, w := range []*waiter{w, other} { // the other keeps the flag up
					w.ready.Init(e.env)
					require.True(t, topic.waiting.join(w, func() {}))
				}
				require.Same(t, w, topic.waiting.pop(AnyPartition))
				e.pump.putBack(topic, w, again)
				require.Equal(t, again, topic.marked)
				require.True(t, topic.waiting.leave(w, func() {}))
				require.True(t, topic.waiting.leave(other, func() {}))
			}
		})
	})
}

// INF-37: a request that was cancelled before it had anything to wait in does not wait.
func TestCancelledBeforeItWaits(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.call(func(e *Engine) {
			req := &ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 20 * time.Second}
			req.Cancel()
			start := e.env.Now()
			_, err := e.Consume(req)
			require.ErrorIs(t, err, ErrCancelled)
			require.Less(t, e.env.Now().Sub(start), time.Second)
		})
	})
}

// A request that is about to wait when the engine closes does not hold it up.
func TestClosedBeforeItWaits(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.call(func(e *Engine) {
			start := e.env.Now()
			_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 20 * time.Second, Waiting: func() {
				require.True(t, e.gate.close())
				e.wakeAllWaiters()
			}})
			require.ErrorIs(t, err, ErrClosed)
			require.Less(t, e.env.Now().Sub(start), time.Second)
		})
	})
}

// LOG-19: what a consume that holds the closed log of a purged incarnation gives back to the successor's lease table, it gives back to
// the successor's consumers.
func TestSuccessorIsWoken(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "old")
		l.mustConsume("t")
		var old *partition
		var lease inflight.Lease
		l.call(func(e *Engine) {
			topic, err := e.topic("t")
			require.NoError(t, err)
			old = topic.partitions()[0]
			_, err = e.PurgeTopic("t")
			require.NoError(t, err)
			require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("new")}))
			s, err := e.Stats("t")
			for ; s[0].HighWatermark == 0; s, err = e.Stats("t") {
				require.NoError(t, err)
				e.env.Sleep(time.Millisecond)
			}
			old.mu.Lock()
			lease, _, _ = old.shard.Reserve(e.env.Now(), 1)
			old.mu.Unlock()
		})
		_, answer := l.waiting(AnyPartition, 20*time.Second)
		start := l.w.Now()
		l.call(func(*Engine) { old.release(lease, CauseReadFail) })
		d, err := answer()
		require.NoError(t, err)
		require.Equal(t, "new", string(d.Payload))
		require.Less(t, l.w.Now().Sub(start), time.Second)
	})
}
