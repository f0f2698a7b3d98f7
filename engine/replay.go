package engine

import (
	"errors"
	"fmt"

	"narad/segment"
)

// Replay reads one stored message of a partition, settled or not. It takes no lease, moves no frontier, counts under no cap
// and counts as no consume (CON-09, CON-10); the handle of the answer is zero.
//
// It returns ErrInvalid for a negative offset or no such partition, ErrEmpty for one at or past the high watermark, and
// ErrOffsetGone for one that retention has deleted or that cannot be read any more.
func (e *Engine) Replay(topic string, partition int32, offset int64) (*Delivery, error) {
	if !e.gate.enter() {
		return nil, ErrClosed
	}
	defer e.gate.leave()
	for {
		t, err := e.topic(topic)
		if err != nil {
			return nil, err
		}
		if partition == AnyPartition {
			return nil, fmt.Errorf("%w: a replay names its partition", ErrInvalid)
		}
		if err := t.checkPartition(partition); err != nil {
			return nil, err
		}
		if offset < 0 {
			return nil, fmt.Errorf("%w: offset %d", ErrInvalid, offset)
		}
		d, err := t.partitions()[partition].replay(offset)
		if !errors.Is(err, errRetired) {
			return d, err
		}
	}
}

func (p *partition) replay(offset int64) (*Delivery, error) {
	for attempt := 1; ; attempt++ {
		log, err := p.openLog() // only the log: the consumer state has no part in this
		if err != nil {
			return nil, err
		}
		rec, err := log.Read(offset)
		if transient(err) && attempt < takeAttempts {
			continue // reopened, under us
		}
		if err != nil {
			return nil, replayError(err)
		}
		if e := p.topic.engine; e.detailed() {
			e.emit(Replayed{p.key, offset})
		}
		return &Delivery{
			Topic: p.key.Topic, Partition: p.index, Offset: offset, Key: rec.Key, Payload: rec.Payload, TimestampMs: rec.CommittedMs,
		}, nil
	}
}

func replayError(err error) error {
	var below *segment.FloorError
	var corrupt *segment.CorruptError
	switch {
	case errors.Is(err, segment.ErrAboveHW):
		return ErrEmpty
	case errors.As(err, &below), errors.As(err, &corrupt):
		return fmt.Errorf("%w: %w", ErrOffsetGone, err)
	}
	return err
}
