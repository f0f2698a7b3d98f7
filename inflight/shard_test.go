package inflight

import (
	"math"
	"testing"
	"time"

	"narad/env"

	"github.com/stretchr/testify/require"
)

const (
	visibility = 30 * time.Second
	start      = env.Instant(1000)
	lapse      = start + env.Instant(visibility) // when a lease taken at start lapses
)

func newShard(o Options) *Shard {
	o.Seed = [32]byte{1}
	return New(o, State{Committed: -1})
}

func reserve(t *testing.T, s *Shard, now env.Instant, hw, offset int64) Lease {
	t.Helper()
	l, outcome, _ := s.Reserve(now, hw)
	require.Equal(t, Reserved, outcome)
	require.Equal(t, offset, l.Offset)
	return l
}

func refuse(t *testing.T, s *Shard, now env.Instant, hw int64, want Outcome) {
	t.Helper()
	l, outcome, _ := s.Reserve(now, hw)
	require.Equal(t, want, outcome)
	require.Zero(t, l)
}

func ack(t *testing.T, s *Shard, now env.Instant, l Lease, want bool) Effect {
	t.Helper()
	ok, effect := s.Ack(now, l.Offset, l.Nonce)
	require.Equal(t, want, ok)
	return effect
}

// nothing settled is -1, the high watermark is exclusive.
func TestEmptyAndOneRecord(t *testing.T) {
	s := newShard(Options{})
	require.EqualValues(t, -1, s.Committed())
	refuse(t, s, start, 0, Empty)
	require.Zero(t, s.Available(0, 0))
	require.EqualValues(t, 1, s.Available(1, 0))
	l := reserve(t, s, start, 1, 0)
	require.Zero(t, s.Available(1, 0))
	refuse(t, s, start, 1, AllReserved)
	ack(t, s, start, l, true)
	require.EqualValues(t, 0, s.Committed())
	refuse(t, s, start, 1, Empty)
}

// INF-31, CFG-03, CFG-04, CFG-05
func TestDefaults(t *testing.T) {
	s := New(Options{}, State{Committed: -1})
	require.Equal(t, Options{Visibility: 30 * time.Second, MaxInFlight: 1024, MaxAckedAhead: 1024}, s.opts)
	l := reserve(t, s, start, 1, 0)
	require.Equal(t, start.Add(30*time.Second), l.Expiry)
}

// INF-06: one ack moves the frontier over the whole run; INF-02: and not before.
func TestOutOfOrderAcks(t *testing.T) {
	s := newShard(Options{})
	var leases []Lease
	for offset := range int64(6) {
		leases = append(leases, reserve(t, s, start, 9, offset))
	}
	for _, i := range []int{3, 1, 2} {
		require.True(t, ack(t, s, start, leases[i], true).Dirties()) // INF-38
		require.EqualValues(t, -1, s.Committed())
	}
	require.Equal(t, State{Committed: -1, Ahead: []int64{1, 2, 3}}, s.Snapshot(nil))
	ack(t, s, start, leases[0], true)
	require.Equal(t, State{Committed: 3, Ahead: []int64{}}, s.Snapshot([]int64{}))
	ack(t, s, start, leases[5], true)
	require.Equal(t, State{Committed: 3, Ahead: []int64{5}}, s.Snapshot(nil))
}

// INF-12, INF-25: an ack without the live nonce changes nothing.
func TestForgedAck(t *testing.T) {
	s := newShard(Options{})
	l := reserve(t, s, start, 1, 0)
	version := s.Version()
	for _, nonce := range []int64{0, 1, -1, l.Nonce + 1, math.MaxInt64} {
		for _, offset := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
			ok, effect := s.Ack(start, offset, nonce)
			require.False(t, ok)
			require.Zero(t, effect)
			_, ok, _ = s.Extend(start, offset, nonce)
			require.False(t, ok)
			ok, _ = s.Nack(start, offset, nonce)
			require.False(t, ok)
			ok, _ = s.Release(offset, nonce)
			require.False(t, ok)
			ok, _ = s.SkipCorrupt(offset, nonce)
			require.False(t, ok)
		}
	}
	require.Equal(t, version, s.Version())
	got, ok := s.Lookup(0)
	require.True(t, ok)
	require.Equal(t, l, got)
	ack(t, s, start, l, true)
}

// INF-14, Q-15, Q-16: at its expiry a lease is over, whether or not somebody else has the offset.
func TestLateAck(t *testing.T) {
	s := newShard(Options{})
	l := reserve(t, s, start, 2, 0)
	other := reserve(t, s, start, 2, 1)
	ack(t, s, lapse-1, other, true)
	require.Equal(t, Freed, ack(t, s, lapse, l, false))
	_, ok, _ := s.Extend(lapse, l.Offset, l.Nonce)
	require.False(t, ok)
	ok, _ = s.Nack(lapse, l.Offset, l.Nonce)
	require.False(t, ok)
	require.EqualValues(t, -1, s.Committed())
}

// INF-13: the second holder's lease survives the first holder's ack, nack and extend.
func TestSecondHolder(t *testing.T) {
	s := newShard(Options{})
	first := reserve(t, s, start, 1, 0)
	second := reserve(t, s, lapse, 1, 0)
	require.NotEqual(t, first.Nonce, second.Nonce)
	ack(t, s, lapse, first, false)
	ok, _ := s.Nack(lapse, first.Offset, first.Nonce)
	require.False(t, ok)
	_, ok, _ = s.Extend(lapse, first.Offset, first.Nonce)
	require.False(t, ok)
	got, _ := s.Lookup(0)
	require.Equal(t, second, got)
	ack(t, s, lapse, second, true)
}

// INF-15: the second ack of one message is refused, on the frontier, ahead of it and below it.
func TestAckTwice(t *testing.T) {
	s := newShard(Options{})
	a, b := reserve(t, s, start, 2, 0), reserve(t, s, start, 2, 1)
	ack(t, s, start, b, true)
	ack(t, s, start, b, false)
	ack(t, s, start, a, true)
	version := s.Version()
	ack(t, s, start, a, false)
	ack(t, s, start, b, false)
	require.Equal(t, version, s.Version())
}

// INF-16, Q-17: from now, not from the old expiry. INF-17, INF-18: the first deadline passes without effect.
func TestExtend(t *testing.T) {
	s := newShard(Options{})
	l := reserve(t, s, start, 1, 0)
	at := start.Add(10 * time.Second)
	expiry, ok, _ := s.Extend(at, l.Offset, l.Nonce)
	require.True(t, ok)
	require.Equal(t, at.Add(visibility), expiry)
	released, _ := s.Expire(expiry - 1)
	require.Zero(t, released)
	refuse(t, s, expiry-1, 1, AllReserved)
	next, ok := s.NextExpiry()
	require.True(t, ok)
	require.Equal(t, expiry, next)
	released, effect := s.Expire(expiry)
	require.Equal(t, 1, released)
	require.True(t, effect.Wakes()) // INF-21
	_, ok = s.NextExpiry()
	require.False(t, ok)
	reserve(t, s, expiry, 1, 0)
}

// INF-18: the deadline of an earlier lease of the same offset does not end the later one.
func TestDeadlineOfEarlierLease(t *testing.T) {
	s := newShard(Options{})
	first := reserve(t, s, start, 1, 0)
	ok, effect := s.Nack(start+1, first.Offset, first.Nonce)
	require.True(t, ok)
	require.Equal(t, Freed, effect) // INF-19
	second := reserve(t, s, start+5, 1, 0)
	released, _ := s.Expire(lapse)
	require.Zero(t, released)
	ack(t, s, lapse+4, second, true)
}

// Two leases of one offset can have the same expiry; the nonce tells their deadlines apart. INF-18
func TestEqualExpiry(t *testing.T) {
	s := newShard(Options{})
	first := reserve(t, s, start, 1, 0)
	_, _ = s.Release(first.Offset, first.Nonce)
	second := reserve(t, s, start, 1, 0)
	require.Equal(t, first.Expiry, second.Expiry)
	released, _ := s.Expire(lapse)
	require.Equal(t, 1, released)
	third := reserve(t, s, lapse, 1, 0)
	released, _ = s.Expire(lapse)
	require.Zero(t, released)
	ack(t, s, lapse, third, true)
}

// INF-26, Q-19, Q-20: nothing beyond the in-flight cap; every way a slot frees tells it.
func TestInFlightCap(t *testing.T) {
	s := newShard(Options{MaxInFlight: 2})
	a, b := reserve(t, s, start, 9, 0), reserve(t, s, start, 9, 1)
	refuse(t, s, start, 9, InFlightCap)
	require.Zero(t, s.Available(9, 0))
	require.Equal(t, Advanced|Uncapped, ack(t, s, start, b, true))
	c := reserve(t, s, start, 9, 2)
	_, effect := s.SkipCorrupt(c.Offset, c.Nonce)
	require.Equal(t, Uncapped, effect)
	d := reserve(t, s, start, 9, 3)
	_, effect = s.Release(d.Offset, d.Nonce)
	require.Equal(t, Freed|Uncapped, effect)
	reserve(t, s, start, 9, 3)
	require.Equal(t, Uncapped, s.SetLimits(Options{MaxInFlight: 3}))
	e := reserve(t, s, start, 9, 4)
	_, effect = s.Nack(start, e.Offset, e.Nonce)
	require.Equal(t, Freed|Uncapped, effect)
	require.Zero(t, s.SetLimits(Options{MaxInFlight: 1}))
	refuse(t, s, start, 9, InFlightCap)
	ack(t, s, start, a, true) // never refused for a cap
}

// INF-27, Q-20: at the acked-ahead cap only the hole goes out, and it does go out. INF-28: acks go on above the cap.
func TestAckedAheadCap(t *testing.T) {
	s := newShard(Options{MaxAckedAhead: 2})
	var leases []Lease
	for offset := range int64(6) {
		leases = append(leases, reserve(t, s, start, 9, offset))
	}
	for _, i := range []int{2, 3, 4, 5} {
		ack(t, s, start, leases[i], true)
	}
	require.Equal(t, 4, s.AckedAhead())
	refuse(t, s, start, 9, AheadCap)
	require.Zero(t, s.Available(9, 0))
	_, effect := s.Nack(start, 0, leases[0].Nonce)
	require.Equal(t, Freed|Uncapped, effect)
	require.EqualValues(t, 1, s.Available(9, 0))
	hole := reserve(t, s, start, 9, 0)
	refuse(t, s, start, 9, AheadCap)
	require.Equal(t, Advanced, ack(t, s, start, hole, true)) // 1 is the hole now, and leased
	refuse(t, s, start, 9, AheadCap)
	require.Equal(t, Advanced|Uncapped, ack(t, s, start, leases[1], true))
	require.EqualValues(t, 5, s.Committed())
	reserve(t, s, start, 9, 6)
}

// REC-13, REC-14, REC-15, INF-30: one stranded lease at the frontier, all above acked: all_reserved until it lapses, then one
// ack clears the run. INV-24
func TestQuietPartition(t *testing.T) {
	for _, v := range []time.Duration{time.Second, visibility} {
		s := newShard(Options{Visibility: v})
		reserve(t, s, start, 8, 0) // its consumer dies
		for offset := int64(1); offset < 8; offset++ {
			ack(t, s, start, reserve(t, s, start, 8, offset), true)
		}
		end := start.Add(v)
		refuse(t, s, end-1, 8, AllReserved)
		require.EqualValues(t, -1, s.Committed())
		ack(t, s, end, reserve(t, s, end, 8, 0), true)
		require.EqualValues(t, 7, s.Committed())
	}
}

// INF-32, INF-33, Q-02: one step to oldest-1; what lies below is dropped, the oldest retained is next.
func TestRetentionJump(t *testing.T) {
	s := newShard(Options{})
	a, b, c := reserve(t, s, start, 9, 0), reserve(t, s, start, 9, 1), reserve(t, s, start, 9, 2)
	d := reserve(t, s, start, 9, 3)
	ack(t, s, start, b, true)
	version := s.Version()
	ok, effect := s.JumpTo(2)
	require.True(t, ok)
	require.True(t, effect.Dirties()) // COM-60
	require.NotEqual(t, version, s.Version())
	require.Equal(t, State{Committed: 1}, s.Snapshot(nil))
	ack(t, s, start, a, false)
	got, _ := s.Lookup(2)
	require.Equal(t, c, got)
	_, _ = s.Release(c.Offset, c.Nonce)
	reserve(t, s, start, 9, 2)
	ok, effect = s.JumpTo(2) // INF-34: the loser of the race changes nothing
	require.False(t, ok)
	require.Zero(t, effect)
	ok, _ = s.Release(a.Offset, a.Nonce)
	require.False(t, ok)
	ack(t, s, start, d, true)
	ok, _ = s.JumpTo(3) // up to acked offsets: the frontier goes on over them
	require.True(t, ok)
	require.EqualValues(t, 3, s.Committed())
	ok, _ = s.JumpTo(1_000_000_000)
	require.True(t, ok)
	reserve(t, s, start, 2_000_000_000, 1_000_000_000)
}

// INF-35, Q-14, LOG-11: a skip is resolved, the frontier passes it, and only that advance dirties the state. INF-36: it is not part
// of the snapshot.
func TestCorruptSkip(t *testing.T) {
	s := newShard(Options{})
	a, b := reserve(t, s, start, 3, 0), reserve(t, s, start, 3, 1)
	ok, effect := s.SkipCorrupt(b.Offset, b.Nonce)
	require.True(t, ok)
	require.Zero(t, effect)
	require.Equal(t, 1, s.Skipped())
	require.Equal(t, State{Committed: -1}, s.Snapshot(nil))
	reserve(t, s, start, 3, 2)
	ack(t, s, start, b, false)
	ack(t, s, start, a, true)
	require.EqualValues(t, 1, s.Committed())
	require.Zero(t, s.Skipped())
	s = newShard(Options{})
	c := reserve(t, s, start, 1, 0)
	_, effect = s.SkipCorrupt(c.Offset, c.Nonce)
	require.Equal(t, Advanced, effect) // COM-60
	require.EqualValues(t, 0, s.Committed())
}

// LOG-17, LOG-19, INF-37: a give-back leaves frontier and skips alone and the offset is next at once.
func TestGiveBack(t *testing.T) {
	s := newShard(Options{})
	l := reserve(t, s, start, 5, 0)
	version := s.Version()
	ok, effect := s.Release(l.Offset, l.Nonce)
	require.True(t, ok)
	require.Equal(t, Freed, effect)
	require.Equal(t, version, s.Version())
	require.Zero(t, s.Skipped())
	reserve(t, s, start, 5, 0)
}

// INF-11, ORD-08: returned offsets go out before newer ones, the lowest first.
func TestLowestFirst(t *testing.T) {
	s := newShard(Options{})
	var leases []Lease
	for offset := range int64(200) {
		leases = append(leases, reserve(t, s, start, 999, offset))
	}
	for _, i := range []int64{150, 3, 70} {
		_, _ = s.Nack(start, i, leases[i].Nonce)
	}
	for _, offset := range []int64{3, 70, 150, 200} {
		reserve(t, s, start, 999, offset)
	}
}

// REC-03, REC-11: what was restored is settled; what lies under the frontier or continues it leaves the set.
func TestRestore(t *testing.T) {
	s := New(Options{}, State{Committed: 4, Ahead: []int64{1, 4, 5, 6, 8, 9, 1 << 50}})
	require.Equal(t, State{Committed: 6, Ahead: []int64{8, 9}}, s.Snapshot(nil))
	require.Zero(t, s.Leases())
	l := reserve(t, s, start, 12, 7)
	reserve(t, s, start, 12, 10)
	ack(t, s, start, l, true)
	require.EqualValues(t, 9, s.Committed())
	require.EqualValues(t, -1, New(Options{}, State{Committed: -7}).Committed())
}

// INF-23: nonces of one stream do not repeat and are not near each other. INF-24, INF-42: a shard with another seed honours none of the
// old handles, one with the same seed would.
func TestNonces(t *testing.T) {
	s := newShard(Options{MaxInFlight: 5000})
	seen := map[int64]bool{}
	var last, near int64
	for range 5000 {
		l, _, _ := s.Reserve(start, 5000)
		require.Positive(t, l.Nonce)
		require.False(t, seen[l.Nonce])
		seen[l.Nonce] = true
		if d := l.Nonce - last; d < 1<<32 && d > -1<<32 {
			near++
		}
		last = l.Nonce
	}
	require.Less(t, near, int64(3))
	old := reserve(t, New(Options{Seed: [32]byte{1}}, State{Committed: -1}), start, 1, 0)
	restarted := New(Options{Seed: [32]byte{2}}, State{Committed: -1})
	ack(t, restarted, start, old, false) // before the offset is leased again
	reserve(t, restarted, start, 1, 0)
	ack(t, restarted, start, old, false)
	require.EqualValues(t, -1, restarted.Committed())
}

// I5: heavy extending and acking leaves no more stale deadlines than the table has slots.
func TestStaleDeadlinesAreBounded(t *testing.T) {
	s := newShard(Options{})
	l := reserve(t, s, start, 1<<40, 0)
	for i := range int64(20_000) {
		_, ok, _ := s.Extend(start+env.Instant(i), l.Offset, l.Nonce)
		require.True(t, ok)
		ack(t, s, start, reserve(t, s, start, 1<<40, i+1), true)
		if i == 1000 {
			ack(t, s, start, l, true)
			l = reserve(t, s, start, 1<<40, i+2)
			ack(t, s, start, l, true)
			l = reserve(t, s, start, 1<<40, i+3)
			break
		}
	}
	for i := range int64(20_000) {
		_, _, _ = s.Extend(start+env.Instant(i), l.Offset, l.Nonce)
	}
	require.LessOrEqual(t, len(s.deadlines.entries), s.leases.count+max(staleMin, len(s.leases.slots))+1)
	released, _ := s.Expire(start.Add(visibility) + 20_000)
	require.Equal(t, 1, released)
}

// INF-01: a shard that nobody touched holds no tables, and Trim gives a burst's memory back.
func TestMemory(t *testing.T) {
	s := newShard(Options{})
	require.Zero(t, cap(s.deadlines.entries)+cap(s.leases.slots)+cap(s.acked.words)+cap(s.returned.words))
	var leases []Lease
	for offset := range int64(1000) {
		leases = append(leases, reserve(t, s, start, 1000, offset))
	}
	for i := len(leases) - 1; i >= 0; i-- {
		ack(t, s, start, leases[i], true)
	}
	s.Trim()
	require.Zero(t, cap(s.deadlines.entries)+cap(s.leases.slots)+cap(s.acked.words)+cap(s.returned.words))
	reserve(t, s, start, 1001, 1000)
}

// Saturation: a visibility timeout beyond the end of the clock never lapses.
func TestForever(t *testing.T) {
	s := newShard(Options{Visibility: math.MaxInt64})
	l := reserve(t, s, start, 1, 0)
	require.Equal(t, env.Forever, l.Expiry)
	ack(t, s, env.Forever-1, l, true)
}

func TestOutcomeNames(t *testing.T) {
	for o, name := range map[Outcome]string{Reserved: "reserved", Empty: "empty", InFlightCap: "cap", AheadCap: "ahead_full", AllReserved: "all_reserved", 99: "unknown"} {
		require.Equal(t, name, o.String()) // INF-30
	}
	require.Equal(t, "freed+advanced", (Freed | Advanced).String())
	require.Equal(t, "none", Effect(0).String())
}
