package segment

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// timed is a log whose wall clock the test turns, in milliseconds.
type timed struct {
	*Log
	clock  *clock
	dir    hooked
	hook   *hook
	events events
	next   int
}

func newTimed(t testing.TB, o Options) *timed {
	dir, h := memDir(t)
	l := &timed{clock: &clock{}, dir: dir, hook: h}
	l.reopen(t, o)
	return l
}

func (l *timed) reopen(t testing.TB, o Options) {
	if l.Log != nil {
		require.NoError(t, l.Close())
	}
	o.Event = l.events.add
	log, err := Open(env.Simulated(l.clock, nil), l.dir, o)
	require.NoError(t, err)
	l.Log = log
	t.Cleanup(func() { log.Close() })
}

// at commits one record at a time of the wall clock.
func (l *timed) at(t testing.TB, ms int64) {
	l.clock.wall = env.Wall(ms) * env.Wall(time.Millisecond)
	_, err := l.Commit([]Record{rec(l.next, 100)})
	require.NoError(t, err)
	l.next++
}

func (l *timed) removed() (all []Removed) {
	for _, v := range l.events.take() {
		if r, ok := v.(Removed); ok {
			all = append(all, r)
		}
	}
	return all
}

// two records of 100 bytes fill a segment
var pairs = Options{SegmentBytes: 200}

// Whole segments go, oldest first, and only when their last record is older than the cutoff. RET-03, RET-04
func TestRetainRemovesWholeSegments(t *testing.T) {
	require.EqualValues(t, 64<<20, Options{}.withDefaults().SegmentBytes, "CFG-08")
	l := newTimed(t, pairs)
	for _, ms := range []int64{10, 20, 30, 40, 50, 60, 70} {
		l.at(t, ms)
	}
	require.Equal(t, []int64{0, 2, 4, 6}, logFiles(t, l.dir))
	size := int64(len(fileBytes(t, l.dir, 0)))
	for _, step := range []struct {
		cutoff   int64
		oldest   int64
		segments int
		next     int64
	}{
		{10, 0, 0, 20},
		{20, 0, 0, 20}, // the last record is 20: not older than the cutoff
		{21, 2, 1, 40},
		{40, 2, 0, 40},
		{61, 6, 2, 70},
		{70, 6, 0, 70},
	} {
		l.removed()
		r, err := l.Retain(step.cutoff)
		require.NoError(t, err)
		want := Retained{step.segments, 2 * int64(step.segments), size * int64(step.segments), step.oldest, step.next}
		require.Equal(t, want, r, "cutoff %d", step.cutoff)
		require.Equal(t, step.oldest, l.Oldest())
		require.Equal(t, step.oldest, logFiles(t, l.dir)[0])
		if told := l.removed(); step.segments > 0 {
			require.Equal(t, []Removed{{step.segments, r.Records, r.Bytes, step.oldest, step.cutoff - 1}}, told)
		} else {
			require.Empty(t, told)
		}
		next, known, err := Peek(l.dir)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, step.next, next)
	}
	for off := range l.HighWatermark() {
		r, err := l.Read(off)
		var floor *FloorError
		if off < 6 {
			require.ErrorAs(t, err, &floor)
			require.Equal(t, FloorError{off, 6}, *floor)
		} else {
			require.NoError(t, err)
			require.Equal(t, rec(int(off), 100).Payload, r.Payload)
		}
	}
	entries, err := l.dir.List()
	require.NoError(t, err)
	require.Len(t, entries, 2, "indexes go with their segments, bounds stay")
}

// The active segment is sealed when its first record is old, goes when its last one is, and leaves the next offset behind,
// also over a restart. RET-05, Q-52
func TestRetainRollsTheActiveSegment(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts=", restarts), func(t *testing.T) {
			l := newTimed(t, Options{})
			again := func() {
				if restarts {
					l.reopen(t, Options{})
				}
			}
			l.at(t, 10)
			l.at(t, 30)
			again()
			r, err := l.Retain(10)
			require.NoError(t, err)
			require.Equal(t, Retained{Oldest: 0, Next: 10}, r)
			r, err = l.Retain(11)
			require.NoError(t, err)
			require.Equal(t, Retained{Oldest: 0, Next: 30}, r, "sealed, not removed: its last record is of 30")
			require.Equal(t, []int64{0, 2}, logFiles(t, l.dir))
			l.at(t, 40)
			again()
			r, err = l.Retain(31)
			require.NoError(t, err)
			require.Equal(t, int64(2), r.Oldest)
			require.Equal(t, int64(40), r.Next)
			r, err = l.Retain(41)
			require.NoError(t, err)
			require.Equal(t, Retained{1, 1, r.Bytes, 3, NeverMs}, r)
			require.Equal(t, []int64{3}, logFiles(t, l.dir))
			for range 3 { // an empty log stays as it is
				again()
				require.Equal(t, int64(3), l.Oldest())
				require.Equal(t, int64(3), l.HighWatermark())
				r, err = l.Retain(NeverMs)
				require.NoError(t, err)
				require.Equal(t, Retained{Oldest: 3, Next: NeverMs}, r)
				next, known, err := Peek(l.dir)
				require.NoError(t, err)
				require.True(t, known)
				require.Equal(t, int64(NeverMs), next)
			}
			l.at(t, 50)
			requireRead(t, l.Log, 3, rec(3, 100))
		})
	}
}

// A log that was never written has nothing to remove, and gets no file.
func TestRetainOfNothing(t *testing.T) {
	l := newTimed(t, Options{})
	r, err := l.Retain(NeverMs)
	require.NoError(t, err)
	require.Equal(t, Retained{Next: NeverMs}, r)
	require.Empty(t, logFiles(t, l.dir))
	require.NoError(t, l.Close())
	_, err = l.Retain(NeverMs)
	require.ErrorIs(t, err, ErrClosed)
}

// A wall clock that went back stamps with the newest time there was, so nothing goes early. RET-03
func TestRetainAfterTheClockWentBack(t *testing.T) {
	l := newTimed(t, pairs)
	for _, ms := range []int64{1000, 100, 200, 300} {
		l.at(t, ms)
	}
	r, err := l.Retain(1000)
	require.NoError(t, err)
	require.Zero(t, r.Segments)
	r, err = l.Retain(1001)
	require.NoError(t, err)
	require.Equal(t, 2, r.Segments)
}

// The times come from the records: a missing, a wrong and an unreadable index file change nothing.
func TestRetainReadsTheLastRecord(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, l *timed){
		"index":    func(*testing.T, *timed) {},
		"no index": func(t *testing.T, l *timed) { require.NoError(t, l.dir.Dir.Remove(indexName(0))) },
		"index of another segment": func(t *testing.T, l *timed) {
			b, err := vfs.ReadFile(l.dir.Dir, indexName(2), 1000)
			require.NoError(t, err)
			writeFile(t, l.dir.Dir, indexName(0), b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTimed(t, pairs)
			for _, ms := range []int64{10, 20, 30, 40, 50} {
				l.at(t, ms)
			}
			require.NoError(t, l.Close())
			spoil(t, l)
			l.Log = nil
			l.reopen(t, pairs)
			r, err := l.Retain(20)
			require.NoError(t, err)
			require.Equal(t, Retained{Oldest: 0, Next: 20}, r)
			r, err = l.Retain(21)
			require.NoError(t, err)
			require.Equal(t, 1, r.Segments)
		})
	}
}

// What cannot be read keeps nothing: a segment with a damaged end goes by its last readable record, one without any
// readable record with its successor.
func TestRetainOfDamagedSegments(t *testing.T) {
	l := newTimed(t, pairs)
	for _, ms := range []int64{10, 20, 30, 40, 50, 60, 70} {
		l.at(t, ms)
	}
	require.NoError(t, l.Close())
	flip := func(base int64, fromEnd int) {
		b := fileBytes(t, l.dir.Dir, base)
		b[len(b)-fromEnd] ^= 1
		writeFile(t, l.dir.Dir, fileName(base), b)
	}
	flip(0, 5) // the record of 20
	flip(2, 5) // that of 40 and that of 30
	flip(2, 5+len(fileBytes(t, l.dir.Dir, 2))/2)
	l.Log = nil
	l.reopen(t, pairs)
	r, err := l.Retain(10)
	require.NoError(t, err)
	require.Equal(t, Retained{Oldest: 0, Next: 10}, r)
	r, err = l.Retain(11)
	require.NoError(t, err)
	require.Equal(t, int64(2), r.Oldest)
	require.Equal(t, int64(60), r.Next)
	r, err = l.Retain(61)
	require.NoError(t, err)
	require.Equal(t, int64(6), r.Oldest)
}

// A read that is under way when its segment goes gets its record or learns the floor; the file is closed behind it.
func TestReadsThatOverlapRetain(t *testing.T) {
	for _, at := range []string{"open", "read"} {
		t.Run(at, func(t *testing.T) {
			dir, h := realDir(t)
			l := open(t, dir, pairs)
			for i := range 5 {
				commit(t, l, int64(i), rec(i, 100))
			}
			l = reopen(t, l, dir, pairs) // no file is open, nothing is cached
			inside, proceed := make(chan struct{}), make(chan struct{})
			var once sync.Once
			h.before = func(c call) error {
				if c.op == at && c.name == fileName(0) {
					stop := false
					once.Do(func() { stop = true })
					if stop {
						close(inside)
						<-proceed
					}
				}
				return nil
			}
			answer := make(chan error)
			go func() {
				_, err := l.Read(0)
				answer <- err
			}()
			<-inside
			r, err := l.Retain(time.Now().Add(time.Hour).UnixMilli())
			require.NoError(t, err)
			require.Equal(t, int64(5), r.Oldest)
			close(proceed)
			err = <-answer
			var floor *FloorError
			if at == "open" { // the name is gone
				require.ErrorAs(t, err, &floor)
			} else if err != nil {
				require.ErrorAs(t, err, &floor)
			}
			_, err = l.Read(0)
			require.ErrorAs(t, err, &floor)
			require.Empty(t, l.hot, "no removed segment stays open")
			require.Empty(t, l.cache.blocks)
		})
	}
}

// A removal that fails half-way is completed by the next call; the offsets are gone at once all the same.
func TestRetainGoesOnAfterAFailure(t *testing.T) {
	for _, op := range []string{"remove", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			l := newTimed(t, pairs)
			for _, ms := range []int64{10, 20, 30, 40, 50} {
				l.at(t, ms)
			}
			l.hook.before = failOn(op)
			_, err := l.Retain(45)
			require.ErrorIs(t, err, errDisk)
			require.Equal(t, int64(4), l.Oldest())
			require.NoError(t, l.Err())
			l.hook.before = nil
			r, err := l.Retain(45)
			require.NoError(t, err)
			require.Equal(t, int64(4), r.Oldest)
			require.Equal(t, []int64{4}, logFiles(t, l.dir))
		})
	}
}

// On a full disk no successor can be made, but sealed segments go and make room.
func TestRetainOnAFullDisk(t *testing.T) {
	l := newTimed(t, pairs)
	for _, ms := range []int64{10, 20, 30} {
		l.at(t, ms)
	}
	l.hook.before = failOn("create", "write")
	_, err := l.Retain(100)
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, int64(2), l.Oldest())
	require.Equal(t, []int64{2}, logFiles(t, l.dir))
	l.hook.before = nil
	r, err := l.Retain(100)
	require.NoError(t, err)
	require.Equal(t, int64(3), r.Oldest)
}

// Random histories of commits, clocks that go both ways, restarts, codecs and retention against a list. RET-03, RET-04, RET-05, G2, G8
func TestRetainAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newTimed(t, Options{})
		options := func() Options {
			return Options{
				SegmentBytes: rapid.Int64Range(100, 700).Draw(rt, "segment"), FrameBytes: 300,
				Codec: record.Codec(rapid.IntRange(0, 1).Draw(rt, "codec")),
			}
		}
		l.reopen(t, options())
		var stamps []int64 // of all records
		wall, floor, oldest, cut := int64(1000), int64(0), int64(0), int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				wall += rapid.Int64Range(-50, 200).Draw(rt, "clock")
				floor = max(floor, wall)
				l.at(t, wall)
				stamps = append(stamps, floor)
			},
			"restart": func(rt *rapid.T) {
				l.reopen(t, options())
				if int64(len(stamps)) == oldest {
					floor = 0 // there is nothing that it could be compared with
				}
			},
			"retain": func(rt *rapid.T) {
				cutoff := wall - rapid.Int64Range(-100, 600).Draw(rt, "age")
				cut = max(cut, cutoff)
				before := l.Oldest()
				r, err := l.Retain(cutoff)
				require.NoError(rt, err)
				for off := before; off < r.Oldest; off++ {
					require.Less(rt, stamps[off], cutoff, "offset %d went early", off)
				}
				if n := len(stamps); n > 0 && stamps[n-1] < cutoff {
					require.Equal(rt, int64(n), r.Oldest, "all are expired")
				}
				require.GreaterOrEqual(rt, r.Next, cutoff)
				require.NoError(rt, l.Close())
				next, known, err := Peek(l.dir)
				require.NoError(rt, err)
				require.True(rt, known)
				require.Equal(rt, r.Next, next)
				l.Log = nil
				l.reopen(t, options())
				if int64(len(stamps)) == r.Oldest {
					floor = 0
				}
				oldest = r.Oldest
			},
			"": func(rt *rapid.T) {
				require.Equal(rt, oldest, l.Oldest())
				require.Equal(rt, int64(len(stamps)), l.HighWatermark())
				if oldest == int64(len(stamps)) {
					return
				}
				off := rapid.Int64Range(oldest, int64(len(stamps))-1).Draw(rt, "offset")
				r, err := l.Read(off)
				require.NoError(rt, err)
				require.Equal(rt, stamps[off], r.CommittedMs)
				require.True(rt, strings.HasPrefix(string(r.Payload), fmt.Sprint(off, ":")))
			},
		})
	})
}

// Commits, reads, Close and Retain from many tasks at once: nothing but the documented errors.
func TestRetainBesideEverybody(t *testing.T) {
	dir, _ := realDir(t)
	for range 2 {
		l := open(t, dir, Options{SegmentBytes: 2000})
		var g sync.WaitGroup
		stop := make(chan struct{})
		for range 3 {
			g.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					off := l.Oldest() + int64(i%7) - 3
					_, err := l.Read(off)
					var floor *FloorError
					if err != nil && !errors.As(err, &floor) && !errors.Is(err, ErrAboveHW) && !errors.Is(err, ErrClosed) {
						t.Errorf("offset %d: %v", off, err)
						return
					}
				}
			})
		}
		g.Go(func() {
			for i := 0; i < 60; i++ {
				if _, err := l.Retain(time.Now().UnixMilli()); err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("retain: %v", err)
				}
			}
		})
		for i := range 100 {
			_, err := l.Commit([]Record{rec(i, 300)})
			require.NoError(t, err)
		}
		hw := l.HighWatermark()
		require.NoError(t, l.Close())
		close(stop)
		g.Wait()
		if t.Failed() {
			return
		}
		l = open(t, dir, Options{})
		require.Equal(t, hw, l.HighWatermark())
		require.NoError(t, l.Close())
	}
}
