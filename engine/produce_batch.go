package engine

import (
	"fmt"
	"slices"
	"sync"

	"narad/record"
)

// MaxProduceBatch is the largest number of messages in one ProduceBatch.
const MaxProduceBatch = 1000

// BatchError says which message of a batch was refused. Nothing of the batch was stored.
type BatchError struct {
	Index int // of the message, from 0
	Err   error
}

func (e *BatchError) Error() string { return fmt.Sprintf("message %d: %v", e.Index, e.Err) }

// Unwrap returns the reason.
func (e *BatchError) Unwrap() error { return e.Err }

// ProduceBatch stores 1 to MaxProduceBatch messages of one topic; their Topic may be left empty. All are checked first, and
// a *[BatchError] names the first that is refused; then nothing is stored. When it returns nil, every message is on disk
// like one of [Engine.Produce] (WAL-13). They take consecutive places in the ingress log, so that after ErrProduceFailed, a
// crash or no answer a first part of them may turn up, perhaps all (WAL-14).
func (e *Engine) ProduceBatch(topic string, messages []Message) error {
	if n := len(messages); n < 1 || n > MaxProduceBatch {
		return fmt.Errorf("%w: a batch of %d messages, allowed are 1 to %d", ErrInvalid, n, MaxProduceBatch)
	}
	if !e.gate.enter() {
		return ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(topic)
	if err != nil {
		return err
	}
	for i := range messages {
		m := &messages[i]
		if m.Topic != "" && m.Topic != topic {
			return &BatchError{i, fmt.Errorf("%w: it names topic %s", ErrInvalid, m.Topic)}
		}
		if err := m.validate(t); err != nil {
			return &BatchError{i, err}
		}
	}
	return e.storeBatch(t, messages)
}

// storeBatch appends the messages to the ingress log in one go.
func (e *Engine) storeBatch(t *topic, messages []Message) error {
	b := encodedBatches.Get().(*encodedBatch)
	defer b.release()
	b.encode(t, messages, e.env.Wall().UnixMilli())
	first, err := e.wal.Append(b.records...)
	if err != nil {
		return produceError(err)
	}
	t.accepted()
	if e.detailed() {
		for i, partition := range b.partitions {
			e.emit(Accepted{Key{t.info.Name, partition}, t.info.ID, first + uint64(i)})
		}
	}
	return nil
}

// encodedBatch is a batch on its way into the ingress log.
type encodedBatch struct {
	buf        []byte
	records    [][]byte // parts of buf
	partitions []int32
}

// encodedBatches holds those that nobody uses; which of them a call gets is never visible.
var encodedBatches = sync.Pool{New: func() any { return new(encodedBatch) }}

// encodedKept bounds the memory of a batch that is kept.
const encodedKept = 256 << 10

// release ends the use of a batch.
func (b *encodedBatch) release() {
	if cap(b.buf) <= encodedKept {
		encodedBatches.Put(b)
	}
}

func (b *encodedBatch) encode(t *topic, messages []Message, nowMs int64) {
	rec := record.Produce{Topic: t.info.Name, Incarnation: t.info.ID, CreatedMs: nowMs}
	size := len(messages) * record.ProduceSize(rec)
	for i := range messages {
		size += len(messages[i].Key) + len(messages[i].Payload)
	}
	buf := slices.Grow(b.buf[:0], size) // it moves no more: records are parts of it
	b.records, b.partitions = b.records[:0], b.partitions[:0]
	for i := range messages {
		m := &messages[i]
		rec.Key, rec.Payload, rec.Partition = m.Key, m.Payload, t.choose(m)
		begin := len(buf)
		buf = record.AppendProduce(buf, rec)
		b.records, b.partitions = append(b.records, buf[begin:len(buf):len(buf)]), append(b.partitions, rec.Partition)
	}
	b.buf = buf
}
