package record

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Record envelope: one record inside the body of a partition-log frame. Frozen.
//
//	offset  size  field
//	     0     1  format 0x02
//	     1  1–10  key length, uvarint in its shortest form
//	     …     k  key
//	   …+k     8  commit time, i64 big-endian, unix milliseconds on the owner's wall clock
//	     …     —  payload, to the end
//
// The frame's checksum covers it; it has none of its own. Format 0x01 is a retired layout that must never
// decode again: it is [ErrFormat], as is every other first byte.
const recordFormat = 0x02

// Record is the decoded envelope of one message.
type Record struct {
	Key         []byte // empty when the message has none
	CommittedMs int64  // unix milliseconds
	Payload     []byte
}

// RecordSize returns the length of the envelope of a message with key and payload of those lengths.
func RecordSize(key, payload int) int {
	return 1 + (bits.Len64(uint64(key)|1)+6)/7 + key + 8 + payload
}

// AppendRecord appends the envelope of a message and returns the grown slice.
func AppendRecord(dst, key []byte, committedMs int64, payload []byte) []byte {
	dst = append(dst, recordFormat)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(committedMs))
	return append(dst, payload...)
}

// ParseRecord decodes an envelope that fills b; key and payload alias b. Errors: ErrShort, ErrFormat (also
// for a key length not in its shortest form), ErrLength (the key does not fit).
func ParseRecord(b []byte) (Record, error) {
	if len(b) == 0 {
		return Record{}, fmt.Errorf("empty record: %w", ErrShort)
	}
	if b[0] != recordFormat {
		return Record{}, fmt.Errorf("record format %#02x: %w", b[0], ErrFormat)
	}
	size, n := binary.Uvarint(b[1:])
	switch {
	case n == 0:
		return Record{}, fmt.Errorf("record ends in its key length: %w", ErrShort)
	case n < 0 || n > 1 && b[n] == 0:
		return Record{}, fmt.Errorf("key length not in its shortest form: %w", ErrFormat)
	}
	rest := b[1+n:]
	if len(rest) < 8 {
		return Record{}, fmt.Errorf("record of %d bytes: %w", len(b), ErrShort)
	}
	if size > uint64(len(rest)-8) {
		return Record{}, fmt.Errorf("key of %d bytes in a record of %d: %w", size, len(b), ErrLength)
	}
	return Record{
		Key:         rest[:size:size],
		CommittedMs: int64(binary.BigEndian.Uint64(rest[size:])),
		Payload:     rest[size+8 : len(rest) : len(rest)],
	}, nil
}
