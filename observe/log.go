package observe

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/segment"
	"narad/wal"
)

// eventQueue is how many events may wait to be written as log lines.
const eventQueue = 4096

// EventLog turns engine events into log lines. Events arrive under the engine's locks, so they are queued and
// written by a goroutine of its own; when that one cannot keep up, lines are dropped and their number is logged.
//
// What happens for every message or tick is a debug line. What an operator must act on, or that explains a
// loss or a redelivery, is a warning or an error. Trouble that repeats itself is written a few times a minute, then counted (see
// repeats). No line has a payload or a key of a message in it.
type EventLog struct {
	logger  *slog.Logger
	queue   chan engine.Event
	done    sync.WaitGroup
	dropped atomic.Int64
	repeats repeats
	onDrop  func(lines int64) // told of lines that were dropped
	mu      sync.RWMutex      // guards closed and the close of queue
	closed  bool
}

// NewEventLog starts an event log that writes to logger. Close ends it. suppressed and dropped, which may be nil, are told
// how many lines were left out because they repeat others, or because they could not be written fast enough.
func NewEventLog(logger *slog.Logger, suppressed, dropped func(lines int64)) *EventLog {
	l := &EventLog{logger: logger, queue: make(chan engine.Event, eventQueue), repeats: newRepeats(suppressed), onDrop: dropped}
	l.done.Go(l.run)
	return l
}

// debug reports whether the events of every message are logged.
func (l *EventLog) debug() bool { return l.logger.Enabled(context.Background(), slog.LevelDebug) }

// Listen takes an event; it never blocks. It is what engine.Options.Listener wants.
func (l *EventLog) Listen(v engine.Event) {
	if level, _, _ := lineOf(v); !l.logger.Enabled(context.Background(), level) {
		return
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- v:
	default:
		l.dropped.Add(1)
	}
}

// Close writes what is queued and ends the log. Later events are ignored.
func (l *EventLog) Close() {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	if !closed {
		close(l.queue)
	}
	l.mu.Unlock()
	l.done.Wait()
}

func (l *EventLog) run() {
	tick := time.NewTicker(repeatWindow)
	defer tick.Stop()
	for {
		select {
		case v, ok := <-l.queue:
			if !ok {
				l.repeats.flush(l.writeLine)
				return
			}
			l.write(v, time.Now())
		case <-tick.C:
			l.repeats.sweep(time.Now(), l.writeLine)
		}
		if n := l.dropped.Swap(0); n > 0 {
			if l.onDrop != nil {
				l.onDrop(n)
			}
			l.logger.Warn("log lines were dropped because they could not be written fast enough", "lines", n)
		}
	}
}

func (l *EventLog) write(v engine.Event, now time.Time) {
	level, text, attrs := lineOf(v)
	if text == "" {
		text, attrs = fmt.Sprintf("%T", v), []any{"event", fmt.Sprintf("%+v", v)}
	}
	if level >= slog.LevelWarn && !everyOne(v) {
		l.repeats.write(now, line{level, text, attrs}, l.writeLine)
		return
	}
	l.writeLine(line{level, text, attrs})
}

func (l *EventLog) writeLine(x line) {
	l.logger.Log(context.Background(), x.level, x.text, x.attrs...)
}

// everyOne reports whether each such event has a line of its own: a message that is lost must be found in the log (OBS-04).
func everyOne(v engine.Event) bool {
	switch v.(type) {
	case engine.CorruptSkipped, engine.FrontierJumped, engine.FrontierClamped:
		return true
	}
	return false
}

// lineOf returns the line of an event. One that happens all the time has the debug level and no text of its own, and
// describing it costs a type switch.
func lineOf(v engine.Event) (level slog.Level, text string, attrs []any) {
	switch v := v.(type) {
	case engine.WAL:
		return walLine(v.Event)
	case engine.Log:
		return logLine(v.Key, v.Event)
	case engine.Consumer:
		return consumerLine(v.Event)
	case engine.Opened:
		return slog.LevelInfo, "data directory recovered", []any{"clean_stop", v.Clean}
	case engine.TopicCreated:
		return slog.LevelInfo, "topic created", []any{"topic", v.Topic.Name, "id", v.Topic.ID, "partitions", v.Topic.Partitions}
	case engine.DispatchFailed:
		return slog.LevelWarn, "messages could not be committed to their partition; they stay in the ingress log and are tried again",
			partitionAttrs(v.Key, "messages", v.Records, "error", v.Err)
	case engine.DispatchStalled:
		return slog.LevelError, "nothing can be dispatched from the ingress log; produce goes on, consumers see no new messages",
			[]any{"error", v.Err}
	case engine.CorruptSkipped:
		return slog.LevelError, "message lost: its record is corrupt for good and was skipped", partitionAttrs(v.Key, "offset", v.Offset, "error", v.Err)
	case engine.RetentionRemoved:
		return slog.LevelInfo, "expired messages removed", partitionAttrs(v.Key, "messages", v.Records, "segments", v.Segments, "bytes", v.Bytes, "oldest", v.Oldest)
	case engine.RetentionFailed:
		return slog.LevelWarn, "expired messages could not be removed; it is tried again", partitionAttrs(v.Key, "error", v.Err)
	case engine.FrontierClamped:
		return slog.LevelError, "consumer state was from beyond the end of its log and was cut back: the volume does not hold what it held",
			partitionAttrs(v.Key, "frontier", v.Frontier, "high_watermark", v.HW)
	case engine.CleanMarkIgnored:
		return slog.LevelWarn, "the mark of the last graceful stop is damaged; it counts as a crash", []any{"error", v.Err}
	case engine.TopicDeleted:
		return slog.LevelInfo, "topic deleted", []any{"topic", v.Name, "id", v.Incarnation}
	case engine.TopicPurged:
		return slog.LevelInfo, "topic purged", []any{"topic", v.Topic.Name, "old_id", v.Old, "id", v.Topic.ID}
	case engine.TopicAltered:
		return slog.LevelInfo, "topic altered", []any{"topic", v.Topic.Name, "id", v.Topic.ID, "partitions", v.Topic.Partitions,
			"retention_ms", v.Topic.RetentionMs, "max_in_flight", v.Topic.MaxInFlight, "max_acked_ahead", v.Topic.MaxAckedAhead}
	case engine.RetireFailed:
		return slog.LevelError, "the directory of a topic that is gone could not be set aside; it is tried again", []any{"topic", v.Name, "id", v.Incarnation, "error", v.Err}
	case engine.TidyFailed:
		return slog.LevelWarn, "a directory could not be tidied; it is tried again", []any{"name", v.Name, "error", v.Err}
	case engine.DestinationHung:
		return slog.LevelWarn, "a commit to a partition takes more than a second", partitionAttrs(v.Key, "messages", v.Records)
	case engine.DestinationBehind:
		return slog.LevelWarn, "messages for a partition wait in the ingress log because it cannot take them", partitionAttrs(v.Key, "from", v.Seq)
	case engine.DestinationCaughtUp:
		return slog.LevelInfo, "a partition has caught up with the ingress log", partitionAttrs(v.Key)
	case engine.RecordHeld:
		return slog.LevelError, "a message of the ingress log fits no topic; it is kept, and the ingress log grows", []any{"record", v.Seq, "error", v.Err}
	case engine.FrontierJumped:
		return slog.LevelWarn, "consumer frontier fell behind retention; skipped to oldest retained offset", partitionAttrs(v.Key, "oldest", v.Oldest, "from", v.From)
	}
	return slog.LevelDebug, "", nil
}

func partitionAttrs(k engine.Key, more ...any) []any {
	return append([]any{"topic", k.Topic, "partition", k.Partition}, more...)
}

func walLine(v wal.Event) (level slog.Level, text string, attrs []any) {
	switch v := v.(type) {
	case wal.Recovered:
		return slog.LevelInfo, "ingress log recovered", []any{"messages_to_dispatch", v.Next - v.Checkpoint, "segments", v.Segments}
	case wal.TailCut:
		level = slog.LevelInfo // what a crash leaves
		if v.Whole {
			level = slog.LevelWarn
		}
		return level, "ingress log: an unfinished write at its end was cut off", []any{"file", v.File, "offset", v.Offset, "bytes", v.Bytes, "cause", v.Cause}
	case wal.BatchSynced:
		if v.Err != nil {
			return slog.LevelError, "ingress log: messages could not be stored", []any{"messages", v.Records, "error", v.Err}
		}
	case wal.Failed:
		return slog.LevelError, "ingress log failed: every produce is answered 500 until this process is restarted", []any{"error", v.Err}
	case wal.RollFailed:
		return slog.LevelError, "ingress log: no new segment could be created", []any{"file", v.File, "error", v.Err}
	case wal.SegmentPrepared:
		if v.Err != nil {
			return slog.LevelWarn, "ingress log: no file could be prepared; the next segment grows with what is appended", []any{"error", v.Err}
		}
	case wal.SegmentRemoved:
		if v.Err != nil {
			return slog.LevelWarn, "ingress log: a dispatched segment could not be removed", []any{"error", v.Err}
		}
	case wal.CheckpointStored:
		if v.Err != nil {
			return slog.LevelWarn, "ingress log: the checkpoint could not be written", []any{"error", v.Err}
		}
	case wal.CheckpointSynced:
		if v.Err != nil {
			return slog.LevelWarn, "ingress log: the checkpoint could not be synced", []any{"error", v.Err}
		}
	}
	return slog.LevelDebug, "", nil
}

func logLine(k engine.Key, v segment.Event) (level slog.Level, text string, attrs []any) {
	switch v := v.(type) {
	case segment.Recovered:
		if v.Gap > 0 {
			return slog.LevelError, "partition log recovered with unreadable offsets", partitionAttrs(k, "offsets", v.Gap, "next", v.Next)
		}
		if v.TailCut > 0 {
			return slog.LevelInfo, "partition log: an unfinished write at its end was cut off", partitionAttrs(k, "bytes", v.TailCut, "next", v.Next)
		}
	case segment.CommitFailed:
		return slog.LevelWarn, "partition log: a commit was not confirmed", partitionAttrs(k, "error", v.Err)
	case segment.Poisoned:
		return slog.LevelError, "partition log: the disk may have lost writes; the log is closed and recovered from disk", partitionAttrs(k, "error", v.Err)
	case segment.CorruptRead:
		return slog.LevelError, "partition log: a record is unreadable",
			partitionAttrs(k, "offset", v.Offset, "file", v.File, "position", v.At, "cause", v.Cause)
	}
	return slog.LevelDebug, "", nil
}

func consumerLine(v committer.Event) (level slog.Level, text string, attrs []any) {
	switch v := v.(type) {
	case committer.TickLate:
		return slog.LevelWarn, committer.TickLateText,
			[]any{"partitions", v.Partitions, "flush_took", v.Took.String(), "interval", v.Interval.String()}
	case committer.WriteoutLate:
		return slog.LevelWarn, committer.WriteoutLateText,
			[]any{"partitions", v.Partitions, "oldest", v.Oldest.String(), "durability_interval", v.Interval.String()}
	case committer.Stranded:
		return slog.LevelError, committer.StrandedText, consumerAttrs(v.Key)
	case committer.Primed:
		return consumerFailure("consumer offsets could not be read or prepared", v.Key, v.Err)
	case committer.WindowWritten:
		return consumerFailure("consumer offsets could not be written", v.Key, v.Err)
	case committer.WrittenOut:
		return consumerFailure("consumer offsets could not be made durable", v.Key, v.Err)
	case committer.Levelled:
		return consumerFailure("consumer.offset could not be brought level", v.Key, v.Err)
	case committer.Reopened:
		return consumerFailure("consumer.ahead could not be opened again", v.Key, v.Err)
	case committer.Closed:
		if v.Err != nil {
			return slog.LevelError, "consumer offsets are not exact on disk: acked messages may be delivered again", []any{"error", v.Err}
		}
	}
	return slog.LevelDebug, "", nil
}

// consumerFailure is a warning about an operation that is tried again, and nothing without an error.
func consumerFailure(text string, k committer.Key, err error) (slog.Level, string, []any) {
	if err == nil {
		return slog.LevelDebug, "", nil
	}
	return slog.LevelWarn, text, append(consumerAttrs(k), "error", err)
}

func consumerAttrs(k committer.Key) []any { return []any{"topic", k.Topic, "partition", k.Partition} }
