package segment

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

func TestCommitAndRead(t *testing.T) { // LOG-07
	dir, _ := realDir(t)
	l := open(t, dir, Options{})
	require.Zero(t, l.HighWatermark())
	require.Empty(t, logFiles(t, dir), "an empty log has no files before its first commit")
	commit(t, l, 0, rec(0, 10))
	commit(t, l, 1, recs(1, 5, 100)...)
	commit(t, l, 6)
	commit(t, l, 6, Record{})
	all := append(recs(0, 1, 10), recs(1, 5, 100)...)
	requireAll(t, l, append(all, Record{}))
	l = reopen(t, l, dir, Options{})
	requireAll(t, l, append(all, Record{}))
	commit(t, l, 7, rec(7, 10))
	requireRead(t, l, 7, rec(7, 10))
}

// A commit is write, sync, read back, and only then does the watermark move.
func TestCommitOrder(t *testing.T) { // LOG-02, LOG-03, INV-04, BUG-139
	dir, h := realDir(t)
	var l *Log
	var told []int64
	l = open(t, dir, Options{OnAdvance: func() { told = append(told, l.HighWatermark()) }})
	commit(t, l, 0, rec(0, 10))
	h.reset()
	h.before = func(c call) error {
		assert.Equal(t, int64(1), l.HighWatermark(), "at %v", c)
		if c.op != "read" {
			_, err := l.Read(1)
			assert.ErrorIs(t, err, ErrAboveHW)
		}
		return nil
	}
	commit(t, l, 1, rec(1, 10))
	name := fileName(0)
	require.Equal(t, []string{"write " + name, "sync " + name, "read " + name, "write " + BoundsFile}, h.ops())
	require.Equal(t, []int64{1, 2}, told)
}

// Every frame is synced before the next one is written, and none is visible before all are.
func TestLargeCommitSyncsFrameByFrame(t *testing.T) { // LOG-02
	dir, h := realDir(t)
	l := open(t, dir, Options{FrameBytes: 1000})
	commit(t, l, 0, rec(0, 10))
	h.reset()
	h.before = func(call) error { assert.Equal(t, int64(1), l.HighWatermark()); return nil }
	commit(t, l, 1, recs(1, 7, 400)...)
	h.before = nil
	name := fileName(0)
	var want []string
	for range 4 {
		want = append(want, "write "+name, "sync "+name, "read "+name)
	}
	require.Equal(t, append(want, "write "+BoundsFile), h.ops(), "what is durable is said once, at the end, and not synced")
	requireAll(t, l, append(recs(0, 1, 10), recs(1, 7, 400)...))
}

func TestNewSegmentIsNamedBeforeItIsWritten(t *testing.T) { // LOG-02
	dir, h := realDir(t)
	l := open(t, dir, Options{SegmentBytes: 100})
	h.reset()
	commit(t, l, 0, rec(0, 200))
	first, second := fileName(0), fileName(1)
	require.Equal(t, []string{"create " + first, "create " + BoundsFile, "syncdir .", "write " + first, "sync " + first, "read " + first,
		"write " + BoundsFile, "write " + BoundsFile}, h.ops())
	h.reset()
	commit(t, l, 1, rec(1, 200))
	index := indexName(0) // of the one that is sealed now; not synced, it is a hint
	require.Equal(t, []string{"create " + second, "syncdir .", "read " + first, "remove " + index, "create " + index, "write " + index,
		"write " + second, "sync " + second, "read " + second, "write " + BoundsFile}, h.ops())
	requireAll(t, l, recs(0, 2, 200))
}

func TestRollAndReopen(t *testing.T) {
	dir, _ := realDir(t)
	var ev events
	o := Options{SegmentBytes: 1000, Event: ev.add}
	l := open(t, dir, o)
	var all []Record
	for i := 0; i < 60; i += 3 {
		commit(t, l, int64(i), recs(i, 3, 100)...)
		all = append(all, recs(i, 3, 100)...)
	}
	requireAll(t, l, all)
	bases := logFiles(t, dir)
	require.Greater(t, len(bases), 5)
	var rolled []int64
	for _, e := range ev.take() {
		if r, ok := e.(Rolled); ok {
			rolled = append(rolled, r.Base)
		}
	}
	require.Equal(t, bases, rolled)
	for range 2 {
		l = reopen(t, l, dir, o)
		requireAll(t, l, all)
	}
	require.Zero(t, l.Oldest())
}

// A sealed segment may be gone, by retention; what is left begins at its name.
func TestFloor(t *testing.T) {
	dir, _ := realDir(t)
	o := Options{SegmentBytes: 1000}
	l := open(t, dir, o)
	for i := range 20 {
		commit(t, l, int64(i), rec(i, 300))
	}
	require.NoError(t, l.Close())
	bases := logFiles(t, dir)
	require.NoError(t, dir.Remove(fileName(bases[0])))
	require.NoError(t, dir.Remove(BoundsFile))
	l = open(t, dir, o)
	require.Equal(t, bases[1], l.Oldest())
	for _, off := range []int64{-1, 0, bases[1] - 1, math.MinInt64} {
		_, err := l.Read(off)
		var floor *FloorError
		require.ErrorAs(t, err, &floor)
		require.Equal(t, FloorError{off, bases[1]}, *floor)
	}
	for off := bases[1]; off < 20; off++ {
		requireRead(t, l, off, rec(int(off), 300))
	}
	for _, off := range []int64{20, math.MaxInt64} {
		_, err := l.Read(off)
		require.ErrorIs(t, err, ErrAboveHW)
	}
}

// Commit times follow the wall clock but never go back, not even over a restart or a roll.
func TestCommitTimesNeverDecrease(t *testing.T) {
	dir, _ := realDir(t)
	c := &clock{}
	e := env.Simulated(c, nil)
	o := Options{SegmentBytes: 150}
	var want []int64
	wall, floor := []int64{5000, 6000, 2000, 5999, 7000, 100, 8000, 1}, int64(0)
	for i, ms := range wall {
		l, err := Open(e, dir, o)
		require.NoError(t, err)
		c.wall = env.Wall(time.Duration(ms) * time.Millisecond)
		for range 2 {
			_, err = l.Commit([]Record{rec(i, 50)})
			require.NoError(t, err)
			floor = max(floor, ms)
			want = append(want, floor)
		}
		if i == 4 { // a crash right after a roll leaves the newest segment empty
			writeFile(t, dir, fileName(l.HighWatermark()), nil)
		}
		require.NoError(t, l.Close())
	}
	l, err := Open(e, dir, o)
	require.NoError(t, err)
	defer l.Close()
	for i, ms := range want {
		r, err := l.Read(int64(i))
		require.NoError(t, err)
		require.Equal(t, ms, r.CommittedMs, "offset %d", i)
	}
}

func TestFailedWriteIsCutAndItsOffsetsUsedAgain(t *testing.T) { // LOG-06
	for _, op := range []string{"write", "read"} {
		t.Run(op, func(t *testing.T) {
			dir, h := realDir(t)
			var ev events
			l := open(t, dir, Options{Event: ev.add})
			commit(t, l, 0, rec(0, 10))
			size := len(fileBytes(t, dir, 0))
			ev.take()
			h.before = failOn(op)
			if op == "write" { // a prefix arrives
				h.before = func(c call) error {
					if c.op == "write" {
						b := append(fileBytes(t, dir.Dir, 0), "half a frame"...)
						writeFile(t, dir.Dir, fileName(0), b)
						return errDisk
					}
					return nil
				}
			}
			_, err := l.Commit([]Record{rec(1, 10)})
			require.ErrorIs(t, err, syscall.EIO)
			require.Equal(t, int64(1), l.HighWatermark())
			require.NoError(t, l.Err())
			require.Len(t, fileBytes(t, dir.Dir, 0), size)
			require.Equal(t, []Event{CommitFailed{err}}, ev.take())
			h.before = nil
			commit(t, l, 1, rec(2, 10))
			requireAll(t, l, []Record{rec(0, 10), rec(2, 10)})
			l = reopen(t, l, dir, Options{})
			requireAll(t, l, []Record{rec(0, 10), rec(2, 10)})
		})
	}
}

// What comes back different from what was written is never visible.
func TestReadBackMismatch(t *testing.T) { // LOG-06, Q-63, BUG-139
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	base := int64(len(fileBytes(t, dir, 0)))
	frame := func() int {
		h.reset()
		commit(t, l, l.HighWatermark(), rec(1, 10))
		return h.calls[0].size
	}()
	for i := range frame {
		h.after = func(c call, p []byte, err error) error {
			if c.op == "read" && c.at > base {
				p[i] ^= 0x10
			}
			return err
		}
		hw := l.HighWatermark()
		_, err := l.Commit([]Record{rec(2, 10)})
		require.ErrorIs(t, err, ErrReadBack, "byte %d", i)
		require.Equal(t, hw, l.HighWatermark())
		require.NoError(t, l.Err())
	}
	// A whole, valid frame that is another one: a write that went elsewhere leaves the old bytes.
	h.after = func(c call, p []byte, err error) error {
		if c.op == "read" && c.at > base {
			other := record.AppendFrame(nil, 2, record.AppendRecord(nil, []byte("k3"), 1, rec(3, 10).Payload))
			copy(p, other)
		}
		return err
	}
	_, err := l.Commit([]Record{rec(2, 10)})
	require.ErrorIs(t, err, ErrReadBack)
	h.after = nil
	commit(t, l, 2, rec(2, 10))
	requireAll(t, l, recs(0, 3, 10))
}

// After a failed sync nothing is tried again: the log takes no commits until it is reopened, its records
// stay readable, and the one whose sync failed is not believed before it was written again.
func TestFailedSyncPoisons(t *testing.T) { // LOG-06, LOG-25, INV-04, Q-64
	dir, h := realDir(t)
	var ev events
	o := Options{Event: ev.add}
	l := open(t, dir, o)
	commit(t, l, 0, rec(0, 10))
	ev.take()
	h.reset()
	h.before = failOn("sync")
	_, cause := l.Commit([]Record{rec(1, 10)})
	require.ErrorIs(t, cause, syscall.EIO)
	name := fileName(0)
	require.Equal(t, []string{"write " + name, "sync " + name}, h.ops(), "nothing is tried after a failed sync")
	h.before = nil
	h.reset()
	for range 2 {
		_, err := l.Commit([]Record{rec(2, 10)})
		var poisoned *PoisonedError
		require.ErrorAs(t, err, &poisoned)
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, l.Err(), err)
	}
	require.Empty(t, h.ops())
	require.Equal(t, []Event{Poisoned{l.Err()}, CommitFailed{cause}}, ev.take())
	requireAll(t, l, recs(0, 1, 10))

	h.reset()
	l = reopen(t, l, dir, o)
	require.NoError(t, l.Err())
	requireAll(t, l, recs(0, 2, 10)) // LOG-08: stored, never answered for, kept
	wrote := false
	for _, c := range h.calls {
		wrote = wrote || c.op == "write"
		if c.op == "sync" {
			require.True(t, wrote, "a sync alone proves nothing about pages that a failed sync left clean")
		}
	}
	require.True(t, wrote)
	commit(t, l, 2, rec(2, 10))
}

func TestFailedCutPoisons(t *testing.T) { // LOG-25
	for _, op := range []string{"truncate", "sync"} {
		t.Run(op, func(t *testing.T) {
			dir, h := realDir(t)
			l := open(t, dir, Options{})
			commit(t, l, 0, rec(0, 10))
			h.before = func(c call) error { return failOn("write", op)(c) }
			_, err := l.Commit([]Record{rec(1, 10)})
			require.ErrorIs(t, err, syscall.EIO)
			require.Error(t, l.Err())
			h.before = nil
			requireAll(t, l, recs(0, 1, 10))
			_, err = l.Commit([]Record{rec(1, 10)})
			require.Equal(t, l.Err(), err)
		})
	}
}

// A segment that cannot be created fails its commit and latches nothing; one whose name cannot be synced
// poisons the log.
func TestFailedRoll(t *testing.T) { // LOG-25
	for _, op := range []string{"create", "syncdir"} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprint(op, applied), func(t *testing.T) {
				dir, h := realDir(t)
				o := Options{SegmentBytes: 100}
				l := open(t, dir, o)
				commit(t, l, 0, rec(0, 200))
				if applied {
					h.after = func(c call, _ []byte, err error) error { return errors.Join(err, failOn(op)(c)) }
				} else {
					h.before = failOn(op)
				}
				for range 2 {
					_, err := l.Commit([]Record{rec(1, 200)})
					require.ErrorIs(t, err, syscall.EIO)
				}
				require.Equal(t, int64(1), l.HighWatermark())
				h.before, h.after = nil, nil
				requireAll(t, l, recs(0, 1, 200))
				if op == "create" {
					require.NoError(t, l.Err())
				} else {
					require.Error(t, l.Err())
					l = reopen(t, l, dir, o)
					h.reset()
				}
				commit(t, l, 1, rec(1, 200))
				requireAll(t, l, recs(0, 2, 200))
				if op == "syncdir" { // the name whose sync failed is given again, not only synced again
					require.Equal(t, "rename "+fileName(1), h.ops()[2])
				}
				l = reopen(t, l, dir, o)
				requireAll(t, l, recs(0, 2, 200))
			})
		}
	}
}

func TestFullDiskIsNoReasonToLatch(t *testing.T) {
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	h.before = func(c call) error {
		if c.op == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	for range 3 {
		_, err := l.Commit([]Record{rec(1, 10)})
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	h.before = nil
	commit(t, l, 1, rec(1, 10))
}

func TestRecordTooLarge(t *testing.T) {
	dir, _ := realDir(t)
	l := open(t, dir, Options{})
	huge := make([]byte, record.MaxFrameRecord) // never touched, so it takes no memory
	_, err := l.Commit([]Record{{Payload: huge}})
	require.ErrorIs(t, err, ErrTooLarge)
	commit(t, l, 0, rec(0, 10))
}

func TestZstdLog(t *testing.T) {
	dir, _ := realDir(t)
	l := open(t, dir, Options{Codec: record.CodecZstd, SegmentBytes: 2000})
	var all []Record
	for i := 0; i < 200; i += 10 {
		r := recs(i, 10, 500)
		commit(t, l, int64(i), r...)
		all = append(all, r...)
	}
	require.Less(t, len(fileBytes(t, dir, 0)), 5000)
	requireAll(t, l, all)
	l = reopen(t, l, dir, Options{}) // any codec is read
	commit(t, l, 200, rec(200, 10))
	requireAll(t, l, append(all, rec(200, 10)))
}

// Callers that wait for the disk share its next sync, and offsets follow the order of the calls.
func TestConcurrentCommitsShareSyncs(t *testing.T) { // LOG-07
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	h.reset()
	gate := make(chan struct{})
	h.before = func(c call) error {
		if c.n == 1 { // the sync of the first commit
			<-gate
		}
		return nil
	}
	const callers = 20
	var wg sync.WaitGroup
	for i := 1; i <= callers; i++ {
		wg.Go(func() {
			base, err := l.Commit(recs(i*100, 3, 20))
			if !assert.NoError(t, err) {
				return
			}
			assert.Equal(t, int64(1+3*(i-1)), base, "the order of the calls")
			for j := range 3 {
				requireRead(t, l, base+int64(j), rec(i*100+j, 20))
			}
		})
		require.Eventually(t, func() bool { // caller i is in before caller i+1 is made
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.leading && len(l.queue) == i-1
		}, 5*time.Second, 50*time.Microsecond)
	}
	close(gate)
	wg.Wait()
	require.Equal(t, 2, h.count("sync"))
}

func TestConcurrentCommitsShareFailure(t *testing.T) { // LOG-25
	dir, h := realDir(t)
	l := open(t, dir, Options{})
	commit(t, l, 0, rec(0, 10))
	h.reset()
	gate := make(chan struct{})
	h.before = func(c call) error {
		if c.op == "sync" {
			<-gate
			return errDisk
		}
		return nil
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			base, err := l.Commit(recs(1, 3, 20))
			assert.ErrorIs(t, err, syscall.EIO)
			assert.Zero(t, base)
		})
	}
	close(gate)
	wg.Wait()
	require.Equal(t, 1, h.count("sync"), "the commits that waited are not tried")
	requireAll(t, l, recs(0, 1, 10))
}

// In steady state a commit allocates nothing, whatever the number of its records.
func TestCommitAllocatesNothing(t *testing.T) {
	if poolsLeak {
		t.Skip("the race detector empties pools at random")
	}
	dir, err := vfs.OS{}.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	defer dir.Close()
	l := open(t, dir, Options{})
	for _, n := range []int{1, 64} {
		r := recs(0, n, 100)
		require.LessOrEqual(t, testing.AllocsPerRun(50, func() {
			if _, err := l.Commit(r); err != nil {
				t.Error(err)
			}
		}), 0.0, "%d records", n)
	}
}
