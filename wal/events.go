package wal

import "time"

// Event is something that a log did, one of the types of this file. Logs, metrics and the simulator's
// checkers are listeners of the same events.
type Event interface{ walEvent() }

// Recovered reports that a log was opened. Everything in it is durable.
type Recovered struct {
	First, Next uint64 // the log has the records First … Next-1
	Checkpoint  uint64
	Segments    int
	// Lowered tells that the stored checkpoint pointed below the oldest segment; Checkpoint was raised to it.
	Lowered bool
}

// TailCut reports that opening the log removed what an unfinished write had left. No record in it had been
// acknowledged.
type TailCut struct {
	File          string
	Offset, Bytes int64
	Cause         error // what was wrong with the first frame that was cut
	// Whole tells that a whole frame was found behind the torn one: the disk had not kept the order of
	// the write.
	Whole bool
}

// BatchSynced reports that the records First … Next-1 were written and synced, or that this failed.
type BatchSynced struct {
	First, Next uint64
	Records     int
	Bytes       int
	Took        time.Duration // of the sync alone; 0 with Err
	Err         error
}

// Failed reports that the log has latched: it accepts nothing until it is opened anew.
type Failed struct{ Err error }

// RollFailed reports that no new segment could be created. Nothing was written; the next append tries again.
type RollFailed struct {
	File string
	Err  error
}

// SegmentRolled reports that a new segment was created, durably, whose first record will be First. Prepared tells
// that its file was made ahead.
type SegmentRolled struct {
	First    uint64
	Prepared bool
}

// SegmentPrepared reports that a file for the next segment was made ahead, out of that of a removed one if Recycled, or
// that this failed. Then the next segment's file grows with what is appended; nothing else depends on it. It comes before the
// SegmentRolled of that file.
type SegmentPrepared struct {
	Recycled bool
	Err      error
}

// SegmentRemoved reports that the segment with the records First … Next-1, all of them below the durable
// checkpoint, was removed, or that removing it failed and will be tried again. Recycled tells that its file is
// kept to be prepared; the SegmentPrepared of it comes later.
type SegmentRemoved struct {
	First, Next uint64
	Recycled    bool
	Err         error
}

// CheckpointStored reports a checkpoint in the page cache: it survives the process, not a power failure.
type CheckpointStored struct {
	Seq uint64
	Err error
}

// CheckpointSynced reports a checkpoint that survives a power failure, or that syncing it failed and will
// be tried again from a fresh write.
type CheckpointSynced struct {
	Seq uint64
	Err error
}

func (Recovered) walEvent()        {}
func (TailCut) walEvent()          {}
func (BatchSynced) walEvent()      {}
func (Failed) walEvent()           {}
func (RollFailed) walEvent()       {}
func (SegmentRolled) walEvent()    {}
func (SegmentPrepared) walEvent()  {}
func (SegmentRemoved) walEvent()   {}
func (CheckpointStored) walEvent() {}
func (CheckpointSynced) walEvent() {}
