package engine

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
)

// Quiet partitions, the retention gap, and what consumer state is rebuilt from: on the engine, in virtual time.

// quiet leaves one unsettled lease at the frontier and n-1 messages acked above it. It returns the lease and when it
// was taken.
func (l *lab) quiet(visibility time.Duration, n int) (hole *Delivery, taken env.Instant) {
	l.topic(one(visibility))
	for i := range n {
		l.produce("t", fmt.Sprint("m", i))
	}
	taken = l.w.Now()
	hole = l.mustConsume("t")
	for range n - 1 {
		require.NoError(l.t, l.ack(l.mustConsume("t")))
	}
	return hole, taken
}

func (l *lab) committed() (frontier int64) {
	l.call(func(e *Engine) {
		s, err := e.Stats("t")
		require.NoError(l.t, err)
		frontier = s[0].Committed
	})
	return frontier
}

// withheld counts the reservations that ended with an outcome.
func (l *lab) withheld(o inflight.Outcome) (n int) {
	for _, v := range l.events {
		if w, ok := v.(Withheld); ok && w.Outcome == o {
			n++
		}
	}
	return n
}

// REC-13, REC-14, REC-15, REC-16, REC-18, INF-30 (BUG-137): with one lease at the frontier and all above it acked, consumers get
// nothing, which is no error and is seen as all_reserved, until the lease lapses; that is one visibility timeout, whatever
// it is; then one ack of the hole clears the whole run, and nobody had to do anything.
func TestQuietPartition(t *testing.T) {
	for _, visibility := range []time.Duration{2 * time.Second, 5 * time.Second, 11 * time.Second} {
		inWorld(t, func(l *lab) {
			l.mustBoot()
			const n = 20
			hole, taken := l.quiet(visibility, n)
			require.EqualValues(t, -1, l.committed())
			for l.w.Now().Sub(taken) < visibility-100*time.Millisecond {
				_, err := l.consume("t", 0)
				require.ErrorIs(t, err, ErrEmpty)
				l.sleep(50 * time.Millisecond)
			}
			require.Positive(t, l.withheld(inflight.AllReserved))
			again, err := l.consume("t", 20*time.Second)
			require.NoError(t, err)
			require.Equal(t, hole.Offset, again.Offset)
			ended := l.w.Now().Sub(taken)
			require.GreaterOrEqual(t, ended, visibility-10*time.Millisecond)
			require.Less(t, ended, visibility+1100*time.Millisecond)
			require.NoError(t, l.ack(again))
			require.EqualValues(t, n-1, l.committed(), "the whole run at once")
			_, err = l.consume("t", 0)
			require.ErrorIs(t, err, ErrEmpty)
		})
	}
}

// REC-14, FAIL-04: the quiet window is counted from the last extend.
func TestExtendProlongsTheQuietWindow(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		hole, _ := l.quiet(3*time.Second, 4)
		l.sleep(2 * time.Second)
		extended := l.w.Now()
		l.call(func(e *Engine) { require.NoError(t, e.Extend("t", hole.Handle)) })
		again, err := l.consume("t", 20*time.Second)
		require.NoError(t, err)
		require.Equal(t, hole.Offset, again.Offset)
		require.GreaterOrEqual(t, l.w.Now().Sub(extended), 3*time.Second-10*time.Millisecond)
		require.Less(t, l.w.Now().Sub(extended), 4100*time.Millisecond)
	})
}

// REC-04, REC-13, REC-16: a crash in the quiet window ends it: the lease is forgotten, the run above is not.
func TestCrashEndsTheQuietWindow(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		hole, _ := l.quiet(20*time.Second, 10)
		l.sleep(300 * time.Millisecond)
		l.m.CrashProcess()
		l.mustBoot()
		again, err := l.consume("t", 0)
		require.NoError(t, err)
		require.Equal(t, hole.Offset, again.Offset)
		require.NoError(t, l.ack(again))
		require.EqualValues(t, 9, l.committed())
	})
}

// REC-16, REC-18: messages whose consumers die, again and again and at different times, are all delivered and acked in the end,
// with nobody but consumers doing anything.
func TestQuietWindowsLoseNothing(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(2 * time.Second))
		const n = 60
		for i := range n {
			l.produce("t", fmt.Sprint("m", i))
		}
		acked := map[string]bool{}
		for i := 0; len(acked) < n; i++ {
			require.Less(t, i, 20*n, "it does not drain: %d of %d", len(acked), n)
			d, err := l.consume("t", 5*time.Second)
			if errors.Is(err, ErrEmpty) {
				continue
			}
			require.NoError(t, err)
			require.False(t, acked[string(d.Payload)], "INV-07")
			if l.w.Choose(3) == 0 {
				continue // its consumer died
			}
			require.NoError(t, l.ack(d))
			acked[string(d.Payload)] = true
		}
		require.EqualValues(t, n-1, l.committed())
		require.Positive(t, l.withheld(inflight.AllReserved))
	})
}

// partitionDir is the only partition's directory, opened behind the node's back.
func (l *lab) partitionDir() vfs.Dir {
	dir, err := disk.FS(l.m.Disk()).OpenRoot("data/topics/t/p00000", false)
	require.NoError(l.t, err)
	return dir
}

// logs lists the segments of the only partition, oldest first.
func (l *lab) logs(dir vfs.Dir) (names []string) {
	infos, err := dir.List()
	require.NoError(l.t, err)
	for _, info := range infos {
		if strings.HasSuffix(info.Name, ".log") {
			names = append(names, info.Name)
		}
	}
	sort.Strings(names)
	return names
}

// withGap makes a topic of which retention removed all but the newest segments while no consumer was there. It returns the
// oldest offset that is left.
func (l *lab) withGap(o Options) (oldest int64) {
	o.SegmentBytes = 4096
	require.NoError(l.t, l.boot(o))
	l.topic(one(5 * time.Second))
	for i := range 40 {
		l.produce("t", fmt.Sprint("m", i)+strings.Repeat(".", 400))
		l.sleep(50 * time.Millisecond) // a commit each
	}
	l.close()
	dir := l.partitionDir()
	names := l.logs(dir)
	require.Greater(l.t, len(names), 3)
	for _, name := range names[:len(names)-2] {
		require.NoError(l.t, dir.Remove(name))
	}
	require.NoError(l.t, dir.Remove(segment.BoundsFile)) // as after retention
	require.NoError(l.t, dir.Sync())
	_, err := fmt.Sscanf(names[len(names)-2], "%d.log", &oldest)
	require.NoError(l.t, err)
	require.NoError(l.t, l.boot(o))
	return oldest
}

func jumps(l *lab) (all []FrontierJumped) {
	for _, v := range l.events {
		if j, ok := v.(FrontierJumped); ok {
			all = append(all, j)
		}
	}
	return all
}

// INF-32, INF-33, COM-60 (BUG-37, BUG-40): one consume crosses a retention gap in one step and delivers the oldest message
// that is left; the jump is told once, and persisted like an ack.
func TestRetentionGap(t *testing.T) {
	inWorld(t, func(l *lab) {
		oldest := l.withGap(Options{})
		d, err := l.consume("t", 0)
		require.NoError(t, err)
		require.Equal(t, oldest, d.Offset)
		require.True(t, strings.HasPrefix(string(d.Payload), fmt.Sprintf("m%d.", oldest)))
		require.Equal(t, []FrontierJumped{{Key{"t", 0}, -1, oldest}}, jumps(l))
		require.Equal(t, oldest-1, l.committed())
		l.sleep(300 * time.Millisecond) // nobody acked: the jump itself is persisted
		l.m.CrashProcess()
		require.NoError(t, l.boot(Options{SegmentBytes: 4096}))
		again, err := l.consume("t", 0)
		require.NoError(t, err)
		require.Equal(t, oldest, again.Offset)
		require.Len(t, jumps(l), 1, "the jump came back")
		l.sleep(1500 * time.Millisecond)
		l.m.PowerLoss()
		require.NoError(t, l.boot(Options{SegmentBytes: 4096}))
		_, err = l.consume("t", 0)
		require.NoError(t, err)
		require.Len(t, jumps(l), 1)
	})
}

// INF-34 (BUG-39): of several consumes that meet at a retention gap one jumps; the others reserve again above it, and each
// gets a message. None is told that a lease is gone: it never had a handle.
func TestConsumesMeetAtTheGap(t *testing.T) {
	lost := 0
	for seed := range uint64(20) {
		w := sim.New(sim.Options{Seed: seed})
		l := &lab{t: t, w: w}
		slow := sim.DefaultLatency()
		slow.Stalls, slow.Waits = 0, 1_000_000
		l.m = w.Machine("n1", sim.MachineConfig{Latency: slow})
		w.Go("story", func() {
			oldest := l.withGap(Options{})
			const consumers = 4
			var waits []func()
			got := make([]int64, consumers)
			for i := range consumers {
				waits = append(waits, l.start(func(e *Engine) {
					d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition, Wait: 2 * time.Second})
					if err != nil {
						t.Errorf("INF-34: a consume at the gap answered %v", err)
						return
					}
					got[i] = d.Offset
				}))
			}
			for _, wait := range waits {
				wait()
			}
			sort.Slice(got, func(i, j int) bool { return got[i] < got[j] })
			require.Equal(t, []int64{oldest, oldest + 1, oldest + 2, oldest + 3}, got)
			require.Len(t, jumps(l), 1)
			w.Stop()
		})
		require.NoError(t, w.Run(time.Hour))
		require.False(t, t.Failed(), "seed %d", seed)
		lost += count[JumpLost](l)
	}
	require.Positive(t, lost, "two consumes never met at the gap (S-25): the test proves nothing")
}

// INF-08, INF-10: consumes that come at the same time, while reads of the log are slow, claim first and read second: no two get one
// offset, and none is read for nothing.
func TestClaimComesBeforeRead(t *testing.T) {
	slow := sim.DefaultLatency()
	slow.Stalls, slow.Waits = 0, 1_000_000
	slow.Read = sim.Range{Min: 20 * time.Millisecond, Max: 60 * time.Millisecond}
	inWorldWith(t, sim.MachineConfig{Latency: slow}, func(l *lab) {
		l.mustBoot()
		l.topic(one(5 * time.Second))
		for i := range 5 {
			l.produce("t", fmt.Sprint("m", i))
			l.sleep(300 * time.Millisecond)
		}
		l.call(func(e *Engine) { // load the shard, so that the consumes meet
			_, err := e.Stats("t")
			require.NoError(t, err)
		})
		got := map[int64]int{}
		empty := 0
		var waits []func()
		for range 8 {
			waits = append(waits, l.start(func(e *Engine) {
				d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: AnyPartition})
				if errors.Is(err, ErrEmpty) {
					empty++
					return
				}
				require.NoError(t, err)
				got[d.Offset]++
			}))
		}
		for _, wait := range waits {
			wait()
		}
		require.Equal(t, map[int64]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, got)
		require.Equal(t, 3, empty)
		require.Equal(t, 5, count[Leased](l))
		require.Positive(t, l.withheld(inflight.AllReserved), "claims were out while others looked")
	})
}

// INF-22: whatever ends a lease without an ack puts the message back.
func TestEveryEndingPutsBack(t *testing.T) {
	for name, end := range map[string]func(l *lab, d *Delivery){
		"expiry": func(l *lab, d *Delivery) { l.sleep(3500 * time.Millisecond) },
		"nack":   func(l *lab, d *Delivery) { l.call(func(e *Engine) { require.NoError(l.t, e.Nack("t", d.Handle)) }) },
		"give-back": func(l *lab, d *Delivery) {
			l.call(func(e *Engine) { e.topics["t"].giveBack(d, CauseCancel) })
		},
		"crash":      func(l *lab, d *Delivery) { l.m.CrashProcess(); l.mustBoot() },
		"power loss": func(l *lab, d *Delivery) { l.m.PowerLoss(); l.mustBoot() },
		"stop":       func(l *lab, d *Delivery) { l.close(); l.mustBoot() },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.topic(one(3 * time.Second))
				l.produce("t", "a")
				d := l.mustConsume("t")
				_, err := l.consume("t", 0)
				require.ErrorIs(t, err, ErrEmpty)
				end(l, d)
				again, err := l.consume("t", 0)
				require.NoError(t, err)
				require.Equal(t, d.Offset, again.Offset)
				require.ErrorIs(t, l.ack(d), ErrLeaseGone)
				require.NoError(t, l.ack(again))
			})
		})
	}
}

// INF-41, REC-03, REC-04, REC-05 (BUG-134): after a crash the partition is rebuilt from its files and its log alone: all that was
// acked before the last tick is settled, all else is delivered at once, whoever had it leased.
func TestRebuiltFromDiskAndLog(t *testing.T) {
	for seed := range uint64(15) {
		inSeed(t, seed, func(l *lab) {
			w := l.w
			l.mustBoot()
			l.topic(one(time.Minute))
			n := 5 + w.Choose(20)
			for i := range n {
				l.produce("t", fmt.Sprint("m", i))
			}
			open := map[int64]bool{}
			for i := range n {
				open[int64(i)] = true
			}
			for range w.Choose(n + 1) {
				d := l.mustConsume("t")
				if w.Choose(3) > 0 {
					require.NoError(t, l.ack(d))
					delete(open, d.Offset)
				}
			}
			l.sleep(300 * time.Millisecond)
			l.m.CrashProcess()
			l.mustBoot()
			got := map[int64]bool{}
			for {
				d, err := l.consume("t", 0)
				if errors.Is(err, ErrEmpty) {
					break
				}
				require.NoError(t, err)
				require.False(t, got[d.Offset])
				got[d.Offset] = true
			}
			require.Equal(t, open, got)
		})
	}
}

// REC-01: starting reads no consumer state; the first consume that touches a partition reads that partition's.
func TestConsumerStateIsReadAtFirstTouch(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		for p := range int32(3) {
			l.call(func(e *Engine) {
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: p, Payload: []byte("x")}))
			})
		}
		for range 3 {
			require.NoError(t, l.ack(l.mustConsume("t")))
		}
		l.close()
		l.events = nil
		// Whoever reads consumer state now would fail.
		l.m.SetFaults(sim.FaultPlan{ReadEIO: 1_000_000, Only: func(path string) bool { return strings.Contains(path, "consumer.") }})
		l.mustBoot()
		l.sleep(3 * time.Second)
		require.Zero(t, count[ShardOpened](l))
		l.call(func(e *Engine) {
			_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 1})
			require.Error(t, err, "a consume reads it")
			require.False(t, errors.Is(err, ErrEmpty))
		})
		l.m.SetFaults(sim.FaultPlan{})
		l.call(func(e *Engine) {
			_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 1})
			require.ErrorIs(t, err, ErrEmpty)
		})
		require.Equal(t, 1, count[ShardOpened](l), "of the partition that was touched, and no other")
	})
}

// REC-02 (BUG-133): what is settled is what the partition's own files say, whatever else the node has on its disk.
func TestConsumerStateComesFromItsOwnFiles(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		for i := range 5 {
			l.produce("t", fmt.Sprint("m", i))
		}
		for range 2 {
			require.NoError(t, l.ack(l.mustConsume("t")))
		}
		var identity uint64
		l.call(func(e *Engine) { identity = e.topics["t"].partitions()[0].identity() })
		l.close()
		require.NoError(t, committer.Reseed(l.partitionDir(), identity, committer.State{Committed: 2, Ahead: []int64{4}}))
		l.mustBoot()
		require.EqualValues(t, 3, l.mustConsume("t").Offset)
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrEmpty)
		require.EqualValues(t, 2, l.committed())
	})
}

// COM-50, Q-59 (BUG-125): a slow disk under the consumer state of one partition, whose shard is being made under the create fence,
// holds up no other partition.
func TestSlowStateHoldsUpNobody(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 4})
		for p := range int32(4) {
			l.call(func(e *Engine) {
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: p, Payload: []byte("x")}))
			})
		}
		for range 4 {
			l.mustConsume("t")
		}
		l.close()
		slow := sim.DefaultLatency()
		slow.Stalls, slow.Waits = 0, 1_000_000
		slow.Read = sim.Range{Min: 4 * time.Second, Max: 4 * time.Second}
		l.mustBoot()
		l.m.SetLatency(slow)
		first := l.start(func(e *Engine) { // its reads of consumer.ahead take seconds
			_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
			require.NoError(t, err)
		})
		l.sleep(500 * time.Millisecond)
		fast := sim.DefaultLatency()
		fast.Stalls = 0
		l.m.SetLatency(fast)
		start := l.w.Now()
		for p := int32(1); p < 4; p++ {
			l.call(func(e *Engine) {
				_, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: p})
				require.NoError(t, err)
			})
		}
		require.Less(t, l.w.Now().Sub(start), time.Second)
		first()
		require.Greater(t, l.w.Now().Sub(start), time.Second, "the first one was not held up: the test proves nothing")
	})
}

// COM-02, COM-10, COM-11: with D = 100 ms there is one cadence, as in releases before the two: what was acked is on the disk
// about a tick later.
func TestSingleCadence(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{CommitInterval: 100 * time.Millisecond}))
		l.topic(one(0))
		l.produce("t", "a", "b", "c")
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.sleep(300 * time.Millisecond)
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.sleep(250 * time.Millisecond) // two ticks and a sync; with the default it would be a second
		l.m.PowerLoss()
		require.NoError(t, l.boot(Options{CommitInterval: 100 * time.Millisecond}))
		require.EqualValues(t, 2, l.mustConsume("t").Offset)
	})
	lost := 0
	for seed := range uint64(12) { // the same with the default loses it now and then: the test can tell
		inSeed(t, seed, func(l *lab) {
			l.mustBoot()
			l.topic(one(0))
			l.produce("t", "a", "b", "c")
			require.NoError(t, l.ack(l.mustConsume("t")))
			l.sleep(1300*time.Millisecond + time.Duration(seed)*100*time.Millisecond)
			require.NoError(t, l.ack(l.mustConsume("t")))
			l.sleep(250 * time.Millisecond)
			l.m.PowerLoss()
			l.mustBoot()
			if l.mustConsume("t").Offset == 1 {
				lost++
			}
		})
	}
	require.Positive(t, lost)
}
