package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/inflight"
	"narad/internal/cleanmark"
	"narad/segment"
	"narad/sim"
	"narad/vfs"
	"narad/wal"
)

// WAL-04, INF-09, API-03: a message is produced, delivered with a handle, acked, and gone for good.
func TestStory(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "hello")
		d := l.mustConsume("t")
		require.Equal(t, "hello", string(d.Payload))
		require.EqualValues(t, 0, d.Offset)
		require.NoError(t, l.ack(d))
		require.ErrorIs(t, l.ack(d), ErrLeaseGone, "INF-15: a second ack is gone")
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// REC-07, REC-08, DEL-14, FAIL-31: after a graceful stop acked messages stay settled and leased ones come back.
func TestGracefulRestart(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a", "b", "c")
		a, b, c := l.mustConsume("t"), l.mustConsume("t"), l.mustConsume("t")
		require.NoError(t, l.ack(a))
		require.NoError(t, l.ack(c))
		l.close()
		l.m.PowerLoss() // a graceful stop leaves nothing to lose
		l.mustBoot()
		require.Contains(t, l.events, Event(Opened{Clean: true}))
		again := l.mustConsume("t")
		require.Equal(t, b.Offset, again.Offset)
		require.ErrorIs(t, l.ack(b), ErrLeaseGone, "INF-24, FAIL-37: a handle from before the restart is void")
		require.NoError(t, l.ack(again))
		_, err := l.consume("t", 0)
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// REC-04, REC-05, INF-07: a process crash forgets leases and at most about one tick of acks.
func TestProcessCrash(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a", "b")
		a, b := l.mustConsume("t"), l.mustConsume("t")
		require.NoError(t, l.ack(a))
		l.sleep(300 * time.Millisecond) // two ticks and the prime
		l.m.CrashProcess()
		l.mustBoot()
		require.Contains(t, l.events, Event(Opened{Clean: false}))
		again := l.mustConsume("t") // at once, although b's lease would have lived
		require.Equal(t, b.Offset, again.Offset)
	})
}

// REC-06, DEL-08: a power loss forgets at most the acks of about D + T + one sync.
func TestPowerLoss(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a", "b")
		require.NoError(t, l.ack(l.mustConsume("t")))
		l.sleep(1300 * time.Millisecond)
		l.m.PowerLoss()
		l.mustBoot()
		require.Equal(t, "b", string(l.mustConsume("t").Payload))
	})
}

// FAIL-12, WAL-03: whatever operation a crash hits, a message with a 202 is delivered afterwards.
func TestCrashAtEveryOperation(t *testing.T) {
	for _, kind := range []sim.CrashKind{sim.ProcessCrash, sim.PowerFailure} {
		for n := 1; ; n++ {
			struck := false
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.topic(one(0))
				l.m.ArmCrash(kind, n)
				accepted := false
				l.proc.Call("produce", env.Forever, func() {
					accepted = l.engine.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("m")}) == nil
				})
				l.proc.WaitUntil(l.w.Now().Add(100 * time.Millisecond)) // let it be dispatched
				struck = !l.proc.Alive()
				if !struck {
					return
				}
				l.mustBoot()
				d, err := l.consume("t", time.Second)
				if accepted || err == nil {
					require.NoError(t, err)
					require.Equal(t, "m", string(d.Payload))
				}
			})
			if !struck {
				require.Greater(t, n, 10, "the story has more operations than that")
				break
			}
		}
	}
}

// A creation that a crash interrupts anywhere leaves a node that starts, and a name that can be created.
func TestCreateTopicCrashAtEveryOperation(t *testing.T) {
	for _, kind := range []sim.CrashKind{sim.ProcessCrash, sim.PowerFailure} {
		for n := 1; ; n++ {
			struck := false
			inWorld(t, func(l *lab) {
				l.mustBoot()
				l.m.ArmCrash(kind, n)
				created := false
				l.proc.Call("create", env.Forever, func() {
					_, err := l.engine.CreateTopic(one(0))
					created = err == nil
				})
				struck = !l.proc.Alive()
				l.m.Disarm()
				if !struck {
					return
				}
				l.mustBoot()
				l.call(func(e *Engine) {
					_, err := e.CreateTopic(one(0))
					if created {
						require.ErrorIs(t, err, ErrTopicExists)
					} else if err != nil {
						require.ErrorIs(t, err, ErrTopicExists)
					}
				})
				l.produce("t", "x")
				require.Equal(t, "x", string(l.mustConsume("t").Payload))
			})
			if !struck {
				require.Greater(t, n, 10)
				break
			}
		}
	}
}

// WAL-10, WAL-11, WAL-12, WAL-29, FAIL-19, FAIL-20: a failed ingress log refuses all produces until a restart, consumes go on,
// and what had a 202 is still there.
func TestIngressLogFails(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "before")
		require.Equal(t, "before", string(l.mustConsume("t").Payload))
		l.produce("t", "second")
		failed := func() (err error) {
			l.call(func(e *Engine) {
				in := e.Ingress()
				err = in.Failed
				require.LessOrEqual(t, in.Checkpoint, in.Next)
				require.EqualValues(t, 3, in.Next)
			})
			return err
		}
		require.NoError(t, failed())
		l.m.SetFaults(sim.FaultPlan{SyncLost: 1_000_000, Only: named(".wal")})
		l.call(func(e *Engine) {
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Payload: []byte("x")}), ErrProduceFailed)
		})
		l.m.SetFaults(sim.FaultPlan{})
		l.call(func(e *Engine) {
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Payload: []byte("y")}), ErrProduceFailed, "freeing the disk does not help")
		})
		var latched *wal.FailedError
		require.ErrorAs(t, failed(), &latched)
		require.Equal(t, "second", string(l.mustConsume("t").Payload))
		l.m.CrashProcess()
		l.mustBoot()
		l.call(func(e *Engine) { require.NoError(t, e.Ingress().Failed) })
		l.produce("t", "after")
		seen := map[string]bool{}
		for range 3 {
			d := l.mustConsume("t")
			seen[string(d.Payload)] = true
		}
		require.True(t, seen["before"] && seen["second"], "%v", seen)
	})
}

// LOG-25, WAL-27, Q-64: a partition log whose sync fails is reopened, and the commit is tried again until it holds.
func TestPartitionLogFails(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.m.SetFaults(sim.FaultPlan{SyncLost: 1_000_000, Only: named(".log")})
		l.produce("t", "a")
		l.sleep(time.Second)
		require.Greater(t, count[DispatchFailed](l), 1)
		_, err := l.consume("t", 0)
		require.Error(t, err, "nothing is visible that is not durable")
		l.m.SetFaults(sim.FaultPlan{})
		require.Equal(t, "a", string(l.mustConsume("t").Payload))
	})
}

// named limits faults to files of a kind.
func named(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// API-15, INF-25, INF-42, Q-56: handles that name nothing, or nothing of this topic.
func TestHandlesThatNameNothing(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.produce("t", "a")
		d := l.mustConsume("t")
		l.call(func(e *Engine) {
			guess := d.Handle
			guess.Nonce++
			for _, h := range []inflight.Handle{guess, {Partition: 7, Offset: 0, Nonce: 1}, {Partition: 0, Offset: 99, Nonce: 1}, {Partition: -1}} {
				require.ErrorIs(t, e.Ack("t", h), ErrLeaseGone)
				require.ErrorIs(t, e.Extend("t", h), ErrLeaseGone)
				require.ErrorIs(t, e.Nack("t", h), ErrLeaseGone)
			}
			require.ErrorIs(t, e.Ack("other", d.Handle), ErrTopicNotFound)
		})
		require.NoError(t, l.ack(d), "the real lease was not touched")
	})
}

// WAL-24, Q-47: keys stick to a partition, explicit choices are honoured, the rest goes round.
func TestPartitionChoice(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 4})
		of := map[string]int32{}
		l.call(func(e *Engine) {
			send := func(m Message) {
				m.Topic = "t"
				require.NoError(t, e.Produce(m))
			}
			for i := range 8 {
				send(Message{Partition: AnyPartition, Key: []byte("k"), Payload: fmt.Append(nil, "key", i)})
				send(Message{Partition: int32(i % 4), Key: []byte("k"), Payload: fmt.Append(nil, "explicit", i)})
				send(Message{Partition: AnyPartition, Payload: fmt.Append(nil, "free", i)})
			}
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Partition: 4, Payload: []byte("x")}), ErrInvalid)
		})
		for range 24 {
			d := l.mustConsume("t")
			of[string(d.Payload)] = d.Partition
		}
		perPartition := map[int32]int{}
		for i := range 8 {
			require.Equal(t, of["key0"], of[fmt.Sprint("key", i)])
			require.EqualValues(t, i%4, of[fmt.Sprint("explicit", i)])
			perPartition[of[fmt.Sprint("free", i)]]++
		}
		require.Equal(t, map[int32]int{0: 2, 1: 2, 2: 2, 3: 2}, perPartition)
	})
}

func TestProduceBounds(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(one(0))
		l.call(func(e *Engine) {
			require.ErrorIs(t, e.Produce(Message{Topic: "t"}), ErrInvalid)
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Payload: make([]byte, MaxPayload+1)}), ErrTooLarge)
			require.ErrorIs(t, e.Produce(Message{Topic: "t", Key: make([]byte, MaxKey+1), Payload: []byte("x")}), ErrTooLarge)
			require.ErrorIs(t, e.Produce(Message{Topic: "none", Payload: []byte("x")}), ErrTopicNotFound)
			require.NoError(t, e.Produce(Message{Topic: "t", Payload: make([]byte, MaxPayload)}))
		})
		require.Len(t, l.mustConsume("t").Payload, MaxPayload)
	})
}

func TestTopics(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.call(func(e *Engine) {
			for _, bad := range []TopicSpec{
				{Name: ""}, {Name: ".."}, {Name: "a/b"}, {Name: strings.Repeat("x", 201)},
				{Name: "x", Partitions: -1}, {Name: "x", Partitions: MaxPartitions + 1}, {Name: "x", Visibility: time.Nanosecond},
				{Name: "x", RetentionMs: 1}, {Name: "x", MaxInFlight: -1}, {Name: "x", MaxAckedAhead: -1},
			} {
				_, err := e.CreateTopic(bad)
				require.ErrorIs(t, err, ErrInvalid, "%+v", bad)
			}
			made, err := e.CreateTopic(TopicSpec{Name: "Orders"})
			require.NoError(t, err)
			require.EqualValues(t, 3, made.Partitions)
			require.EqualValues(t, 30_000, made.VisibilityMs, "TIM-05, CFG-03")
			require.EqualValues(t, 1024, made.MaxInFlight, "CFG-05")
			require.EqualValues(t, 1024, made.MaxAckedAhead, "CFG-04")
			require.Len(t, made.ID, 16)
			for _, name := range []string{"Orders", "orders"} {
				_, err = e.CreateTopic(TopicSpec{Name: name})
				require.ErrorIs(t, err, ErrTopicExists)
			}
			_, err = e.CreateTopic(TopicSpec{Name: "a"})
			require.NoError(t, err)
			got, err := e.Topic("Orders")
			require.NoError(t, err)
			require.Equal(t, made, got)
		})
		l.m.PowerLoss()
		l.mustBoot()
		l.call(func(e *Engine) {
			list := e.Topics("", 10)
			require.Len(t, list, 2, "a topic exists durably when its creation returns")
			require.Equal(t, "Orders", list[0].Name)
			require.Len(t, e.Topics("Orders", 10), 1)
		})
	})
}

// The rest runs on the operating system's disk.

func openReal(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := Open(dir, Options{})
	require.NoError(t, err)
	return e
}

func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	e := openReal(t, dir)
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.Close(), ErrClosed)
	require.ErrorIs(t, e.Produce(Message{Topic: "t", Payload: []byte("x")}), ErrClosed)
	require.NoError(t, openReal(t, dir).Close())
}

func TestOpenRefusesWhatItCannotServe(t *testing.T) {
	dir := t.TempDir()
	e := openReal(t, dir)
	_, err := e.CreateTopic(TopicSpec{Name: "t"})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	topic := filepath.Join(dir, "topics", "t")
	marker := filepath.Join(topic, "incarnation")
	require.NoError(t, os.WriteFile(marker, []byte("0123456789abcdef"), 0o600))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "belongs to incarnation")
	require.NoError(t, os.RemoveAll(topic))
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "snapshot")
}

func TestOptions(t *testing.T) {
	for _, bad := range []Options{
		{CommitInterval: time.Millisecond}, {CommitInterval: time.Hour}, {SegmentBytes: 1}, {WALSegmentBytes: 1},
		{MaxConsumerFiles: -1}, {DispatchWindow: -1}, {IdleAfter: time.Millisecond},
	} {
		_, err := Open(t.TempDir(), bad)
		require.ErrorIs(t, err, ErrInvalid, "%+v", bad)
	}
	require.NoError(t, Options{CommitInterval: 10 * time.Millisecond}.Validate(), "CFG-01")
	require.NoError(t, Options{CommitInterval: time.Minute}.Validate(), "CFG-01")
}

// rottenMiddle returns a data directory whose topic t holds three messages in partition 0, each of its own commit, the second of
// which has rotted.
func rottenMiddle(t *testing.T, spec TopicSpec) (dir string) {
	t.Helper()
	dir = t.TempDir()
	e := openReal(t, dir)
	_, err := e.CreateTopic(spec)
	require.NoError(t, err)
	for i := range 3 { // one commit each: wait until it is visible
		require.NoError(t, e.Produce(Message{Topic: "t", Payload: fmt.Append(nil, "message ", i)}))
		require.Eventually(t, func() bool {
			s, err := e.Stats("t")
			return err == nil && s[0].HighWatermark == int64(i+1)
		}, 10*time.Second, time.Millisecond)
	}
	require.NoError(t, e.Close())
	file := filepath.Join(dir, "topics", "t", "p00000", fmt.Sprintf("%020d.log", 0))
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	raw[strings.Index(string(raw), "message 1")] ^= 1
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	return dir
}

// LOG-11, LOG-12, INF-35: a record that can never be read costs itself, its neighbours are delivered, and the frontier
// passes it.
func TestCorruptRecordIsSkipped(t *testing.T) {
	dir := rottenMiddle(t, TopicSpec{Name: "t", Partitions: 1})
	var skipped []int64
	e, err := Open(dir, Options{Listener: func(v Event) {
		if s, ok := v.(CorruptSkipped); ok {
			skipped = append(skipped, s.Offset)
		}
	}})
	require.NoError(t, err)
	var got []string
	for {
		d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
		if errors.Is(err, ErrEmpty) {
			break
		}
		require.NoError(t, err)
		got = append(got, string(d.Payload))
		require.NoError(t, e.Ack("t", d.Handle))
	}
	require.Equal(t, []string{"message 0", "message 2"}, got)
	require.Equal(t, []int64{1}, skipped)
	s, err := e.Stats("t")
	require.NoError(t, err)
	require.EqualValues(t, 2, s[0].Committed)
	require.NoError(t, e.Close())
}

// Q-04, AVL-16 (BUG-150): consumer state from beyond the end of the log, as a volume restored in parts has, settles
// nothing that is produced afterwards, not even when the first thing to touch the partition is a commit.
func TestConsumerStateBeyondTheLog(t *testing.T) {
	dir := t.TempDir()
	e := openReal(t, dir)
	_, err := e.CreateTopic(TopicSpec{Name: "t", Partitions: 1})
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, e.Produce(Message{Topic: "t", Payload: fmt.Append(nil, "old ", i)}))
	}
	for range 5 {
		d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0, Wait: 10 * time.Second})
		require.NoError(t, err)
		require.NoError(t, e.Ack("t", d.Handle))
	}
	require.NoError(t, e.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "topics", "t", "p00000", fmt.Sprintf("%020d.log", 0))))

	e = openReal(t, dir) // the bounds of the log say how far it went
	var short *segment.DamageError
	_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
	require.ErrorAs(t, err, &short)
	require.NoError(t, e.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, "topics", "t", "p00000", segment.BoundsFile)))

	e = openReal(t, dir) // and so did the graceful stop
	var damaged *CorruptError
	_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
	require.ErrorAs(t, err, &damaged)
	require.Contains(t, damaged.File, "topics/t/p00000")
	require.NoError(t, e.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, cleanmark.Name))) // an operator accepts the loss

	var clamped []FrontierClamped
	e, err = Open(dir, Options{Listener: func(v Event) {
		if c, ok := v.(FrontierClamped); ok {
			clamped = append(clamped, c)
		}
	}})
	require.NoError(t, err)
	for i := range 5 {
		require.NoError(t, e.Produce(Message{Topic: "t", Payload: fmt.Append(nil, "new ", i)}))
	}
	log, err := e.topics["t"].partitions()[0].openLog()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return log.HighWatermark() == 5 }, time.Minute, time.Millisecond)
	for i := range 5 {
		d, err := e.Consume(&ConsumeRequest{Topic: "t", Partition: 0})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("new ", i), string(d.Payload))
	}
	require.Equal(t, []FrontierClamped{{Key{"t", 0}, 4, 0}}, clamped)
	require.NoError(t, e.Close())
}

// A graceful stop says how far the logs went, so that a file which was cut between two frames, or whose last frame rotted, is
// not taken for what a crash leaves.
func TestCleanMark(t *testing.T) {
	dir := t.TempDir()
	e := openReal(t, dir)
	_, err := e.CreateTopic(TopicSpec{Name: "t", Partitions: 2})
	require.NoError(t, err)
	require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("kept")}))
	_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 0, Wait: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	require.NoError(t, openReal(t, dir).Close()) // the partition is not opened, what is known of it is kept

	mark := filepath.Join(dir, cleanmark.Name)
	raw, err := os.ReadFile(mark)
	require.NoError(t, err)
	m, err := cleanmark.Decode(raw)
	require.NoError(t, err)
	require.Len(t, m.Partitions, 1)
	require.EqualValues(t, 1, m.Partitions[0].HighWatermark)
	require.EqualValues(t, 2, m.WALNext)
	for i := range raw { // damaged anywhere, it is no mark
		raw[i] ^= 1
		_, err := cleanmark.Decode(raw)
		require.Error(t, err, "byte %d", i)
		_, err = cleanmark.Decode(raw[:i])
		require.Error(t, err)
		raw[i] ^= 1
	}

	wal := filepath.Join(dir, "ingress", "produce", fmt.Sprintf("%020d.wal", 1))
	whole, err := os.ReadFile(wal)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(wal, nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "ingress", "produce", "checkpoint")))
	var damaged *CorruptError
	for range 2 { // and again: nothing was forgotten
		_, err = Open(dir, Options{})
		require.ErrorAs(t, err, &damaged)
	}
	require.NoError(t, os.WriteFile(wal, whole, 0o600))
	require.NoError(t, openReal(t, dir).Close())
}

// Once the gate is closed and waited for, nobody is inside, and nobody comes in.
func TestGate(t *testing.T) {
	for range 50 {
		var g gate
		g.init(env.OS())
		var inside atomic.Int64
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for g.enter() {
					inside.Add(1)
					runtime.Gosched()
					inside.Add(-1)
					g.leave()
				}
			})
		}
		var closed atomic.Int64
		for range 2 {
			group.Go(func() {
				if g.close() {
					closed.Add(1)
				}
				g.wait()
				if n := inside.Load(); n != 0 {
					t.Errorf("%d calls are inside", n)
				}
				if g.enter() || !g.isClosed() {
					t.Error("it is open")
				}
			})
		}
		group.Wait()
		require.Equal(t, int64(1), closed.Load())
	}
}
