package realfs

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"narad/engine"
)

// payload returns the contents of message id: its number and, up to size, bytes that only it has.
func payload(id, size int) []byte {
	b := fmt.Appendf(nil, "%d:", id)
	var rng *rand.PCG
	for word := uint64(0); len(b) < size; word >>= 8 {
		if rng == nil {
			rng = rand.NewPCG(uint64(id), 1)
		}
		if word == 0 {
			word = rng.Uint64() | 1<<63
		}
		b = append(b, byte(word))
	}
	return b
}

// key returns the key of message id; some have none.
func key(id int) []byte {
	if id%3 == 0 {
		return nil
	}
	return fmt.Appendf(nil, "key-%d", id%7)
}

// identify returns which message was delivered, and an error unless it is exactly that message.
func (f *Facts) identify(d *engine.Delivery) (int, error) {
	var id int
	if _, err := fmt.Sscanf(string(d.Payload[:min(len(d.Payload), 24)]), "%d:", &id); err != nil || id < 0 || id >= len(f.Messages) {
		return 0, violate("INV-01", "%s/%d offset %d holds what nobody produced: %.60q", d.Topic, d.Partition, d.Offset, d.Payload)
	}
	m := f.Messages[id]
	if m.Topic != d.Topic || !bytes.Equal(d.Payload, payload(id, m.Size)) || !bytes.Equal(d.Key, key(id)) {
		return 0, violate("INV-01", "%s/%d offset %d holds message %d, but not as it was produced to %s", d.Topic, d.Partition, d.Offset, id, m.Topic)
	}
	return id, nil
}
