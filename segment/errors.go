package segment

import (
	"errors"
	"fmt"

	"narad/record"
)

var (
	// ErrClosed reports a log that is closed: the only answer it gives to reads and commits. It says nothing
	// about the offset asked for.
	ErrClosed = errors.New("segment: log is closed")
	// ErrAboveHW reports an offset that no confirmed commit has reached yet.
	ErrAboveHW = errors.New("segment: offset is not below the high watermark")
	// ErrTooLarge reports a record that no frame can hold.
	ErrTooLarge = errors.New("segment: record is too large")
	// ErrReadBack reports a commit whose bytes came back from the file different from what was written.
	ErrReadBack = errors.New("segment: read-back differs from what was written")
	// ErrSuccessor is the cause of a DamageError for an index whose segment was not the last one when it was made.
	ErrSuccessor = errors.New("segment: the file of a later segment is missing")
	// ErrOtherSegment is the cause of a DamageError for a sealed segment that is not the one its index was made for.
	ErrOtherSegment = errors.New("segment: the file is another one than was sealed here")
	// errUndecided is the cause of a DamageError for bytes that look like more frames than can be tried.
	errUndecided = errors.New("segment: too many possible frames follow damage")
	// ErrMissing is the cause of a CorruptError for an offset that no readable frame holds.
	ErrMissing = errors.New("segment: no readable frame holds the offset")
)

// FloorError reports an offset below the oldest one that the log still holds. Only an open log gives it.
type FloorError struct {
	Offset int64 // asked for
	Oldest int64 // the oldest offset held
}

func (e *FloorError) Error() string {
	return fmt.Sprintf("segment: offset %d is below the oldest retained offset %d", e.Offset, e.Oldest)
}

// CorruptError reports an offset that is permanently unreadable: the bytes that should hold it were read
// twice and are not what was written. Its neighbours are not affected.
type CorruptError struct {
	File   string
	At     int64 // position in the file where the damage begins, in bytes
	Offset int64 // asked for
	Cause  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("segment: offset %d is unreadable, %s is damaged at byte %d: %v", e.Offset, e.File, e.At, e.Cause)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }

// DamageError reports a log that is not opened: its files contradict each other or themselves in a way that no crash
// leaves, so that opening it would give offsets out again that records had. A read answers it, with ErrOtherSegment, for a sealed
// segment. Nothing was changed.
type DamageError struct {
	File  string // name within the directory of the log
	At    int64  // position in the file, in bytes
	Cause error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("segment: %s is damaged at byte %d: %v", e.File, e.At, e.Cause)
}

// Unwrap returns the cause.
func (e *DamageError) Unwrap() error { return e.Cause }

// goneError reports that the last frame was intact when the log was looked at and is not any more.
type goneError struct {
	at  int64 // byte where it begins
	end int64 // offset after it
}

func (e *goneError) Error() string {
	return fmt.Sprintf("frame at byte %d, before offset %d, was intact and is not any more: %v", e.at, e.end, record.ErrChecksum)
}

// Unwrap returns record.ErrChecksum.
func (e *goneError) Unwrap() error { return record.ErrChecksum }

// PoisonedError reports a log whose disk said that it may have lost writes. It takes no more commits until
// it is closed and opened again; confirmed records stay readable.
type PoisonedError struct {
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("segment: log is poisoned until it is reopened: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *PoisonedError) Unwrap() error { return e.Cause }
