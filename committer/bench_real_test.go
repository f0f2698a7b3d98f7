package committer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
)

// dirtyCounts are the numbers of changed partitions that PERF-06, PERF-08 and COM-33 speak of, and beyond.
var dirtyCounts = []int{12, 64, 256, 1024, 10_000}

// realCommitter is a committer without its task on the operating system's disk, all of whose partitions are primed.
type realCommitter struct {
	*Committer
	keys   []Key
	states map[Key]int64
}

func newRealCommitter(b *testing.B, n int) *realCommitter {
	e := env.OS()
	root, err := e.FS().OpenRoot(b.TempDir(), true)
	require.NoError(b, err)
	b.Cleanup(func() { root.Close() })
	r := &realCommitter{states: map[Key]int64{}}
	for i := range n {
		k := Key{"t", int32(i)}
		require.NoError(b, root.Mkdir(fmt.Sprintf("p%d", i)))
		r.keys, r.states[k] = append(r.keys, k), 0
	}
	require.NoError(b, root.Sync())
	r.Committer, err = newCommitter(e, Options{
		Interval: time.Second, Root: root, MaxOpen: 4096, Path: func(k Key) string { return fmt.Sprintf("p%d", k.Partition) },
		State: func(k Key, _ []int64) (State, uint64, bool) { return State{Committed: r.states[k]}, 1, true },
	})
	require.NoError(b, err)
	b.Cleanup(func() { r.finish() })
	r.ackAll()
	r.windows()
	return r
}

func (r *realCommitter) ackAll() {
	for _, k := range r.keys {
		r.states[k]++
		r.Dirty(k)
	}
}

// windows is a tick without its writeouts.
func (r *realCommitter) windows() {
	r.beginTick()
	r.writeWindows()
	r.endTick()
}

// writeouts makes everything durable, one partition at a time (COM-09).
func (r *realCommitter) writeouts() {
	for _, k := range r.keys {
		if p := r.roster.parts[k]; p != nil {
			r.writeoutStep(p)
		}
	}
}

func forDirty(b *testing.B, measure func(b *testing.B, r *realCommitter)) {
	for _, n := range dirtyCounts {
		b.Run(fmt.Sprintf("dirty=%d", n), func(b *testing.B) {
			if n > 1024 && testing.Short() {
				b.Skip("priming so many takes a while")
			}
			measure(b, newRealCommitter(b, n))
		})
	}
}

// BenchmarkWindows is a tick that writes every partition into the page cache, without a sync.
func BenchmarkWindows(b *testing.B) {
	forDirty(b, func(b *testing.B, r *realCommitter) {
		for b.Loop() {
			r.ackAll()
			r.windows()
		}
	})
}

// BenchmarkWriteout makes every partition durable.
func BenchmarkWriteout(b *testing.B) {
	forDirty(b, func(b *testing.B, r *realCommitter) {
		for b.Loop() {
			b.StopTimer()
			r.ackAll()
			r.windows()
			b.StartTimer()
			r.writeouts()
		}
	})
}

// BenchmarkClose is what a graceful stop does: it writes, writes out and levels every partition.
func BenchmarkClose(b *testing.B) {
	for _, n := range dirtyCounts {
		b.Run(fmt.Sprintf("dirty=%d", n), func(b *testing.B) {
			if n > 1024 && testing.Short() {
				b.Skip("priming so many takes a while")
			}
			for b.Loop() {
				b.StopTimer()
				r := newRealCommitter(b, n)
				r.ackAll()
				b.StartTimer()
				require.NoError(b, r.finish())
			}
		})
	}
}
