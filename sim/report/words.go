package report

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/wal"
)

// words says an event in one plain sentence. Instants of the process's own clock become true time, but for drift.
func (e Event) words() string {
	switch v := e.Event.Event.(type) {
	case engine.Opened:
		if v.Clean {
			return "the node serves; the last stop was graceful"
		}
		if e.Life <= 1 {
			return "the node serves, for the first time"
		}
		return "the node serves again, after an unclean stop"
	case engine.TopicCreated:
		return fmt.Sprintf("topic %s with %d partitions is there, durably", v.Topic.Name, v.Topic.Partitions)
	case engine.Accepted:
		return fmt.Sprintf("202 for record %d, meant for %s", v.Seq, part(v.Key))
	case engine.Dispatched:
		return fmt.Sprintf("record %d is committed as offset %d of %s", v.Seq, v.Offset, part(v.Key))
	case engine.DispatchFailed:
		return fmt.Sprintf("the commit of %d records to %s is not confirmed: %v", v.Records, part(v.Key), v.Err)
	case engine.Stored:
		return fmt.Sprintf("%s of %s can be consumed now", plural(v.Records, "record"), part(v.Key))
	case engine.Withheld:
		return fmt.Sprintf("%s hands out nothing: %s", part(v.Key), whyNot(v.Outcome))
	case engine.LimitsSet:
		return fmt.Sprintf("the caps of %s: %d leased at a time, %d acked ahead", part(v.Key), v.MaxInFlight, v.MaxAckedAhead)
	case engine.Replayed:
		return fmt.Sprintf("offset %d of %s is read again, without a lease", v.Offset, part(v.Key))
	case engine.CorruptSkipped:
		return fmt.Sprintf("offset %d of %s cannot be read and is skipped: %v; the frontier is %d", v.Offset, part(v.Key), v.Err, v.Committed)
	case engine.FrontierJumped:
		return fmt.Sprintf("the frontier of %s jumps from %d over what retention removed; the oldest offset is %d", part(v.Key), v.From, v.Oldest)
	case engine.TopicDeleted:
		return fmt.Sprintf("topic %s is gone, durably", v.Name)
	case engine.TopicPurged:
		return fmt.Sprintf("topic %s is purged: its name belongs to a new incarnation %s, durably; the old one was %s", v.Topic.Name, v.Topic.ID, v.Old)
	case engine.TopicAltered:
		return fmt.Sprintf("topic %s has other settings, durably", v.Topic.Name)
	case engine.SetAside:
		return fmt.Sprintf("the directory of topic %s is set aside as %s", v.Name, v.Stale)
	case engine.StaleRemoved:
		return fmt.Sprintf("the directory %s, which was set aside, is gone", v.Stale)
	case engine.ShardDropped:
		return fmt.Sprintf("the lease table of %s leaves the memory", part(v.Key))
	case engine.Checkpointed:
		return fmt.Sprintf("every record below %d is committed, the checkpoint says so", v.Seq)
	case engine.WaiterJoined:
		return fmt.Sprintf("request %d of %s finds nothing and waits%s", v.Waiter.Seq, v.Waiter.Topic, queueText(v.Waiter))
	case engine.WaiterLeft:
		return fmt.Sprintf("request %d of %s leaves with nothing", v.Waiter.Seq, v.Waiter.Topic)
	case engine.WaiterServed:
		if v.Err != nil {
			return fmt.Sprintf("the pump answers request %d of %s: %v", v.Waiter.Seq, v.Waiter.Topic, v.Err)
		}
		return fmt.Sprintf("the pump serves request %d of %s", v.Waiter.Seq, v.Waiter.Topic)
	case engine.PumpPass:
		return fmt.Sprintf("the pump looks for something for those who wait at %s", v.Topic)
	case engine.PumpPutBack:
		return fmt.Sprintf("the pump has nothing for request %d of %s, which waits on", v.Waiter.Seq, v.Waiter.Topic)
	case engine.ShardOpened:
		return fmt.Sprintf("%s is opened: recovered frontier %d, acked ahead %v, high watermark %d", part(v.Key), v.State.Committed, v.State.Ahead, v.HW)
	case engine.ConsumerSnapshot:
		return fmt.Sprintf("the committer takes %s: frontier %d, acked ahead %v", part(v.Key), v.State.Committed, v.State.Ahead)
	case engine.Leased:
		return fmt.Sprintf("offset %d of %s is leased under nonce %s until %v", v.Lease.Offset, part(v.Key), nonce(v.Lease.Nonce), e.instant(v.Lease.Expiry))
	case engine.Delivered:
		return fmt.Sprintf("offset %d of %s goes to the consumer", v.Offset, part(v.Key))
	case engine.Settled:
		return fmt.Sprintf("ack of offset %d of %s under nonce %s accepted; the frontier is %d", v.Offset, part(v.Key), nonce(v.Nonce), v.Committed)
	case engine.LeaseEnded:
		return fmt.Sprintf("the lease of offset %d of %s ends: %v", v.Offset, part(v.Key), v.Cause)
	case engine.LeasesExpired:
		return fmt.Sprintf("a purge of %s releases %s", part(v.Key), plural(v.Count, "expired lease"))
	case engine.LeaseExtended:
		return fmt.Sprintf("the lease of offset %d of %s is extended until %v", v.Lease.Offset, part(v.Key), e.instant(v.Lease.Expiry))
	case engine.HandleRefused:
		return fmt.Sprintf("a handle of offset %d of %s with nonce %s is refused", v.Handle.Offset, part(v.Key), nonce(v.Handle.Nonce))
	case engine.WAL:
		return walWords(v.Event)
	case engine.Log:
		return logWords(v)
	case engine.Consumer:
		return consumerWords(v.Event)
	}
	return plain(e.Event.Event)
}

// instant says in true time when the clock of the process shows t. An event outside of a process has no clock.
func (e Event) instant(t env.Instant) string {
	if e.Clock != 0 {
		t += e.At - e.Clock
	}
	return clock(t)
}

// whyNot says why nothing was leased.
func whyNot(o inflight.Outcome) string {
	switch o {
	case inflight.Empty:
		return "everything is settled"
	case inflight.InFlightCap:
		return "as many offsets are leased as may be"
	case inflight.AheadCap:
		return "the acked-ahead set is full"
	case inflight.AllReserved:
		return "every offset is leased or settled"
	}
	return o.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") || strings.HasSuffix(what, "sh") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// plain says a value that has no sentence of its own: the name of its type in words, and its fields.
func plain(v any) string {
	value := reflect.ValueOf(v)
	if value.Kind() != reflect.Struct {
		return fmt.Sprint(v)
	}
	var b strings.Builder
	for i, c := range value.Type().Name() {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	sep := ": "
	for i := range value.NumField() {
		field := value.Field(i).Interface()
		if k, ok := field.(engine.Key); ok {
			field = part(k)
		}
		fmt.Fprintf(&b, "%s%s %v", sep, strings.ToLower(value.Type().Field(i).Name), field)
		sep = ", "
	}
	return b.String()
}

// span names the numbers in [from, to).
func span(what string, from, to int64) string {
	if to-from == 1 {
		return fmt.Sprintf("%s %d", what, from)
	}
	return fmt.Sprintf("%ss %d to %d", what, from, to-1)
}

func part(k engine.Key) string { return fmt.Sprintf("%s/%d", k.Topic, k.Partition) }

// nonce shortens a nonce: it only has to be told from others.
func nonce(n int64) string { return fmt.Sprintf("…%04x", uint16(n)) }

func failed(what string, err error) string {
	if err != nil {
		return fmt.Sprintf("%s FAILED: %v", what, err)
	}
	return what
}

func walWords(v wal.Event) string {
	switch v := v.(type) {
	case wal.Recovered:
		if v.First == v.Next {
			return fmt.Sprintf("the ingress log is recovered: no records, checkpoint %d", v.Checkpoint)
		}
		return fmt.Sprintf("the ingress log is recovered: %s, checkpoint %d", span("record", int64(v.First), int64(v.Next)), v.Checkpoint)
	case wal.BatchSynced:
		return failed(fmt.Sprintf("%s of the ingress log: written and said to be synced", span("record", int64(v.First), int64(v.Next))), v.Err)
	case wal.CheckpointStored:
		return failed(fmt.Sprintf("checkpoint %d is stored", v.Seq), v.Err)
	case wal.CheckpointSynced:
		return failed(fmt.Sprintf("checkpoint %d is synced", v.Seq), v.Err)
	case wal.TailCut:
		return fmt.Sprintf("a torn tail of %d bytes is cut from the ingress log", v.Bytes)
	case wal.SegmentRolled:
		return fmt.Sprintf("the ingress log goes on in a new segment, from record %d", v.First)
	case wal.SegmentPrepared:
		return failed("the file of the next segment of the ingress log is made ahead", v.Err)
	case wal.RollFailed:
		return fmt.Sprintf("no new segment of the ingress log: %v", v.Err)
	case wal.Failed:
		return fmt.Sprintf("the ingress log takes nothing any more until it is opened again: %v", v.Err)
	case wal.SegmentRemoved:
		return failed(fmt.Sprintf("the segment with %s is removed", span("record", int64(v.First), int64(v.Next))), v.Err)
	}
	return fmt.Sprintf("%T %+v", v, v)
}

func logWords(v engine.Log) string {
	at := part(v.Key)
	switch e := v.Event.(type) {
	case segment.Recovered:
		return fmt.Sprintf("the log of %s is recovered: high watermark %d, %d torn bytes cut", at, e.Next, e.TailCut)
	case segment.Committed:
		return fmt.Sprintf("%s of %s: stored, verified and visible", span("offset", e.Base, e.Next), at)
	case segment.CommitFailed:
		return fmt.Sprintf("a commit to %s is not confirmed, what it wrote is hidden: %v", at, e.Err)
	case segment.Rolled:
		return fmt.Sprintf("%s goes on in a new segment, from offset %d", at, e.Base)
	case segment.Closed:
		return fmt.Sprintf("the log of %s is closed at high watermark %d", at, e.Next)
	case segment.Removed:
		return fmt.Sprintf("retention removes %s of %s; the oldest offset is %d", plural(e.Segments, "segment"), at, e.Oldest)
	}
	return at + ": " + plain(v.Event)
}

// highWatermark returns the high watermark that an event of a log tells.
func highWatermark(v engine.Log) (hw int64, ok bool) {
	switch e := v.Event.(type) {
	case segment.Recovered:
		return e.Next, true
	case segment.Committed:
		return e.Next, true
	}
	return 0, false
}

func consumerWords(v committer.Event) string {
	switch v := v.(type) {
	case committer.Primed:
		return failed(fmt.Sprintf("consumer.ahead of %s/%d is primed, the anchor is %s", v.Key.Topic, v.Key.Partition, slot(v.Anchor)), v.Err)
	case committer.WindowWritten:
		return failed(fmt.Sprintf("window write into slot %d of %s/%d: sequence %d, frontier %d, %d of %d acked ahead", v.Slot, v.Key.Topic, v.Key.Partition, v.Sequence, v.Committed, v.Stored, v.Ahead), v.Err)
	case committer.WrittenOut:
		return failed(fmt.Sprintf("writeout: slot %d of %s/%d is the anchor, sequence %d, frontier %d", v.Slot, v.Key.Topic, v.Key.Partition, v.Sequence, v.Committed), v.Err)
	case committer.Levelled:
		return failed(fmt.Sprintf("consumer.offset of %s/%d says %d", v.Key.Topic, v.Key.Partition, v.Frontier), v.Err)
	case committer.TickDone:
		return failed(fmt.Sprintf("a tick wrote %s in %v", plural(v.Partitions, "partition"), v.Took), v.Err)
	case committer.Stranded:
		return fmt.Sprintf("the directory of %s/%d was removed or replaced: its acks are not written any more", v.Key.Topic, v.Key.Partition)
	}
	return plain(v)
}

func slot(n int) string {
	if n < 0 {
		return "none"
	}
	return fmt.Sprintf("slot %d", n)
}

// queueText says which queue a parked request stands in.
func queueText(w engine.WaiterID) string {
	if w.Partition == engine.AnyPartition {
		return ", for any partition"
	}
	return fmt.Sprintf(", for partition %d", w.Partition)
}
