package wal

import (
	"fmt"
	"runtime/metrics"
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
	if poolsLeak {
		t.Skip("the race detector empties pools at random")
	}
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
	require.Zero(t, testing.AllocsPerRun(75, func() {
		r.Next()
		r.Buffered()
	}))
	require.NoError(t, r.Close())
	require.NoError(t, l.Close())
}

// BenchmarkGroupCommit measures how near the log comes to the ideal of group commit, which is all writers in every
// sync. The yardsticks are bare loops of a write and an fdatasync, on the same file system and in short turns with the log,
// so that whatever else uses the disk slows all of them. The figures are medians over the turns of
//
//	of-ideal     seconds of a bare sync ÷ seconds in which every writer appends once, a bare write holding a record of
//	             each writer as a batch does and going to the end of a growing file
//	of-prepared  the same over zeros that are on the disk, which is as fast as the disk can be
//	of-bare      as of-ideal, with a single record in a bare write
//	of-barrier   seconds in which the same number of goroutines meet so often at a barrier, the last of them
//	             writing and syncing such a batch by itself before it lets the others go, ÷ seconds of the log
//	barrier      seconds of a bare sync ÷ seconds of that barrier: what is left of the ideal when all writers are woken and run
//	             between two syncs, but do nothing
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
	zeros := newYardstick(b, d, "zeros", payload, writers)
	zeros.prepare()
	meeting := newYardstick(b, d, "barrier", payload, writers)
	if o.Preallocate {
		meeting.prepare()
	}
	turn := startWriters(b, writers, func() error { _, err := l.Append(payload); return err })
	defer turn.stop()
	barrier := startWriters(b, writers, newBarrier(writers, meeting.sync).meet)
	defer barrier.stop()
	turn.run()
	barrier.run()
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
	var ofBare, ofIdeal, ofPrepared, ofBarrier, bound []float64
	var spent time.Duration
	var allocs uint64
	for b.Loop() {
		bareTook, idealTook, zerosTook := bare.turn(), ideal.turn(), zeros.turn()
		barrierTook := barrier.run()
		before := mallocs()
		took := turn.run()
		allocs += mallocs() - before
		spent += took
		ofBare = append(ofBare, float64(bareTook)/float64(took))
		ofIdeal = append(ofIdeal, float64(idealTook)/float64(took))
		ofPrepared = append(ofPrepared, float64(zerosTook)/float64(took))
		ofBarrier = append(ofBarrier, float64(barrierTook)/float64(took))
		bound = append(bound, float64(idealTook)/float64(barrierTook))
	}
	records := float64(b.N * benchTurn * writers)
	b.ReportMetric(median(ofIdeal), "of-ideal")
	b.ReportMetric(median(ofPrepared), "of-prepared")
	b.ReportMetric(median(ofBare), "of-bare")
	b.ReportMetric(median(ofBarrier), "of-barrier")
	b.ReportMetric(median(bound), "barrier")
	b.ReportMetric(records/float64(syncs.Load()), "records/sync")
	b.ReportMetric(records/spent.Seconds(), "records/s")
	b.ReportMetric(float64(allocs)/records, "allocs/record")
	require.NoError(b, l.Close())
	for _, y := range []*yardstick{bare, ideal, zeros, meeting} {
		y.close()
	}
}

// mallocs is how many objects the process has allocated.
func mallocs() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// benchWriters are goroutines that do the same again and again, turn by turn.
type benchWriters struct {
	begin []chan struct{}
	done  sync.WaitGroup
}

func startWriters(b *testing.B, writers int, do func() error) *benchWriters {
	w := &benchWriters{}
	for range writers {
		begin := make(chan struct{}, 1)
		w.begin = append(w.begin, begin)
		go func() {
			for range begin {
				for range benchTurn {
					if err := do(); err != nil {
						b.Error(err)
					}
				}
				w.done.Done()
			}
		}()
	}
	return w
}

func (w *benchWriters) run() time.Duration {
	start := time.Now()
	w.done.Add(len(w.begin))
	for _, c := range w.begin {
		c <- struct{}{}
	}
	w.done.Wait()
	return time.Since(start)
}

func (w *benchWriters) stop() {
	for _, c := range w.begin {
		close(c)
	}
}

// barrier lets goroutines go on when all of them are there and the last one has synced. It wakes them by a relay, which is
// the quickest way that is known.
type barrier struct {
	sync    func() error
	writers int
	relay   env.Relay
	end     *env.Waiter // nobody waits for it

	mu    sync.Mutex // guards the fields below
	idle  []*env.Waiter
	there []*env.Waiter
}

func newBarrier(writers int, sync func() error) *barrier {
	r := &barrier{sync: sync, writers: writers, end: env.OS().NewWaiter()}
	for range writers {
		r.idle = append(r.idle, env.OS().NewWaiter())
	}
	return r
}

func (r *barrier) meet() (err error) {
	r.mu.Lock()
	w := r.idle[len(r.idle)-1]
	r.idle = r.idle[:len(r.idle)-1]
	r.there = append(r.there, w)
	last := len(r.there) == r.writers
	r.mu.Unlock()
	if last {
		err = r.sync()
		for _, w := range r.there {
			r.relay.Add(w)
		}
		r.there = r.there[:0]
		r.relay.Start(r.end, env.Forever)
	}
	w.Park()
	r.mu.Lock()
	r.idle = append(r.idle, w)
	r.mu.Unlock()
	return err
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
	limit  int64 // where it begins anew; 0: it grows
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

// prepare makes it one that writes over zeros.
func (y *yardstick) prepare() {
	y.limit = 8 << 20
	_, err := y.file.WriteAt(make([]byte, y.limit), 0)
	require.NoError(y.b, err)
	require.NoError(y.b, y.file.Sync())
}

func (y *yardstick) turn() time.Duration {
	start := time.Now()
	for range benchTurn {
		y.file.WriteAt(y.frames, y.next())
		if err := y.file.Sync(); err != nil {
			y.b.Fatal(err)
		}
	}
	return time.Since(start)
}

// next returns where the next write goes.
func (y *yardstick) next() int64 {
	if y.limit > 0 && y.at+int64(len(y.frames)) > y.limit {
		y.at = 0
	}
	at := y.at
	y.at += int64(len(y.frames))
	return at
}

// sync writes and syncs once, as the log does.
func (y *yardstick) sync() error {
	if both, ok := y.file.(vfs.SyncWriter); ok {
		return both.WriteAtSync(y.frames, y.next())
	}
	if _, err := y.file.WriteAt(y.frames, y.next()); err != nil {
		return err
	}
	return y.file.Sync()
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
