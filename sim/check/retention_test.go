package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/sim/model"
	"narad/wal"
)

// aging is watched for a topic with a retention of an hour, in a world of hours. Its records are stamped when they are told.
func aging(t *testing.T, feed func(a *ages)) error {
	w := sim.New(sim.Options{Seed: 1})
	m := w.Machine("n1", sim.MachineConfig{})
	a := &ages{Node: New(Config{World: w, Machine: m, Interval: time.Second, Messages: &Messages{}})}
	a.topic = engine.Topic{Name: "t", Partitions: 1, VisibilityMs: 1000, MaxInFlight: 10, MaxAckedAhead: 10, RetentionMs: 3_600_000}
	a.Topic(a.topic)
	w.Go("feed", func() {
		a.boot()
		feed(a)
	})
	return w.Run(100 * time.Hour)
}

type ages struct {
	*Node
	topic engine.Topic
	tell  func(engine.Event)
}

func (a *ages) boot() {
	a.tell = a.Listen()
	a.tell(engine.TopicOpened{Topic: a.topic})
	a.tell(engine.Opened{})
}

func (a *ages) log(v segment.Event) { a.tell(engine.Log{Key: key, Event: v}) }

func (a *ages) commit(base, next int64) {
	a.log(segment.Committed{Base: base, Next: next, StampMs: int64(a.Machine.Wall()) / int64(time.Millisecond)})
}

func (a *ages) confirm(next int64) {
	for o := range next {
		a.tell(engine.Dispatched{Key: key, Seq: uint64(o) + 1, Offset: o})
	}
}

func (a *ages) remove(oldest int64) {
	a.log(segment.Removed{Oldest: oldest})
	a.tell(engine.RetentionRemoved{Key: key, Segments: 1, Records: 1, Oldest: oldest})
}

func (a *ages) pass(d time.Duration) { a.World.Env().Sleep(d) }

// Every rule of INV-29 is seen to be broken.
func TestRetentionViolations(t *testing.T) {
	for name, feed := range map[string]func(a *ages){
		"removed early": func(a *ages) {
			a.commit(0, 1)
			a.pass(59 * time.Minute)
			a.remove(1)
		},
		"removed with a younger one": func(a *ages) {
			a.commit(0, 1)
			a.pass(30 * time.Minute)
			a.commit(1, 2)
			a.pass(40 * time.Minute)
			a.remove(2)
		},
		"removed early after a jump of the clock": func(a *ages) {
			a.commit(0, 1)
			a.pass(30 * time.Minute)
			a.Machine.JumpWall(time.Hour)
			a.remove(1)
		},
		"kept for too long": func(a *ages) {
			a.commit(0, 1)
			a.pass(2*time.Hour + 16*time.Minute)
			a.Kept()
		},
		"a jump without a gap": func(a *ages) {
			a.commit(0, 3)
			a.tell(open(-1))
			a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 2})
		},
		"a jump to somewhere else": func(a *ages) {
			a.gap()
			a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 1})
		},
		"a jump past the oldest": func(a *ages) {
			a.gap()
			a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 3})
		},
		"a jump from somewhere else": func(a *ages) {
			a.gap()
			a.tell(engine.FrontierJumped{Key: key, From: 0, Oldest: 2})
		},
		"a jump twice": func(a *ages) {
			a.gap()
			a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 2})
			a.tell(engine.FrontierJumped{Key: key, From: 1, Oldest: 2})
		},
		"a jump that a graceful stop lost": func(a *ages) {
			a.gap()
			a.confirm(3)
			a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 2})
			a.Stopped()
			a.boot()
			a.log(segment.Recovered{Oldest: 2, Next: 3})
			a.tell(open(0))
		},
		"a completed removal undone": func(a *ages) {
			a.gap()
			a.Crashed(sim.PowerFailure, disk.Report{})
			a.boot()
			a.log(segment.Recovered{Oldest: 0, Next: 3})
		},
		"more gone than was removed": func(a *ages) {
			a.gap()
			a.Crashed(sim.PowerFailure, disk.Report{})
			a.boot()
			a.log(segment.Recovered{Oldest: 3, Next: 3})
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, aging(t, feed), "INV-29")
		})
	}
}

// gap is a log of three records of which two were removed, and a shard that has seen none.
func (a *ages) gap() {
	a.commit(0, 2)
	a.pass(61 * time.Minute)
	a.commit(2, 3)
	a.tell(open(-1))
	a.remove(2)
}

// What is allowed passes: the gap is crossed once, its leases end, its messages are excused.
func TestRetentionIsAllowed(t *testing.T) {
	require.NoError(t, aging(t, func(a *ages) {
		id, _ := a.Messages.New("n1", "t", 10)
		second, _ := a.Messages.New("n1", "t", 10)
		other, _ := a.Messages.New("n1", "t", 10)
		a.tell(log(wal.BatchSynced{First: 1, Next: 4}))
		for i, m := range []int{id, second, other} {
			a.Messages.list[m].accepted = true
			a.tell(engine.Accepted{Key: key, Seq: uint64(i) + 1})
			a.AcceptedAs("t", []int{m})
		}
		a.log(segment.Committed{Next: 2, StampMs: int64(a.Machine.Wall()) / int64(time.Millisecond)})
		a.tell(engine.Dispatched{Key: key, Seq: 1, Offset: 0})
		a.tell(engine.Dispatched{Key: key, Seq: 2, Offset: 1})
		a.tell(open(-1))
		a.tell(engine.Leased{Key: key, Lease: inflight.Lease{Nonce: spread(1), Expiry: env.Instant(time.Second)}, HW: 2})
		a.pass(61 * time.Minute)
		a.Kept()
		a.log(segment.Committed{Base: 2, Next: 3, StampMs: int64(a.Machine.Wall()) / int64(time.Millisecond)})
		a.tell(engine.Dispatched{Key: key, Seq: 3, Offset: 2})
		a.remove(2)
		a.tell(engine.FrontierJumped{Key: key, From: -1, Oldest: 2})
		now := a.World.Now()
		a.tell(engine.Leased{Key: key, Lease: inflight.Lease{Offset: 2, Nonce: spread(2), Expiry: now.Add(time.Second)}, At: now, HW: 3, Oldest: 2})
		a.tell(engine.Settled{Key: key, Offset: 2, Nonce: spread(2), Committed: 2, At: now})
		a.Client(1, "t", inflight.Handle{Offset: 2, Nonce: spread(2)}, model.OpAck, int64(now), int64(now), model.OK)
		a.pass(time.Second)
		a.Stopped()
		a.boot()
		a.log(segment.Recovered{Oldest: 2, Next: 3})
		a.tell(open(2))
		if v := a.Histories(time.Second); v.Illegal != nil {
			a.World.Fail(v.Illegal)
		}
		a.Expire()
		require.True(t, a.Messages.list[id].expired)
		require.True(t, a.Messages.list[second].expired)
		require.False(t, a.Messages.list[other].expired)
		require.ErrorContains(t, a.Messages.Lost(), "INV-02: message 2 ")
		require.Equal(t, Gone{Segments: 1, Records: 1, Jumps: 1, Messages: 2}, a.Removed)
	}))
}
