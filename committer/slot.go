package committer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"narad/vfs"
)

// Layout of a slot; the drawing is in doc.go. These are frozen.
const (
	slotSize   = 4096
	slotCount  = 2
	aheadSize  = slotSize * slotCount
	headerSize = 44
	checksumAt = 40
	payloadMax = slotSize - headerSize

	slotVersion = 2

	encodingBitmap = 1
	encodingRuns   = 2

	// countMax bounds the offsets of one record, so that a record never asks its reader for more than 8 MiB.
	countMax = 1 << 20
)

var slotMagic = [4]byte{'N', 'A', 'A', 'H'}

// A record must fit its slot, and a slot must be whole sectors.
const (
	_ = uint(payloadMax - 1)
	_ = -uint(slotSize % vfs.SectorSize)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Why a slot holds no record for a reader.
var (
	// ErrBlank reports a slot that was never written.
	ErrBlank = errors.New("slot was never written")
	// ErrMagic reports bytes that are no slot.
	ErrMagic = errors.New("slot has no magic")
	// ErrVersion reports a slot of a version that this release does not read.
	ErrVersion = errors.New("slot has an unknown version")
	// ErrLength reports a slot whose record would not fit it, or ends before its length says.
	ErrLength = errors.New("slot has an impossible length")
	// ErrChecksum reports a torn or damaged slot.
	ErrChecksum = errors.New("slot fails its checksum")
	// ErrForeign reports a slot that belongs to another partition or incarnation.
	ErrForeign = errors.New("slot has a foreign identity")
	// ErrContent reports a slot whose checksum holds although no writer makes such contents.
	ErrContent = errors.New("slot has impossible contents")
)

// record is what one slot holds.
type record struct {
	identity uint64
	seq      uint64 // from 1, higher is newer
	state    State
}

// appendRecord appends the record to dst, padded with zeros to whole sectors, and returns the grown slice
// and how many of the offsets above the frontier it holds: all, or the lowest that fit.
func appendRecord(dst []byte, r record) (_ []byte, stored int) {
	assertState(r.state)
	ahead := r.state.Ahead
	if len(ahead) > countMax {
		ahead = ahead[:countMax]
	}
	encoding, stored := chooseEncoding(r.state.Committed, ahead)
	start := len(dst)
	dst = append(dst, make([]byte, headerSize)...)
	if encoding == encodingBitmap {
		dst = appendBitmap(dst, r.state.Committed, ahead[:stored])
	} else {
		dst = appendRuns(dst, r.state.Committed, ahead[:stored])
	}
	rec := dst[start:]
	copy(rec, slotMagic[:])
	rec[4] = slotVersion
	rec[5] = byte(encoding)
	binary.LittleEndian.PutUint64(rec[8:], r.identity)
	binary.LittleEndian.PutUint64(rec[16:], r.seq)
	binary.LittleEndian.PutUint64(rec[24:], uint64(r.state.Committed))
	binary.LittleEndian.PutUint32(rec[32:], uint32(stored))
	binary.LittleEndian.PutUint32(rec[36:], uint32(len(rec)-headerSize))
	binary.LittleEndian.PutUint32(rec[checksumAt:], checksum(rec))
	if rest := len(rec) % vfs.SectorSize; rest != 0 {
		dst = append(dst, make([]byte, vfs.SectorSize-rest)...)
	}
	return dst, stored
}

// checksum covers the header before the checksum and the payload after it.
func checksum(rec []byte) uint32 {
	sum := crc32.Update(0, castagnoli, rec[:checksumAt])
	return crc32.Update(sum, castagnoli, rec[headerSize:])
}

func assertState(s State) {
	if s.Committed < -1 {
		panic(fmt.Sprintf("committer: frontier %d", s.Committed))
	}
	last := s.Committed
	for _, o := range s.Ahead {
		if o <= last {
			panic(fmt.Sprintf("committer: offset %d above the frontier follows %d", o, last))
		}
		last = o
	}
}

// chooseEncoding picks the encoding that holds more of the lowest offsets, and the shorter when both hold
// all of them.
func chooseEncoding(committed int64, ahead []int64) (encoding, stored int) {
	if len(ahead) == 0 {
		return encodingBitmap, 0
	}
	bitmapStored := bitmapFits(committed, ahead)
	runsStored, runsSize := runsFit(committed, ahead)
	switch {
	case runsStored > bitmapStored:
		return encodingRuns, runsStored
	case runsStored == bitmapStored && runsSize < bitmapSize(committed, ahead[bitmapStored-1]):
		return encodingRuns, runsStored
	}
	return encodingBitmap, bitmapStored
}

func bitmapSize(committed, last int64) int { return int((last-committed-1)/8) + 1 }

// bitmapFits returns how many of the lowest offsets a full bitmap reaches.
func bitmapFits(committed int64, ahead []int64) int {
	n := len(ahead)
	for n > 0 && ahead[n-1]-committed > payloadMax*8 {
		n--
	}
	return n
}

// Bit i of a bitmap, counted from the least significant of the first byte, is the offset committed+1+i.
func appendBitmap(dst []byte, committed int64, ahead []int64) []byte {
	if len(ahead) == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, make([]byte, bitmapSize(committed, ahead[len(ahead)-1]))...)
	for _, o := range ahead {
		i := o - committed - 1
		dst[start+int(i/8)] |= 1 << (i % 8)
	}
	return dst
}

// nextRun returns the length of the run of successive offsets that ahead begins with.
func nextRun(ahead []int64) int {
	n := 1
	for n < len(ahead) && ahead[n] == ahead[n-1]+1 {
		n++
	}
	return n
}

func uvarintSize(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// runsFit returns how many of the lowest offsets fit as runs, and the bytes they take.
func runsFit(committed int64, ahead []int64) (stored, size int) {
	next := committed + 1
	for stored < len(ahead) {
		n := nextRun(ahead[stored:])
		gap := uvarintSize(uint64(ahead[stored] - next))
		cut := cutRun(n, payloadMax-size-gap)
		if cut > 0 {
			size += gap + uvarintSize(uint64(cut))
			stored += cut
		}
		if cut < n {
			return stored, size
		}
		next = ahead[stored-1] + 1
	}
	return stored, size
}

// cutRun returns the longest run up to n whose length takes at most room bytes, 0 when there is none.
func cutRun(n, room int) int {
	if room < 1 {
		return 0
	}
	return min(n, 1<<(7*min(room, 4))-1)
}

// A run is two uvarints: how many offsets to skip from the one after the last run (at first from
// committed+1), then how many are settled, at least one.
func appendRuns(dst []byte, committed int64, ahead []int64) []byte {
	next := committed + 1
	for len(ahead) > 0 {
		n := nextRun(ahead)
		dst = binary.AppendUvarint(dst, uint64(ahead[0]-next))
		dst = binary.AppendUvarint(dst, uint64(n))
		next = ahead[n-1] + 1
		ahead = ahead[n:]
	}
	return dst
}

// decodeSlot returns the record of a slot, which may be cut short by the end of the file. The error is one of
// those above.
func decodeSlot(slot []byte) (record, error) {
	if blank(slot) {
		return record{}, ErrBlank
	}
	if len(slot) < headerSize {
		return record{}, ErrLength
	}
	if [4]byte(slot[:4]) != slotMagic {
		return record{}, ErrMagic
	}
	if slot[4] != slotVersion {
		return record{}, fmt.Errorf("%w: %d", ErrVersion, slot[4])
	}
	length := binary.LittleEndian.Uint32(slot[36:])
	if length > payloadMax || int(length) > len(slot)-headerSize {
		return record{}, fmt.Errorf("%w: %d bytes of payload", ErrLength, length)
	}
	rec := slot[:headerSize+length]
	if binary.LittleEndian.Uint32(rec[checksumAt:]) != checksum(rec) {
		return record{}, ErrChecksum
	}
	return decodeContent(rec)
}

func blank(slot []byte) bool {
	for _, b := range slot {
		if b != 0 {
			return false
		}
	}
	return true
}

// decodeContent decodes a record whose checksum holds.
func decodeContent(rec []byte) (record, error) {
	r := record{
		identity: binary.LittleEndian.Uint64(rec[8:]),
		seq:      binary.LittleEndian.Uint64(rec[16:]),
		state:    State{Committed: int64(binary.LittleEndian.Uint64(rec[24:]))},
	}
	count := binary.LittleEndian.Uint32(rec[32:])
	if rec[6] != 0 || rec[7] != 0 || r.seq == 0 || r.state.Committed < -1 || count > countMax {
		return record{}, ErrContent
	}
	var ok bool
	switch payload := rec[headerSize:]; rec[5] {
	case encodingBitmap:
		r.state.Ahead, ok = decodeBitmap(payload, r.state.Committed, int(count))
	case encodingRuns:
		r.state.Ahead, ok = decodeRuns(payload, r.state.Committed, int(count))
	}
	if !ok {
		return record{}, ErrContent
	}
	return r, nil
}

func decodeBitmap(payload []byte, committed int64, count int) ([]int64, bool) {
	set := 0
	for _, b := range payload {
		set += bits.OnesCount8(b)
	}
	// The last byte is never empty, so equal states have equal bytes.
	if set != count || len(payload) > 0 && payload[len(payload)-1] == 0 {
		return nil, false
	}
	if committed > math.MaxInt64-8*int64(len(payload)) {
		return nil, false
	}
	ahead := make([]int64, 0, count)
	for i, b := range payload {
		for ; b != 0; b &= b - 1 {
			ahead = append(ahead, committed+1+int64(8*i+bits.TrailingZeros8(b)))
		}
	}
	return ahead, true
}

func decodeRuns(payload []byte, committed int64, count int) ([]int64, bool) {
	ahead := make([]int64, 0, min(count, 4*slotSize))
	last := uint64(committed) // of the run before; -1 wraps to the greatest, and committed+1 back to 0
	for len(payload) > 0 {
		gap, a := binary.Uvarint(payload)
		if a <= 0 {
			return nil, false
		}
		length, b := binary.Uvarint(payload[a:])
		if b <= 0 || length == 0 || length > uint64(count-len(ahead)) {
			return nil, false
		}
		payload = payload[a+b:]
		first := last + 1 + gap
		if gap > math.MaxInt64 || first > math.MaxInt64-length {
			return nil, false
		}
		if gap == 0 && len(ahead) > 0 {
			return nil, false // two runs that touch are one
		}
		for i := range length {
			ahead = append(ahead, int64(first+i))
		}
		last = first + length - 1
	}
	return ahead, len(ahead) == count
}
