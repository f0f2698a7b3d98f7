package wal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// A steady log allocates nothing for an append, whoever writes.
func TestAppendDoesNotAllocate(t *testing.T) {
	r := newRig(t)
	l, err := Open(r.env, r.dir().(hookDir).Dir, Options{})
	require.NoError(t, err)
	payload := make([]byte, 100)
	batch := [][]byte{payload, payload, payload}
	for range 50 {
		_, err := l.Append(batch...)
		require.NoError(t, err)
	}
	allocs := testing.AllocsPerRun(200, func() {
		l.Append(payload)
		l.Append(batch...)
	})
	require.Less(t, allocs, 0.5, "now and then an index grows by a mark")
	require.NoError(t, l.Close())
}

// Reading in order allocates nothing either.
func TestReadDoesNotAllocate(t *testing.T) {
	l := newRig(t).open(Options{})
	payload := make([]byte, 1000)
	for range 20 {
		_, err := l.Append(payload, payload, payload, payload, payload, payload, payload, payload, payload, payload)
		require.NoError(t, err)
	}
	r := l.NewReader(1)
	r.Next()
	require.Zero(t, testing.AllocsPerRun(150, func() { r.Next() }))
	require.NoError(t, r.Close())
	require.NoError(t, l.Close())
}

// BenchmarkAppend measures appends of 1 KiB by several writers. "raw" is the yardstick of the same run: one
// writer that appends a frame of the same size and syncs, over and over.
func BenchmarkAppend(b *testing.B) {
	payload := make([]byte, 1024)
	b.Run("raw", func(b *testing.B) {
		d, err := vfs.OS{}.OpenRoot(b.TempDir(), false)
		require.NoError(b, err)
		f, err := d.Create("raw")
		require.NoError(b, err)
		frame := record.AppendWALFrame(nil, 1, payload)
		b.SetBytes(int64(len(payload)))
		for i := 0; b.Loop(); i++ {
			f.WriteAt(frame, int64(i*len(frame)))
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
		f.Close()
		d.Close()
	})
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			d, err := vfs.OS{}.OpenRoot(b.TempDir(), false)
			require.NoError(b, err)
			var syncs atomic.Int64
			l, err := Open(env.OS(), d, Options{OnDurable: func() { syncs.Add(1) }})
			require.NoError(b, err)
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := l.Append(payload); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/float64(syncs.Load()), "records/sync")
			require.NoError(b, l.Close())
		})
	}
}

// BenchmarkOpen measures opening a log with a backlog of 64 MiB.
func BenchmarkOpen(b *testing.B) {
	path := b.TempDir()
	open := func(d time.Duration) *Log {
		dir, err := vfs.OS{}.OpenRoot(path, false)
		require.NoError(b, err)
		l, err := Open(env.OS(), dir, Options{CheckpointSync: d})
		require.NoError(b, err)
		return l
	}
	l := open(time.Second)
	batch := make([][]byte, 1000)
	for i := range batch {
		batch[i] = make([]byte, 1024)
	}
	for range 64 {
		_, err := l.Append(batch...)
		require.NoError(b, err)
	}
	require.NoError(b, l.Close())
	b.SetBytes(64 << 20)
	for b.Loop() {
		require.NoError(b, open(time.Second).Close())
	}
}
