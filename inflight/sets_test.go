package inflight

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBitsAgainstMap exercises the ring: windows of up to 300 words (several summary words), moving bases, wrap-around.
func TestBitsAgainstMap(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		span := int64(1) << (1 + r.IntN(14))
		base := r.Int64N(1 << 40)
		b, m := bits{base: base}, map[int64]bool{}
		for range 400 {
			x := base + r.Int64N(span)
			switch r.IntN(6) {
			case 0, 1, 2:
				b.set(x)
				m[x] = true
			case 3:
				require.Equal(t, m[x], b.clear(x))
				delete(m, x)
			case 4:
				require.Equal(t, m[x], b.has(x))
				require.False(t, b.has(base-1))
				require.False(t, b.has(base+b.span()))
			case 5:
				if r.IntN(4) == 0 {
					base += r.Int64N(span/4 + 2)
					b.rebase(base)
					maps.DeleteFunc(m, func(x int64, _ bool) bool { return x < base })
				}
				if r.IntN(8) == 0 {
					b.trim()
				}
			}
			require.Equal(t, len(m), b.count)
			if len(m) > 0 {
				require.Equal(t, slices.Min(slices.Collect(maps.Keys(m))), b.first())
			}
		}
		require.Equal(t, slices.Sorted(maps.Keys(m)), b.appendTo(nil))
		from, until := base+span/4, base+span/2
		n := int64(0)
		for x := range m {
			if x >= from && x < until {
				n++
			}
		}
		require.Equal(t, n, b.countFrom(from, until))
	}
}

func TestTableAgainstMap(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		span := int64(1) << (1 + r.IntN(10))
		var table table
		m := map[int64]Lease{}
		for i := range int64(500) {
			x := r.Int64N(span)
			switch _, found := m[x]; {
			case !found:
				l := Lease{Offset: x, Nonce: i + 1}
				table.put(l)
				m[x] = l
			case r.IntN(3) > 0:
				table.remove(x)
				delete(m, x)
			case r.IntN(40) == 0:
				table.removeBelow(x)
				maps.DeleteFunc(m, func(y int64, _ Lease) bool { return y < x })
			case r.IntN(40) == 0:
				table.trim()
			}
			require.Equal(t, len(m), table.count)
			l := table.get(r.Int64N(span))
			if l != nil {
				require.Equal(t, m[l.Offset], *l)
			}
		}
		for x := range span {
			l, found := m[x]
			got := table.get(x)
			require.Equal(t, found, got != nil)
			if found {
				require.Equal(t, l, *got)
			}
		}
		all := table.appendTo(nil)
		require.Len(t, all, len(m))
	}
}
