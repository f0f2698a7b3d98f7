package observe

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/segment"
	"narad/wal"
)

// lines returns what the log writes for events at a level.
func lines(level slog.Level, events ...engine.Event) string {
	var out bytes.Buffer
	l := NewEventLog(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), nil, nil)
	for _, v := range events {
		l.Listen(v)
	}
	l.Close()
	return out.String()
}

// OBS-05, OBS-06, OBS-07, OBS-08: the lines that the contract names, with what they carry. The corrupt skip is loud, one
// line per offset (the log half of OBS-04).
func TestLogLines(t *testing.T) {
	k, ck := engine.Key{Topic: "orders", Partition: 4}, committer.Key{Topic: "orders", Partition: 4}
	for _, c := range []struct {
		event engine.Event
		level string
		want  []string
	}{
		{engine.FrontierJumped{Key: k, Oldest: 9}, "WARN",
			[]string{`"consumer frontier fell behind retention; skipped to oldest retained offset"`, "topic=orders partition=4", "oldest=9"}},
		{engine.RetentionRemoved{Key: k, Segments: 2, Records: 7, Oldest: 9}, "INFO", []string{"topic=orders partition=4 messages=7 segments=2", "oldest=9"}},
		{engine.RetentionFailed{Key: k, Err: planted}, "WARN", []string{"topic=orders partition=4", "planted"}},
		{engine.Consumer{Event: committer.Stranded{Key: ck}}, "ERROR", []string{committer.StrandedText, "topic=orders partition=4"}},
		{engine.Consumer{Event: committer.TickLate{Partitions: 3, Took: 2 * time.Second, Interval: 100 * time.Millisecond}}, "WARN",
			[]string{committer.TickLateText, "partitions=3", "flush_took=2s", "interval=100ms"}},
		{engine.Consumer{Event: committer.WriteoutLate{Partitions: 3, Oldest: 5 * time.Second, Interval: time.Second}}, "WARN",
			[]string{committer.WriteoutLateText, "partitions=3", "oldest=5s", "durability_interval=1s"}},
		{engine.CorruptSkipped{Key: k, Offset: 12, Err: planted}, "ERROR", []string{"lost", "topic=orders partition=4 offset=12", "planted"}},
		{engine.Log{Key: k, Event: segment.Poisoned{Err: planted}}, "ERROR", []string{"topic=orders partition=4", "planted"}},
		{engine.Log{Key: k, Event: segment.CommitFailed{Err: planted}}, "WARN", []string{"topic=orders partition=4", "planted"}},
		{engine.Log{Key: k, Event: segment.Recovered{Gap: 2}}, "ERROR", []string{"offsets=2"}},
		{engine.Log{Key: k, Event: segment.Recovered{TailCut: 77}}, "INFO", []string{"bytes=77"}},
		{engine.WAL{Event: wal.Failed{Err: planted}}, "ERROR", []string{"500", "planted"}},
		{engine.WAL{Event: wal.BatchSynced{Err: planted}}, "ERROR", []string{"planted"}},
		{engine.WAL{Event: wal.TailCut{File: "f", Whole: true}}, "WARN", []string{"file=f"}},
		{engine.DispatchFailed{Key: k, Records: 5, Err: planted}, "WARN", []string{"messages=5", "planted"}},
		{engine.DispatchStalled{Err: planted}, "ERROR", []string{"planted"}},
		{engine.Consumer{Event: committer.WrittenOut{Key: ck, Err: planted}}, "WARN", []string{"topic=orders partition=4", "planted"}},
		{engine.Consumer{Event: committer.WindowWritten{Key: ck, Err: planted}}, "WARN", []string{"planted"}},
		{engine.Consumer{Event: committer.Closed{Err: planted}}, "ERROR", []string{"planted"}},
	} {
		name := fmt.Sprintf("%T %+v", c.event, c.event)
		got := lines(slog.LevelInfo, c.event)
		require.Equal(t, 1, strings.Count(got, "\n"), name)
		require.Contains(t, got, "level="+c.level, name)
		for _, want := range c.want {
			require.Contains(t, got, want, name)
		}
	}
	require.Equal(t, 3, strings.Count(lines(slog.LevelInfo, engine.CorruptSkipped{}, engine.CorruptSkipped{}, engine.CorruptSkipped{}), "\n"))
}

// What happens for every message or tick is not logged at info, and described only at debug.
func TestLogIsQuiet(t *testing.T) {
	often := []engine.Event{
		engine.Accepted{}, engine.Dispatched{}, engine.Checkpointed{}, engine.Leased{}, engine.Settled{}, engine.LeaseEnded{},
		engine.LeasesExpired{}, engine.LeaseExtended{}, engine.HandleRefused{}, engine.PumpPutBack{}, engine.ShardOpened{},
		engine.WAL{Event: wal.BatchSynced{}}, engine.WAL{Event: wal.SegmentRolled{}}, engine.WAL{Event: wal.SegmentRemoved{}},
		engine.WAL{Event: wal.CheckpointStored{}}, engine.WAL{Event: wal.CheckpointSynced{}},
		engine.Log{Event: segment.Committed{}}, engine.Log{Event: segment.Rolled{}}, engine.Log{Event: segment.Recovered{}}, engine.Log{Event: segment.Closed{}},
		engine.Consumer{Event: committer.TickDone{}}, engine.Consumer{Event: committer.WindowWritten{}}, engine.Consumer{Event: committer.WrittenOut{}},
		engine.Consumer{Event: committer.Levelled{}}, engine.Consumer{Event: committer.Primed{}}, engine.Consumer{Event: committer.Closed{}},
	}
	require.Empty(t, lines(slog.LevelInfo, often...))
	require.Equal(t, len(often), strings.Count(lines(slog.LevelDebug, often...), "level=DEBUG"))
	l := NewEventLog(slog.New(slog.DiscardHandler), nil, nil)
	defer l.Close()
	var accepted engine.Event = engine.Accepted{}
	require.Zero(t, testing.AllocsPerRun(100, func() { l.Listen(accepted) }))
}

// stuckWriter blocks until it is let go.
type stuckWriter struct {
	gate chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	<-w.gate
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// A log that cannot be written never holds up the engine, and says how much it dropped.
func TestLogNeverBlocks(t *testing.T) {
	w := &stuckWriter{gate: make(chan struct{})}
	l := NewEventLog(slog.New(slog.NewTextHandler(w, nil)), nil, nil)
	for range eventQueue + 100 {
		l.Listen(engine.CorruptSkipped{})
	}
	close(w.gate)
	l.Close()
	l.Listen(engine.CorruptSkipped{}) // after Close: ignored
	require.Regexp(t, `dropped.*lines=(99|100)\b`, w.out.String())
}

// Trouble that repeats is written a few times for each partition and window, then counted. Other lines do not suffer.
func TestLogRepeats(t *testing.T) {
	var got []string
	out := func(x line) { got = append(got, fmt.Sprint(x.text, x.attrs)) }
	left := int64(0)
	r := newRepeats(func(n int64) { left += n })
	at := time.Unix(1000, 0)
	say := func(text string, partition int) {
		r.write(at, line{slog.LevelWarn, text, []any{"topic", "t", "partition", partition, "error", planted}}, out)
	}
	for range 50 {
		say("disk failed", 1)
		say("disk failed", 2)
		say("other", 1)
	}
	require.Len(t, got, 3*repeatEach)
	require.EqualValues(t, 3*(50-repeatEach), left)
	at = at.Add(repeatWindow)
	got = nil
	say("disk failed", 1)
	require.Equal(t, []string{"disk failed[topic t partition 1 error planted repeated 47]", "disk failed[topic t partition 1 error planted]"}, got)
	got = nil
	r.sweep(at, out)
	require.Len(t, got, 2, "those of which nothing more is heard are summed up too")

	got = nil
	at = at.Add(2 * repeatWindow)
	for partition := range 1000 {
		say("everything failed", partition)
	}
	require.Len(t, got, repeatAll, "a disk with many partitions")
	r.flush(out)
	require.Empty(t, r.told)

	got = nil
	at = at.Add(repeatWindow)
	for i := range 3 * eventQueue {
		say("more partitions than anybody has", i)
		require.LessOrEqual(t, len(r.told), eventQueue+1)
	}
}
