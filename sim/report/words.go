package report

import (
	"fmt"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/segment"
	"narad/wal"
)

// words says an event in one plain sentence.
func words(v engine.Event) string {
	switch v := v.(type) {
	case engine.Opened:
		if v.Clean {
			return "the node serves; the last stop was graceful"
		}
		return "the node serves again, after an unclean stop or for the first time"
	case engine.TopicCreated:
		return fmt.Sprintf("topic %s with %d partitions is there, durably", v.Topic.Name, v.Topic.Partitions)
	case engine.Accepted:
		return fmt.Sprintf("202 for record %d, meant for %s", v.Seq, part(v.Key))
	case engine.Dispatched:
		return fmt.Sprintf("record %d is committed as offset %d of %s", v.Seq, v.Offset, part(v.Key))
	case engine.DispatchFailed:
		return fmt.Sprintf("the commit of %d records to %s is not confirmed: %v", v.Records, part(v.Key), v.Err)
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
		return fmt.Sprintf("offset %d of %s is leased under nonce %s until %v", v.Lease.Offset, part(v.Key), nonce(v.Lease.Nonce), time.Duration(v.Lease.Expiry))
	case engine.Delivered:
		return fmt.Sprintf("offset %d of %s goes to the consumer", v.Offset, part(v.Key))
	case engine.Settled:
		return fmt.Sprintf("ack of offset %d of %s under nonce %s accepted; the frontier is %d", v.Offset, part(v.Key), nonce(v.Nonce), v.Committed)
	case engine.LeaseEnded:
		return fmt.Sprintf("the lease of offset %d of %s ends: %v", v.Offset, part(v.Key), v.Cause)
	case engine.LeasesExpired:
		return fmt.Sprintf("a purge of %s at %v releases %d expired leases", part(v.Key), time.Duration(v.At), v.Count)
	case engine.LeaseExtended:
		return fmt.Sprintf("the lease of offset %d of %s is extended until %v", v.Lease.Offset, part(v.Key), time.Duration(v.Lease.Expiry))
	case engine.HandleRefused:
		return fmt.Sprintf("a handle of offset %d of %s with nonce %s is refused", v.Handle.Offset, part(v.Key), nonce(v.Handle.Nonce))
	case engine.WAL:
		return walWords(v.Event)
	case engine.Log:
		return logWords(v)
	case engine.Consumer:
		return consumerWords(v.Event)
	}
	return fmt.Sprintf("%T %+v", v, v)
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
		return fmt.Sprintf("the ingress log is recovered: records %d to %d, checkpoint %d", v.First, int64(v.Next)-1, v.Checkpoint)
	case wal.BatchSynced:
		return failed(fmt.Sprintf("records %d to %d of the ingress log are written and said to be synced", v.First, v.Next-1), v.Err)
	case wal.CheckpointStored:
		return failed(fmt.Sprintf("checkpoint %d is stored", v.Seq), v.Err)
	case wal.CheckpointSynced:
		return failed(fmt.Sprintf("checkpoint %d is synced", v.Seq), v.Err)
	case wal.TailCut:
		return fmt.Sprintf("a torn tail of %d bytes is cut from the ingress log", v.Bytes)
	case wal.SegmentRemoved:
		return failed(fmt.Sprintf("the segment with records %d to %d is removed", v.First, v.Next-1), v.Err)
	}
	return fmt.Sprintf("%T %+v", v, v)
}

func logWords(v engine.Log) string {
	at := part(v.Key)
	switch e := v.Event.(type) {
	case segment.Recovered:
		return fmt.Sprintf("the log of %s is recovered: high watermark %d, %d torn bytes cut", at, e.Next, e.TailCut)
	case segment.Committed:
		return fmt.Sprintf("offsets %d to %d of %s are stored, verified and visible", e.Base, e.Next-1, at)
	}
	return fmt.Sprintf("%s: %T %+v", at, v.Event, v.Event)
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
		return failed(fmt.Sprintf("a tick wrote %d partitions in %v", v.Partitions, v.Took), v.Err)
	}
	return fmt.Sprintf("%T %+v", v, v)
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
