package segment

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A closed log answers every read with ErrClosed, below its floor and above its watermark too, and still
// knows its bounds.
func TestClosedLog(t *testing.T) { // LOG-14, LOG-15, LOG-16, BUG-44
	dir, _ := realDir(t)
	o := Options{SegmentBytes: 500}
	l := open(t, dir, o)
	for i := range 20 {
		commit(t, l, int64(i), rec(i, 200))
	}
	require.NoError(t, l.Close())
	bases := logFiles(t, dir)
	require.NoError(t, dir.Remove(fileName(bases[0])))
	require.NoError(t, dir.Remove(BoundsFile))
	var ev events
	o.Event = ev.add
	l = open(t, dir, o)
	requireRead(t, l, 19, rec(19, 200)) // is in the cache now
	ev.take()
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "again")
	for _, off := range []int64{math.MinInt64, -1, 0, bases[1] - 1, bases[1], 10, 19, 20, 21, math.MaxInt64} {
		r, err := l.Read(off)
		require.Equal(t, ErrClosed, err, "offset %d", off)
		require.Equal(t, Record{}, r)
	}
	for _, r := range [][]Record{nil, recs(20, 1, 10)} {
		_, err := l.Commit(r)
		require.Equal(t, ErrClosed, err)
	}
	require.Equal(t, int64(20), l.HighWatermark())
	require.Equal(t, bases[1], l.Oldest())
	require.Equal(t, []Event{Closed{Next: 20}}, ev.take(), "no read of a closed log is told as corrupt") // LOG-17
}

func TestClosedEmptyLog(t *testing.T) { // LOG-14
	dir, _ := realDir(t)
	l := open(t, dir, Options{})
	require.NoError(t, l.Close())
	_, err := l.Read(0)
	require.Equal(t, ErrClosed, err)
	require.Zero(t, l.HighWatermark())
}

// A poisoned log that is closed is closed, for commits too.
func TestClosedAfterPoison(t *testing.T) { // LOG-14
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	h.before = failOn("sync")
	_, err := l.Commit(recs(0, 1, 10))
	require.Error(t, err)
	require.NoError(t, l.Close())
	_, err = l.Commit(recs(0, 1, 10))
	require.Equal(t, ErrClosed, err)
}

// OnAdvance fires after every step of the watermark, and on close, when reads already answer ErrClosed.
func TestOnAdvance(t *testing.T) { // LOG-23
	dir, _ := realDir(t)
	var l *Log
	var seen []error
	l = open(t, dir, Options{OnAdvance: func() {
		_, err := l.Read(l.HighWatermark() - 1)
		seen = append(seen, err)
	}})
	commit(t, l, 0, rec(0, 10))
	commit(t, l, 1, rec(1, 10))
	require.NoError(t, l.Close())
	require.Equal(t, []error{nil, nil, ErrClosed}, seen)
}

// A failed commit moves nothing and wakes nobody.
func TestOnAdvanceNotAfterFailure(t *testing.T) { // LOG-23, LOG-06
	dir, h := realDir(t)
	n := 0
	l := open(t, dir, Options{OnAdvance: func() { n++ }})
	h.before = failOn("write")
	_, err := l.Commit(recs(0, 1, 10))
	require.Error(t, err)
	require.Zero(t, n)
}

// Reads that race with Close answer ErrClosed or the right record.
func TestReadsThatOverlapClose(t *testing.T) { // LOG-13, LOG-14, BUG-44
	for round := range 30 {
		dir, _ := realDir(t)
		var ev events
		o := Options{SegmentBytes: 2000, Event: ev.add}
		l := open(t, dir, o)
		for i := 0; i < 60; i += 6 {
			commit(t, l, int64(i), recs(i, 6, 300)...)
		}
		l = reopen(t, l, dir, o)
		ev.take()
		var wg sync.WaitGroup
		for r := range 4 {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(r)))
			wg.Go(func() {
				for {
					off := rng.Int64N(60)
					got, err := l.Read(off)
					if err == ErrClosed {
						return
					}
					if err != nil || !bytes.Equal(got.Payload, rec(int(off), 300).Payload) {
						t.Errorf("offset %d: %v", off, err)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(round*20) * time.Microsecond)
		require.NoError(t, l.Close())
		wg.Wait()
		require.Equal(t, []Event{Closed{Next: 60}}, ev.take())
	}
}

// Whatever a file call answers to a read that Close has overtaken, the read says ErrClosed or has the record.
func TestReadThatFailsUnderClose(t *testing.T) { // LOG-13, LOG-14, LOG-17, BUG-43, BUG-44
	for _, op := range []string{"open", "read"} {
		for _, how := range []string{"error", "garbage", "short"} {
			t.Run(op+" "+how, func(t *testing.T) {
				dir, h := realDir(t)
				var ev events
				o := Options{SegmentBytes: 500, Event: ev.add}
				l := open(t, dir, o)
				for i := range 10 {
					commit(t, l, int64(i), rec(i, 300))
				}
				l = reopen(t, l, dir, o)
				ev.take()
				inside := make(chan struct{})
				var once sync.Once
				h.after = func(c call, p []byte, err error) error {
					if c.op != op {
						return err
					}
					once.Do(func() { close(inside) })
					for !isClosed(l) {
						time.Sleep(50 * time.Microsecond)
					}
					switch how {
					case "garbage":
						clear(p)
						return err
					case "short":
						if p == nil {
							return fs.ErrNotExist
						}
						return io.EOF
					}
					return errDisk
				}
				result := make(chan error)
				go func() { _, err := l.Read(3); result <- err }()
				<-inside
				require.NoError(t, l.Close())
				if err := <-result; err != nil {
					require.Equal(t, ErrClosed, err)
				}
				require.Equal(t, []Event{Closed{Next: 10}}, ev.take())
			})
		}
	}
}

func isClosed(l *Log) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Close lets the commit that is writing finish and refuses those that wait; each outcome is the truth.
func TestCommitsThatOverlapClose(t *testing.T) { // LOG-05, LOG-14
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	h.reset()
	gate := make(chan struct{})
	h.before = func(c call) error {
		if c.op == "sync" {
			<-gate
		}
		return nil
	}
	results := make(chan error, 5)
	inside := func(n int) {
		require.Eventually(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.leading && len(l.queue) == n
		}, 5*time.Second, time.Millisecond)
	}
	go func() { _, err := l.Commit(recs(1, 1, 10)); results <- err }()
	inside(0)
	for range 4 {
		go func() { _, err := l.Commit(recs(2, 1, 10)); results <- err }()
	}
	inside(4)
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	require.Eventually(t, func() bool { _, err := l.Read(0); return err == ErrClosed }, time.Minute, time.Millisecond)
	select {
	case <-closed:
		t.Fatal("closed under a commit")
	case <-time.After(5 * time.Millisecond):
	}
	close(gate)
	require.NoError(t, <-closed)
	confirmed := 0
	for range 5 {
		if err := <-results; err == nil {
			confirmed++
		} else {
			require.Equal(t, ErrClosed, err)
		}
	}
	require.Equal(t, 1, confirmed)
	require.Equal(t, int64(2), l.HighWatermark())
	h.before = nil
	requireAll(t, open(t, dir, Options{}), recs(0, 2, 10))
}
