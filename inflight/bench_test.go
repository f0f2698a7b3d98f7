package inflight

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
)

// traffic keeps inFlight leases out and settles them in the order that a consumer group does: mostly in order, some late.
type traffic struct {
	shard *Shard
	now   env.Instant
	out   []Lease
	at    int
}

func newTraffic(inFlight int) *traffic {
	// Acks go round the ring of leases, each a quarter of it behind or ahead of its neighbours.
	tr := &traffic{shard: New(Options{MaxInFlight: inFlight, MaxAckedAhead: inFlight}, State{Committed: -1}), out: make([]Lease, inFlight)}
	for i := range tr.out {
		tr.out[i], _, _ = tr.shard.Reserve(tr.now, 1<<60)
	}
	return tr
}

func (tr *traffic) step() bool {
	n := len(tr.out)
	i := tr.at % n
	if n >= 8 {
		i = (tr.at%4*(n/4) + tr.at/4) % n
	}
	tr.at++
	tr.now += env.Instant(time.Microsecond)
	if tr.at%16 == 0 {
		if _, ok, _ := tr.shard.Extend(tr.now, tr.out[i].Offset, tr.out[i].Nonce); !ok {
			return false
		}
	}
	if tr.at%32 == 0 {
		tr.shard.Nack(tr.now, tr.out[i].Offset, tr.out[i].Nonce)
	} else if ok, _ := tr.shard.Ack(tr.now, tr.out[i].Offset, tr.out[i].Nonce); !ok {
		return false
	}
	l, outcome, _ := tr.shard.Reserve(tr.now, 1<<60)
	tr.out[i] = l
	return outcome == Reserved
}

// TestNoAllocations: reserve, ack, extend, nack and expire allocate nothing once the tables have grown.
func TestNoAllocations(t *testing.T) {
	for _, inFlight := range []int{1, 7, 1000} {
		tr := newTraffic(inFlight)
		for range 20 * inFlight * 64 {
			require.True(t, tr.step())
		}
		var dst []int64
		dst = tr.shard.Snapshot(dst).Ahead
		require.Zero(t, testing.AllocsPerRun(20_000, func() {
			if !tr.step() {
				t.Fatal("the traffic stopped")
			}
		}), "%d in flight", inFlight)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			tr.shard.Expire(tr.now)
			tr.shard.NextExpiry()
			dst = tr.shard.Snapshot(dst).Ahead
		}))
	}
}

func BenchmarkReserveAck(b *testing.B) {
	for _, inFlight := range []int{1, 64, 1024, 1 << 20} {
		b.Run(fmt.Sprintf("inflight=%d", inFlight), func(b *testing.B) {
			tr := newTraffic(inFlight)
			b.ReportAllocs()
			for b.Loop() {
				if !tr.step() {
					b.Fatal("the traffic stopped")
				}
			}
		})
	}
}

// BenchmarkGapCloses is the worst ack: it moves the frontier over a full acked-ahead set.
func BenchmarkGapCloses(b *testing.B) {
	s := New(Options{MaxInFlight: 2048, MaxAckedAhead: 2048}, State{Committed: -1})
	leases := make([]Lease, 2048)
	for b.Loop() {
		for i := range leases {
			leases[i], _, _ = s.Reserve(0, 1<<60)
		}
		for i := len(leases) - 1; i >= 0; i-- {
			s.Ack(0, leases[i].Offset, leases[i].Nonce)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2048, "ns/record")
}

func BenchmarkParseHandle(b *testing.B) {
	text := Handle{12, 123456789, 1 << 62}.String()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHandle(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAckAhead acks above a hole, with 1,024 acked ahead.
func BenchmarkAckAhead(b *testing.B) {
	b.ReportAllocs()
	const ahead = 1024
	for n := 0; n < b.N; n += ahead {
		b.StopTimer()
		s := New(Options{MaxInFlight: 2 * ahead, MaxAckedAhead: 2 * ahead}, State{Committed: -1})
		leases := make([]Lease, 2*ahead+1)
		for i := range leases[:2*ahead] {
			leases[i], _, _ = s.Reserve(0, 1<<60)
		}
		for _, l := range leases[1 : ahead+1] {
			s.Ack(0, l.Offset, l.Nonce)
		}
		b.StartTimer()
		for _, l := range leases[ahead+1 : 2*ahead] {
			s.Ack(0, l.Offset, l.Nonce)
		}
	}
}

// BenchmarkExpire releases 1,000 leases that expire at once.
func BenchmarkExpire(b *testing.B) {
	s := New(Options{Visibility: time.Second}, State{Committed: -1})
	b.ReportAllocs()
	now := env.Instant(0)
	for b.Loop() {
		b.StopTimer()
		for range 1000 {
			s.Reserve(now, 1<<60)
		}
		now = now.Add(time.Second)
		b.StartTimer()
		if n, _ := s.Expire(now); n != 1000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/lease")
}
