package engine

import (
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"narad/record"
	"narad/wal"
)

// AnyPartition lets the engine choose, in a produce, or take from all, in a consume.
const AnyPartition int32 = -1

// Message is what a producer sends.
type Message struct {
	Topic string
	// Partition is an explicit choice, or AnyPartition: by the hash of the key, or in turn without a key.
	Partition int32
	Key       []byte // may be empty
	Payload   []byte // 1 byte to MaxPayload
	// Incarnation, when it is not empty, is the one that the caller has checked the message for: it goes to no other one.
	Incarnation string
}

// Produce stores a message. When it returns nil the message is on disk, fsynced, and survives any crash or
// power loss from then on (WAL-02); consumers see it a little later, when the dispatcher has committed it to
// its partition (WAL-04). After ErrProduceFailed it may or may not turn up. A retry can store it twice: there
// is no deduplication.
func (e *Engine) Produce(m Message) error {
	if !e.gate.enter() {
		return ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(m.Topic)
	if err != nil {
		return err
	}
	if err := m.validate(t); err != nil {
		return err
	}
	buf := produceBuffers.Get().(*[]byte)
	defer produceBuffers.Put(buf)
	partition := t.choose(&m)
	*buf = record.AppendProduce((*buf)[:0], record.Produce{
		Topic: t.info.Name, Incarnation: t.info.ID, Key: m.Key, Partition: partition,
		CreatedMs: e.env.Wall().UnixMilli(), Payload: m.Payload,
	})
	seq, err := e.wal.Append(*buf)
	if err != nil {
		return produceError(err)
	}
	t.accepted()
	if e.detailed() {
		e.emit(Accepted{Key{t.info.Name, partition}, t.info.ID, seq})
	}
	return nil
}

// produceBuffers holds encoding buffers; which of them a call gets is never visible.
var produceBuffers = sync.Pool{New: func() any { return new([]byte) }}

func produceError(err error) error {
	if errors.Is(err, wal.ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrProduceFailed, err)
}

func (m *Message) validate(t *topic) error {
	switch {
	case m.Incarnation != "" && m.Incarnation != t.info.ID:
		return ErrTopicChanged
	case len(m.Payload) == 0:
		return fmt.Errorf("%w: empty payload", ErrInvalid)
	case len(m.Payload) > MaxPayload:
		return fmt.Errorf("%w: payload has %d bytes, allowed are %d", ErrTooLarge, len(m.Payload), MaxPayload)
	case len(m.Key) > MaxKey:
		return fmt.Errorf("%w: key has %d bytes, allowed are %d", ErrTooLarge, len(m.Key), MaxKey)
	}
	return t.checkPartition(m.Partition)
}

func (t *topic) checkPartition(partition int32) error {
	if partition == AnyPartition || partition >= 0 && int(partition) < len(t.partitions()) {
		return nil
	}
	return fmt.Errorf("%w: partition %d, topic %s has 0 to %d", ErrInvalid, partition, t.info.Name, len(t.partitions())-1)
}

// choose picks the partition: an explicit one wins, then the hash of the key (FNV-1a, WAL-24), then the
// partitions in turn.
func (t *topic) choose(m *Message) int32 {
	n := uint32(len(t.partitions()))
	switch {
	case m.Partition != AnyPartition:
		return m.Partition
	case len(m.Key) > 0:
		h := fnv.New32a()
		h.Write(m.Key)
		return int32(h.Sum32() % n)
	default:
		return int32(t.roundRobin.Add(1) % n)
	}
}
