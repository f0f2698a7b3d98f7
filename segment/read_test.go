package segment

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/record"
	"narad/sim/disk"
)

// A read error that may pass is not corruption, and passes.
func TestTransientReadErrors(t *testing.T) { // LOG-13, BUG-43
	dir, h := memDir(t)
	var ev events
	o := Options{SegmentBytes: 1000, Event: ev.add}
	l := open(t, dir, o)
	for i := range 30 {
		commit(t, l, int64(i), rec(i, 300))
	}
	l = reopen(t, l, dir, o)
	ev.take()
	for _, op := range []string{"read", "open"} {
		for _, off := range []int64{0, 15, 29} {
			h.before = failOn(op)
			_, err := l.Read(off)
			if op == "open" && off == 29 {
				require.NoError(t, err, "the active segment is open")
				continue
			}
			require.ErrorIs(t, err, syscall.EIO)
			require.False(t, isCorrupt(err))
			h.before = nil
			if op == "read" {
				requireRead(t, l, off, rec(int(off), 300))
			}
			l = reopen(t, l, dir, o)
			requireRead(t, l, off, rec(int(off), 300))
			l = reopen(t, l, dir, o)
		}
	}
	for _, e := range ev.take() {
		_, corrupt := e.(CorruptRead)
		require.False(t, corrupt)
	}
}

// Bytes that come back wrong once are not called corrupt.
func TestOneBadReadIsNotCorruption(t *testing.T) { // LOG-13, BUG-43
	dir, h := memDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, recs(0, 3, 100)...)
	l = reopen(t, l, dir, Options{})
	bad := 1
	h.after = func(c call, p []byte, err error) error {
		if c.op == "read" && bad > 0 {
			bad--
			p[50] ^= 4
		}
		return err
	}
	requireAll(t, l, recs(0, 3, 100))
	require.Zero(t, bad)
}

// Damage found by a read is told once for each read, with its place.
func TestCorruptReadIsTold(t *testing.T) { // LOG-11
	s := newSample(t, record.CodecNone)
	middle := s.bases[1]
	b := bytes.Clone(s.files[middle])
	f := s.frames[middle][0]
	b[f.endAt()-1] ^= 1
	var ev events
	o := sampleOptions
	o.Event = ev.add
	l := open(t, s.dir(t, middle, b), o)
	ev.take()
	_, err := l.Read(f.Base)
	require.Equal(t, &CorruptError{fileName(middle), f.at, f.Base, record.ErrChecksum}, err)
	require.Equal(t, []Event{CorruptRead{fileName(middle), f.at, f.Base, record.ErrChecksum}}, ev.take())
}

// Records handed out belong to the caller.
func TestReadReturnsACopy(t *testing.T) {
	dir, _ := memDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 100))
	r, err := l.Read(0)
	require.NoError(t, err)
	clear(r.Payload)
	clear(r.Key)
	r.Key = append(r.Key, "grows into nothing"...)
	require.Equal(t, make([]byte, 100), r.Payload)
	requireRead(t, l, 0, rec(0, 100))
}

// A view is what Read returns, in memory that reads share and that outlives all of what the log does with it.
func TestViewShares(t *testing.T) { // LOG-14
	dir, _ := memDir(t)
	o := Options{SegmentBytes: 100_000}
	l := open(t, dir, o)
	const n = 1000
	for i := 0; i < n; i += 10 {
		commit(t, l, int64(i), recs(i, 10, 300)...)
	}
	l = reopen(t, l, dir, o)
	var views []Record
	for i := range n { // the cache forgets the first ones meanwhile
		v, err := l.View(int64(i))
		require.NoError(t, err)
		views = append(views, v)
	}
	last, err := l.View(n - 1)
	require.NoError(t, err)
	require.Same(t, &views[n-1].Payload[0], &last.Payload[0])
	own, err := l.Read(n - 1)
	require.NoError(t, err)
	require.NotSame(t, &last.Payload[0], &own.Payload[0])
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := l.View(n - 1); err != nil {
			t.Error(err)
		}
	}))
	for _, off := range []int64{-1, n} {
		_, want := l.Read(off)
		_, err := l.View(off)
		require.Error(t, err)
		require.Equal(t, want, err)
	}
	require.NoError(t, l.Close())
	_, err = l.View(n - 1)
	require.Equal(t, ErrClosed, err)
	for i, v := range views {
		require.Equal(t, rec(i, 300).Key, v.Key)
		require.Equal(t, rec(i, 300).Payload, v.Payload)
		_ = append(v.Key, "grows into nothing"...)
		_ = append(v.Payload, "grows into nothing"...)
	}
	for i, v := range views {
		require.Equal(t, rec(i, 300).Payload, v.Payload)
	}
}

// A segment that nobody reads takes no memory but for where it is.
func TestSealedSegmentsStayCold(t *testing.T) {
	dir, _ := memDir(t)
	o := Options{SegmentBytes: 1000}
	l := open(t, dir, o)
	const n = 100
	for i := range n {
		commit(t, l, int64(i), rec(i, 300))
	}
	l = reopen(t, l, dir, o)
	warm := func() (n int) {
		for _, s := range l.segs {
			if s.usage != nil {
				n++
			}
		}
		return n
	}
	require.Greater(t, len(l.segs), 20)
	require.Equal(t, 1, warm(), "the active one")
	l.Extent()
	require.Equal(t, 1, warm())
	for i := range n {
		requireRead(t, l, int64(i), rec(i, 300))
	}
	require.Equal(t, len(l.segs), warm())
}

// A reader that goes through a log, or follows its tail, reads each byte about once.
func TestSequentialReadersReadOnce(t *testing.T) {
	dir, h := memDir(t)
	o := Options{SegmentBytes: 200_000}
	l := open(t, dir, o)
	read := func() (n int) {
		for _, c := range h.calls {
			if c.op == "read" {
				n += c.size
			}
		}
		return n
	}
	const n = 2000
	for i := range n { // follows the tail
		commit(t, l, int64(i), rec(i, 300))
		requireRead(t, l, int64(i), rec(i, 300))
	}
	total := 0
	for _, base := range logFiles(t, dir) {
		total += len(fileBytes(t, dir.Dir, base))
	}
	require.Less(t, read(), total*21/10, "once for the read-back, once for the reader")
	l = reopen(t, l, dir, o)
	h.reset()
	for i := range n { // goes through
		requireRead(t, l, int64(i), rec(i, 300))
	}
	require.Less(t, read(), total*21/10, "once for the index, once for the reader")
	require.Less(t, h.count("read"), n/20)
}

// Sealed segments keep few files open.
func TestFewOpenFiles(t *testing.T) {
	dir, _ := memDir(t)
	o := Options{SegmentBytes: 500}
	l := open(t, dir, o)
	for i := range 100 {
		commit(t, l, int64(i), rec(i, 200))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		off := rng.Int64N(100)
		requireRead(t, l, off, rec(int(off), 200))
		l.cache = cache{}
		open := 0
		for _, s := range l.segs {
			if s.file != nil {
				open++
			}
		}
		require.LessOrEqual(t, open, hotSegments+1)
	}
}

// The cache stays within its bounds whatever is read.
func TestCacheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cache
		for range rapid.IntRange(1, 300).Draw(t, "puts") {
			from := rapid.Int64Range(0, 500).Draw(t, "from")
			b := &block{extent: extent{from: from, to: from + rapid.Int64Range(1, 40).Draw(t, "n")}, file: "f",
				bytes: rapid.IntRange(0, 2<<20).Draw(t, "bytes")}
			c.put(b)
			sum := 0
			for _, b := range c.blocks {
				sum += b.bytes
			}
			require.Equal(t, sum, c.bytes)
			require.LessOrEqual(t, len(c.blocks), cacheBlocksMax)
			require.True(t, c.bytes <= cacheBytesMax || len(c.blocks) == 1)
			off := rapid.Int64Range(0, 540).Draw(t, "offset")
			if got := c.get(off); got != nil {
				require.True(t, got.from <= off && off < got.to)
			}
		}
	})
}

// Any sequence of commits, failures, restarts and reads agrees with a list.
func TestAgainstAModel(t *testing.T) { // LOG-02, LOG-07, LOG-08
	rapid.Check(t, func(t *rapid.T) {
		d := disk.New(disk.Adversarial)
		dir, err := disk.FS(d).OpenRoot("p", true)
		require.NoError(t, err)
		h := &hook{}
		hd := hooked{dir, h}
		o := Options{
			SegmentBytes: rapid.Int64Range(100, 3000).Draw(t, "segment"),
			FrameBytes:   rapid.IntRange(50, 1000).Draw(t, "frame"),
			Codec:        rapid.SampledFrom([]record.Codec{record.CodecNone, record.CodecZstd}).Draw(t, "codec"),
		}
		l, err := Open(env.OS(), hd, o)
		require.NoError(t, err)
		var model, maybe []Record
		next := 0
		take := func(n, size int) []Record { next += n; return recs(next-n, n, size) }
		reopen := func() {
			l, err = Open(env.OS(), hd, o)
			require.NoError(t, err)
			n := int(l.HighWatermark())
			require.GreaterOrEqual(t, n, len(model))
			all := append(model[:len(model):len(model)], maybe...)
			require.LessOrEqual(t, n, len(all))
			model, maybe = all[:n], nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				r := take(rapid.IntRange(1, 5).Draw(t, "n"), rapid.IntRange(0, 400).Draw(t, "size"))
				base, err := l.Commit(r)
				if l.Err() != nil {
					require.Equal(t, l.Err(), err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, int64(len(model)), base)
				model, maybe = append(model, r...), nil
			},
			"fail": func(t *rapid.T) {
				op := rapid.SampledFrom([]string{"write", "sync", "read", "create", "syncdir"}).Draw(t, "op")
				poisoned := l.Err() != nil
				h.before = failOn(op)
				r := take(rapid.IntRange(1, 3).Draw(t, "n"), 50)
				_, err := l.Commit(r)
				h.before = nil
				switch {
				case err == nil: // nothing to create
					model, maybe = append(model, r...), nil
				case !poisoned && op == "sync":
					maybe = r // the file holds it, or a prefix of it
				}
			},
			"read": func(t *rapid.T) {
				off := rapid.Int64Range(0, int64(len(model))).Draw(t, "offset")
				got, err := l.Read(off)
				if off == int64(len(model)) {
					require.ErrorIs(t, err, ErrAboveHW)
					return
				}
				require.NoError(t, err)
				require.True(t, same(model[off], got))
			},
			"restart": func(t *rapid.T) {
				require.NoError(t, l.Close())
				_, err := l.Read(0)
				require.Equal(t, ErrClosed, err)
				reopen()
			},
			"crash": func(t *rapid.T) { reopen() }, // the old log and its files are simply forgotten
			"": func(t *rapid.T) {
				require.Equal(t, int64(len(model)), l.HighWatermark())
				require.Zero(t, l.Oldest())
			},
		})
		for off, want := range model {
			got, err := l.Read(int64(off))
			require.NoError(t, err)
			require.True(t, same(want, got))
		}
	})
}

// Readers and committers at once, on the real file system. Run with -race it also shows that they share
// nothing they should not.
func TestReadersAndCommitters(t *testing.T) { // LOG-04, INV-04
	dir, _ := realDir(t)
	l := open(t, dir, Options{SegmentBytes: 20_000})
	var committers, readers sync.WaitGroup
	var mu sync.Mutex
	stored := map[int64]Record{}
	for c := range 4 {
		committers.Go(func() {
			for i := range 40 {
				r := recs(c*1000+i*10, 1+i%4, 50+i*10)
				base, err := l.Commit(r)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for j := range r {
					stored[base+int64(j)] = r[j]
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	for c := range 3 {
		rng := rand.New(rand.NewPCG(uint64(c), 9))
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				hw := l.HighWatermark()
				if hw == 0 {
					continue
				}
				off := rng.Int64N(hw)
				r, err := l.Read(off)
				if err != nil {
					t.Errorf("offset %d below %d: %v", off, hw, err)
					return
				}
				mu.Lock()
				want, ok := stored[off]
				mu.Unlock()
				if ok && !same(want, r) {
					t.Errorf("offset %d: %q", off, r.Payload)
				}
				if _, err := l.Read(l.HighWatermark() + 1000); err != ErrAboveHW {
					t.Error(err)
				}
			}
		})
	}
	committers.Wait()
	close(done)
	readers.Wait()
	require.Len(t, stored, int(l.HighWatermark()), "offsets are dense")
	for off, want := range stored {
		requireRead(t, l, off, want)
	}
}

// Large records are not copied once more on the way out, and still belong to whoever read them.
func TestLargeRecordsBelongToTheReader(t *testing.T) {
	dir, _ := memDir(t)
	l := open(t, dir, Options{SegmentBytes: 1})
	for i := range 3 {
		commit(t, l, int64(i), rec(i, 100_000))
	}
	for range 3 {
		for i := range 3 {
			r, err := l.Read(int64(i))
			require.NoError(t, err)
			require.Equal(t, rec(i, 100_000).Payload, r.Payload)
			require.Equal(t, rec(i, 0).Key, r.Key)
			r.Key = append(r.Key, "appended to the key"...)
			require.Equal(t, rec(i, 100_000).Payload, r.Payload)
			clear(r.Payload)
		}
	}
	require.Empty(t, l.cache.blocks)
}
