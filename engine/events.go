package engine

import (
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

type (
	// Opened reports that the engine recovered its data directory and serves.
	Opened struct {
		Clean bool // the last stop was graceful
	}
	// Accepted reports that Produce is about to return nil for a message.
	Accepted struct {
		Key Key
		Seq uint64 // in the ingress log
	}
	// TopicCreated reports a topic that exists durably from now on.
	TopicCreated struct{ Topic Topic }
	// Dispatched reports that the partition log confirmed the commit of one accepted message.
	Dispatched struct {
		Key    Key
		Seq    uint64 // in the ingress log
		Offset int64
	}
	// DispatchFailed reports a commit that a partition log did not confirm; it is tried again after Backoff.
	DispatchFailed struct {
		Key     Key
		Records int
		Err     error
	}
	// DispatchStalled reports that no message can be dispatched: the ingress log cannot be read, holds a record
	// that fits no topic, or does not take a checkpoint. It is tried again every second.
	DispatchStalled struct{ Err error }
	// Checkpointed reports that every message below Seq is committed and the checkpoint says so.
	Checkpointed struct{ Seq uint64 }
	// ShardOpened reports that the consumer state of a partition was seeded from disk.
	ShardOpened struct {
		Key    Key
		State  inflight.State
		Report committer.Report
		HW     int64
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
		Key     Key
		Lease   inflight.Lease
		At      env.Instant
		HW      int64
		Oldest  int64
		Handout Handout
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
		Key    Key
		Offset int64
		Err    error
	}
	// FrontierJumped reports a consumer that fell behind retention.
	FrontierJumped struct {
		Key    Key
		Oldest int64
	}
	// PumpPutBack reports a waiter that the pump could not serve; Again says that the flag had been cleared
	// meanwhile, so that the topic is pumped once more (PUMP-07).
	PumpPutBack struct {
		Topic string
		Again bool
	}
	// WAL carries an event of the ingress log.
	WAL struct{ Event wal.Event }
	// Log carries an event of a partition log.
	Log struct {
		Key   Key
		Event segment.Event
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
)

func (c Cause) String() string {
	return [...]string{"nack", "cancelled hand-over", "read failed"}[c]
}

func (Opened) isEvent()           {}
func (Accepted) isEvent()         {}
func (TopicCreated) isEvent()     {}
func (Dispatched) isEvent()       {}
func (DispatchFailed) isEvent()   {}
func (DispatchStalled) isEvent()  {}
func (Checkpointed) isEvent()     {}
func (ShardOpened) isEvent()      {}
func (FrontierClamped) isEvent()  {}
func (ConsumerSnapshot) isEvent() {}
func (Leased) isEvent()           {}
func (Settled) isEvent()          {}
func (LeaseEnded) isEvent()       {}
func (LeasesExpired) isEvent()    {}
func (LeaseExtended) isEvent()    {}
func (HandleRefused) isEvent()    {}
func (CorruptSkipped) isEvent()   {}
func (FrontierJumped) isEvent()   {}
func (PumpPutBack) isEvent()      {}
func (WAL) isEvent()              {}
func (Log) isEvent()              {}
func (Consumer) isEvent()         {}
