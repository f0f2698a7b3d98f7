package engine

import (
	"fmt"

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
	for i, m := range messages {
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
	buf := make([]byte, 0, roomFor(t, messages)) // of its own: a batch may be large, and a pool would keep it. It never moves
	payloads := make([][]byte, len(messages))
	partitions := make([]int32, len(messages))
	now := e.env.Wall().UnixMilli()
	for i, m := range messages {
		partitions[i] = t.choose(m)
		begin := len(buf)
		buf = record.AppendProduce(buf, record.Produce{
			Topic: t.info.Name, Incarnation: t.info.ID, Key: m.Key, Partition: partitions[i], CreatedMs: now, Payload: m.Payload,
		})
		payloads[i] = buf[begin:len(buf):len(buf)]
	}
	first, err := e.wal.Append(payloads...)
	if err != nil {
		return produceError(err)
	}
	t.accepted()
	if e.detailed() {
		for i, partition := range partitions {
			e.emit(Accepted{Key{t.info.Name, partition}, t.info.ID, first + uint64(i)})
		}
	}
	return nil
}

// roomFor returns how many bytes the records of a batch take.
func roomFor(t *topic, messages []Message) (n int) {
	for _, m := range messages {
		n += record.ProduceSize(record.Produce{Topic: t.info.Name, Incarnation: t.info.ID, Key: m.Key, Payload: m.Payload})
	}
	return n
}
