package wal

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/sim/disk"
)

// preparedOptions make a log prepare segments after a few records.
func preparedOptions(size int64) Options {
	return Options{SegmentBytes: size, IdleRollBytes: 500, CheckpointSync: atOnce, Preallocate: true}
}

// appendUntil appends records of 200 bytes until the condition holds.
func appendUntil(t *testing.T, l *Log, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		_, err := l.Append(bytes.Repeat([]byte{'x'}, 200))
		require.NoError(t, err)
		awaitPrepared(t, l)
	}
	require.Fail(t, "never")
}

func awaitPrepared(t *testing.T, l *Log) {
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.prepared.wanted && l.prepared.state != prepareBusy
	}, time.Minute, 10*time.Microsecond)
}

// awaitRemovals waits until only the active segment is left.
func awaitRemovals(t *testing.T, l *Log) {
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.segments) == 1 && l.prepared.state != prepareBusy
	}, time.Minute, 10*time.Microsecond)
}

func onPrepared(l *Log) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.tail.seg.prepared && l.tail.seg.size > 0
	}
}

// An append into a prepared segment changes neither the file's size nor anything but the bytes of its frame.
func TestAppendsIntoPreparedSegment(t *testing.T) {
	const size = 3<<20 + 77 // in several steps, and not in whole sectors
	r := newDiskRig(t, disk.New(disk.Adversarial))
	o := preparedOptions(size)
	l := r.open(o)
	_, err := l.Append(make([]byte, 300))
	require.NoError(t, err)
	awaitPrepared(t, l)
	require.Contains(t, r.names(), preparedName)
	require.Equal(t, []SegmentPrepared{{}}, eventsOf[SegmentPrepared](r))
	b := r.contents()[preparedName]
	require.Equal(t, string(record.AppendWALTrailer(make([]byte, size), size)), b)

	_, err = l.Append([]byte("two"))
	require.NoError(t, err)
	require.Equal(t, []SegmentRolled{{First: 2, Prepared: true}}, eventsOf[SegmentRolled](r), "the growing segment is left at once")
	require.NoError(t, l.SetCheckpoint(2))
	require.Eventually(t, func() bool { return len(eventsOf[SegmentRemoved](r)) == 1 }, time.Minute, time.Millisecond)
	require.True(t, eventsOf[SegmentRemoved](r)[0].Recycled)

	_, err = l.Append([]byte("three"), []byte("four"))
	require.NoError(t, err)
	want := segmentOf(2, "two", "three", "four")
	require.Equal(t, string(want)+b[len(want):], r.contents()[segmentName(2)])
	got, next := readAll(t, l, 2)
	require.Equal(t, []string{"two", "three", "four"}, got)

	require.NoError(t, l.SetCheckpoint(next)) // this one is not left, it would free nothing
	require.Eventually(t, func() bool { stored, durable := l.Checkpoint(); return stored == durable }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
	require.Equal(t, []string{segmentName(2), checkpointName}, r.names())
	require.Equal(t, string(want), r.contents()[segmentName(2)], "nothing but frames after a stop")
	require.Len(t, eventsOf[SegmentRolled](r), 1)
	r.open(Options{}).Close()
	require.Empty(t, eventsOf[TailCut](r))
}

// A file that compaction frees becomes the next one, and nothing of its old contents is left in it, whatever
// its size was.
func TestRecycling(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	l := r.open(Options{SegmentBytes: 9000, CheckpointSync: atOnce})
	appendUntil(t, l, func() bool { return len(r.names()) == 3 })
	require.NoError(t, l.Close())

	l = r.open(preparedOptions(4000)) // smaller segments
	require.NoError(t, l.SetCheckpoint(l.Next()))
	awaitRemovals(t, l)
	require.Contains(t, r.names(), preparedName)
	appendUntil(t, l, func() bool { return len(eventsOf[SegmentPrepared](r)) > 0 })
	require.Equal(t, SegmentPrepared{Recycled: true}, eventsOf[SegmentPrepared](r)[0])
	require.Equal(t, string(record.AppendWALTrailer(make([]byte, 4000), 4000)), r.contents()[preparedName])
	for range 10 {
		rolled := len(eventsOf[SegmentRolled](r))
		appendUntil(t, l, func() bool { return len(eventsOf[SegmentRolled](r)) > rolled })
		require.NoError(t, l.SetCheckpoint(l.Next()))
		awaitRemovals(t, l) // or the next file is prepared before there is one to be used again
		prepared := len(eventsOf[SegmentPrepared](r))
		appendUntil(t, l, func() bool { return len(eventsOf[SegmentPrepared](r)) > prepared })
		require.Equal(t, SegmentPrepared{Recycled: true}, eventsOf[SegmentPrepared](r)[prepared])
	}
	stored, _ := l.Checkpoint()
	_, next := readAll(t, l, stored)
	require.Equal(t, l.Next(), next)
	require.NoError(t, l.Close())
}

// Of a file that is ready, or kept to be prepared, is told before anybody can use it.
func TestEventsComeBeforeUse(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	var l *Log
	var recycled, prepared atomic.Int64
	r.onEvent = func(v Event) {
		switch e := v.(type) {
		case SegmentPrepared:
			prepared.Add(1)
		case SegmentRemoved:
			if !e.Recycled {
				return
			}
			recycled.Add(1)
		default:
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		guard(func() { require.Equal(inHook{t}, prepareBusy, l.prepared.state, "%#v", v) })
	}
	l = r.open(preparedOptions(4000))
	for range 3 {
		rolled := len(eventsOf[SegmentRolled](r))
		appendUntil(t, l, func() bool { return len(eventsOf[SegmentRolled](r)) > rolled })
		require.NoError(t, l.SetCheckpoint(l.Next()))
		awaitRemovals(t, l)
	}
	require.EqualValues(t, 3, recycled.Load())
	require.EqualValues(t, 3, prepared.Load())
	require.NoError(t, l.Close())
}

// A reader that is still in a segment when its file is used again does not take that for damage.
func TestReaderOfRecycledSegment(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	o := Options{SegmentBytes: 600 << 10, CheckpointSync: atOnce}
	l := r.open(o)
	big := bytes.Repeat([]byte{'x'}, 100<<10)
	for range 9 { // five in the first segment, four in the second
		_, err := l.Append(big)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	o.Preallocate = true
	l = r.open(o)
	reader := l.NewReader(1)
	_, _, ok, err := reader.Next() // with it the reader has got 256 KiB, two records and a half
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, l.SetCheckpoint(6))
	require.Eventually(t, func() bool { return len(eventsOf[SegmentRemoved](r)) == 1 }, time.Minute, time.Millisecond)
	require.True(t, eventsOf[SegmentRemoved](r)[0].Recycled)
	_, err = l.Append([]byte("ten"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(eventsOf[SegmentPrepared](r)) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, SegmentPrepared{Recycled: true}, eventsOf[SegmentPrepared](r)[0])

	_, _, ok, err = reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	_, _, _, err = reader.Next()
	require.ErrorIs(t, err, ErrCompacted)
	reader.Seek(6)
	seq, _, ok, err := reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 6, seq)
	require.NoError(t, reader.Close())
	require.NoError(t, l.Close())
}

// WAL-10: whatever fails while a segment is prepared, appends go on and the next segment grows.
func TestFailedPreparation(t *testing.T) {
	for _, kind := range []string{"create", "preallocate", "write", "sync"} {
		t.Run(kind, func(t *testing.T) {
			r := newDiskRig(t, disk.New(disk.Adversarial))
			l := r.open(preparedOptions(4000))
			r.failOnce(kind, preparedName, 100, syscall.ENOSPC)
			appendUntil(t, l, func() bool { return len(eventsOf[SegmentRolled](r)) > 0 })
			require.False(t, eventsOf[SegmentRolled](r)[0].Prepared)
			events := eventsOf[SegmentPrepared](r)
			require.ErrorIs(t, events[0].Err, syscall.ENOSPC)
			require.Len(t, events, 1, "it is not tried again until the next segment")
			require.NotContains(t, r.names(), preparedName, "its space is given back")
			appendUntil(t, l, onPrepared(l))
			require.NoError(t, l.Err())
			require.NoError(t, l.Close())
		})
	}
}

// A rename that fails, before or after it was done, costs the prepared file and no append.
func TestFailedRenameOfPreparedSegment(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprint(done), func(t *testing.T) {
			r := newDiskRig(t, disk.New(disk.Adversarial))
			l := r.open(preparedOptions(4000))
			r.hooks.mu.Lock()
			failed := false
			r.hooks.before = func(o op) (int, error) {
				if failed || o.kind != "rename" {
					return 0, nil
				}
				failed = true
				if done {
					d, err := r.env.FS().OpenRoot(r.path, false)
					require.NoError(t, err)
					require.NoError(t, d.Rename(preparedName, o.name))
					require.NoError(t, d.Close())
				}
				return 0, syscall.EIO
			}
			r.hooks.mu.Unlock()
			appendUntil(t, l, func() bool { return len(eventsOf[SegmentRolled](r)) > 0 })
			require.True(t, failed)
			require.False(t, eventsOf[SegmentRolled](r)[0].Prepared)
			appendUntil(t, l, onPrepared(l))
			require.NoError(t, l.Close())
			_, next := readAll(t, r.open(Options{}), 1)
			require.Equal(t, l.Next(), next)
		})
	}
}

// After a failed sync of the directory a file that was to be used again may come back under its old name. It is
// never written to.
func TestFailedRecyclingIsNotUsed(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	l := r.open(Options{SegmentBytes: 3000, CheckpointSync: atOnce})
	appendUntil(t, l, func() bool { return len(r.names()) == 4 })
	require.NoError(t, l.Close())
	l = r.open(preparedOptions(3000))
	old, err := r.dir().Stat(segmentName(1))
	require.NoError(t, err)
	r.failOnce("syncdir", "", 0, syscall.EIO)
	require.NoError(t, l.SetCheckpoint(20))
	require.Eventually(t, func() bool { return len(eventsOf[SegmentRemoved](r)) > 0 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, eventsOf[SegmentRemoved](r)[0].Err, syscall.EIO)
	for range 10 {
		require.NoError(t, l.SetCheckpoint(max(21, l.Next())))
		appendUntil(t, l, func() bool { stored, durable := l.Checkpoint(); return stored == durable })
		appendUntil(t, l, onPrepared(l))
		d := r.dir()
		entries, err := d.List()
		require.NoError(t, err)
		for _, e := range entries {
			if strings.HasSuffix(e.Name, segmentSuffix) {
				require.NotEqual(t, old.ID, e.ID, e.Name)
			}
		}
		d.Close()
	}
	require.NoError(t, l.Close())
}

// A record that is larger than a segment does not go over the trailer of a prepared one.
func TestLargeRecordAfterPreparation(t *testing.T) {
	for _, idle := range []bool{false, true} { // a full segment is left, or one whose records are done with
		r := newDiskRig(t, disk.New(disk.Adversarial))
		l := r.open(preparedOptions(4000))
		appendUntil(t, l, func() bool { return len(eventsOf[SegmentPrepared](r)) == 1 })
		if idle {
			appendUntil(t, l, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.tail.seg.size >= 500 })
			require.NoError(t, l.SetCheckpoint(l.Next()))
			require.Eventually(t, func() bool { return len(eventsOf[SegmentRolled](r)) == 1 }, time.Minute, time.Millisecond)
		}
		large := strings.Repeat("large", 2000)
		first, err := l.Append([]byte(large))
		require.NoError(t, err)
		require.Equal(t, string(segmentOf(first, large)), r.contents()[segmentName(first)])
		appendUntil(t, l, onPrepared(l))
		got, _ := readAll(t, l, first)
		require.Equal(t, large, got[0])
		require.NoError(t, l.Close())
	}
}

// A log that is closed or dead does not prepare anything to the end.
func TestCloseEndsPreparation(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	o := preparedOptions(64 << 20)
	syncs := 0
	started := make(chan bool)
	var l *Log
	r.hooks.after = func(o op) {
		if o.name == preparedName && o.kind == "sync" {
			if syncs++; syncs == 1 {
				close(started)
			}
			for !l.isClosing() {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	l = r.open(o)
	_, err := l.Append(make([]byte, 300))
	require.NoError(t, err)
	<-started
	require.NoError(t, l.Close())
	require.Equal(t, 1, syncs)
	require.NotContains(t, r.names(), preparedName)
}

// preparedSegment is a segment as it is in use: frames, zeros, trailer.
func preparedSegment(frames []byte, limit int) []byte {
	b := make([]byte, limit)
	copy(b, frames)
	return record.AppendWALTrailer(b, int64(limit))
}

// WAL-30: a killed process leaves any prefix of a write, a power failure any of its sectors; what is found is
// the whole frames before the first that is not.
func TestTornPreparedSegment(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	for _, limit := range []int{len(whole), len(whole) + 1, len(whole) + 19, len(whole) + 20, 1000, 3000} {
		frames, end := 0, 0
		for size := range len(whole) + 1 {
			if size == end+record.WALHeaderSize+len(payloads[min(frames, 5)]) {
				end = size
				frames++
			}
			r := writeLog(t, map[string][]byte{segmentName(1): preparedSegment(whole[:size], limit)})
			requireSame(t, r, append([]string(nil), payloads[:frames]...))
			require.EqualValues(t, end, len(r.contents()[segmentName(1)]))
			cuts := eventsOf[TailCut](r)
			if size == end {
				require.Empty(t, cuts, "%d of %d, limit %d", size, len(whole), limit)
				continue
			}
			require.Len(t, cuts, 1)
			require.EqualValues(t, end, cuts[0].Offset)
			require.LessOrEqual(t, cuts[0].Bytes, int64(size-end))
		}
	}
}

// A changed byte in a frame that others follow is refused, in the last it costs that frame, in the zeros it
// costs nothing; nor does the trailer hold anything that is needed.
func TestEveryByteOfPreparedSegmentFlipped(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	lastFrame := len(whole) - len(payloads[5]) - record.WALHeaderSize
	file := preparedSegment(whole, 700)
	for i := range file {
		for _, flip := range []byte{0x01, 0x10, 0x80, 0xff} {
			b := bytes.Clone(file)
			b[i] ^= flip
			r := writeLog(t, map[string][]byte{segmentName(1): b})
			switch {
			case i >= len(whole):
				requireSame(t, r, payloads)
			case i >= lastFrame+8 && i < lastFrame+16:
				_, err := r.tryOpen(Options{})
				require.ErrorIs(t, err, errNumber)
			case i >= lastFrame:
				requireSame(t, r, payloads[:5])
			default:
				before := r.contents()
				_, err := r.tryOpen(Options{})
				require.ErrorIs(t, err, errLaterFrame, "byte %d ^ %#x", i, flip)
				require.Equal(t, before, r.contents(), "untouched")
			}
		}
	}
}

// A sealed segment may have its zeros still, with or without the trailer; its records must go on to the next.
func TestUntrimmedSealedSegment(t *testing.T) {
	payloads := samplePayloads()
	whole := segmentOf(1, payloads...)
	both := append(append([]string(nil), payloads...), payloads...)
	for _, first := range [][]byte{preparedSegment(whole, 1000), preparedSegment(whole, len(whole)), append(bytes.Clone(whole), make([]byte, 99)...)} {
		r := writeLog(t, map[string][]byte{segmentName(1): first, segmentName(7): segmentOf(7, payloads...)})
		requireSame(t, r, both)
		require.Empty(t, eventsOf[TailCut](r))
		for i := range whole { // a lost frame is missed
			for _, to := range []byte{0, 0x55} {
				b := bytes.Clone(first)
				for j := i; j < len(whole); j++ {
					b[j] = to
				}
				_, err := writeLog(t, map[string][]byte{segmentName(1): b, segmentName(7): segmentOf(7, payloads...)}).tryOpen(Options{})
				var corrupt *CorruptError
				if bytes.Equal(b, first) {
					require.NoError(t, err)
					continue
				}
				require.ErrorAs(t, err, &corrupt, "from %d", i)
			}
		}
	}
	junk := preparedSegment(whole, 1000)
	junk[900] = 1
	_, err := writeLog(t, map[string][]byte{segmentName(1): junk, segmentName(7): segmentOf(7, payloads...)}).tryOpen(Options{})
	require.ErrorIs(t, err, errTail)
}

// A prepared segment without a frame gets a new file like an empty one: its name may not be on the disk.
func TestPreparedSegmentWithoutFrames(t *testing.T) {
	r := writeLog(t, map[string][]byte{segmentName(1): segmentOf(1, "one"), segmentName(2): preparedSegment(nil, 700)})
	d := r.dir()
	old, err := d.Stat(segmentName(2))
	require.NoError(t, err)
	l := r.open(Options{})
	now, err := d.Stat(segmentName(2))
	require.NoError(t, err)
	require.NotEqual(t, old.ID, now.ID)
	require.Zero(t, now.Size)
	require.Empty(t, eventsOf[TailCut](r))
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
}

// A record whose end looks like a trailer is a record.
func TestRecordThatLooksLikeATrailer(t *testing.T) {
	head := segmentOf(1, "one", strings.Repeat("x", 84))
	b := record.AppendWALTrailer(nil, int64(len(head)))
	evil := strings.Repeat("x", 84) + string(b)
	whole := segmentOf(1, "one", evil)
	require.Equal(t, string(b), string(whole[len(head):]))
	requireSame(t, writeLog(t, map[string][]byte{segmentName(1): whole}), []string{"one", evil})
	torn := bytes.Clone(whole)
	torn[len(whole)-20] ^= 1
	requireSame(t, writeLog(t, map[string][]byte{segmentName(1): torn}), []string{"one"})
	for i := range len(segmentOf(1, "one")) {
		b := bytes.Clone(whole)
		b[i] ^= 0x20
		_, err := writeLog(t, map[string][]byte{segmentName(1): b}).tryOpen(Options{})
		require.ErrorIs(t, err, errLaterFrame)
	}
}
