package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Payload of a WAL frame: one accepted produce, big-endian. Strings are a u32 length and their bytes.
//
//	format 1                      format 2
//	u8      1                     u8      2
//	string  topic                 string  topic
//	                              string  incarnation of the topic
//	string  key                   string  key
//	u32     partition             u32     partition, at most 2^31-1
//	u64     created, unix ms      u64     created, unix ms
//	string  payload               string  payload
//
// An empty key is no key. Nothing follows the payload. Format 1 is what topics without an incarnation id
// have; it is still read, and written for a record whose incarnation is empty.
const (
	produceFormat1 = 1
	produceFormat2 = 2
)

// The errors of ParseProduce.
var (
	errProduceShort     = fmt.Errorf("produce record: %w", ErrShort)
	errProduceFormat    = fmt.Errorf("produce record: %w", ErrFormat)
	errProducePartition = fmt.Errorf("produce record: partition beyond 2^31-1: %w", ErrFormat)
	errProduceTrailing  = fmt.Errorf("produce record: bytes after the payload: %w", ErrLength)
)

// Produce is one accepted message on its way from the ingress log to its partition.
type Produce struct {
	Topic       string
	Incarnation string // id of the topic that the message was accepted for; empty in old records
	Key         []byte // empty: no key
	Partition   int32  // never negative
	CreatedMs   int64  // wall clock of the accepting node, unix milliseconds
	Payload     []byte
}

// ProduceSize returns the number of bytes that AppendProduce appends for p.
func ProduceSize(p Produce) int {
	n := 1 + 4 + len(p.Topic) + 4 + len(p.Key) + 4 + 8 + 4 + len(p.Payload)
	if p.Incarnation != "" {
		n += 4 + len(p.Incarnation)
	}
	return n
}

// AppendProduce appends the encoding of p to dst. It panics when the partition is negative. Whether the
// result fits into a WAL frame is the caller's to check, by [ProduceSize] against [MaxWALRecord].
func AppendProduce(dst []byte, p Produce) []byte {
	if p.Partition < 0 {
		panic(fmt.Sprintf("record: produce record for partition %d", p.Partition))
	}
	dst = slices.Grow(dst, ProduceSize(p)) // once, not at each field
	if p.Incarnation == "" {
		dst = append(dst, produceFormat1)
		dst = appendString(dst, p.Topic)
	} else {
		dst = append(dst, produceFormat2)
		dst = appendString(dst, p.Topic)
		dst = appendString(dst, p.Incarnation)
	}
	dst = appendString(dst, p.Key)
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.CreatedMs))
	return appendString(dst, p.Payload)
}

// ParseProduce decodes b, all of it. Key and Payload alias b; Topic and Incarnation are copies. It returns
// ErrFormat, ErrShort or ErrLength.
func ParseProduce(b []byte) (p Produce, err error) { return ParseProduceLike(b, Produce{}) }

// ParseProduceLike is ParseProduce with the Topic and the Incarnation of like where they are the same, so that a run of
// records for one topic allocates nothing.
func ParseProduceLike(b []byte, like Produce) (p Produce, err error) {
	if len(b) == 0 {
		return p, errProduceShort
	}
	format := b[0]
	if format != produceFormat1 && format != produceFormat2 {
		return p, errProduceFormat
	}
	topic, b, ok := cutString(b[1:])
	var incarnation []byte
	if ok && format == produceFormat2 {
		incarnation, b, ok = cutString(b)
	}
	if ok {
		p.Key, b, ok = cutString(b)
	}
	if !ok || len(b) < 12 {
		return Produce{}, errProduceShort
	}
	partition := binary.BigEndian.Uint32(b)
	p.CreatedMs = int64(binary.BigEndian.Uint64(b[4:]))
	if p.Payload, b, ok = cutString(b[12:]); !ok {
		return Produce{}, errProduceShort
	}
	if partition > math.MaxInt32 {
		return Produce{}, errProducePartition
	}
	if len(b) != 0 {
		return Produce{}, errProduceTrailing
	}
	p.Partition = int32(partition)
	p.Topic, p.Incarnation = sameString(topic, like.Topic), sameString(incarnation, like.Incarnation)
	return p, nil
}

// sameString returns b as a string: like, if it is that.
func sameString(b []byte, like string) string {
	if string(b) == like {
		return like
	}
	return string(b)
}

// appendString appends a u32 length and the bytes of s.
func appendString[S string | []byte](dst []byte, s S) []byte {
	if uint64(len(s)) > math.MaxUint32 {
		panic(fmt.Sprintf("record: a field of %d bytes", len(s)))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// cutString splits b after the string it begins with and reports whether all of it is there.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, false
	}
	end := 4 + int(n)
	return b[4:end:end], b[end:], true
}
