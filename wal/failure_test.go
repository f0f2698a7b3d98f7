package wal

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/sim/disk"
)

// failOnce makes the next call of that kind on a name with that suffix fail.
func (r *rig) failOnce(kind, suffix string, short int, err error) {
	r.hooks.mu.Lock()
	defer r.hooks.mu.Unlock()
	done := false
	r.hooks.before = func(o op) (int, error) {
		if done || o.kind != kind || !strings.HasSuffix(o.name, suffix) {
			return 0, nil
		}
		done = true
		return short, err
	}
}

func frameBytes(payloads ...string) (size int) {
	for _, p := range payloads {
		size += record.WALHeaderSize + len(p)
	}
	return size
}

// WAL-09, WAL-10, BUG-144: what was written ahead of the failure is recovered, the records answered with an error included.
func TestRecordsAheadOfAFailureSurvive(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	_, err := l.Append([]byte("acknowledged"))
	require.NoError(t, err)
	r.failOnce("write", segmentSuffix, frameBytes("one", "two")+7, syscall.ENOSPC)
	_, err = l.Append([]byte("one"), []byte("two"), []byte("three"))
	var failed *FailedError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, err, l.Err())
	require.EqualValues(t, 2, l.Next(), "an answer of failure promises nothing")
	require.NoError(t, l.Close())

	l = r.open(Options{})
	got, _ := readAll(t, l, 1)
	require.Equal(t, []string{"acknowledged", "one", "two"}, got)
	require.NoError(t, l.Err())
	first, err := l.Append([]byte("next"))
	require.NoError(t, err)
	require.EqualValues(t, 4, first)
	require.NoError(t, l.Close())
	require.Len(t, eventsOf[Failed](r), 1)
}

// WAL-11, BUG-143: a failure is sticky whatever happens to its cause, for those who wait, those who are staged
// behind and those who come later, and nothing is written or synced any more.
func TestFailureLatches(t *testing.T) {
	for _, kind := range []string{"write", "sync"} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			l := r.open(Options{BatchBytes: 200})
			_, err := l.Append([]byte("acknowledged"))
			require.NoError(t, err)
			entered, release := make(chan bool), make(chan bool)
			var mu sync.Mutex
			calls := 0
			r.hooks.mu.Lock()
			r.hooks.before = func(o op) (int, error) {
				if o.name == checkpointName {
					return 0, nil
				}
				mu.Lock()
				calls++
				mu.Unlock()
				if o.kind != kind {
					return 0, nil
				}
				entered <- true
				<-release
				return 0, syscall.EIO
			}
			r.hooks.mu.Unlock()
			results := make(chan error, 20)
			for range 20 { // in the batch, staged behind it, and waiting for room
				go func() {
					_, err := l.Append(make([]byte, 50))
					results <- err
				}()
			}
			<-entered
			require.Eventually(t, func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				waiting := 0
				for w := l.queue.head; w != nil; w = w.link {
					waiting++
				}
				return waiting+int(l.staged-2) == 20
			}, 5*time.Second, time.Millisecond)
			release <- true
			var failed *FailedError
			for range 20 {
				require.ErrorAs(t, <-results, &failed)
			}
			before := calls
			for range 3 {
				_, err := l.Append([]byte("later"))
				require.ErrorAs(t, err, &failed)
			}
			require.NoError(t, l.SetCheckpoint(2))
			require.NoError(t, l.Close())
			require.Equal(t, before, calls, "nothing is written or synced after a failure")
			r.hooks.before = nil
			l = r.open(Options{})
			got, _ := readAll(t, l, 1)
			require.Equal(t, "acknowledged", got[0])
			require.NoError(t, l.Close())
		})
	}
}

// WAL-12: what is durable stays readable, and the checkpoint keeps moving, in a log that has failed.
func TestReadsAfterFailure(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{CheckpointSync: time.Millisecond})
	for range 10 {
		_, err := l.Append([]byte("x"))
		require.NoError(t, err)
	}
	r.failOnce("sync", segmentSuffix, 0, syscall.EIO)
	_, err := l.Append([]byte("y"))
	require.Error(t, err)
	got, _ := readAll(t, l, 1)
	require.Len(t, got, 10)
	require.NoError(t, l.SetCheckpoint(11))
	require.ErrorIs(t, l.SetCheckpoint(12), ErrCheckpoint)
	require.Eventually(t, func() bool { _, durable := l.Checkpoint(); return durable == 11 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
}

// A segment that cannot be created fails the appends of that moment and no others; their numbers are used again.
func TestFailedCreateDoesNotLatch(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 300})
	_, err := l.Append(make([]byte, 250))
	require.NoError(t, err)
	for range 3 {
		r.failOnce("create", segmentSuffix, 0, syscall.ENOSPC)
		_, err = l.Append(make([]byte, 100))
		require.ErrorIs(t, err, syscall.ENOSPC)
		var failed *FailedError
		require.False(t, errors.As(err, &failed))
		require.NoError(t, l.Err())
	}
	require.Len(t, eventsOf[RollFailed](r), 3)
	first, err := l.Append(make([]byte, 100))
	require.NoError(t, err)
	require.EqualValues(t, 2, first)
	require.NoError(t, l.Close())
	l = r.open(Options{})
	require.EqualValues(t, 3, l.Next())
	require.NoError(t, l.Close())
}

// A batch that crosses into a segment that cannot be created is durable up to there.
func TestFailedCreateInsideABatch(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 300})
	r.failOnce("create", segmentSuffix, 0, syscall.EMFILE)
	_, err := l.Append(make([]byte, 200), make([]byte, 200), make([]byte, 200))
	require.ErrorIs(t, err, syscall.EMFILE)
	require.EqualValues(t, 2, l.Next())
	first, err := l.Append(make([]byte, 200))
	require.NoError(t, err)
	require.EqualValues(t, 2, first)
	require.NoError(t, l.Close())
}

// A creation that failed may have made the file all the same.
func TestStrayOfAFailedCreate(t *testing.T) {
	for _, size := range []int{0, 5} {
		r := newRig(t)
		l := r.open(Options{SegmentBytes: 300})
		_, err := l.Append(make([]byte, 250))
		require.NoError(t, err)
		d := r.dir()
		f, err := d.Create(segmentName(2))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(size)))
		_, err = l.Append(make([]byte, 100))
		if size == 0 {
			require.NoError(t, err)
		} else {
			require.Error(t, err, "a file with bytes is nobody's to overwrite")
			require.NoError(t, l.Err())
		}
		require.NoError(t, f.Close())
		require.NoError(t, d.Close())
		require.NoError(t, l.Close())
	}
}

// A directory sync that failed says nothing about the new name: no record may be acknowledged behind it.
func TestFailedDirectorySyncLatches(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 300})
	_, err := l.Append(make([]byte, 250))
	require.NoError(t, err)
	r.failOnce("syncdir", "", 0, syscall.EIO)
	_, err = l.Append(make([]byte, 100))
	var failed *FailedError
	require.ErrorAs(t, err, &failed)
	require.ErrorAs(t, l.Err(), &failed)
	require.NoError(t, l.Close())

	// The next process makes the name anew instead of syncing the old one and believing it.
	created := false
	r.hooks.before = func(o op) (int, error) {
		created = created || o.kind == "rename" && o.name == segmentName(2)
		return 0, nil
	}
	l = r.open(Options{})
	require.True(t, created)
	require.EqualValues(t, 2, l.Next())
	require.NoError(t, l.Close())
}

// A checkpoint whose write or sync failed is written anew before it is synced; a failure is not the end.
func TestCheckpointFailures(t *testing.T) {
	for _, kind := range []string{"write", "sync"} {
		t.Run(kind, func(t *testing.T) {
			d := disk.New(disk.Adversarial)
			r := newDiskRig(t, d)
			l := r.open(Options{CheckpointSync: time.Millisecond})
			_, err := l.Append([]byte("x"), []byte("y"))
			require.NoError(t, err)
			c := &crasher{t: inHook{t}, disk: d}
			r.hooks.mu.Lock()
			failures := 0
			r.hooks.before = func(o op) (int, error) {
				if o.name != checkpointName || o.kind != kind || failures == 3 {
					return 0, nil
				}
				failures++
				if kind == "sync" {
					return 0, c.syncFails(o, true)
				}
				return 0, syscall.EIO
			}
			r.hooks.mu.Unlock()
			err = l.SetCheckpoint(2)
			stored, durable := l.Checkpoint()
			require.EqualValues(t, 1, durable)
			if kind == "write" {
				require.ErrorIs(t, err, syscall.EIO)
				require.EqualValues(t, 1, stored, "an error stores nothing")
				require.Eventually(t, func() bool {
					return l.SetCheckpoint(2) == nil
				}, 5*time.Second, 5*time.Millisecond)
			} else {
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { _, durable := l.Checkpoint(); return durable == 2 }, time.Minute, time.Millisecond)
			require.NoError(t, l.Err())
			b, ok := d.Durable().DurableFile("wal/checkpoint")
			require.True(t, ok)
			require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 2}, b, "what is called durable is on the disk")
			require.NoError(t, l.Close())
		})
	}
}

// Close reports a checkpoint that it could not sync.
func TestCloseReportsCheckpoint(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{CheckpointSync: time.Hour})
	_, err := l.Append([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, l.SetCheckpoint(2))
	r.failOnce("sync", checkpointName, 0, syscall.EIO)
	require.ErrorIs(t, l.Close(), syscall.EIO)
}

// A segment that cannot be removed is tried again and does not stop the log.
func TestFailedRemove(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 100, CheckpointSync: time.Millisecond})
	for range 5 {
		_, err := l.Append(make([]byte, 90))
		require.NoError(t, err)
	}
	r.failOnce("remove", segmentSuffix, 0, syscall.EIO)
	require.NoError(t, l.SetCheckpoint(4))
	require.Eventually(t, func() bool { return len(eventsOf[SegmentRemoved](r)) == 1 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, eventsOf[SegmentRemoved](r)[0].Err, syscall.EIO)
	require.NoError(t, l.SetCheckpoint(5))
	require.Eventually(t, func() bool { return len(r.names()) == 2 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
}

// An open that fails gives its directory back and can be repeated.
func TestOpenFails(t *testing.T) {
	r := writeLog(t, map[string][]byte{segmentName(1): segmentOf(1, "one", "two")[:30]})
	for n := 1; ; n++ {
		calls := 0
		r.hooks.before = func(o op) (int, error) {
			if calls++; calls == n {
				return 0, syscall.EIO
			}
			return 0, nil
		}
		l, err := r.tryOpen(Options{})
		if calls < n {
			require.NoError(t, err)
			require.EqualValues(t, 2, l.Next())
			require.NoError(t, l.Close())
			return
		}
		require.ErrorIs(t, err, syscall.EIO)
	}
}

// Records damaged on the disk after the log was opened are reported by the read that meets them.
func TestReaderMeetsDamage(t *testing.T) {
	d := disk.New(disk.Adversarial)
	r := newDiskRig(t, d)
	l := r.open(Options{})
	_, err := l.Append([]byte("one"), []byte("two"), []byte("three"))
	require.NoError(t, err)
	_, ino, err := d.Lookup(d.Root(), "wal/"+segmentName(1))
	require.NoError(t, err)
	at := int64(frameBytes("one", ""))
	d.FlipBit(ino, at*8)
	reader := l.NewReader(1)
	defer reader.Close()
	_, _, ok, err := reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	for range 2 { // it stays there
		_, _, ok, err = reader.Next()
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.False(t, ok)
		require.Equal(t, CorruptError{File: segmentName(1), Offset: int64(frameBytes("one")), Cause: corrupt.Cause}, *corrupt)
		require.ErrorIs(t, err, record.ErrChecksum)
	}
	d.FlipBit(ino, at*8)
	_, p, ok, err := reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "two", string(p))
	require.NoError(t, l.Close())
}

// INV-02; seed 29959: what a failed sync left in memory may go while the log is opened, after it was looked at and before it is written
// again. The log ends before it then, and opens.
func TestFrameThatVanishesUnderLoad(t *testing.T) {
	for _, size := range []int{10, 1200} { // within a sector and over several
		vanished := 0
		for n := 1; ; n++ {
			d := disk.New(disk.Adversarial)
			r := newDiskRig(t, d)
			l := r.open(Options{})
			_, err := l.Append([]byte("acknowledged"))
			require.NoError(t, err)
			_, segment, err := d.Lookup(d.Root(), r.path+"/"+segmentName(1))
			require.NoError(t, err)
			r.hooks.before = func(o op) (int, error) {
				if o.kind != "sync" {
					return 0, nil
				}
				d.SyncFails(segment, true)
				return 0, syscall.EIO
			}
			_, err = l.Append([]byte(strings.Repeat("x", size)))
			require.ErrorIs(t, err, syscall.EIO)
			r.hooks.before = nil
			l.Close()

			calls := 0
			r.hooks.before = func(op) (int, error) {
				if calls++; calls == n {
					d.Evict(segment)
				}
				return 0, nil
			}
			l = r.open(Options{})
			r.hooks.before = nil
			if l.Next() == 2 {
				vanished++
			}
			_, err = l.Append([]byte("later"))
			require.NoError(t, err)
			payloads, _ := readAll(t, l, 1)
			require.Equal(t, "acknowledged", payloads[0])
			require.Equal(t, "later", payloads[len(payloads)-1])
			require.NoError(t, l.Close())
			if calls < n {
				break
			}
		}
		require.Equal(t, 2, vanished, "it may go before each of the two calls that come before it is written")
	}
}
