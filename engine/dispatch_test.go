package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/segment"
	"narad/sim"
)

// only makes a fault plan strike the files of one partition of topic t.
func only(partition string) func(path string) bool {
	return func(path string) bool {
		return strings.Contains(path, "/t/"+partition+"/") && strings.HasSuffix(path, ".log")
	}
}

// dispatchedTo returns the sequence numbers that were committed to a partition, in order.
func (l *lab) dispatchedTo(partition int32) (seqs []uint64) {
	for _, v := range l.events {
		if d, ok := v.(Dispatched); ok && d.Key.Partition == partition {
			seqs = append(seqs, d.Seq)
		}
	}
	return seqs
}

func (l *lab) sendTo(partition int32, n int) {
	l.t.Helper()
	l.call(func(e *Engine) {
		for range n {
			require.NoError(l.t, e.Produce(Message{Topic: "t", Partition: partition, Payload: []byte("x")}))
		}
	})
}

// ascending requires that nothing overtook anything, and nothing was sent twice.
func ascending(t *testing.T, seqs []uint64) {
	t.Helper()
	for i := 1; i < len(seqs); i++ {
		require.Less(t, seqs[i-1], seqs[i])
	}
}

// A destination whose commit hangs gives up its slot after a second and holds nobody up; what came for it meanwhile follows in
// order, and nothing in flight is sent again (WAL-19, ORD-02).
func TestHungDestination(t *testing.T) {
	latency := sim.DefaultLatency()
	latency.Stalls, latency.Stall = 0, sim.Range{Min: 4 * time.Second, Max: 4 * time.Second}
	inWorldWith(t, sim.MachineConfig{Latency: latency}, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.sendTo(0, 1)
		l.sendTo(1, 1)
		l.sleep(time.Second)
		l.m.ArmFault(sim.Stall, sim.OpSync, "data/topics/t/p00000/00000000000000000000.log", 1)
		l.sendTo(0, 10)
		l.sleep(2 * time.Second)
		require.Equal(t, 1, count[DestinationHung](l))
		require.Len(t, l.dispatchedTo(0), 1)
		l.sendTo(0, 5)
		start := l.w.Now()
		l.sendTo(1, 3)
		l.sleep(300 * time.Millisecond)
		require.Len(t, l.dispatchedTo(1), 4)
		require.Less(t, l.w.Now().Sub(start), time.Second)
		l.sleep(5 * time.Second)
		require.Len(t, l.dispatchedTo(0), 16)
		ascending(t, l.dispatchedTo(0))
		stored, _ := l.engine.wal.Checkpoint()
		require.EqualValues(t, 21, stored)
	})
}

// A destination that fails backs off alone, keeps the checkpoint below its records, and catches up in order (WAL-15, WAL-19, WAL-27, Q-45).
func TestFailingDestination(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, Only: only("p00000")})
		l.sendTo(0, 20)
		l.sendTo(1, 20)
		l.sleep(10 * time.Second)
		require.Empty(t, l.dispatchedTo(0))
		require.Len(t, l.dispatchedTo(1), 20)
		failures := count[DispatchFailed](l)
		require.Greater(t, failures, 8)
		require.Less(t, failures, 20, "it backs off to one attempt a second")
		stored, _ := l.engine.wal.Checkpoint()
		require.EqualValues(t, 1, stored)
		require.Positive(t, count[DestinationBehind](l))
		l.m.ClearFaults()
		l.sleep(2 * time.Second)
		require.Len(t, l.dispatchedTo(0), 20)
		ascending(t, l.dispatchedTo(0))
		stored, _ = l.engine.wal.Checkpoint()
		require.EqualValues(t, 41, stored)
		require.Positive(t, count[DestinationCaughtUp](l))
	})
}

// The look-ahead past a destination that is stuck is bounded, and reading goes on where it stopped (WAL-19).
func TestLookAheadIsBounded(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{DispatchWindow: 4}))
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.m.SetFaults(sim.FaultPlan{WriteEIO: 1_000_000, Only: only("p00000")})
		l.sendTo(0, 1)
		l.sendTo(1, 200)
		l.sleep(5 * time.Second)
		require.Len(t, l.dispatchedTo(1), lookAhead*4-1)
		l.m.ClearFaults()
		l.sleep(5 * time.Second)
		require.Len(t, l.dispatchedTo(1), 200)
		require.Len(t, l.dispatchedTo(0), 1)
		ascending(t, l.dispatchedTo(1))
	})
}

// A full queue makes records pass over, never overtake.
func TestFullLaneKeepsOrder(t *testing.T) {
	inWorld(t, func(l *lab) {
		require.NoError(t, l.boot(Options{DispatchWindow: 8}))
		l.topic(TopicSpec{Name: "t", Partitions: 3})
		for range 40 {
			l.call(func(e *Engine) {
				var ms []Message
				for i := range 9 {
					ms = append(ms, Message{Partition: int32(i % 3), Payload: []byte("x")})
				}
				require.NoError(t, e.ProduceBatch("t", ms))
			})
		}
		l.sleep(10 * time.Second)
		for p := range int32(3) {
			require.Len(t, l.dispatchedTo(p), 120)
			ascending(t, l.dispatchedTo(p))
		}
		require.Positive(t, count[DestinationBehind](l), "no queue was ever full: the test proves nothing")
	})
}

// A record that fits no topic is held and reported, holds the checkpoint back and nobody else, and is dispatched once it
// fits (WAL-27).
func TestHeldRecord(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.call(func(e *Engine) {
			info, err := e.Topic("t")
			require.NoError(t, err)
			for range 2 {
				_, err = e.wal.Append(record.AppendProduce(nil, record.Produce{Topic: "t", Incarnation: info.ID, Partition: 2, Payload: []byte("early")}))
				require.NoError(t, err)
			}
			_, err = e.wal.Append([]byte("no record at all"))
			require.NoError(t, err)
		})
		l.sendTo(0, 50)
		l.sleep(3 * time.Second)
		require.Len(t, l.dispatchedTo(0), 50)
		require.Equal(t, 3, count[RecordHeld](l), "once each, however often they are tried again")
		stored, _ := l.engine.wal.Checkpoint()
		require.EqualValues(t, 1, stored)
		l.call(func(e *Engine) {
			three := 3
			_, err := e.AlterTopic("t", TopicPatch{Partitions: &three})
			require.NoError(t, err)
		})
		l.sendTo(2, 1)
		l.sleep(3 * time.Second)
		require.Equal(t, []uint64{1, 2, 54}, l.dispatchedTo(2))
		stored, _ = l.engine.wal.Checkpoint()
		require.EqualValues(t, 3, stored, "what nobody can read is never dropped")
	})
}

// The window grows with the destinations and always has room for four full ones.
func TestDispatchLimits(t *testing.T) {
	for _, c := range []struct{ option, lanes, window, each int }{
		{0, 1, 16384, 4096},
		{0, 256, 16384, 4096},
		{0, 512, 32768, 8192},
		{0, 5000, 65536, 16384},
		{100, 5000, 100, 25},
		{1, 1, 1, 1},
	} {
		d := &dispatcher{engine: &Engine{opts: Options{DispatchWindow: c.option}}, all: make([]*lane, c.lanes)}
		window, each := d.limits()
		require.Equal(t, []int{c.window, c.each}, []int{window, each}, "%+v", c)
	}
}

// standIn is a destination for what does not deliver.
type standIn struct {
	destination
	wanted    bool
	gathering int
}

func (s *standIn) awaited(env.Instant) bool { return s.wanted }
func (s *standIn) gathers(by int)           { s.gathering += by }

// WAL-23: where somebody waits, records gather only while other commits run, for twice as long as a commit takes, at most 50 ms.
func TestLinger(t *testing.T) {
	d := &dispatcher{}
	l := &lane{latency: 10 * time.Millisecond, dest: &standIn{wanted: true}}
	l.push(pending{at: 1000})
	due := func() env.Instant { return d.dueAt(l, 1000) }
	require.Equal(t, always, due(), "nothing else runs")
	d.running = 1
	require.Equal(t, env.Instant(1000).Add(20*time.Millisecond), due())
	l.latency = time.Second
	require.Equal(t, env.Instant(1000).Add(lingerMax), due())
	l.latency = 0
	require.LessOrEqual(t, due(), env.Instant(1000), "how long its commits take is not known")
	l.latency = time.Second
	for range lingerRecords - 1 {
		l.push(pending{at: 1000})
	}
	require.Equal(t, always, due(), "enough have gathered")
	l.failed(5000)
	require.Equal(t, env.Instant(5000).Add(commitRetryMin), due())
	d.running = commitSlots
	require.Equal(t, env.Forever, due())
}

// WAL-23: while commits follow each other closely, records gather also when none runs.
func TestLingerBusy(t *testing.T) {
	d := &dispatcher{}
	l := &lane{dest: &standIn{wanted: true}}
	l.push(pending{at: 1000})
	now := env.Instant(1000)
	for range busyCommits {
		require.Equal(t, always, d.dueAt(l, now))
		d.noteBegin(now)
	}
	require.Equal(t, always, d.dueAt(l, now), "one message after the other")
	d.held = busyHeld
	require.Equal(t, now.Add(busyLinger), d.dueAt(l, now))
	require.Equal(t, always, d.dueAt(l, now.Add(busyWithin)), "they were a while ago")
	for range lingerRecords - 1 {
		l.push(pending{at: 1000})
	}
	require.Equal(t, always, d.dueAt(l, now), "enough have gathered")
}

// WAL-23: where nobody waits, records gather for 50 ms, but for the first after a pause, and few commits run at a time.
func TestLingerUnawaited(t *testing.T) {
	d := &dispatcher{engine: &Engine{}, ended: always}
	l := &lane{latency: 10 * time.Millisecond, dest: &standIn{}}
	l.push(pending{at: 1000})
	now := env.Instant(1000)
	due := func() env.Instant { return d.dueAt(l, now) }
	require.Equal(t, always, due(), "the first")
	d.ended = 900
	require.Equal(t, env.Instant(1000).Add(lingerMax), due())
	now = d.ended.Add(lingerMax)
	require.Equal(t, always, due(), "the first after a pause")
	d.running = 1
	require.Equal(t, env.Instant(1000).Add(lingerMax), due())
	for range quietRecords - 1 {
		l.push(pending{at: 1000})
	}
	require.Equal(t, always, due(), "enough have gathered")
	d.running = quietSlots
	require.Equal(t, env.Instant(1000).Add(quietPatience), due())
	d.running = commitSlots
	require.Equal(t, env.Forever, due())

	large := &lane{dest: &standIn{}}
	large.push(pending{at: 1000, payload: make([]byte, quietBytes)})
	d.running = 1
	require.Equal(t, always, d.dueAt(large, now), "they are large")
}

// A consume that finds nothing has what gathers for its topic committed at once (WAL-23).
func TestWantedTopicGathersNoFurther(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.sendTo(0, 1) // opens the log
		l.sleep(time.Second)
		l.sendTo(0, 3) // one after the other: the last two gather
		l.call(func(e *Engine) {
			e.env.Sleep(2 * time.Millisecond)
			topic, err := e.topic("t")
			require.NoError(t, err)
			require.EqualValues(t, 1, topic.gathering.Load(), "nothing gathers: the test proves nothing")
			_, err = e.Consume(&ConsumeRequest{Topic: "t", Partition: 1})
			require.ErrorIs(t, err, ErrEmpty)
			e.env.Sleep(10 * time.Millisecond)
			require.Zero(t, topic.gathering.Load())
		})
		require.Len(t, l.dispatchedTo(0), 4)
	})
}

// While records of one topic gather, the dispatcher does not look at what becomes durable; but what a consumer is parked for, and
// what one asks for, comes without that delay (WAL-23).
func TestDeafDispatcherHearsTheAwaited(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.topic(TopicSpec{Name: "t", Partitions: 2})
		l.topic(TopicSpec{Name: "u", Partitions: 2})
		l.produce("u", "first")
		l.mustConsume("u") // so that its log is open
		l.sleep(time.Second)
		next := func(e *Engine) uint64 { // the first record that was not read
			e.dispatcher.mu.Lock()
			defer e.dispatcher.mu.Unlock()
			return e.dispatcher.window.base + uint64(e.dispatcher.window.size())
		}
		kept := func(what string, fn func(e *Engine)) {
			l.sendTo(0, 3) // one after the other: the last two gather
			l.call(func(e *Engine) {
				for i := 0; i < 40 && !e.dispatcher.deaf.Load(); i++ {
					e.env.Sleep(time.Millisecond)
				}
				require.True(t, e.dispatcher.deaf.Load(), "it hears: the test proves nothing")
				require.NoError(t, e.Produce(Message{Topic: "t", Partition: 0, Payload: []byte("x")}))
				require.NotEqual(t, e.wal.Next(), next(e), "it was read: the test proves nothing")
				fn(e)
				e.env.Sleep(time.Millisecond)
				require.Equal(t, e.wal.Next(), next(e), what)
			})
			l.sleep(time.Second)
			require.Zero(t, l.engine.dispatcher.held)
		}
		served := l.w.Env().NewEvent()
		l.start(func(e *Engine) {
			_, err := e.Consume(&ConsumeRequest{Topic: "u", Partition: AnyPartition, Wait: 10 * time.Second})
			require.NoError(t, err)
			served.Set()
		})
		l.sleep(time.Second)
		kept("parked", func(e *Engine) {
			require.NoError(t, e.Produce(Message{Topic: "u", Partition: AnyPartition, Payload: []byte("x")}))
		})
		served.Wait()
		kept("asked for", func(e *Engine) {
			_, err := e.Consume(&ConsumeRequest{Topic: "u", Partition: AnyPartition})
			require.ErrorIs(t, err, ErrEmpty)
		})
	})
}

// A lane's queue and what it passed over stay in the order of the log through everything.
func TestLane(t *testing.T) {
	l := &lane{}
	for seq := range uint64(10) {
		l.push(pending{seq: seq, payload: []byte("xx")})
	}
	l.skip(20)
	l.skip(21)
	l.begin(0)
	require.Len(t, l.inFlight(), 10)
	l.flying = 4
	l.giveBack(4)
	require.Equal(t, []uint64{4, 5, 6, 7, 8, 9, 20, 21}, l.skipped)
	require.Equal(t, 4, l.size())
	require.Equal(t, 8, l.bytes)
	l.flying = 0
	l.failed(0)
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21}, l.skipped)
	require.False(t, l.accepts(100))
	l.succeeded(time.Second)
	require.True(t, l.accepts(100))
	l.pop(1)
	require.Zero(t, l.bytes)
	l.skip(3) // one that had no place before
	require.True(t, len(l.skipped) > 3 && l.skipped[2] == 3)
	big := pending{payload: make([]byte, commitBytes)}
	l.push(big)
	l.push(big)
	l.begin(0)
	require.Equal(t, 1, l.flying, "a commit is bounded in bytes, and has one record at least")
}

// WAL-19: what a lane holds are copies; the memory for them follows what is queued and is used again only when nothing of it is queued
// any more.
func TestLaneOwnsItsBytes(t *testing.T) {
	buf := make([]byte, 64) // the reader's, used again for each record
	want := func(seq uint64) string { return strings.Repeat(string(rune('a'+seq%26)), int(1+seq%61)) }
	lanes, next := []*lane{{}, {}, {}}, uint64(0) // beside each other: they share the pool
	push := func(l *lane) {
		n, before := copy(buf, want(next)), l.slab
		l.push(pending{seq: next, key: buf[:next%2], payload: buf[next%2 : n]})
		next++
		require.True(t, l.slab == before || cap(l.slab.buf) <= max(n, 2*l.bytes))
	}
	check := func(l *lane) {
		l.begin(0)
		for _, r := range l.inFlight() {
			require.Equal(t, want(r.seq), string(r.key)+string(r.payload))
			require.Equal(t, len(r.key), cap(r.key), "an append to it hits nobody else's bytes")
			require.Equal(t, len(r.payload), cap(r.payload))
		}
		l.flying = 0
	}
	for round := range 40 {
		for i, l := range lanes {
			for range 300 * (1 + (round+i)%3) {
				push(l)
			}
			check(l)
			switch n := l.size(); (round + i) % 4 {
			case 0:
				l.pop(n)
				require.Nil(t, l.slab, "an idle lane holds nothing")
			case 1:
				l.pop(n / 2)
			case 2:
				l.giveBack(n - n/3)
			case 3:
				l.pop(n / 3)
				l.giveBack(1)
			}
			require.Equal(t, l.size() == 0, l.bytes == 0)
		}
		for _, l := range lanes {
			check(l)
		}
	}
	l := &lane{}
	l.push(pending{payload: make([]byte, 1<<20)})
	l.push(pending{payload: buf})
	require.Equal(t, slabSize, cap(l.slab.buf))
}

// A lane that is always busy allocates nothing.
func TestBusyLaneDoesNotAllocate(t *testing.T) {
	if poolsLeak {
		t.Skip("the race detector empties pools at random")
	}
	l, buf := &lane{}, make([]byte, 300)
	round := func() {
		for range 300 {
			l.push(pending{payload: buf})
		}
		l.pop(300)
	}
	for range 100 {
		l.push(pending{payload: buf})
	}
	round()
	require.Less(t, testing.AllocsPerRun(100, round), 1.0)
}

// slowDestination takes a while, and counts who is inside.
type slowDestination struct {
	e            *env.Env
	inside, most *int
	next         int64
	standIn
}

func (s *slowDestination) deliver(records []segment.Record) (int64, error) {
	*s.inside++
	*s.most = max(*s.most, *s.inside)
	s.e.Sleep(100 * time.Millisecond)
	*s.inside--
	s.next += int64(len(records))
	return s.next - int64(len(records)), nil
}

// At most 16 commits run at a time, and at most one of a destination.
func TestCommitSlots(t *testing.T) {
	inWorld(t, func(l *lab) {
		l.mustBoot()
		l.call(func(e *Engine) {
			d := e.dispatcher
			inside, most := 0, 0
			d.mu.Lock()
			base := d.window.base
			for i := range uint64(120) {
				d.window.add(base + i)
				dest := &slowDestination{e: e.env, inside: &inside, most: &most, standIn: standIn{wanted: true}}
				la := d.laneTo(Key{"t", int32(i % 40)}, dest)
				if i >= 40 {
					la = d.all[i%40]
				}
				d.change(la, func() { la.push(pending{seq: base + i, at: e.env.Now()}) })
			}
			d.mu.Unlock()
			d.kick()
			e.env.Sleep(3 * time.Second)
			require.Equal(t, commitSlots, most)
			d.mu.Lock()
			require.Equal(t, base+120, d.window.base)
			require.Zero(t, d.held)
			d.window = window{base: base} // as it was: nothing of this is in the ingress log
			d.mu.Unlock()
		})
		l.m.CrashProcess() // the checkpoint went beyond the log's end
	})
}
