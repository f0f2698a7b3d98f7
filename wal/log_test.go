package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/record"
	"narad/sim/disk"
)

func TestAppendReadReopen(t *testing.T) {
	r := newRig(t)
	var want []string
	for round := range 4 {
		l := r.open(Options{SegmentBytes: 1000})
		require.EqualValues(t, 1+len(want), l.Next())
		for i := range 10 {
			payloads := [][]byte{[]byte(fmt.Sprintf("single %d.%d", round, i)), []byte(strings.Repeat("x", 50*i+1)), {byte(i)}}
			first, err := l.Append(payloads[:1+i%3]...)
			require.NoError(t, err)
			require.EqualValues(t, 1+len(want), first)
			for _, p := range payloads[:1+i%3] {
				want = append(want, string(p))
			}
			require.EqualValues(t, 1+len(want), l.Next())
		}
		got, _ := readAll(t, l, 1)
		require.Equal(t, want, got)
		require.NoError(t, l.Err())
		require.NoError(t, l.Close())
	}
	require.Greater(t, len(eventsOf[SegmentRolled](r)), 5)
	for _, name := range r.names() {
		if name != "checkpoint" {
			require.Regexp(t, `^\d{20}\.wal$`, name)
		}
	}
}

func TestNoFrameSpansSegments(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 500})
	for i := range 30 {
		_, err := l.Append(make([]byte, 1+i*29%300), make([]byte, 1+i*53%300), make([]byte, 700))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	next := uint64(1)
	for _, name := range r.names() {
		first, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		require.Equal(t, next, first)
		b, err := os.ReadFile(filepath.Join(r.path, name))
		require.NoError(t, err)
		frames := 0
		for len(b) > 0 {
			_, n, err := record.ParseWALFrame(b, next)
			require.NoError(t, err)
			b = b[n:]
			next++
			frames++
		}
		require.Positive(t, frames)
	}
	require.EqualValues(t, 91, next)
}

func TestAppendRefusesSizes(t *testing.T) {
	l := newRig(t).open(Options{})
	for _, payloads := range [][][]byte{nil, {{}}, {{1}, {}}, {make([]byte, record.MaxWALRecord+1)}} {
		_, err := l.Append(payloads...)
		require.ErrorIs(t, err, ErrSize)
	}
	require.EqualValues(t, 1, l.Next(), "nothing of a refused batch is written")
	first, err := l.Append(make([]byte, record.MaxWALRecord))
	require.NoError(t, err)
	require.EqualValues(t, 1, first)
	got, _ := readAll(t, l, 1)
	require.Len(t, got[0], record.MaxWALRecord)
	require.NoError(t, l.Close())
}

func TestAppendCopiesPayloads(t *testing.T) {
	l := newRig(t).open(Options{BatchBytes: 64})
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			buf := make([]byte, 40)
			for i := range 20 {
				for j := range buf {
					buf[j] = byte(1 + w*20 + i)
				}
				_, err := l.Append(buf, buf)
				require.NoError(t, err)
				clear(buf)
			}
		})
	}
	group.Wait()
	got, _ := readAll(t, l, 1)
	require.Len(t, got, 320)
	for _, p := range got {
		require.Equal(t, strings.Repeat(p[:1], 40), p)
		require.NotZero(t, p[0])
	}
	require.NoError(t, l.Close())
}

// Batches get consecutive numbers however many writers compete and however small the staging bound is.
func TestConcurrentAppends(t *testing.T) {
	for _, bound := range []int{1, 200, 4 << 20} {
		t.Run(fmt.Sprint(bound), func(t *testing.T) {
			r := newRig(t)
			l := r.open(Options{BatchBytes: bound, SegmentBytes: 4000})
			type claim struct {
				first uint64
				text  []string
			}
			claims := make([][]claim, 16)
			var group sync.WaitGroup
			for w := range claims {
				group.Go(func() {
					for i := range 30 {
						c := claim{}
						var payloads [][]byte
						for j := range 1 + (w+i)%4 {
							c.text = append(c.text, fmt.Sprintf("w%d i%d j%d", w, i, j))
							payloads = append(payloads, []byte(c.text[j]))
						}
						var err error
						c.first, err = l.Append(payloads...)
						require.NoError(t, err)
						require.LessOrEqual(t, c.first+uint64(len(payloads)), l.Next(), "WAL-02: it returned, so it is durable")
						claims[w] = append(claims[w], c)
					}
				})
			}
			group.Wait()
			got, next := readAll(t, l, 1)
			total := 0
			for _, cs := range claims {
				last := uint64(0)
				for _, c := range cs {
					require.Greater(t, c.first, last)
					last = c.first
					require.Equal(t, c.text, got[c.first-1:c.first-1+uint64(len(c.text))])
					total += len(c.text)
				}
			}
			require.EqualValues(t, total+1, next)
			require.NoError(t, l.Close())
		})
	}
}

// WAL-02: while a sync is under way appends are staged, and one write and one sync then cover all of them.
func TestGroupCommit(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	var mu sync.Mutex
	syncs, writes := 0, 0
	entered, release := make(chan bool, 10), make(chan bool)
	r.hooks.mu.Lock()
	r.hooks.before = func(o op) (int, error) {
		if o.name == checkpointName {
			return 0, nil
		}
		mu.Lock()
		defer mu.Unlock()
		switch o.kind {
		case "write":
			writes++
		case "sync":
			syncs++
			entered <- true
			<-release
		}
		return 0, nil
	}
	r.hooks.mu.Unlock()
	done := make(chan uint64, 100)
	appendOne := func() {
		first, err := l.Append([]byte("payload"))
		require.NoError(t, err)
		done <- first
	}
	go appendOne()
	<-entered
	for range 50 {
		go appendOne()
	}
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.staged == 52
	}, 5*time.Second, time.Millisecond)
	require.Empty(t, done, "WAL-02: nobody is answered before the sync returns")
	require.EqualValues(t, 1, l.Next())
	release <- true
	require.EqualValues(t, 1, <-done)
	<-entered
	require.Empty(t, done)
	release <- true
	for range 50 {
		<-done
	}
	require.Equal(t, 2, syncs)
	require.Equal(t, 2, writes)
	require.NoError(t, l.Close())
}

// An append that waits for room is not overtaken by a later one that would fit.
func TestAppendsAreStagedInOrder(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{BatchBytes: 200})
	entered, release := make(chan bool, 10), make(chan bool)
	r.hooks.mu.Lock()
	r.hooks.before = func(o op) (int, error) {
		if o.kind == "sync" && o.name != checkpointName {
			entered <- true
			<-release
		}
		return 0, nil
	}
	r.hooks.mu.Unlock()
	state := func() (staged uint64, waiting int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for w := l.queue.head; w != nil; w = w.link {
			waiting++
		}
		return l.staged, waiting
	}
	firsts := make([]uint64, 4)
	var group sync.WaitGroup
	for i, size := range []int{10, 10, 180, 10} { // written, staged, too large to be staged, would fit
		group.Go(func() {
			var err error
			firsts[i], err = l.Append(make([]byte, size))
			require.NoError(t, err)
		})
		require.Eventually(t, func() bool { staged, waiting := state(); return int(staged)-1+waiting == i+1 }, time.Minute, time.Millisecond)
		if i == 0 {
			<-entered
		}
	}
	close(release)
	group.Wait()
	require.Equal(t, []uint64{1, 2, 3, 4}, firsts)
	require.NoError(t, l.Close())
}

func TestOnDurable(t *testing.T) {
	r := newRig(t)
	var l *Log
	var mu sync.Mutex
	var seen []uint64
	l = r.open(Options{OnDurable: func() {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, l.Next())
	}})
	for range 5 {
		_, err := l.Append([]byte("x"))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	require.Equal(t, []uint64{2, 3, 4, 5, 6}, seen)
}

func TestClosed(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	_, err := l.Append([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), ErrClosed)
	_, err = l.Append([]byte("x"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, l.SetCheckpoint(2), ErrClosed)
	_, _, ok, err := l.NewReader(1).Next()
	require.ErrorIs(t, err, ErrClosed)
	require.False(t, ok)
}

// Close answers everything that was staged before it.
func TestCloseDrains(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{BatchBytes: 100})
	results := make(chan error, 64)
	for range 64 {
		go func() {
			_, err := l.Append(make([]byte, 60))
			results <- err
		}()
	}
	time.Sleep(time.Millisecond)
	require.NoError(t, l.Close())
	acked := 0
	for range 64 {
		if err := <-results; err == nil {
			acked++
		} else {
			require.ErrorIs(t, err, ErrClosed)
		}
	}
	l = r.open(Options{})
	require.EqualValues(t, acked+1, l.Next())
	require.NoError(t, l.Close())
}

func TestReaderSeek(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 300 << 10})
	payload := make([]byte, 1000)
	for i := range 100 {
		var batch [][]byte
		for j := range 10 {
			p := append([]byte(nil), payload...)
			binary.BigEndian.PutUint64(p, uint64(i*10+j+1))
			batch = append(batch, p)
		}
		_, err := l.Append(batch...)
		require.NoError(t, err)
	}
	check := func(l *Log) {
		reader := l.NewReader(1)
		defer reader.Close()
		for i := range uint64(3000) {
			at := 1 + i*7919%1000
			reader.Seek(at)
			for seq := at; seq < min(at+i%3+1, 1001); seq++ {
				got, p, ok, err := reader.Next()
				require.NoError(t, err)
				require.True(t, ok)
				require.Equal(t, seq, got)
				require.Equal(t, seq, binary.BigEndian.Uint64(p))
			}
		}
		reader.Seek(1001)
		_, _, ok, err := reader.Next()
		require.NoError(t, err)
		require.False(t, ok)
		reader.Seek(0)
		_, _, _, err = reader.Next()
		require.ErrorIs(t, err, ErrCompacted)
	}
	check(l)
	require.NotEmpty(t, l.segments[0].marks)
	require.NoError(t, l.Close())
	l = r.open(Options{})
	require.NotEmpty(t, l.segments[0].marks)
	check(l)
	require.NoError(t, l.Close())
}

// Buffered hands out what one read of the file brought, and nothing else: what is behind it, be it another segment or damage, is left
// to Next.
func TestReaderBuffered(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	_, err := l.Append([]byte("a"), []byte("b"), []byte("c"))
	require.NoError(t, err)
	reader := l.NewReader(1)
	_, _, ok := reader.Buffered()
	require.False(t, ok, "nothing was read")
	_, _, ok, err = reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	_, err = l.Append([]byte("d"))
	require.NoError(t, err)
	seq, b, ok := reader.Buffered()
	require.True(t, ok)
	require.Equal(t, uint64(2), seq)
	reader.scan.buf[len(reader.scan.buf)-1] ^= 1 // of the third record
	_, _, ok = reader.Buffered()
	require.False(t, ok)
	require.Equal(t, "b", string(b), "it is valid until the next read")
	_, _, _, err = reader.Next()
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	for want := range uint64(2) { // the reader stays where it was, and reads from the file again
		seq, _, ok, err := reader.Next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, 3+want, seq)
	}
	_, _, ok = reader.Buffered()
	require.False(t, ok)
	require.NoError(t, reader.Close())
	_, _, ok = reader.Buffered()
	require.False(t, ok)
	require.NoError(t, l.Close())
}

// A reader never shows a record that is not durable, though its bytes may be in the file already.
func TestReaderStopsAtDurableEnd(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	_, err := l.Append([]byte("first"))
	require.NoError(t, err)
	reader := l.NewReader(1)
	_, _, ok, err := reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	r.hooks.mu.Lock()
	checks := 0
	r.hooks.before = func(o op) (int, error) {
		if o.kind == "sync" && o.name != checkpointName { // written, not synced
			checks++
			_, _, ok, err := reader.Next()
			require.NoError(inHook{t}, err)
			require.False(inHook{t}, ok)
		}
		return 0, nil
	}
	r.hooks.mu.Unlock()
	_, err = l.Append([]byte("second"))
	require.NoError(t, err)
	require.Equal(t, 1, checks)
	_, p, ok, err := reader.Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "second", string(p))
	require.NoError(t, reader.Close())
	require.NoError(t, l.Close())
}

// WAL-19: the checkpoint moves forward only, and never above what is durable.
func TestCheckpointRange(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	require.ErrorIs(t, l.SetCheckpoint(2), ErrCheckpoint)
	_, err := l.Append([]byte("a"), []byte("b"))
	require.NoError(t, err)
	require.NoError(t, l.SetCheckpoint(3))
	require.NoError(t, l.SetCheckpoint(3))
	require.ErrorIs(t, l.SetCheckpoint(2), ErrCheckpoint)
	require.ErrorIs(t, l.SetCheckpoint(4), ErrCheckpoint)
	stored, _ := l.Checkpoint()
	require.EqualValues(t, 3, stored)
	require.NoError(t, l.Close())
	b, err := os.ReadFile(filepath.Join(r.path, "checkpoint"))
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 3}, b)
	l = r.open(Options{})
	stored, durable := l.Checkpoint()
	require.EqualValues(t, 3, stored)
	require.EqualValues(t, 3, durable)
	require.NoError(t, l.Close())
}

// WAL-18, Q-43: the value is in the file when SetCheckpoint returns. WAL-17: its sync follows within the bound, not
// with every store.
func TestCheckpointSyncIsDeferred(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{CheckpointSync: 50 * time.Millisecond})
	for range 20 {
		_, err := l.Append([]byte("a"))
		require.NoError(t, err)
	}
	start := time.Now()
	for seq := range uint64(20) {
		require.NoError(t, l.SetCheckpoint(seq+2))
		b, err := os.ReadFile(filepath.Join(r.path, "checkpoint"))
		require.NoError(t, err)
		require.Equal(t, seq+2, binary.BigEndian.Uint64(b))
	}
	require.Eventually(t, func() bool { _, durable := l.Checkpoint(); return durable == 21 }, time.Minute, time.Millisecond)
	took := time.Since(start)
	require.Greater(t, took, 40*time.Millisecond)
	require.LessOrEqual(t, len(eventsOf[CheckpointSynced](r)), 2+int(took/(50*time.Millisecond)))
	require.NoError(t, l.Close())
}

func TestCompaction(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 500, CheckpointSync: time.Millisecond, IdleRollBytes: 100})
	for range 40 {
		_, err := l.Append(make([]byte, 100))
		require.NoError(t, err)
	}
	before := len(r.names())
	require.Equal(t, 11, before)
	require.NoError(t, l.SetCheckpoint(10)) // records 9 … 12 are in the third segment
	require.Eventually(t, func() bool { return len(r.names()) == before-2 }, time.Minute, time.Millisecond)
	require.Contains(t, r.names(), segmentName(9))
	_, next := readAll(t, l, 10)
	require.EqualValues(t, 41, next)
	_, _, _, err := l.NewReader(8).Next()
	require.ErrorIs(t, err, ErrCompacted)

	// When all is done the active segment is rolled, so that it goes too.
	require.NoError(t, l.SetCheckpoint(41))
	require.Eventually(t, func() bool { return reflect.DeepEqual(r.names(), []string{segmentName(41), "checkpoint"}) }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
	l = r.open(Options{})
	require.EqualValues(t, 41, l.Next())
	first, err := l.Append([]byte("x"))
	require.NoError(t, err)
	require.EqualValues(t, 41, first)
	require.NoError(t, l.Close())
}

// Each removal is durable before the next: no crash leaves a gap between segments.
func TestRemovalsAreDurableOneByOne(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{SegmentBytes: 100, CheckpointSync: time.Millisecond})
	for range 6 {
		_, err := l.Append(make([]byte, 90))
		require.NoError(t, err)
	}
	var changes []string
	r.hooks.mu.Lock()
	r.hooks.before = func(o op) (int, error) {
		if o.kind == "remove" || o.kind == "syncdir" {
			changes = append(changes, o.kind+o.name)
		}
		return 0, nil
	}
	r.hooks.mu.Unlock()
	require.NoError(t, l.SetCheckpoint(4))
	require.Eventually(t, func() bool { return len(eventsOf[SegmentRemoved](r)) == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, l.Close())
	var want []string
	for first := range uint64(3) {
		want = append(want, "remove"+segmentName(first+1), "syncdir")
	}
	require.Equal(t, want, changes)
}

// A small active segment is not worth a roll.
func TestCompactionLeavesSmallActiveSegment(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{CheckpointSync: time.Millisecond})
	_, err := l.Append(make([]byte, 1000))
	require.NoError(t, err)
	require.NoError(t, l.SetCheckpoint(2))
	require.Eventually(t, func() bool { _, durable := l.Checkpoint(); return durable == 2 }, time.Minute, time.Millisecond)
	time.Sleep(5 * time.Millisecond)
	require.Equal(t, []string{segmentName(1), "checkpoint"}, r.names())
	require.NoError(t, l.Close())
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{SegmentBytes: -1}, {BatchBytes: -1}, {CheckpointSync: -1}, {IdleRollBytes: -1}} {
		require.Error(t, o.Validate())
		_, err := Open(newRig(t).env, newRig(t).dir(), o)
		require.Error(t, err)
	}
	require.Equal(t, Options{}.withDefaults().SegmentBytes, int64(64<<20))
	require.Equal(t, 250*time.Millisecond, Options{}.withDefaults().CheckpointSync) // CFG-10
	require.NoError(t, Options{}.Validate())
}

func TestErrorTexts(t *testing.T) {
	cause := errors.New("cause")
	require.ErrorIs(t, &CorruptError{Cause: cause}, cause)
	require.ErrorIs(t, &FailedError{Cause: cause}, cause)
	require.Equal(t, "wal: f is corrupt at offset 7: cause", (&CorruptError{File: "f", Offset: 7, Cause: cause}).Error())
	require.Contains(t, (&FailedError{Cause: cause}).Error(), "reopened: cause")
}

// An append that is larger than what recovery allows for between two syncs is written in parts, each synced before the next
// is begun. WAL-06, WAL-10
func TestLargeAppendIsWrittenInParts(t *testing.T) {
	r := newDiskRig(t, disk.New(disk.Adversarial))
	l := r.open(Options{})
	unsynced, writes := 0, 0
	r.hooks.before = func(o op) (int, error) {
		switch {
		case !strings.HasSuffix(o.name, segmentSuffix):
		case o.kind == "write":
			writes++
			unsynced += o.size
			require.LessOrEqual(inHook{t}, unsynced, maxUnsynced)
		case o.kind == "sync":
			unsynced = 0
		}
		return 0, nil
	}
	payload := bytes.Repeat([]byte("large"), 2<<20)
	first, err := l.Append(payload, payload, payload)
	require.NoError(t, err)
	require.Equal(t, uint64(1), first)
	require.Equal(t, 3, writes, "10 MiB each, 16 at once")
	require.NoError(t, l.Close())
}
