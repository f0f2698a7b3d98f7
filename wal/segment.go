package wal

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

const (
	segmentSuffix = ".wal"
	segmentDigits = 20
	// indexStride is the distance in bytes between two marks of a segment's index in memory.
	indexStride = 128 << 10
)

// segment is one file of frames. Its fields but first change under the mutex of the log.
type segment struct {
	first uint64 // sequence number of the first record, which names the file
	next  uint64 // one beyond its last durable record
	size  int64  // durable bytes
	marks []mark // ascending

	// prepared tells that the file was prepared: beyond size it has zeros and a trailer.
	prepared bool
}

// mark is a place in a segment where a frame starts.
type mark struct {
	seq    uint64
	offset int64
}

func newSegment(first uint64) *segment { return &segment{first: first, next: first} }

func (s *segment) name() string { return segmentName(s.first) }

// extend adds records that have become durable at the end.
func (s *segment) extend(first, next uint64, size int64) {
	if n := len(s.marks); s.size > 0 && (n == 0 && s.size >= indexStride || n > 0 && s.size-s.marks[n-1].offset >= indexStride) {
		s.marks = append(s.marks, mark{seq: first, offset: s.size})
	}
	s.next = next
	s.size += size
}

// nearest returns the last known start of a frame at or before record seq.
func (s *segment) nearest(seq uint64) mark {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].seq > seq })
	if i == 0 {
		return mark{seq: s.first}
	}
	return s.marks[i-1]
}

func segmentName(first uint64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, first, segmentSuffix)
}

// parseSegmentName returns the first sequence number of the segment with that name.
func parseSegmentName(name string) (first uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != segmentDigits || digits[0] == '+' {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil
}
