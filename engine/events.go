package engine

import (
	"time"

	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/wal"
)

// Event is something that happened in the engine; it is one of the types of this file. See Options.Listener.
type Event interface{ isEvent() }

// Key names a partition of this node.
type Key struct {
	Topic     string
	Partition int32
}

// WaiterID names a parked request. Seq grows in the order in which the requests of a topic joined their queues.
type WaiterID struct {
	Topic       string
	Incarnation string
	Partition   int32 // AnyPartition: in the shared queue
	Seq         uint64
}

type (
	// Opened reports that the engine recovered its data directory and serves.
	Opened struct {
		Clean bool // the last stop was graceful
	}
	// CleanMarkIgnored reports that the mark of a graceful stop is damaged; the stop counts as unclean.
	CleanMarkIgnored struct{ Err error }
	// Accepted reports that Produce is about to return nil for a message.
	Accepted struct {
		Key         Key
		Incarnation string
		Seq         uint64 // in the ingress log
	}
	// TopicCreated reports a topic that exists durably from now on.
	TopicCreated struct{ Topic Topic }
	// Dispatched reports that the partition log confirmed the commit of one accepted message.
	Dispatched struct {
		Key    Key
		Seq    uint64 // in the ingress log
		Offset int64
	}
	// Stored reports that the partition log confirmed a commit: messages that can be consumed from now on.
	Stored struct {
		Key     Key
		Records int
		Bytes   int64 // of keys and payloads
		Took    time.Duration
	}
	// DispatchFailed reports a commit that a partition log did not confirm; it is tried again after Backoff, unless its topic is gone.
	DispatchFailed struct {
		Key     Key
		Records int
		Err     error
		Gone    bool // the topic's incarnation is: the records are discarded
	}
	// DispatchStalled reports that the ingress log cannot be read or does not take a checkpoint, so that no further
	// message can be dispatched. It is tried again every second.
	DispatchStalled struct{ Err error }
	// DestinationHung reports a commit that has taken more than a second. It no longer counts among those that may run at a
	// time, and the destination accepts nothing until it lands.
	DestinationHung struct {
		Key     Key
		Records int
	}
	// DestinationBehind reports that messages for a destination are passed over from Seq on, because it fails, hangs or
	// has as many in its queue as may be; they stay in the ingress log and are read again.
	DestinationBehind struct {
		Key Key
		Seq uint64
	}
	// DestinationCaughtUp reports that nothing is passed over any more.
	DestinationCaughtUp struct{ Key Key }
	// RecordHeld reports a record of the ingress log that fits no topic. It is kept, and the checkpoint stays below it.
	RecordHeld struct {
		Seq uint64
		Err error
	}
	// RecordDiscarded reports a record of the ingress log that will never be dispatched, because its topic was deleted.
	RecordDiscarded struct{ Seq uint64 }
	// Checkpointed reports that every message below Seq is committed and the checkpoint says so.
	Checkpointed struct{ Seq uint64 }
	// ShardOpened reports that the consumer state of a partition was seeded from disk.
	ShardOpened struct {
		Key         Key
		Incarnation string
		State       inflight.State
		Report      committer.Report
		HW          int64
	}
	// FrontierClamped reports consumer state from beyond the end of the log; it was cut back to the log, so that
	// what is produced next is delivered. It means that the volume does not hold what it held.
	FrontierClamped struct {
		Key      Key
		Frontier int64 // that was found
		HW       int64
	}
	// ConsumerSnapshot reports that the committer took the live state of a partition, to write it.
	ConsumerSnapshot struct {
		Key   Key
		State inflight.State
	}
	// Leased reports a reservation. The record has not been read yet.
	Leased struct {
		Key Key
		// Incarnation is that of the log which the record will be read from. The lease table can be its successor's already; then
		// the log is closed, and the reservation is given back (LOG-19).
		Incarnation string
		Lease       inflight.Lease
		At          env.Instant
		HW          int64
		Oldest      int64
		Handout     Handout
	}
	// Withheld reports that a partition had nothing to hand out although not everything in it is settled.
	Withheld struct {
		Key     Key
		Outcome inflight.Outcome
	}
	// Delivered reports that a leased message is about to be returned to a consumer.
	Delivered struct {
		Key    Key
		Offset int64
		Nonce  int64
		Bytes  int // of key and payload
		At     env.Instant
	}
	// Replayed reports a message that is about to be returned without a lease.
	Replayed struct {
		Key    Key
		Offset int64
	}
	// Settled reports an ack that was accepted.
	Settled struct {
		Key       Key
		Offset    int64
		Nonce     int64
		Committed int64 // the frontier after it
		At        env.Instant
	}
	// LeaseEnded reports a lease that ended without an ack.
	LeaseEnded struct {
		Key    Key
		Offset int64
		Nonce  int64
		Cause  Cause
		At     env.Instant
	}
	// LeasesExpired reports leases that a purge released.
	LeasesExpired struct {
		Key   Key
		Count int
		At    env.Instant
	}
	// LeaseExtended reports a lease whose expiry was re-armed.
	LeaseExtended struct {
		Key   Key
		Lease inflight.Lease
		At    env.Instant
	}
	// HandleRefused reports an ack, extend or nack whose handle names no live lease.
	HandleRefused struct {
		Key    Key
		Handle inflight.Handle
		At     env.Instant
	}
	// CorruptSkipped reports an offset whose record can never be read; it was skipped and is lost.
	CorruptSkipped struct {
		Key       Key
		Offset    int64
		Committed int64 // the frontier after it
		Err       error
	}
	// RetentionRemoved reports segments that retention removed from a partition, acked or not; Oldest is its lowest offset now.
	RetentionRemoved struct {
		Key         Key
		Incarnation string
		Segments    int
		Records     int64
		Bytes       int64
		Oldest      int64
	}
	// RetentionFailed reports that what has expired in a partition could not be removed, or not be looked at. It is tried again.
	RetentionFailed struct {
		Key Key
		Err error
	}
	// RetentionRun reports the end of one round over all partitions.
	RetentionRun struct {
		Took   time.Duration
		Cold   bool // closed partitions were looked at too
		Opened int  // of those, how many had something to remove
	}
	// FrontierJumped reports a consumer that fell behind retention.
	FrontierJumped struct {
		Key    Key
		From   int64 // the frontier before it
		Oldest int64 // the next offset handed out
	}
	// JumpLost reports a consume that found its record below Oldest when another one had moved the frontier already; it
	// reserves again (INF-34).
	JumpLost struct {
		Key    Key
		Oldest int64
	}
	// WaiterJoined reports a request that found nothing and stands in its queue now.
	WaiterJoined struct{ Waiter WaiterID }
	// WaiterLeft reports a request that left its queue with nothing: its wait ended, it was cancelled, or the topic or
	// the engine goes.
	WaiterLeft struct{ Waiter WaiterID }
	// WaiterServed reports a request that the pump answered, with a message or an error.
	WaiterServed struct {
		Waiter WaiterID
		Err    error
	}
	// PumpPass reports that the pump begins to serve a topic.
	PumpPass struct{ Topic, Incarnation string }
	// PumpPutBack reports a waiter that the pump could not serve; Again says that the flag had been cleared
	// meanwhile, so that the topic is pumped once more (PUMP-07).
	PumpPutBack struct {
		Waiter WaiterID
		Again  bool
	}
	// WAL carries an event of the ingress log.
	WAL struct{ Event wal.Event }
	// Log carries an event of a partition log.
	Log struct {
		Key         Key
		Incarnation string
		Event       segment.Event
	}
	// Consumer carries an event of the offset committer.
	Consumer struct{ Event committer.Event }
)

// Handout says which path reserved a record.
type Handout uint8

// The paths.
const (
	HandoutScan Handout = iota // by the request's own scan
	HandoutPump                // by the pump, for a parked request
)

// Cause says why a lease ended without an ack and without expiring.
type Cause uint8

// The causes.
const (
	CauseNack     Cause = iota // the consumer gave it back
	CauseCancel                // handed over to a request that had been cancelled (INF-37)
	CauseReadFail              // the record could not be read for now (LOG-13, LOG-17)
	CauseCut                   // reserved for a batch and left out of its answer (CON-32)
)

func (c Cause) String() string {
	return [...]string{"nack", "cancelled hand-over", "read failed", "cut from a batch"}[c]
}

func (Opened) isEvent()              {}
func (CleanMarkIgnored) isEvent()    {}
func (Accepted) isEvent()            {}
func (TopicCreated) isEvent()        {}
func (Dispatched) isEvent()          {}
func (Stored) isEvent()              {}
func (DispatchFailed) isEvent()      {}
func (DispatchStalled) isEvent()     {}
func (Checkpointed) isEvent()        {}
func (ShardOpened) isEvent()         {}
func (FrontierClamped) isEvent()     {}
func (ConsumerSnapshot) isEvent()    {}
func (Leased) isEvent()              {}
func (Settled) isEvent()             {}
func (LeaseEnded) isEvent()          {}
func (LeasesExpired) isEvent()       {}
func (LeaseExtended) isEvent()       {}
func (HandleRefused) isEvent()       {}
func (CorruptSkipped) isEvent()      {}
func (FrontierJumped) isEvent()      {}
func (RetentionRemoved) isEvent()    {}
func (RetentionFailed) isEvent()     {}
func (RetentionRun) isEvent()        {}
func (PumpPutBack) isEvent()         {}
func (WAL) isEvent()                 {}
func (Log) isEvent()                 {}
func (Consumer) isEvent()            {}
func (DestinationHung) isEvent()     {}
func (DestinationBehind) isEvent()   {}
func (DestinationCaughtUp) isEvent() {}
func (RecordHeld) isEvent()          {}
func (RecordDiscarded) isEvent()     {}
func (Withheld) isEvent()            {}
func (Delivered) isEvent()           {}
func (Replayed) isEvent()            {}
func (JumpLost) isEvent()            {}
func (WaiterJoined) isEvent()        {}
func (WaiterLeft) isEvent()          {}
func (WaiterServed) isEvent()        {}
func (PumpPass) isEvent()            {}
