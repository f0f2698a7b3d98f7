package engine

import (
	"errors"
	"fmt"
)

// What a caller can be told. The server maps each to a status; everything else is an internal error (500).
var (
	// ErrInvalid reports an argument outside of what the operation accepts. (400)
	ErrInvalid = errors.New("invalid argument")
	// ErrTooLarge reports a payload or key above its limit. (413)
	ErrTooLarge = errors.New("message too large")
	// ErrTopicNotFound reports a topic that does not exist. (404)
	ErrTopicNotFound = errors.New("topic not found")
	// ErrTopicExists reports a name that is taken, perhaps by one that differs only in case. (409)
	ErrTopicExists = errors.New("topic exists")
	// ErrTopicChanged reports a message that was checked for another incarnation of its topic. Nothing was stored; check it
	// again.
	ErrTopicChanged = errors.New("the topic was replaced meanwhile")
	// ErrEmpty reports that nothing could be handed out within the wait. (204)
	ErrEmpty = errors.New("nothing to consume")
	// ErrOffsetGone reports an offset that retention has deleted or that cannot be read any more. (410)
	ErrOffsetGone = errors.New("the offset is gone")
	// ErrLeaseGone reports a receipt handle that names no live lease. (410)
	ErrLeaseGone = errors.New("the lease is gone")
	// ErrCancelled reports a consume that its caller cancelled.
	ErrCancelled = errors.New("cancelled")
	// ErrProduceFailed reports that the message may or may not have been accepted: the ingress log failed
	// and takes no produce until the engine is opened again. (500)
	ErrProduceFailed = errors.New("produce failed")
	// ErrClosed reports a call to an engine that is closing or closed. Nothing was done. (503)
	ErrClosed = errors.New("the engine is closed")
)

// CorruptError reports a file of the data directory that is not what the engine wrote there. Nothing was changed.
type CorruptError struct {
	File   string // path below the data directory
	Offset int64  // of the damage, in bytes
	Cause  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %v", e.File, e.Offset, e.Cause)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }
