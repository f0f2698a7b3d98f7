package check

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/wal"
)

// watched runs feed in a world with a checker that listens, and returns what failed the world.
func watched(t *testing.T, feed func(w *sim.World, n *Node, see func(...engine.Event))) error {
	w := sim.New(sim.Options{Seed: 1})
	n := New(Config{World: w, Machine: w.Machine("n1", sim.MachineConfig{}), Interval: time.Second, Messages: &Messages{}})
	n.Topic(engine.Topic{Name: "t", Partitions: 1, VisibilityMs: 1000, MaxInFlight: 10, MaxAckedAhead: 10})
	w.Go("feed", func() {
		listen := n.Listen()
		feed(w, n, func(events ...engine.Event) {
			for _, v := range events {
				listen(v)
			}
		})
	})
	return w.Run(time.Hour)
}

// notices checks that the checker fails the world of feed, for that invariant.
func notices(t *testing.T, invariant string, feed func(w *sim.World, n *Node, see func(...engine.Event))) {
	t.Helper()
	err := watched(t, feed)
	var v *model.Violation
	require.True(t, errors.As(err, &v), "nothing was noticed: %v", err)
	require.Equal(t, invariant, v.Invariant, v.Detail)
}

var (
	key  = engine.Key{Topic: "t"}
	ckey = committer.Key{Topic: "t"}
)

func stored(n int64) engine.Event {
	return engine.Log{Key: key, Event: segment.Committed{Base: 0, Next: n}}
}

func open(committed int64) engine.Event {
	return engine.ShardOpened{Key: key, State: inflight.State{Committed: committed}}
}

// ackedFirst leases and acks offset 0 at instant 0.
func ackedFirst(nonce int64) []engine.Event {
	return []engine.Event{
		engine.Leased{Key: key, Lease: inflight.Lease{Nonce: spread(nonce), Expiry: env.Instant(time.Second)}, HW: 5},
		engine.Settled{Key: key, Nonce: spread(nonce)},
	}
}

func waiting(partition int32, seq uint64) engine.WaiterID {
	return engine.WaiterID{Topic: "t", Partition: partition, Seq: seq}
}

func leased(offset, nonce int64) engine.Leased {
	return engine.Leased{Key: key, Lease: inflight.Lease{Offset: offset, Nonce: spread(nonce), Expiry: env.Instant(time.Second)}, HW: 5}
}

func consumer(v committer.Event) engine.Event { return engine.Consumer{Event: v} }

func log(v wal.Event) engine.Event { return engine.WAL{Event: v} }

// Every check of this package is seen to fail.
func TestViolations(t *testing.T) {
	type see = func(...engine.Event)
	for name, c := range map[string]struct {
		invariant string
		feed      func(w *sim.World, n *Node, see see)
	}{
		"202 before the sync": {"INV-03", func(_ *sim.World, _ *Node, see see) {
			see(log(wal.Recovered{First: 1, Next: 1, Checkpoint: 1}), engine.Accepted{Key: key, Seq: 1})
		}},
		"checkpoint past a record that is not committed": {"INV-03", func(_ *sim.World, _ *Node, see see) {
			see(log(wal.BatchSynced{First: 1, Next: 4}), engine.Dispatched{Key: key, Seq: 1}, engine.Dispatched{Key: key, Seq: 3}, log(wal.CheckpointStored{Seq: 4}))
		}},
		"compaction past the durable checkpoint": {"INV-03", func(_ *sim.World, _ *Node, see see) {
			see(log(wal.BatchSynced{First: 1, Next: 4}), engine.Dispatched{Key: key, Seq: 1}, log(wal.CheckpointStored{Seq: 2}), log(wal.SegmentRemoved{First: 1, Next: 2}))
		}},
		"stored checkpoint gone": {"INV-03", func(_ *sim.World, n *Node, see see) {
			see(log(wal.Recovered{First: 1, Next: 1, Checkpoint: 1}), log(wal.BatchSynced{First: 1, Next: 4}), engine.Dispatched{Key: key, Seq: 1}, log(wal.CheckpointStored{Seq: 2}))
			n.Crashed(sim.ProcessCrash, disk.Report{})
			n.Listen()(log(wal.Recovered{First: 1, Next: 4, Checkpoint: 1}))
		}},
		"durable checkpoint gone": {"INV-03", func(_ *sim.World, n *Node, see see) {
			see(log(wal.Recovered{First: 1, Next: 1, Checkpoint: 1}), log(wal.BatchSynced{First: 1, Next: 4}), engine.Dispatched{Key: key, Seq: 1}, log(wal.CheckpointStored{Seq: 2}), log(wal.CheckpointSynced{Seq: 2}))
			n.Crashed(sim.PowerFailure, disk.Report{})
			n.Listen()(log(wal.Recovered{First: 1, Next: 4, Checkpoint: 1}))
		}},
		"recovered record gone": {"INV-03", func(_ *sim.World, n *Node, see see) {
			see(log(wal.Recovered{First: 1, Next: 3, Checkpoint: 1}))
			n.Crashed(sim.PowerFailure, disk.Report{})
			n.Listen()(log(wal.Recovered{First: 1, Next: 2, Checkpoint: 1}))
		}},
		"accepted record gone": {"INV-02", func(_ *sim.World, n *Node, see see) {
			see(log(wal.BatchSynced{First: 1, Next: 4}), engine.Accepted{Key: key, Seq: 3})
			n.Crashed(sim.PowerFailure, disk.Report{})
			n.Listen()(log(wal.Recovered{First: 1, Next: 3, Checkpoint: 1}))
		}},
		"a hole in the offsets": {"INV-04", func(_ *sim.World, _ *Node, see see) {
			see(stored(2), engine.Log{Key: key, Event: segment.Committed{Base: 3, Next: 4}})
		}},
		"committed records gone": {"INV-04", func(_ *sim.World, n *Node, see see) {
			see(stored(2))
			n.Crashed(sim.PowerFailure, disk.Report{})
			n.Listen()(engine.Log{Key: key, Event: segment.Recovered{Next: 1}})
		}},
		"window before prime": {"INV-12", func(_ *sim.World, _ *Node, see see) {
			see(stored(5), open(-1), engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: -1}}, consumer(committer.WindowWritten{Key: ckey, Committed: -1}))
		}},
		"anchor written": {"INV-12", func(_ *sim.World, _ *Node, see see) {
			see(stored(5), open(-1), engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: -1}})
			see(consumer(committer.Primed{Key: ckey, Anchor: 1}), consumer(committer.WindowWritten{Key: ckey, Slot: 1, Committed: -1}))
		}},
		"flip to a slot that was not written": {"INV-12", func(_ *sim.World, _ *Node, see see) {
			see(stored(5), open(-1), consumer(committer.Primed{Key: ckey, Anchor: 1}), consumer(committer.WrittenOut{Key: ckey, Slot: 0}))
		}},
		"consumer.offset ahead of what is durable": {"INV-14", func(_ *sim.World, _ *Node, see see) {
			see(consumer(committer.Levelled{Key: ckey, Frontier: 0}))
		}},
		"consumer.offset levelled too often": {"INV-14", func(w *sim.World, _ *Node, see see) {
			see(consumer(committer.Levelled{Key: ckey, Frontier: -1}))
			w.Env().Sleep(20 * time.Second)
			see(consumer(committer.Levelled{Key: ckey, Frontier: -1}))
		}},
		"a tick too late": {"INV-08", func(w *sim.World, _ *Node, see see) {
			see(consumer(committer.TickDone{}))
			w.Env().Sleep(200 * time.Millisecond)
			see(consumer(committer.TickDone{}))
		}},
		"an old ack undone by a process crash": {"INV-08", func(w *sim.World, n *Node, see see) {
			see(stored(5), open(-1))
			see(ackedFirst(1)...)
			n.AckReturned("t", inflight.Handle{Nonce: spread(1)})
			for range 3 {
				w.Env().Sleep(100 * time.Millisecond)
				see(consumer(committer.TickDone{})) // the committer wrote nothing
			}
			n.Crashed(sim.ProcessCrash, disk.Report{})
			n.Listen()(open(-1))
		}},
		"an old ack undone by a power loss": {"INV-09", func(w *sim.World, n *Node, see see) {
			see(stored(5), open(-1))
			see(ackedFirst(1)...)
			n.AckReturned("t", inflight.Handle{Nonce: spread(1)})
			for range 12 {
				w.Env().Sleep(100 * time.Millisecond)
				see(consumer(committer.TickDone{}))
			}
			n.Crashed(sim.PowerFailure, disk.Report{})
			n.Listen()(open(-1))
		}},
		"a lease that nobody releases": {"INV-23", func(_ *sim.World, n *Node, see see) {
			see(stored(5), open(-1), engine.Leased{Key: key, Lease: inflight.Lease{Nonce: spread(1), Expiry: env.Instant(time.Second)}, HW: 5})
			n.Redelivery(env.Instant(2100 * time.Millisecond))
		}},
		"a waiter that nobody serves": {"INV-17", func(w *sim.World, n *Node, see see) {
			see(stored(5), open(-1), engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 1)})
			n.Quiet(w.Now())
		}},
		"a pinned waiter that nobody serves": {"INV-17", func(w *sim.World, n *Node, see see) {
			see(stored(5), open(-1), engine.WaiterJoined{Waiter: waiting(0, 1)})
			n.Quiet(w.Now())
		}},
		"a lease that nobody was given": {"INV-18", func(w *sim.World, n *Node, see see) {
			see(stored(5), open(-1), leased(0, 1))
			n.Quiet(w.Now())
		}},
		"a lease that two were given": {"INV-18", func(_ *sim.World, _ *Node, see see) {
			see(stored(5), open(-1), leased(0, 1), engine.Delivered{Key: key, Nonce: spread(1)}, engine.Delivered{Key: key, Nonce: spread(1)})
		}},
		"a handle that was never good": {"INV-18", func(_ *sim.World, _ *Node, see see) {
			see(stored(5), open(-1), leased(0, 1), engine.Delivered{Key: key, Nonce: spread(1), At: env.Instant(time.Second)})
		}},
		"a later waiter before an earlier one": {"INV-19", func(_ *sim.World, _ *Node, see see) {
			see(engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 1)}, engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 2)},
				engine.WaiterServed{Waiter: waiting(engine.AnyPartition, 2)})
		}},
		"a waiter put back behind others": {"INV-19", func(_ *sim.World, _ *Node, see see) {
			see(engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 1)}, engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 2)},
				engine.PumpPutBack{Waiter: waiting(engine.AnyPartition, 2)})
		}},
		"a shared waiter before a pinned one": {"INV-19", func(_ *sim.World, _ *Node, see see) {
			pumped := leased(0, 1)
			pumped.Handout = engine.HandoutPump
			see(stored(5), open(-1), engine.WaiterJoined{Waiter: waiting(0, 1)}, engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 2)},
				engine.PumpPass{Topic: "t"}, pumped, engine.WaiterServed{Waiter: waiting(engine.AnyPartition, 2)})
		}},
		"one record overtakes another": {"ORD-02", func(_ *sim.World, _ *Node, see see) {
			see(log(wal.BatchSynced{First: 1, Next: 4}), engine.Dispatched{Key: key, Seq: 2}, engine.Dispatched{Key: key, Seq: 1, Offset: 1})
		}},
		"stranded for no reason": {"INV-25", func(_ *sim.World, _ *Node, see see) {
			see(consumer(committer.Stranded{Key: ckey}))
		}},
		"corrupt for no reason": {"INV-02", func(_ *sim.World, _ *Node, see see) {
			see(engine.CorruptSkipped{Key: key})
		}},
	} {
		t.Run(name, func(t *testing.T) { notices(t, c.invariant, c.feed) })
	}
}

// What the windows of the contract allow is no violation.
func TestRecentAcksMayComeBack(t *testing.T) {
	require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(stored(5), open(-1), consumer(committer.TickDone{}))
		w.Env().Sleep(100 * time.Millisecond)
		see(consumer(committer.TickDone{}))
		see(ackedFirst(1)...)
		n.AckReturned("t", inflight.Handle{Nonce: spread(1)})
		w.Env().Sleep(50 * time.Millisecond)
		n.Crashed(sim.ProcessCrash, disk.Report{})
		n.Listen()(open(-1))
		require.Len(t, n.Causes, 0)
		n.Listen()
	}))
}

func TestMessages(t *testing.T) {
	m := &Messages{}
	id, payload := m.New("n1", "t", 50)
	deliver := func(node, topic string, offset int64, payload []byte) error {
		_, err := m.Delivered(node, &engine.Delivery{Topic: topic, Offset: offset, Payload: payload})
		return err
	}
	violates := func(err error) {
		t.Helper()
		var v *model.Violation
		require.True(t, errors.As(err, &v), "%v", err)
	}
	violates(deliver("n1", "t", 0, payload)) // before it was produced
	m.Attempted(id)
	violates(deliver("n1", "t", 0, []byte("m000000001 x")))
	violates(deliver("n1", "t", 0, []byte("?")))
	violates(deliver("n2", "t", 0, payload))
	violates(deliver("n1", "u", 0, payload))
	spoilt := append([]byte{}, payload...)
	spoilt[20] ^= 1
	violates(deliver("n1", "t", 0, spoilt))
	require.NoError(t, deliver("n1", "t", 0, payload))
	require.NoError(t, m.Lost(), "nobody was told that it is accepted")
	m.Accepted(id)
	violates(m.Lost())
	m.Acked(id, false)
	require.NoError(t, m.Lost(), "an ack without an answer may have landed")
}

// What is allowed at rest: nobody waits, or there is nothing for who waits, or a cap withholds it, or it was answered.
func TestRestIsAllowed(t *testing.T) {
	require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(stored(1), open(-1), engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 1)}, engine.WaiterLeft{Waiter: waiting(engine.AnyPartition, 1)})
		n.Quiet(w.Now())
		only := leased(0, 1)
		only.HW = 1
		see(only, engine.Delivered{Key: key, Nonce: spread(1)}, engine.WaiterJoined{Waiter: waiting(engine.AnyPartition, 2)})
		n.Quiet(w.Now())
		see(engine.Settled{Key: key, Nonce: spread(1)})
		n.Quiet(w.Now())
	}))
}

func TestBatch(t *testing.T) {
	at := func(partition int32, offset int64) *engine.Delivery {
		return &engine.Delivery{Partition: partition, Offset: offset, Payload: []byte("x")}
	}
	big := &engine.Delivery{Offset: 1, Payload: make([]byte, engine.MaxConsumeBytes)}
	require.NoError(t, Batch([]*engine.Delivery{at(0, 5), at(1, 2), at(1, 3), at(0, 6)}, 4, 0), "the first may be from the wait")
	require.NoError(t, Batch([]*engine.Delivery{at(0, 0), big}, 4, 2))
	for name, answers := range map[string][]*engine.Delivery{
		"nothing":      nil,
		"too many":     {at(0, 1), at(0, 2), at(0, 3), at(0, 4)},
		"out of order": {at(0, 2), at(0, 1)},
		"rotating":     {at(2, 0), at(0, 1), at(1, 1), at(0, 2)},
		"too large":    {big, at(0, 2)},
	} {
		var v *model.Violation
		require.ErrorAs(t, Batch(answers, 3, 0), &v, name)
		require.Equal(t, "INV-28", v.Invariant)
	}
	require.Error(t, Batch([]*engine.Delivery{at(0, 1), at(0, 2)}, 10, 1), "more than fit")
}

// spread makes a nonce of a small number that tells nothing of the next one.
func spread(number int64) int64 { return number << 32 }
