package wal

import (
	"fmt"
	"slices"
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

// BenchmarkGroupCommit measures how near the log comes to the ideal of group commit: all writers in every sync.
// The yardstick, the time of a bare write and fdatasync of a record of the same size at the end of a file of the same
// file system, is measured in turns with it. "of-ideal" is the median over the turns of
//
//	records a second ÷ (writers ÷ seconds of a bare write and sync)
func BenchmarkGroupCommit(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) { groupCommit(b, writers, Options{}) })
	}
}

const benchTurn = 100 // syncs of the yardstick, and records of each writer, in a turn

func groupCommit(b *testing.B, writers int, o Options) {
	payload := make([]byte, 1024)
	d, err := vfs.OS{}.OpenRoot(b.TempDir(), false)
	require.NoError(b, err)
	defer d.Close()
	require.NoError(b, d.Mkdir("log"))
	dir, err := d.OpenDir("log")
	require.NoError(b, err)
	var syncs atomic.Int64
	o.OnDurable = func() { syncs.Add(1) }
	l, err := Open(env.OS(), dir, o)
	require.NoError(b, err)
	raw := newYardstick(b, d, payload)
	turn := func() time.Duration {
		start := time.Now()
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for range benchTurn {
					if _, err := l.Append(payload); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		return time.Since(start)
	}
	turn()
	syncs.Store(0)
	var ratios []float64
	var spent, bare time.Duration
	b.ReportAllocs()
	for b.Loop() {
		before := raw.turn()
		took := turn()
		after := raw.turn()
		ratios = append(ratios, float64(before+after)/2/float64(took))
		spent, bare = spent+took, bare+before+after
	}
	records := float64(b.N * benchTurn * writers)
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-ideal")
	b.ReportMetric(records/float64(syncs.Load()), "records/sync")
	b.ReportMetric(records/spent.Seconds(), "records/s")
	b.ReportMetric(float64(bare.Microseconds())/float64(2*b.N*benchTurn), "bare-µs")
	require.NoError(b, l.Close())
	raw.close()
}

// yardstick is a file to which records are written and synced one by one.
type yardstick struct {
	b     testing.TB
	file  vfs.File
	frame []byte
	at    int64
}

func newYardstick(b testing.TB, d vfs.Dir, payload []byte) *yardstick {
	f, err := d.Create("bare")
	require.NoError(b, err)
	return &yardstick{b: b, file: f, frame: record.AppendWALFrame(nil, 1, payload)}
}

func (y *yardstick) turn() time.Duration {
	start := time.Now()
	for range benchTurn {
		y.file.WriteAt(y.frame, y.at)
		y.at += int64(len(y.frame))
		if err := y.file.Sync(); err != nil {
			y.b.Fatal(err)
		}
	}
	return time.Since(start)
}

func (y *yardstick) close() { require.NoError(y.b, y.file.Close()) }

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
