package committer

import (
	"time"

	"narad/env"
)

// Texts of the log lines that the listener writes for [TickLate], [WriteoutLate] and [Stranded].
const (
	// TickLateText goes with partitions, flush_took and interval (the tick).
	TickLateText = "consumer offset commits cannot keep to their interval: persisted offsets lag acks by about the flush time"
	// WriteoutLateText goes with partitions, oldest and durability_interval.
	WriteoutLateText = "consumer offsets wait longer than their durability interval for a device flush: a power loss would redeliver more acks than it promises"
	// StrandedText goes with topic and partition.
	StrandedText = "consumer offsets: partition directory removed or replaced under its persisted state; its acks are not persisted until the partition is dropped"
)

// Event is something that the committer did or saw, one of the types below.
type Event interface{ event() }

// Primed reports an attempt to prime a partition. With Err nothing was changed for ticks to come except
// that it is tried again.
type Primed struct {
	Key     Key
	Created bool // consumer.ahead was made
	Anchor  int  // slot of the newest record, -1: none
	Start   env.Instant
	End     env.Instant
	Err     error
}

// WindowWritten reports a write into the window, which is in the page cache from End on.
type WindowWritten struct {
	Key        Key
	Slot       int
	Sequence   uint64
	Committed  int64 // frontier in the record
	Ahead      int   // offsets above it in the snapshot
	Stored     int   // of those, how many fit the record: the lowest
	SnapshotAt env.Instant
	End        env.Instant
	Err        error
}

// WrittenOut reports a writeout. Without Err the record written last is durable and its slot is the anchor.
type WrittenOut struct {
	Key       Key
	Slot      int
	Sequence  uint64
	Committed int64
	Start     env.Instant
	End       env.Instant
	Err       error
}

// Levelled reports that consumer.offset was brought level with the durable frontier.
type Levelled struct {
	Key      Key
	Frontier int64
	Created  bool // the file was made, or replaced because its size was wrong
	Durable  bool // it was synced; readers see it in any case
	End      env.Instant
	Err      error
}

// Evicted reports that the held descriptor of a partition was closed to make room.
type Evicted struct{ Key Key }

// Reopened reports that consumer.ahead of a primed partition was opened again. With OneOff it is for one
// operation only, as no held descriptor could be closed.
type Reopened struct {
	Key    Key
	OneOff bool
	Err    error
}

// Stranded reports that a partition's directory was removed or replaced under the state held for it.
type Stranded struct{ Key Key }

// Forgotten reports that nothing is held for a partition any more.
type Forgotten struct{ Key Key }

// TickDone reports the end of a tick.
type TickDone struct {
	Partitions int // partitions that the tick wrote, wrote out or levelled, or tried to
	Start      env.Instant
	Took       time.Duration
	Primed     int   // attempts to prime
	Failed     int   // operations that failed
	Err        error // of the first of those
}

// TickLate is the warning of [TickLateText], given at most once a minute.
type TickLate struct {
	Partitions int
	Took       time.Duration
	Interval   time.Duration // the tick
}

// WriteoutLate is the warning of [WriteoutLateText], given at most once a minute.
type WriteoutLate struct {
	Partitions int           // how many wait longer than twice the interval
	Oldest     time.Duration // the longest wait
	Interval   time.Duration // the durability interval
}

// Closed reports that the committer stopped. Without Err both files of every partition are exact and durable.
type Closed struct{ Err error }

func (Primed) event()        {}
func (WindowWritten) event() {}
func (WrittenOut) event()    {}
func (Levelled) event()      {}
func (Evicted) event()       {}
func (Reopened) event()      {}
func (Stranded) event()      {}
func (Forgotten) event()     {}
func (TickDone) event()      {}
func (TickLate) event()      {}
func (WriteoutLate) event()  {}
func (Closed) event()        {}
