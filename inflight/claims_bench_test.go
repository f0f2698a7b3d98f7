package inflight

import (
	"testing"
	"time"

	"narad/env"
)

// BenchmarkPERF04 is what the expiry of one delivery costs among 50,000 that are under way: with a queue that is shifted by
// each, and with the lease table (PERF-04, BUG-88). Each lease has an instant of its own; one expires, one is taken.
func BenchmarkPERF04(b *testing.B) {
	const leases = 50_000
	type entry struct{ offset, nonce, expiry int64 }
	b.Run("shift", func(b *testing.B) {
		queue := make([]entry, leases)
		for i := range b.N {
			copy(queue, queue[1:])
			queue[leases-1] = entry{offset: int64(i)}
		}
	})
	b.Run("table", func(b *testing.B) {
		s := New(Options{Visibility: leases * time.Microsecond, MaxInFlight: 2 * leases, MaxAckedAhead: leases}, State{Committed: -1})
		now := env.Instant(0)
		for range leases {
			now = now.Add(time.Microsecond)
			s.Reserve(now, 1<<60)
		}
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Microsecond)
			n, _ := s.Expire(now)
			for range n {
				s.Reserve(now, 1<<60)
			}
		}
	})
}
