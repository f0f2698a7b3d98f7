package observe

import (
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/wal"
)

// Listen hears an event; it is what engine.Options.Listener wants.
func (o *Observer) Listen(v engine.Event) {
	if o.count(v) || o.debug {
		o.log.Listen(v)
	}
	if o.trace != nil {
		o.trace.listen(v)
	}
}

// count adds an event to the counters, and reports whether it may be worth a line: what happens for every message is not.
func (o *Observer) count(v engine.Event) (loud bool) {
	switch v := v.(type) {
	case engine.Delivered:
		tally{o}.Delivered(v.Key, 1, v.Bytes)
	case engine.Settled:
		tally{o}.Settled(v.Key, v.At)
	case engine.Stored:
		o.stored(v)
	case engine.WAL:
		o.countWAL(v.Event)
		return true
	case engine.Log:
		o.countLog(v.Key, v.Event)
		return true
	case engine.Consumer:
		o.countConsumer(v.Event)
		return true
	case engine.Withheld:
		if t := o.topics.topic(v.Key.Topic); t != nil && v.Outcome >= inflight.InFlightCap && int(v.Outcome-inflight.InFlightCap) < len(t.withheld) {
			t.withheld[v.Outcome-inflight.InFlightCap].Add(1)
		}
	case engine.LeaseEnded:
		o.ended(v.Key.Topic, int(v.Cause), 1)
	case engine.LeasesExpired:
		o.ended(v.Key.Topic, endedExpired, v.Count)
	case engine.LeaseExtended:
		if t := o.topics.topic(v.Key.Topic); t != nil {
			t.extended.Add(1)
		}
	case engine.HandleRefused:
		if t := o.topics.topic(v.Key.Topic); t != nil {
			t.handles.Add(1)
		}
	case engine.Accepted, engine.Dispatched, engine.Leased, engine.ConsumerSnapshot, engine.WaiterJoined, engine.WaiterLeft, engine.WaiterServed,
		engine.PumpPass, engine.PumpPutBack, engine.Replayed:
	default:
		o.countRare(v)
		return true
	}
	return false
}

// tally counts the messages that are delivered and settled.
type tally struct{ o *Observer }

// Delivered implements [engine.Tally].
func (t tally) Delivered(key engine.Key, messages, bytes int) {
	if p := t.o.topics.part(key); p != nil {
		p.consumed.Add(uint64(messages))
		p.consumedBytes.Add(uint64(bytes))
	}
}

// Settled implements [engine.Tally].
func (t tally) Settled(key engine.Key, at env.Instant) {
	if p := t.o.topics.part(key); p != nil {
		p.acked.Add(1)
		p.late.acked(at)
	}
}

func (o *Observer) ended(topic string, how, n int) {
	if t := o.topics.topic(topic); t != nil {
		t.ended[how].Add(uint64(n))
	}
}

func (o *Observer) stored(v engine.Stored) {
	o.node.commitSeconds.took(v.Took)
	o.node.commitRecords.observe(int64(v.Records))
	if p := o.topics.part(v.Key); p != nil {
		p.produced.Add(uint64(v.Records))
		p.producedBytes.Add(uint64(v.Bytes))
	}
}

// countRare is for what does not happen for every message.
func (o *Observer) countRare(v engine.Event) {
	switch v := v.(type) {
	case engine.TopicOpened:
		o.topics.add(v.Topic.Name, v.Topic.Partitions)
	case engine.TopicCreated:
		o.topics.add(v.Topic.Name, v.Topic.Partitions)
	case engine.TopicAltered:
		o.topics.add(v.Topic.Name, v.Topic.Partitions)
	case engine.TopicPurged:
		o.topics.add(v.Topic.Name, v.Topic.Partitions)
	case engine.TopicDeleted:
		o.topics.remove(v.Name)
	case engine.CorruptSkipped:
		if p := o.topics.part(v.Key); p != nil {
			p.corrupt.Add(1)
		}
	case engine.FrontierJumped:
		if p := o.topics.part(v.Key); p != nil {
			p.jumps.Add(1)
			p.jumped.Add(uint64(max(v.Oldest-v.From-1, 0)))
		}
	case engine.RetentionRemoved:
		if p := o.topics.part(v.Key); p != nil {
			p.expired.Add(uint64(v.Records))
			p.expiredBytes.Add(uint64(v.Bytes))
		}
	case engine.RetentionRun:
		o.node.retentionRun.took(v.Took)
		o.node.swept.Add(float64(v.Opened))
	case engine.ShardDropped:
		if v.Why == engine.DropIdle {
			o.node.idle.Inc()
		}
	case engine.DestinationHung:
		o.node.hung.Inc()
	case engine.DestinationBehind:
		o.node.behind.Inc()
	case engine.RecordDiscarded:
		o.node.discarded.Inc()
	case engine.RecordHeld:
		o.node.held.Inc()
	default:
		o.countTrouble(v)
	}
}

// countTrouble counts errors.
func (o *Observer) countTrouble(v engine.Event) {
	switch v := v.(type) {
	case engine.DispatchFailed:
		o.node.fail(errDispatch)
		if t := o.topics.topic(v.Key.Topic); t != nil {
			t.dispatchs.Add(1)
		}
	case engine.DispatchStalled:
		o.node.fail(errStalled)
	case engine.RetentionFailed:
		o.node.fail(errUnlink)
	case engine.TidyFailed, engine.RetireFailed:
		o.node.fail(errTidy)
	case engine.FrontierClamped:
		o.node.fail(errClamped)
	}
}

func (o *Observer) countWAL(v wal.Event) {
	switch v := v.(type) {
	case wal.BatchSynced:
		if v.Err == nil {
			o.node.walSync.took(v.Took)
			o.node.walRecords.observe(int64(v.Records))
			o.node.walBytes.observe(int64(v.Bytes))
			o.rates.accepted.Add(uint64(v.Records))
			o.rates.syncs.Add(1)
			o.rates.syncNanos.Add(uint64(max(v.Took, 0)))
		}
	case wal.Failed:
		o.node.fail(errWAL)
	case wal.RollFailed:
		o.node.fail(errRoll)
	case wal.SegmentPrepared:
		o.failed(v.Err, errPrepare)
	case wal.SegmentRemoved:
		o.failed(v.Err, errCompaction)
	case wal.CheckpointStored:
		o.failed(v.Err, errCheckpoint)
	case wal.CheckpointSynced:
		o.failed(v.Err, errCheckpoint)
	}
}

func (o *Observer) failed(err error, k errorKind) {
	if err != nil {
		o.node.fail(k)
	}
}

func (o *Observer) countLog(key engine.Key, v segment.Event) {
	switch v := v.(type) {
	case segment.Committed:
		if p := o.topics.part(key); p != nil {
			p.flushedBytes.Add(uint64(v.Bytes))
			p.flush.took(v.Took)
			if v.Syncs > 0 {
				p.fsync.took(v.SyncTook / time.Duration(v.Syncs))
			}
		}
	case segment.CommitFailed:
		o.node.fail(errCommit)
	case segment.Poisoned:
		o.node.fail(errPoisoned)
	case segment.CorruptRead:
		o.node.fail(errCorruptRead)
	case segment.Recovered:
		if v.Gap > 0 {
			o.node.fail(errGap)
		}
	}
}

func (o *Observer) countConsumer(v committer.Event) {
	switch v := v.(type) {
	case committer.WindowWritten:
		o.failed(v.Err, errOffsetsWrite)
		if p := o.topics.part(engine.Key{Topic: v.Key.Topic, Partition: v.Key.Partition}); p != nil && v.Err == nil {
			if late, ok := p.late.written(v); ok {
				o.node.trailCache.took(late)
			}
		}
	case committer.WrittenOut:
		o.failed(v.Err, errOffsetsSync)
		if p := o.topics.part(engine.Key{Topic: v.Key.Topic, Partition: v.Key.Partition}); p != nil && v.Err == nil {
			if late, ok := p.late.writtenOut(v); ok {
				o.writtenOut(late)
			}
		}
	case committer.TickDone:
		if v.Partitions > 0 {
			o.node.tick.took(v.Took)
			if v.Took > min(o.config.WriteoutInterval, o.config.CommitInterval) {
				o.node.missedTick.Inc()
			}
		}
	case committer.Primed:
		o.failed(v.Err, errOffsetsPrime)
	case committer.Levelled:
		o.failed(v.Err, errOffsetsLevel)
	case committer.Reopened:
		o.failed(v.Err, errOffsetsReopen)
	case committer.Stranded:
		o.node.stranded.Inc()
	case committer.Closed:
		o.failed(v.Err, errOffsetsClose)
	}
}

// writtenOut notes that acks are on the disk. Like the committer's own warning it calls twice the interval late.
func (o *Observer) writtenOut(late time.Duration) {
	o.node.trailDisk.took(late)
	if late > 2*o.config.CommitInterval {
		o.node.missedWriteout.Inc()
	}
}
