package committer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// COM-02, COM-04, COM-10, Q-11: T is the smaller of D and 100 ms, and an interval has floor(D/T) turns.
func TestCadence(t *testing.T) {
	for _, c := range []struct {
		interval, tick time.Duration
		turns          int
	}{
		{10 * time.Millisecond, 10 * time.Millisecond, 1},
		{100 * time.Millisecond, 100 * time.Millisecond, 1},
		{150 * time.Millisecond, 100 * time.Millisecond, 1},
		{250 * time.Millisecond, 100 * time.Millisecond, 2},
		{time.Second, 100 * time.Millisecond, 10},
		{time.Minute, 100 * time.Millisecond, 600},
	} {
		got := newCadence(c.interval, maxTick)
		require.Equal(t, cadence{interval: c.interval, tick: c.tick, turns: c.turns}, got)
	}
	require.Equal(t, cadence{interval: time.Second, tick: 20 * time.Millisecond, turns: 50}, newCadence(time.Second, 20*time.Millisecond))
	require.Equal(t, cadence{interval: 10 * time.Millisecond, tick: 10 * time.Millisecond, turns: 1}, newCadence(10*time.Millisecond, 20*time.Millisecond))
}

// COM-04, COM-33: bounds and defaults of the options.
func TestOptions(t *testing.T) {
	good := Options{Root: newRig(t, 0, nil).root, Path: func(Key) string { return "x" }, MaxOpen: 1,
		State: func(Key, []int64) (s State, id uint64, ok bool) { return }}
	require.NoError(t, good.withDefaults().validate())
	require.Equal(t, time.Second, good.withDefaults().Interval)
	for _, spoil := range []func(o *Options){
		func(o *Options) { o.Interval = 9 * time.Millisecond },
		func(o *Options) { o.Interval = time.Minute + 1 },
		func(o *Options) { o.Interval = -1 },
		func(o *Options) { o.Tick = 9 * time.Millisecond },
		func(o *Options) { o.Tick = maxTick + 1 },
		func(o *Options) { o.MaxOpen = 0 },
		func(o *Options) { o.Root = nil },
		func(o *Options) { o.Path = nil },
		func(o *Options) { o.State = nil },
	} {
		bad := good
		spoil(&bad)
		_, err := Start(env.OS(), bad)
		require.Error(t, err)
	}
	require.Equal(t, 256, MaxOpenDefault(1024))
	require.Equal(t, 4096, MaxOpenDefault(1<<20))
	require.Equal(t, 1, MaxOpenDefault(2))
	require.Equal(t, 4096, MaxOpenDefault(0))
	require.Equal(t, []any{100 * time.Millisecond, 30 * time.Second, 2, 4096, 8}, []any{maxTick, LevelEvery, slotCount, slotSize, len(encodeOffset(0))}) // CFG-08
}

// COM-06: the hash spreads the partitions of one topic, and topics of one partition, over all ticks.
func TestTurnsSpread(t *testing.T) {
	c := newCadence(time.Second, maxTick)
	for name, key := range map[string]func(i int) Key{
		"partitions": part0,
		"topics":     func(i int) Key { return Key{Topic: fmt.Sprintf("topic-%d", i)} },
	} {
		counts := make([]int, c.turns)
		for i := range 1000 {
			counts[c.turnOf(key(i))]++
		}
		for turn, n := range counts {
			require.InDelta(t, 100, n, 50, "%s, turn %d: %v", name, turn, counts)
		}
	}
}

// COM-03, COM-20..COM-23, COM-42: the first tick makes and primes the file inside the directory, with its
// name, before it writes the window; later ticks write the window and sync nothing.
func TestFirstAndLaterTicks(t *testing.T) {
	r := newRig(t, 1, nil)
	r.c.roster.turn = r.c.roster.turnOf(part0(0)) + 2 // its turn is far away
	r.ack(part0(0), 0)
	r.ops = nil
	r.tick()
	require.Equal(t, []string{
		"create p0/consumer.ahead",
		"write p0/consumer.ahead 0+8192",
		"sync p0/consumer.ahead",
		"syncdir p0",
		"write p0/consumer.ahead 0+512",
	}, r.log())
	r.tick()
	require.Empty(t, r.log(), "nothing acked, nothing written")
	r.ack(part0(0), 1, 5)
	r.tick()
	require.Equal(t, []string{"write p0/consumer.ahead 0+512"}, r.log())
	w, _ := last[WindowWritten](r)
	require.Equal(t, WindowWritten{Key: part0(0), Slot: 0, Sequence: 2, Committed: 1, Ahead: 1, Stored: 1, SnapshotAt: w.SnapshotAt, End: w.End}, w)
	require.Equal(t, State{Committed: 1, Ahead: []int64{5}}, r.recovered(part0(0)), "COM-57: readable without any sync")
}

// COM-05, COM-06, COM-08, COM-09, COM-13..COM-15: a partition written since its last writeout is written out
// once an interval, on its turn; the roles flip; a quiet one is not synced.
func TestWriteoutTakesTurns(t *testing.T) {
	r := newRig(t, 30, nil)
	for range 20 { // prime them all
		for i := range 30 {
			r.ack(part0(i), r.shards[part0(i)].Committed+1)
		}
		r.tick()
	}
	r.events = nil
	start := r.c.roster.turn
	for n := range 20 {
		for i := range 30 {
			r.ack(part0(i), r.shards[part0(i)].Committed+1)
		}
		before := len(all[WrittenOut](r))
		r.tick()
		for _, w := range all[WrittenOut](r)[before:] {
			require.NoError(t, w.Err)
			require.Equal(t, (start+n)%10, r.c.roster.turnOf(w.Key))
		}
	}
	slots := map[Key][]int{}
	for _, w := range all[WrittenOut](r) {
		slots[w.Key] = append(slots[w.Key], w.Slot)
	}
	for i := range 30 {
		require.Len(t, slots[part0(i)], 2, "once an interval")
		require.Equal(t, 1-slots[part0(i)][0], slots[part0(i)][1], "the slots take turns")
	}
	r.flush()
	r.events, r.ops = nil, nil
	r.ticks(50)
	require.Empty(t, r.log(), "COM-08: no idle syncs")
}

// COM-10: with an interval of 100 ms every change is durable at the end of its tick.
func TestSingleCadence(t *testing.T) {
	r := newRig(t, 5, func(o *Options) { o.Interval = 100 * time.Millisecond })
	for round := range int64(4) {
		for i := range 5 {
			r.ack(part0(i), round, round+10)
		}
		r.tick()
		for i := range 5 {
			want := r.shards[part0(i)].State
			r.durable(part0(i), want.Committed, want.Ahead...)
		}
	}
}

// COM-07, Q-10: a write that waited an interval goes at the next tick whatever the turn, not before.
func TestOverdue(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.ack(k, 1)
	notItsTurn := func() { r.c.roster.turn = (r.c.roster.turnOf(k) + 3) % 10 }
	notItsTurn()
	r.tick()
	wrote := r.c.roster.parts[k].oldest
	r.events = nil
	for r.still.now.Sub(wrote) < time.Second {
		notItsTurn()
		r.ack(k, r.shards[k].Committed+1) // fresh writes do not make the oldest one younger
		r.tick()
		require.Empty(t, all[WrittenOut](r))
	}
	notItsTurn()
	r.tick()
	out, ok := last[WrittenOut](r)
	require.True(t, ok)
	require.NoError(t, out.Err)
	require.Less(t, out.Start.Sub(wrote), 1100*time.Millisecond, "D + T")
}

// COM-19: written by the tick at 0.3 s, the record survives a process crash from then on; written out at
// 0.7 s, a power loss too.
func TestWorkedExample(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	base := r.still.now
	at := func(d time.Duration) {
		for r.still.now < base.Add(d) {
			r.tick()
		}
	}
	r.c.roster.turn = (r.c.roster.turnOf(k) - 7 + 10) % 10 // its turn is the tick at 0.7 s
	at(300 * time.Millisecond)
	r.ack(k, 2)
	require.Equal(t, State{Committed: 0}, r.recovered(k), "not before the tick")
	r.tick() // 0.3 s
	require.Equal(t, State{Committed: 0, Ahead: []int64{2}}, r.recovered(k))
	old, kept := 0, 0
	count := func(s State) {
		if s.Ahead == nil {
			old++
		} else {
			kept++
		}
	}
	r.images(k, count)
	require.Positive(t, old, "a power loss may still take it")
	at(700 * time.Millisecond)
	r.images(k, count)
	require.Positive(t, old)
	old = 0
	r.tick() // 0.7 s
	r.images(k, count)
	require.Zero(t, old)
	require.Positive(t, kept)
}

// COM-16, BUG-102: after a failed writeout the anchor stands, the next tick writes the window in full though
// nobody acked, and only then does a sync count.
func TestFailedWriteout(t *testing.T) {
	for _, visible := range []bool{true, false} {
		r := newRig(t, 1, nil)
		k := part0(0)
		r.ack(k, 0)
		r.flush()
		anchor := r.c.roster.parts[k].anchor
		r.ack(k, 1, 3)
		r.c.roster.turn = (r.c.roster.turnOf(k) + 1) % 10
		r.tick()
		r.hook = func(op disk.Op) error {
			if op.Kind == disk.OpSync {
				r.disk.SyncFails(op.Ino, visible)
				return errIO
			}
			return nil
		}
		r.events = nil
		r.writeout(k)
		out, _ := last[WrittenOut](r)
		require.ErrorIs(t, out.Err, errIO)
		require.Equal(t, anchor, r.c.roster.parts[k].anchor)
		r.durable(k, 0)

		r.hook = nil
		r.ops = nil
		r.tick()
		w, ok := last[WindowWritten](r)
		require.True(t, ok, "nobody acked, but the window is written")
		require.Equal(t, 1-anchor, w.Slot)
		require.Equal(t, int64(1), w.Committed)
		require.Equal(t, 1-anchor, r.c.roster.parts[k].anchor, "and written out at once, whatever the turn")
		r.durable(k, 1, 3)
	}
}

// COM-21, COM-22, COM-61, MOV-06: a move's copy has slot 0 only; the prime extends it, anchors on it, and the
// sequence goes on above.
func TestPrimeOfAMovesCopy(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	rec := encode(record{identity: 1, seq: 40, state: State{Committed: 6, Ahead: []int64{9}}})
	r.place(k, AheadFile, append(rec, make([]byte, slotSize-len(rec))...))
	r.seed(k)
	require.Equal(t, State{Committed: 6, Ahead: []int64{9}}, r.recovered(k))
	r.ack(k, 7)
	r.ops = nil
	r.tick()
	ops := r.log()
	require.Equal(t, []string{
		"write p0/consumer.ahead 4096+4096",
		"write p0/consumer.ahead 0+512", // the newest record again, so that the sync is real
		"sync p0/consumer.ahead",
		"syncdir p0",
		"write p0/consumer.ahead 4096+512",
	}, ops[:min(5, len(ops))])
	w, _ := last[WindowWritten](r)
	require.Equal(t, uint64(41), w.Sequence)
	p, _ := last[Primed](r)
	require.Equal(t, 0, p.Anchor)
	require.False(t, p.Created)
}

// COM-22, S-13: both slots valid, the newest in slot 1: the window is slot 0. A foreign slot is not valid, an
// older format neither.
func TestPrimeChoosesTheNewest(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  [2][]byte
		anchor int
	}{
		{"newest in 1", [2][]byte{slotBytes(1, 5, 3), slotBytes(1, 6, 4)}, 1},
		{"newest in 0", [2][]byte{slotBytes(1, 7, 4), slotBytes(1, 6, 3)}, 0},
		{"foreign", [2][]byte{slotBytes(2, 9, 4), slotBytes(1, 6, 3)}, 1},
		{"none", [2][]byte{slotBytes(2, 9, 4), []byte("garbage")}, noSlot},
	} {
		r := newRig(t, 1, nil)
		k := part0(0)
		file := make([]byte, aheadSize)
		copy(file, c.slots[0])
		copy(file[slotSize:], c.slots[1])
		r.place(k, AheadFile, file)
		r.seed(k).ack(20)
		r.ack(k)
		r.tick()
		p, _ := last[Primed](r)
		require.Equal(t, c.anchor, p.Anchor, c.name)
		w, _ := last[WindowWritten](r)
		require.NotEqual(t, c.anchor, w.Slot, c.name)
	}
}

func slotBytes(identity, seq uint64, committed int64) []byte {
	return encode(record{identity: identity, seq: seq, state: State{Committed: committed}})
}

// place puts a durable file into a partition's directory.
func (r *rig) place(k Key, name string, data []byte) {
	dir, err := r.root.OpenDir(r.path(k))
	require.NoError(r.t, err)
	defer dir.Close()
	require.NoError(r.t, vfs.ReplaceFile(dir, name, data))
}

// COM-24, BUG-100, S-11: the newest slot is in the page cache of a dead process only. A power loss at any
// operation of the prime and the window after it leaves a record no older than the durable one.
func TestPrimeAfterAProcessCrash(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.ack(k, 1)
	r.tick()
	if r.c.roster.parts[k].unsynced {
		r.crash() // 1 is in the page cache only
	} else {
		t.Fatal("the writeout came too early")
	}
	require.Equal(t, int64(1), r.seed(k).Committed)
	r.ack(k, 3)
	looked := 0
	r.hook = func(op disk.Op) error {
		if op.Kind.Changes() {
			looked += r.images(k, func(s State) { require.GreaterOrEqual(t, s.Committed, int64(0)) })
		}
		return nil
	}
	r.tick()
	require.Greater(t, looked, 5)
	r.images(k, func(s State) { require.Equal(t, int64(1), s.Committed, "the prime made it durable") })
}

// COM-25, BUG-128, Q-57: a failed prime writes no window in that tick, is tried again, and a tick that
// tried one gives no warning however long it took.
func TestFailedPrime(t *testing.T) {
	for _, kind := range []disk.OpKind{disk.OpCreate, disk.OpWrite, disk.OpSync, disk.OpSyncDir, disk.OpOpenDir, disk.OpStat} {
		r := newRig(t, 1, nil)
		k := part0(0)
		r.ack(k, 0)
		r.delay = map[disk.OpKind]time.Duration{disk.OpOpenDir: time.Second}
		r.hook = func(op disk.Op) error {
			if op.Kind == kind {
				if kind == disk.OpSync {
					r.disk.SyncFails(op.Ino, true)
				}
				return errIO
			}
			return nil
		}
		for range 3 {
			done := r.tick()
			require.ErrorIs(t, done.Err, errIO, "%v", kind)
			require.Equal(t, 1, done.Primed)
		}
		require.Empty(t, all[WindowWritten](r), "%v", kind)
		require.Empty(t, all[TickLate](r), "%v", kind)
		require.Empty(t, all[Stranded](r), "COM-47: an ordinary error, %v", kind)
		require.Len(t, all[Primed](r), 3)
		r.hook = nil
		r.flush()
		r.durable(k, 0)
	}
}

// D4: after a failed sync of a prime the retry does not believe a sync of the same pages: the newest record
// reaches the disk under a new name.
func TestPrimeAfterItsSyncFailed(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.ack(k, 1)
	r.tick()
	r.crash()
	r.seed(k)
	r.ack(k, 2)
	r.hook = func(op disk.Op) error {
		if op.Kind == disk.OpSync {
			r.disk.SyncFails(op.Ino, true)
			return errIO
		}
		return nil
	}
	r.tick()
	r.durable(k, 0)
	r.hook, r.ops = nil, nil
	r.tick()
	require.Contains(t, r.log(), "rename p0/consumer.ahead.tmp")
	r.images(k, func(s State) { require.GreaterOrEqual(t, s.Committed, int64(1)) })
}

// COM-26, BUG-110: in-order acks alone make a consumer.ahead, also where only consumer.offset was.
func TestUpgrade(t *testing.T) {
	r := newRig(t, 3, nil)
	for i := range 3 {
		r.place(part0(i), OffsetFile, encodeOffset(100))
		r.seed(part0(i))
		r.ack(part0(i), 101)
	}
	done := r.tick()
	require.Equal(t, 3, done.Primed, "COM-27: all at the first tick")
	for i := range 3 {
		require.Equal(t, State{Committed: 101}, r.recovered(part0(i)))
	}
}

// COM-28..COM-30, INV-14, Q-13: consumer.offset is brought level at a writeout, or on a quiet partition's turn, at
// most every 30 s, and never leads.
func TestLevel(t *testing.T) {
	r := newRig(t, 2, nil)
	busy, quiet := part0(0), part0(1)
	r.ack(quiet, 0)
	r.place(busy, OffsetFile, encodeOffset(-1))
	start := r.still.now
	for next := int64(0); r.still.now < start.Add(95*time.Second); next++ {
		r.ack(busy, next)
		r.tick()
	}
	at := map[Key][]env.Instant{}
	for _, l := range all[Levelled](r) {
		require.NoError(t, l.Err)
		require.Equal(t, l.Key == quiet, l.Created, "the one that exists is written in place")
		at[l.Key] = append(at[l.Key], l.End)
	}
	require.Len(t, at[busy], 3)
	require.Len(t, at[quiet], 1)
	for i, l := range at[busy] {
		since := start
		if i > 0 {
			since = at[busy][i-1]
			require.GreaterOrEqual(t, l.Sub(since), 30*time.Second)
		}
		require.LessOrEqual(t, l.Sub(since), 31200*time.Millisecond, "30 s + D + a tick")
	}
	require.Equal(t, int64(0), r.offset(quiet))
	require.Greater(t, r.shards[busy].Committed-r.offset(busy), int64(10), "it trails meanwhile")
}

// offset reads consumer.offset.
func (r *rig) offset(k Key) int64 {
	dir, err := r.root.OpenDir(r.path(k))
	require.NoError(r.t, err)
	defer dir.Close()
	v, absent, err := readOffset(dir)
	require.NoError(r.t, err)
	require.NoError(r.t, absent)
	return v
}

// Q-03, BUG-132: a consumer.offset of a wrong size is replaced as a whole, so that at no instant a crash
// shows a frontier that nobody reached.
func TestLevelReplacesAWrongSize(t *testing.T) {
	for _, old := range [][]byte{nil, {}, {1}, {0, 0, 0, 0, 0, 0, 0, 9, 9}, make([]byte, 40)} {
		r := newRig(t, 1, nil)
		k := part0(0)
		if old != nil {
			r.place(k, OffsetFile, old)
		}
		r.ack(k, 1) // the frontier is -1, so that a 0 would be a loss
		r.flush()
		r.hook = func(op disk.Op) error {
			r.images(k, func(s State) { require.Equal(t, State{Committed: -1, Ahead: []int64{1}}, s) })
			return nil
		}
		r.ticks(320)
		l, ok := last[Levelled](r)
		require.True(t, ok)
		require.True(t, l.Created)
		r.hook = nil
		require.Equal(t, int64(-1), r.offset(k))
	}
}

// A consumer.offset that an older release brought further than the slots is not taken back by a level.
func TestLevelNeverTakesBack(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.place(k, AheadFile, append(slotBytes(1, 3, 5), make([]byte, aheadSize-512)...))
	r.place(k, OffsetFile, encodeOffset(50))
	require.Equal(t, int64(50), r.seed(k).Committed)
	r.c.Touch(k)
	r.hook = func(op disk.Op) error {
		r.images(k, func(s State) { require.Equal(t, int64(50), s.Committed) })
		return nil
	}
	r.ticks(330)
	require.NotEmpty(t, all[Levelled](r))
	require.Equal(t, int64(50), r.offset(k))
}

// The same when no window follows the prime, as the shard is gone or its writes fail.
func TestNoLevelBeforeAWindow(t *testing.T) {
	for _, gone := range []bool{true, false} {
		r := newRig(t, 1, nil)
		k := part0(0)
		r.place(k, AheadFile, append(slotBytes(1, 3, 5), make([]byte, aheadSize-512)...))
		r.place(k, OffsetFile, encodeOffset(50))
		r.seed(k)
		r.ack(k, 51)
		r.hook = func(op disk.Op) error {
			if op.Kind == disk.OpSyncDir { // the prime's last step
				r.hook = nil
				if gone {
					delete(r.shards, k)
				} else {
					r.failOn(disk.OpWrite, "p0/consumer.ahead", -1, errIO)
				}
			}
			return nil
		}
		r.ticks(400)
		require.Len(t, all[Primed](r), 1)
		require.Equal(t, int64(50), r.offset(k))
	}
}

// COM-31, INV-10: after Close both files are exact and durable, also right after a power loss, also of
// partitions whose last ack came just before, that nobody acked since an unclean start, or that failed once.
func TestClose(t *testing.T) {
	r := newRig(t, 6, func(o *Options) { o.MaxOpen = 2 })
	for i := range 4 {
		r.ack(part0(i), 0, 1, 5)
	}
	r.ticks(4)
	r.ack(part0(1), 2)
	r.place(part0(4), AheadFile, append(slotBytes(1, 3, 7), make([]byte, aheadSize-512)...))
	r.seed(part0(4))
	r.c.Touch(part0(4))
	r.failOn(disk.OpSync, "p2/consumer.ahead", 1, errIO)
	require.NoError(t, r.c.finish())
	r.hook = nil
	for i := range 5 {
		k := part0(i)
		want := r.shards[k].State
		r.durable(k, want.Committed, want.Ahead...)
		require.Equal(t, want.Committed, r.offset(k), "consumer.offset is exact")
		for img := range r.disk.Crashes(0) {
			root, err := disk.FS(img).OpenRoot(r.path(k), false)
			require.NoError(t, err)
			v, _, err := readOffset(root)
			require.NoError(t, err)
			require.Equal(t, want.Committed, v, "and durable")
			slots, err := ReadSlots(root, 1)
			require.NoError(t, err)
			require.Equal(t, want.Committed, slots.Slot[slots.Newest].State.Committed)
		}
	}
	require.Zero(t, r.c.roster.held)
	r.c.Dirty(part0(0))
	require.Empty(t, r.c.roster.dirty, "nothing is taken after the end")
}

// COM-31: what could not be made durable is named.
func TestCloseThatFails(t *testing.T) {
	r := newRig(t, 3, nil)
	for i := range 3 {
		r.ack(part0(i), 0)
	}
	r.failOn(disk.OpSync, "p1/consumer.ahead", -1, errIO)
	err := r.c.finish()
	require.ErrorIs(t, err, errIO)
	require.ErrorContains(t, err, "[t/1]")

	r = newRig(t, 2, nil)
	r.ack(part0(0), 0)
	r.flush()
	r.removeDir(part0(0))
	r.ack(part0(0), 1)
	r.writeout(part0(0))
	require.ErrorIs(t, r.c.finish(), ErrStranded)

	r = newRig(t, 2, nil)
	r.ack(part0(0), 0)
	r.flush()
	r.ack(part0(0), 1)
	r.removeDir(part0(0))
	r.flush()
	delete(r.shards, part0(0))
	require.NoError(t, r.c.finish(), "a stranded partition without a shard has nothing to persist")
}

// removeDir takes a partition's directory away from its path, durably.
func (r *rig) removeDir(k Key) {
	require.NoError(r.t, r.root.Rename(r.path(k), "gone-"+r.path(k)))
	require.NoError(r.t, r.root.Sync())
}

// replaceDir puts an empty directory at a partition's path.
func (r *rig) replaceDir(k Key) {
	r.removeDir(k)
	require.NoError(r.t, r.root.Mkdir(r.path(k)))
	require.NoError(r.t, r.root.Sync())
}

func (r *rig) list(path string) (names []string) {
	dir, err := r.root.OpenDir(path)
	require.NoError(r.t, err)
	defer dir.Close()
	entries, err := dir.List()
	require.NoError(r.t, err)
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// COM-33..COM-35, INV-32, BUG-114, S-15, S-16: descriptors stay below the limit, the least recently written
// durable one goes first, and when none is durable one-off descriptors serve writes and writeouts.
func TestDescriptors(t *testing.T) {
	r := newRig(t, 5, func(o *Options) { o.MaxOpen = 2 })
	held := func() (out []int) {
		for i := range 5 {
			if p := r.c.roster.parts[part0(i)]; p != nil && p.handle != nil {
				out = append(out, i)
			}
		}
		require.Len(t, out, r.c.roster.held)
		require.LessOrEqual(t, len(out), 2)
		return out
	}
	oneOff := func() (n int) {
		for _, e := range all[Reopened](r) {
			if e.OneOff {
				n++
			}
		}
		return n
	}
	for i := range 2 {
		r.ack(part0(i), 0)
	}
	r.flush()
	require.Equal(t, []int{0, 1}, held())

	r.ack(part0(1), 1) // now 0 is the one written longest ago, and durable
	r.c.beginTick()
	r.c.writeWindows()
	r.ack(part0(2), 0)
	r.c.writeWindows()
	require.Equal(t, []int{1, 2}, held())
	evicted, _ := last[Evicted](r)
	require.Equal(t, part0(0), evicted.Key)

	r.ack(part0(0), 1) // 1 and 2 are not durable: neither may go
	r.ack(part0(3), 0)
	r.c.writeWindows()
	require.Equal(t, []int{1, 2}, held())
	require.Equal(t, 2, oneOff(), "partition 0 again, and 3 after its prime")
	require.Equal(t, State{Committed: 1}, r.recovered(part0(0)))

	r.flush()
	for i := range 4 {
		want := r.shards[part0(i)].State
		r.durable(part0(i), want.Committed)
	}
	held()
}

// COM-34: whatever is written in whatever order, nothing is evicted that is not durable.
func TestEvictionAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, 12, func(o *Options) { o.MaxOpen = 3 })
	tell := r.c.o.Event
	r.c.o.Event = func(v Event) {
		tell(v)
		if e, ok := v.(Evicted); ok {
			p := r.c.roster.parts[e.Key]
			require.True(t, p.idle(), "evicted although not durable")
			for _, q := range r.c.roster.parts {
				if q.handle != nil && q.idle() && q.key != r.c.hand.key {
					require.Greater(t, q.lastWrite, p.lastWrite, "another one was written longer ago")
				}
			}
		}
	}
	for range 3000 {
		k := part0(rng.IntN(12))
		r.ack(k, r.shards[k].Committed+1+int64(rng.IntN(3)))
		switch rng.IntN(6) {
		case 0:
			r.c.Forget(k)
		case 1, 2:
			r.tick()
		}
		require.LessOrEqual(t, r.c.roster.held, 3)
		require.LessOrEqual(t, len(r.c.roster.victims), 2*3+minVictims+1, "what does not stand is swept out")
		n := 0
		for _, p := range r.c.roster.parts {
			if p.handle != nil {
				n++
			}
		}
		require.Equal(t, n, r.c.roster.held)
	}
	require.NoError(t, r.c.finish())
	for i := range 12 {
		want := r.shards[part0(i)].State
		require.True(t, slices.Equal(want.Ahead, r.recovered(part0(i)).Ahead))
	}
}

// COM-43, COM-44, BUG-115, BUG-120: an evicted descriptor is opened again only where it leads to the same
// file in the same directory; nothing is created.
func TestReopenIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig, k Key)
	}{
		{"directory gone", func(r *rig, k Key) { r.removeDir(k) }},
		{"directory replaced", func(r *rig, k Key) { r.replaceDir(k) }},
		{"replaced by a copy", func(r *rig, k Key) {
			r.replaceDir(k)
			r.place(k, AheadFile, append(slotBytes(1, 9, 5), make([]byte, aheadSize-512)...))
		}},
		{"same file in another directory", func(r *rig, k Key) {
			r.replaceDir(k)
			require.NoError(t, r.root.Rename("gone-"+r.path(k)+"/"+AheadFile, r.path(k)+"/"+AheadFile))
		}},
		{"another file in the same directory", func(r *rig, k Key) {
			r.place(k, AheadFile, append(slotBytes(1, 9, 5), make([]byte, aheadSize-512)...))
		}},
		{"file gone", func(r *rig, k Key) { require.NoError(t, r.root.Remove(r.path(k)+"/"+AheadFile)) }},
	} {
		r := newRig(t, 2, func(o *Options) { o.MaxOpen = 1 })
		k := part0(0)
		r.ack(k, 0)
		r.flush()
		r.ack(part0(1), 0)
		r.flush()
		require.Nil(t, r.c.roster.parts[k].handle)
		c.change(r, k)
		r.ack(k, 1)
		r.ops = nil
		r.flush()
		require.Empty(t, r.log(), c.name)
		require.Len(t, all[Stranded](r), 1, c.name)
		r.ack(k, 2)
		r.ticks(400)
		for _, op := range r.log() {
			require.NotContains(t, op, "p0", "%s: no level either", c.name)
		}
		require.Len(t, all[Stranded](r), 1, "%s: told once", c.name)
	}
}

// COM-43, COM-45: a descriptor that was opened again was checked by that: the writeout that follows does not look once more, and
// every later one does.
func TestReopenedIsConfirmedOnce(t *testing.T) {
	r := newRig(t, 2, func(o *Options) { o.MaxOpen = 1 })
	k := part0(0)
	looks := func() (n int) {
		for _, op := range r.ops {
			if op.Kind == disk.OpStat {
				n++
			}
		}
		r.ops = nil
		return n
	}
	for _, p := range []int{0, 1} {
		r.ack(part0(p), 0)
		r.flush()
	}
	require.Nil(t, r.c.roster.parts[k].handle)
	r.ack(k, 1)
	r.ops = nil
	r.c.beginTick()
	r.c.writeWindows()
	require.Equal(t, 1, looks(), "the directory, after the file was opened")
	r.writeout(k)
	require.Zero(t, looks())

	r.ack(k, 2)
	r.c.writeWindows()
	require.Zero(t, looks())
	r.writeout(k)
	require.Equal(t, 2, looks(), "directory and file")
	r.replaceDir(k)
	r.ack(k, 3)
	r.flush()
	require.Equal(t, []Stranded{{k}}, all[Stranded](r))
}

// COM-48: an ordinary error after a descriptor was opened again asks for a check all the same.
func TestReopenedAndFailedIsCheckedAgain(t *testing.T) {
	r := newRig(t, 2, func(o *Options) { o.MaxOpen = 1 })
	k := part0(0)
	for _, p := range []int{0, 1} {
		r.ack(part0(p), 0)
		r.flush()
	}
	r.ack(k, 1)
	r.failOn(disk.OpWrite, "p0/"+AheadFile, 1, errIO)
	r.c.beginTick()
	r.c.writeWindows()
	require.ErrorIs(t, r.c.now.Err, errIO)
	r.replaceDir(k)
	r.ops = nil
	r.c.beginTick()
	r.c.writeWindows()
	require.Equal(t, []Stranded{{k}}, all[Stranded](r))
	require.Empty(t, r.log())
}

// COM-45, COM-49, BUG-117, S-17: a directory replaced under a held descriptor strands at the writeout; the
// forget brings the partition back, in the new directory.
func TestStrandedUntilForget(t *testing.T) {
	r := newRig(t, 2, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.replaceDir(k)
	r.ack(k, 1)
	r.ack(part0(1), 0)
	r.flush()
	require.Equal(t, []Stranded{{k}}, all[Stranded](r))
	require.Empty(t, r.list("p0"), "INV-25: nothing reaches the new directory")
	r.durable(part0(1), 0) // COM-62

	r.c.Forget(k)
	r.seed(k)
	r.ack(k, 0)
	r.flush()
	require.Contains(t, r.list("p0"), AheadFile)
	r.durable(k, 0)
}

// COM-45, BUG-122: a directory that is gone before the first prime strands; one that comes back at the path
// does not get the old shard's acks.
func TestGoneBeforePrime(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.removeDir(k)
	r.ack(k, 0)
	r.ticks(3)
	require.Len(t, all[Stranded](r), 1)
	require.NoError(t, r.root.Mkdir("p0"))
	r.ack(k, 1)
	r.flush()
	require.Empty(t, r.list("p0"))
}

// INV-25, BUG-117: a shard that names the directory it was seeded from is never written into another one,
// even if nothing was primed before the exchange.
func TestStateNamesItsDirectory(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	require.NotZero(t, r.shards[k].Dir)
	r.replaceDir(k)
	r.ack(k, 0)
	r.flush()
	require.Empty(t, r.list("p0"))
	require.Len(t, all[Stranded](r), 1)

	// A successor of the shard, made before the forget came, is told apart by the same name.
	r.seed(k)
	r.ack(k, 3)
	r.flush()
	r.durable(k, -1, 3)
	r.c.Forget(k)
	r.ack(k, 0)
	r.flush()
	r.durable(k, 0, 3)
}

// COM-38, BUG-118: a shard of another identity ends the old state even before the forget came.
func TestSuccessorBeforeForget(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0, 1, 2)
	r.flush()
	r.replaceDir(k)
	r.seed(k).identity = 7
	r.ack(k, 5)
	r.flush()
	require.Empty(t, all[Stranded](r))
	r.c.Forget(k)
	dir, err := r.root.OpenDir("p0")
	require.NoError(t, err)
	s, _, err := Recover(dir, 7, 100)
	require.NoError(t, err)
	require.Equal(t, []int64{5}, s.Ahead)
	require.Equal(t, int64(-1), s.Committed)
}

// COM-41: the path leads elsewhere between pinning and opening: the file is dropped unused.
func TestReplacedWhilePinned(t *testing.T) {
	for _, at := range []disk.OpKind{disk.OpOpen, disk.OpCreate} {
		r := newRig(t, 1, nil)
		r.shards[part0(0)].Dir = vfs.ID{} // the shard does not help
		r.ack(part0(0), 0)
		r.hook = func(op disk.Op) error {
			if op.Kind == at {
				r.hook = nil
				r.replaceDir(part0(0))
			}
			return nil
		}
		r.flush()
		require.Empty(t, all[WindowWritten](r))
		require.Len(t, all[Stranded](r), 1)
		require.Empty(t, r.list("p0"))
	}
	// The same while levelling.
	r := newRig(t, 1, nil)
	r.ack(part0(0), 0)
	r.flush()
	r.hook = func(op disk.Op) error {
		if op.Kind == disk.OpOpen && strings.HasSuffix(op.Path, OffsetFile) {
			r.hook = nil
			r.replaceDir(part0(0))
		}
		return nil
	}
	r.ticks(320)
	require.Len(t, all[Stranded](r), 1)
	require.Empty(t, r.list("p0"))
	require.NotContains(t, r.list("gone-p0"), OffsetFile)
}

// COM-47, COM-48, BUG-121, S-18: EIO of a stat is an ordinary error: reported, retried, and the identities
// are checked again before anything is written.
func TestStatErrorDoesNotStrand(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.ack(k, 1)
	r.failOn(disk.OpStat, "p0", 1, errIO)
	r.flush()
	require.Empty(t, all[Stranded](r))
	r.durable(k, 1)

	r.ack(k, 2)
	r.c.beginTick()
	r.c.writeWindows()
	r.failOn(disk.OpStat, "p0", -1, errIO)
	r.writeout(k)
	require.True(t, r.c.roster.parts[k].recheck)
	r.ops = nil
	r.ticks(5)
	require.Empty(t, r.log(), "no write while the identities cannot be checked")
	require.ErrorIs(t, all[TickDone](r)[len(all[TickDone](r))-1].Err, errIO)
	r.hook = nil
	r.replaceDir(k)
	r.ops = nil
	r.tick()
	require.Empty(t, r.log(), "the check comes before the write")
	require.Len(t, all[Stranded](r), 1)
}

// COM-36, INV-13, BUG-129, S-23: what does not fit comes back after a crash, and it is the highest.
func TestOverflow(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	for i := range int64(3000) {
		r.shards[k].ack(10 + 1000*i)
	}
	r.ack(k)
	r.flush()
	got := r.recovered(k)
	w, _ := last[WindowWritten](r)
	require.Equal(t, 3000, w.Ahead)
	require.Len(t, got.Ahead, w.Stored)
	require.True(t, slices.Equal(r.shards[k].Ahead[:w.Stored], got.Ahead))
	require.Less(t, w.Stored, 3000)
}

// COM-37: no shard, no write, and no complaint; the mark is gone.
func TestNoShardNoWrite(t *testing.T) {
	r := newRig(t, 2, nil)
	r.ack(part0(0), 0)
	r.flush()
	delete(r.shards, part0(0))
	delete(r.shards, part0(1))
	r.c.Dirty(part0(0))
	r.c.Dirty(part0(1))
	r.ops = nil
	done := r.tick()
	require.NoError(t, done.Err)
	require.Empty(t, r.log())
	require.Empty(t, r.c.roster.dirty)
}

// BUG-98: an ack that comes after the snapshot, while it is taken or written, is written by the next tick.
func TestAckDuringTick(t *testing.T) {
	for _, where := range []string{"snapshot", "write", "sync"} {
		r := newRig(t, 1, nil)
		k := part0(0)
		r.ack(k, 0)
		r.flush()
		r.ack(k, 1)
		state := r.c.o.State
		r.c.o.State = func(k Key, dst []int64) (State, uint64, bool) {
			s, id, ok := state(k, dst)
			r.c.o.State = state
			if where == "snapshot" {
				r.ack(k, 2)
			}
			return s, id, ok
		}
		r.hook = func(op disk.Op) error {
			if op.Kind.String() == where {
				r.hook = nil
				r.ack(k, 2)
			}
			return nil
		}
		r.c.roster.turn = r.c.roster.turnOf(k)
		r.tick()
		require.Equal(t, int64(1), r.recovered(k).Committed, where)
		r.tick()
		require.Equal(t, int64(2), r.recovered(k).Committed, where)
	}
}

// COM-39, COM-38, BUG-118: a forget while the snapshot is being taken: the snapshot is not written. An ack
// of the successor that came before the forget is not forgotten.
func TestForgetDuringSnapshot(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.ack(k, 1)
	state := r.c.o.State
	r.c.o.State = func(k Key, dst []int64) (State, uint64, bool) {
		s, id, ok := state(k, dst)
		r.c.o.State = state
		r.replaceDir(k)
		r.c.Forget(k) // must not deadlock: no lock is held here
		r.seed(k)
		return s, id, ok
	}
	r.ops = nil
	r.tick()
	require.Empty(t, all[Stranded](r))
	for _, op := range r.log() {
		require.NotContains(t, op, "write", "the old shard's acks were written")
	}
	r.ack(k, 2)
	r.flush()
	r.durable(k, -1, 2)
}

// The same while the snapshot is one for a prime: nothing is made for the shard that is gone.
func TestForgetDuringPrime(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 1)
	state := r.c.o.State
	r.c.o.State = func(k Key, dst []int64) (State, uint64, bool) {
		s, id, ok := state(k, dst)
		r.c.o.State = state
		r.c.Forget(k)
		delete(r.shards, k)
		return s, id, ok
	}
	r.ops = nil
	r.tick()
	require.Empty(t, r.log())
	require.Empty(t, r.c.roster.parts)
}

// COM-61: the sequence goes on above what a forget and a fresh prime find.
func TestSequenceGoesOn(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	lastSeq := uint64(0)
	for round := range int64(6) {
		r.ack(k, round)
		r.tick()
		w, _ := last[WindowWritten](r)
		require.Greater(t, w.Sequence, lastSeq)
		lastSeq = w.Sequence
		switch round % 3 {
		case 0:
			r.c.Forget(k)
		case 1:
			r.crash()
			r.seed(k)
		}
	}
}

// COM-62: one partition's error neither stops the others nor makes its own changes clean.
func TestErrorsStayAlone(t *testing.T) {
	r := newRig(t, 3, nil)
	for i := range 3 {
		r.ack(part0(i), 0)
	}
	r.flush()
	for i := range 3 {
		r.ack(part0(i), 1)
	}
	r.failOn(disk.OpWrite, "p1/consumer.ahead", 1, errIO)
	done := r.tick()
	require.ErrorIs(t, done.Err, errIO)
	require.Equal(t, 1, done.Failed)
	require.Equal(t, int64(1), r.recovered(part0(0)).Committed)
	require.Equal(t, int64(1), r.recovered(part0(2)).Committed)
	r.tick()
	require.Equal(t, int64(1), r.recovered(part0(1)).Committed)
}

// A window write that tears the page cache is not made durable as an anchor before it was written again.
func TestTornWriteNeverFlips(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	for i := range int64(600) { // long enough for several sectors
		r.shards[k].ack(3 + 50*i)
	}
	r.ack(k)
	r.failOn(disk.OpWrite, "p0/consumer.ahead", 1, &disk.Short{N: 512, Err: errIO})
	r.tick()
	anchor := r.c.roster.parts[k].anchor
	r.delay = nil
	r.writeoutDue(k, false)
	require.Equal(t, anchor, r.c.roster.parts[k].anchor)
	r.images(k, func(s State) { require.GreaterOrEqual(t, s.Committed, int64(0)) })
	r.flush()
	r.durable(k, 0, r.shards[k].Ahead...)
}

// writeoutDue requires what the core says about a writeout of k far beyond the interval.
func (r *rig) writeoutDue(k Key, want bool) {
	p := r.c.roster.parts[k]
	require.Equal(r.t, want, p.due(r.still.now.Add(time.Hour), time.Second, true))
}

// COM-46, COM-52, COM-55: the texts, and their rates. COM-53: ticks that primed do not count. COM-54: after
// a long tick the next starts at once. COM-56: the two do not silence each other.
func TestWarnings(t *testing.T) {
	require.Equal(t, "consumer offset commits cannot keep to their interval: persisted offsets lag acks by about the flush time", TickLateText)
	require.Equal(t, "consumer offsets wait longer than their durability interval for a device flush: a power loss would redeliver more acks than it promises", WriteoutLateText)
	require.Equal(t, "consumer offsets: partition directory removed or replaced under its persisted state; its acks are not persisted until the partition is dropped", StrandedText)

	r := newRig(t, 2, nil)
	r.ack(part0(0), 0)
	r.delay = map[disk.OpKind]time.Duration{disk.OpWrite: 150 * time.Millisecond}
	r.tick()
	require.Empty(t, all[TickLate](r), "it primed")
	next := int64(1)
	started := r.still.now
	for r.still.now < started.Add(150*time.Second) {
		r.ack(part0(0), next)
		next++
		before := r.still.now
		r.tick()
		require.Equal(t, r.still.now, r.c.roster.next(before, r.still.now))
	}
	late := all[TickLate](r)
	require.Len(t, late, 3, "at most once a minute")
	require.Equal(t, 100*time.Millisecond, late[0].Interval)
	require.GreaterOrEqual(t, late[0].Took, 150*time.Millisecond)
	require.Equal(t, 1, late[0].Partitions)
	require.Empty(t, all[WriteoutLate](r))

	r.delay = nil
	r.failOn(disk.OpSync, "p0/consumer.ahead", -1, errIO)
	started = r.still.now
	r.ack(part0(0), next)
	for r.still.now < started.Add(150*time.Second) {
		r.tick()
	}
	waits := all[WriteoutLate](r)
	require.Len(t, waits, 3)
	require.Equal(t, time.Second, waits[0].Interval)
	require.InDelta(t, 2*time.Second, waits[0].Oldest, float64(150*time.Millisecond))
	require.Greater(t, waits[2].Oldest, 2*time.Minute)
	require.Equal(t, 1, waits[0].Partitions)
}

// COM-54: T after the start of a tick, or at once.
func TestNextTick(t *testing.T) {
	c := newCadence(time.Second, maxTick)
	at := func(ms int64) env.Instant { return env.Instant(ms * int64(time.Millisecond)) }
	require.Equal(t, at(100), c.next(at(0), at(30)))
	require.Equal(t, at(100), c.next(at(0), at(100)))
	require.Equal(t, at(170), c.next(at(0), at(170)))
}

// after an unclean start the state files of a touched partition are durable within an interval, with a
// shard or without one, and spread over the turns.
func TestTouch(t *testing.T) {
	for _, alive := range []bool{true, false} {
		r := newRig(t, 20, nil)
		for i := range 20 {
			r.ack(part0(i), 0, 2)
		}
		r.c.beginTick()
		r.c.writeWindows()
		r.crash()
		for i := range 20 {
			if alive {
				r.seed(part0(i))
			}
			r.c.Touch(part0(i))
		}
		most := 0
		for range 10 {
			most = max(most, r.tick().Primed)
		}
		require.Less(t, most, 8, "they do not come as one burst")
		for i := range 20 {
			require.Equal(t, State{Committed: 0, Ahead: []int64{2}}, r.recovered(part0(i)))
			r.durable(part0(i), 0, 2)
		}
		require.Equal(t, alive, len(r.c.roster.parts) > 0, "without a shard nothing is held")
	}
}

// a touch creates nothing, and fails like a prime.
func TestTouchWithoutAFile(t *testing.T) {
	r := newRig(t, 2, nil)
	r.shards = map[Key]*shard{}
	r.c.Touch(part0(0))
	r.removeDir(part0(1))
	r.c.Touch(part0(1))
	r.ops = nil
	r.ticks(20)
	require.Empty(t, r.log())
	require.Empty(t, r.c.roster.touched)

	r.place(part0(0), AheadFile, slotBytes(1, 3, 7))
	r.c.Touch(part0(0))
	r.failOn(disk.OpSync, "p0/consumer.ahead", 1, errIO)
	r.ticks(30)
	require.Len(t, all[Primed](r), 2)
	r.durable(part0(0), 7)
}

// REC-03, REC-10, REC-11, COM-32, BUG-111: recovery takes the larger frontier, drops what it passed, and goes
// over what follows it.
func TestRecover(t *testing.T) {
	type want struct {
		committed int64
		ahead     []int64
		clamped   bool
	}
	slot := func(committed int64, ahead ...int64) []byte {
		return encode(record{identity: 1, seq: 1, state: State{Committed: committed, Ahead: ahead}})
	}
	for _, c := range []struct {
		name          string
		ahead, offset []byte
		hw            int64
		want          want
	}{
		{"no file", nil, nil, 100, want{-1, nil, false}},
		{"empty log", nil, nil, 0, want{-1, nil, false}},
		{"slot alone", slot(4, 6, 9), nil, 100, want{4, []int64{6, 9}, false}},
		{"offset alone", nil, encodeOffset(7), 100, want{7, nil, false}},
		{"offset lags", slot(4, 6), encodeOffset(2), 100, want{4, []int64{6}, false}},
		{"offset leads", slot(4, 6, 9), encodeOffset(6), 100, want{6, []int64{9}, false}},
		{"offset meets the next", slot(4, 6, 7, 9), encodeOffset(5), 100, want{7, []int64{9}, false}},
		{"offset leads all", slot(4, 6, 9), encodeOffset(50), 100, want{50, nil, false}},
		{"clamped offset", slot(4, 6, 9), encodeOffset(50), 8, want{7, nil, true}},
		{"clamped slot", slot(20, 22), nil, 10, want{9, nil, true}},
		{"offsets beyond the log", slot(4, 6, 9, 12), nil, 10, want{4, []int64{6, 9}, true}},
		{"nothing left of the log", slot(4, 6), encodeOffset(3), 0, want{-1, nil, true}},
		{"just below the log", slot(9), nil, 10, want{9, nil, false}},
		{"offset too long", slot(4), append(encodeOffset(50), 0), 100, want{4, nil, false}},
		{"offset too short", slot(4), []byte{0x7f}, 100, want{4, nil, false}},
		{"offset below -1", slot(4), encodeOffset(-7), 100, want{4, nil, false}},
		{"offset empty", slot(4), []byte{}, 100, want{4, nil, false}},
		{"both broken", []byte("no slot"), []byte{1}, 100, want{-1, nil, false}},
	} {
		r := newRig(t, 1, nil)
		if c.ahead != nil {
			r.place(part0(0), AheadFile, c.ahead)
		}
		if c.offset != nil {
			r.place(part0(0), OffsetFile, c.offset)
		}
		dir, err := r.root.OpenDir("p0")
		require.NoError(t, err)
		r.ops = nil
		s, report, err := Recover(dir, 1, c.hw)
		require.NoError(t, err, c.name)
		require.Empty(t, r.log(), "%s: it only reads", c.name)
		require.Equal(t, c.want, want{s.Committed, s.Ahead, report.Clamped}, c.name)
		require.Equal(t, dir.ID(), s.Dir)
		require.Equal(t, len(c.offset) != offsetSize && len(c.offset) > 0 || c.name == "offset below -1", report.OffsetErr != nil, c.name)
	}
}

// An answer that the disk refuses is not an empty state: that would deliver everything again.
func TestRecoverReportsErrors(t *testing.T) {
	for _, kind := range []disk.OpKind{disk.OpOpen, disk.OpRead, disk.OpSize} {
		for _, name := range []string{AheadFile, OffsetFile} {
			if kind == disk.OpSize && name == OffsetFile {
				continue // it reads no size
			}
			r := newRig(t, 1, nil)
			r.place(part0(0), AheadFile, slotBytes(1, 1, 4))
			r.place(part0(0), OffsetFile, encodeOffset(4))
			dir, err := r.root.OpenDir("p0")
			require.NoError(t, err)
			r.failOn(kind, "p0/"+name, -1, errIO)
			_, _, err = Recover(dir, 1, 100)
			require.ErrorIs(t, err, errIO, "%v %s", kind, name)
		}
	}
}

// Q-04, BUG-150: after a clamp, Reseed leaves nothing that a later crash could take for settled.
func TestReseed(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0, 1, 2, 3, 4, 5, 6, 7, 9)
	require.NoError(t, r.c.finish())
	dir, err := r.root.OpenDir("p0")
	require.NoError(t, err)
	s, report, err := Recover(dir, 1, 4)
	require.NoError(t, err)
	require.True(t, report.Clamped)
	require.Equal(t, 1, report.Discarded)
	require.Equal(t, int64(7), report.Frontier)
	r.hook = func(disk.Op) error { // a crash in between clamps again: never below, never lost
		r.images(k, func(s State) { require.GreaterOrEqual(t, s.Committed, int64(3)) })
		return nil
	}
	require.NoError(t, Reseed(dir, 1, s))
	r.hook = nil
	r.durable(k, 3)
	require.Equal(t, int64(3), r.offset(k))
}

// An operator sees what each slot holds, which one wins and why the other does not.
func TestReadSlots(t *testing.T) {
	r := newRig(t, 1, nil)
	dir, err := r.root.OpenDir("p0")
	require.NoError(t, err)
	s, err := ReadSlots(dir, 0)
	require.NoError(t, err)
	require.False(t, s.Exists)
	require.Equal(t, -1, s.Newest)

	r.ack(part0(0), 0)
	r.flush()
	r.ack(part0(0), 1, 4)
	r.flush()
	s, err = ReadSlots(dir, 0)
	require.NoError(t, err)
	require.True(t, s.Exists)
	require.Equal(t, int64(aheadSize), s.Size)
	require.Equal(t, 1, s.Newest)
	require.Equal(t, State{Committed: 1, Ahead: []int64{4}}, s.Slot[1].State)
	require.Equal(t, "sequence 1 is below 2", s.Slot[0].Lost)
	require.Equal(t, uint64(1), s.Slot[1].Identity)
}
