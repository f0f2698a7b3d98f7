package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed reports a call on a log that has been closed.
	ErrClosed = errors.New("wal: log is closed")
	// ErrSize reports an append without payloads, or with one that is empty or over record.MaxWALRecord.
	ErrSize = errors.New("wal: payload is empty or too large")
	// ErrCompacted reports a read below the oldest record that the log still has.
	ErrCompacted = errors.New("wal: record was removed by compaction")
	// ErrCheckpoint reports a checkpoint that would go backwards or beyond the durable end.
	ErrCheckpoint = errors.New("wal: checkpoint out of range")
)

// Causes inside a CorruptError that are not errors of package record.
var (
	errLaterFrame  = errors.New("valid frames follow a damaged one")
	errNumber      = errors.New("a whole frame has another number than its place")
	errUndecided   = errors.New("too many possible frames follow a damaged one")
	errTail        = errors.New("sealed segment does not end with a whole frame")
	errChain       = errors.New("segment does not continue the one before it")
	errName        = errors.New("name is not that of a segment")
	errAhead       = errors.New("checkpoint is beyond the last record")
	errPointLength = errors.New("checkpoint does not have 8 bytes")
)

// CorruptError reports that the log on disk is not what this package wrote and that cutting it could lose
// records that were acknowledged. The files are left as they were found.
type CorruptError struct {
	File   string // name within the directory of the log
	Offset int64  // of the damage, in bytes
	Cause  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("wal: %s is corrupt at offset %d: %v", e.File, e.Offset, e.Cause)
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// FailedError reports that the log has failed and accepts nothing until it is opened anew. A record whose
// append ended with it may or may not be found then.
type FailedError struct {
	Cause error // the write or sync that failed
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("wal: log has failed and must be reopened: %v", e.Cause)
}

func (e *FailedError) Unwrap() error { return e.Cause }

// goneError reports that a frame of the last segment was whole when the log was looked at and is not any more.
type goneError struct {
	end   int64 // of the log as it was looked at
	cause error
}

func (e *goneError) Error() string {
	return fmt.Sprintf("a frame before offset %d was whole and is not any more: %v", e.end, e.cause)
}

func (e *goneError) Unwrap() error { return e.cause }
