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

// BenchmarkGroupCommit measures how near the log comes to the ideal of group commit, which is all writers in every
// sync. The yardsticks are bare loops of a write at the end of a file and an fdatasync, on the same file system and in
// turns with it. The figures are medians over the turns of
//
//	of-ideal  seconds of a bare sync ÷ seconds in which every writer appends once, a bare write holding a record of
//	          each writer as a batch does
//	of-bare   the same with a single record in a bare write
//
// With prepared segments the time goes also into preparing them.
func BenchmarkGroupCommit(b *testing.B) {
	for _, prepared := range []bool{false, true} {
		for _, size := range []int{100, 1024} {
			for _, writers := range []int{1, 16, 64, 256} {
				b.Run(fmt.Sprintf("prepared=%v/bytes=%d/writers=%d", prepared, size, writers), func(b *testing.B) {
					groupCommit(b, writers, make([]byte, size), Options{Preallocate: prepared, IdleRollBytes: 64 << 10})
				})
			}
		}
	}
}

const benchTurn = 100 // syncs of a yardstick, and records of each writer, in a turn

func groupCommit(b *testing.B, writers int, payload []byte, o Options) {
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
	bare, ideal := newYardstick(b, d, "bare", payload, 1), newYardstick(b, d, "ideal", payload, writers)
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
	if o.Preallocate { // on to the first prepared segment
		require.Eventually(b, func() bool {
			require.NoError(b, l.SetCheckpoint(l.Next()))
			_, err := l.Append(make([]byte, 1024))
			require.NoError(b, err)
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.tail.seg.prepared
		}, time.Minute, 10*time.Millisecond)
	}
	syncs.Store(0)
	var ofBare, ofIdeal []float64
	var spent time.Duration
	b.ReportAllocs()
	for b.Loop() {
		bareTook, idealTook := bare.turn(), ideal.turn()
		took := turn()
		spent += took
		ofBare = append(ofBare, float64(bareTook)/float64(took))
		ofIdeal = append(ofIdeal, float64(idealTook)/float64(took))
	}
	records := float64(b.N * benchTurn * writers)
	b.ReportMetric(median(ofIdeal), "of-ideal")
	b.ReportMetric(median(ofBare), "of-bare")
	b.ReportMetric(records/float64(syncs.Load()), "records/sync")
	b.ReportMetric(records/spent.Seconds(), "records/s")
	require.NoError(b, l.Close())
	bare.close()
	ideal.close()
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// yardstick is a file to which so many records at once are written and synced.
type yardstick struct {
	b      testing.TB
	file   vfs.File
	frames []byte
	at     int64
}

func newYardstick(b testing.TB, d vfs.Dir, name string, payload []byte, records int) *yardstick {
	f, err := d.Create(name)
	require.NoError(b, err)
	y := &yardstick{b: b, file: f}
	for range records {
		y.frames = record.AppendWALFrame(y.frames, 1, payload)
	}
	return y
}

func (y *yardstick) turn() time.Duration {
	start := time.Now()
	for range benchTurn {
		y.file.WriteAt(y.frames, y.at)
		y.at += int64(len(y.frames))
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
