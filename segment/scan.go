package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"narad/record"
	"narad/vfs"
)

// damage is a run of bytes that holds no readable frame, and the offsets lost with it.
type damage struct {
	at       int64 // first byte
	from, to int64 // offsets, exclusive end
	cause    error
}

// scanned is a frame that a scan accepted.
type scanned struct {
	at int64
	record.FrameHeader
}

func (f scanned) endAt() int64 { return f.at + f.Size() }

// keep returns a copy of f in place, which may be nil.
func (f scanned) keep(in *scanned) *scanned {
	if in == nil {
		in = new(scanned)
	}
	*in = f
	return in
}

// scanner walks the frames of a segment file. It keeps a window of the file in memory, so that it costs one
// file call per window and no allocation that grows with the frames.
type scanner struct {
	file  io.ReaderAt
	name  string // of the file, for errors
	size  int64  // bytes to look at
	limit int64  // offset that no frame may pass: the successor's base, or MaxInt64
	sums  bool   // verify every checksum, or only where the chain of headers breaks

	window []byte
	start  int64 // position of the window

	hashed    int64 // bytes of frames that searches found and that were hashed
	exhausted bool  // a search gave up
}

// searchLeast is what all searches of a scan together may hash, however small the file.
const searchLeast = 64 << 20

// searchBudget bounds what the searches of a scan hash, in bytes. Only bytes made up to look like very many long frames,
// behind damage, exhaust it.
func (s *scanner) searchBudget() int64 { return max(4*s.size, searchLeast) }

const (
	windowBytes = 128 << 10
	// frameRecordsMax bounds the offsets that the bytes of one frame header can have stood for.
	frameRecordsMax = record.MaxFrame / 4
)

// scan walks from the start of the file, whose first frame should begin with offset base, and hands every
// frame it accepts to keep, in order. A frame is accepted when its offset continues the chain. Where the
// chain breaks, the search for the next intact frame goes by magic and checksum; what lies between is damage.
//
// end is the byte after the last accepted frame and next the offset after it; what follows end, if
// anything, holds no intact frame. An error is one of the file.
func (s *scanner) scan(base int64, keep func(scanned)) (end, next int64, lost []damage, err error) {
	var pending scanned // accepted by its header alone, not handed to keep yet
	held := false       // there is one
	flush := func() {
		if held {
			keep(pending)
			held = false
		}
	}
	next = base
	for {
		f, cause, err := s.frameAt(end, next)
		if err != nil {
			return 0, 0, nil, err
		}
		if cause == nil {
			flush()
			pending, held = f, true
			end, next = f.endAt(), f.Next()
			continue
		}
		if end == s.size && (s.limit == math.MaxInt64 || next == s.limit) {
			flush()
			return end, next, lost, nil
		}
		if s.limit == math.MaxInt64 {
			if err := s.misplaced(f, cause); err != nil {
				return 0, 0, nil, err
			}
		}
		at, from := end, next
		if held && !s.sums {
			// The header that led here was believed; it may be what is wrong.
			intact, err := s.intact(pending)
			if err != nil {
				return 0, 0, nil, err
			}
			if !intact {
				at, from, cause = pending.at, pending.Base, record.ErrChecksum
				held = false
			}
		}
		flush()
		f, found, err := s.search(at, from)
		if err != nil {
			return 0, 0, nil, err
		}
		if s.exhausted && s.limit == math.MaxInt64 { // cutting could lose frames
			return 0, 0, nil, &DamageError{File: s.name, At: at, Cause: errUndecided}
		}
		if !found && s.limit == math.MaxInt64 {
			if rotten, err := Rotten(s.file, at, from, s.size); err != nil {
				return 0, 0, nil, err
			} else if rotten > 0 {
				return s.size, from + rotten, append(lost, damage{at, from, from + rotten, cause}), nil
			}
		}
		if !found {
			if s.limit != math.MaxInt64 && from < s.limit {
				lost = append(lost, damage{at, from, s.limit, cause})
			}
			return at, from, lost, nil
		}
		if f.Base > from {
			lost = append(lost, damage{at, from, f.Base, cause})
		}
		keep(f)
		end, next = f.endAt(), f.Next()
	}
}

// Rotten returns how many offsets were lost with the last frame of the newest segment, 0 when it is torn: what a crash left
// of a write. A torn frame ends beyond the file, or has a sector that did not make it, which reads as zeros, since the file
// grew or was cut to there, durably, before (rules D1 and D5 of package vfs). One that is all there, with lengths that fit
// each other, and fails its checksum was whole once: other bytes of it have changed since. Where the damage is in the
// lengths nothing tells how many records there were, and the frame counts as torn.
//
// The frame would begin at byte at of a file of that size, with offset from.
func Rotten(file io.ReaderAt, at, from, size int64) (offsets int64, err error) {
	s := scanner{file: file, size: size, limit: math.MaxInt64}
	f, cause, err := s.header(at)
	if err != nil || cause != nil || f.Base != from || f.endAt() != size {
		return 0, err
	}
	b := make([]byte, f.Size())
	if n, err := file.ReadAt(b, at); n < len(b) {
		return 0, noEOF(err)
	}
	for sector := at - at%vfs.SectorSize; sector < size; sector += vfs.SectorSize {
		if isZero(b[max(sector, at)-at : min(sector+vfs.SectorSize, size)-at]) {
			return 0, nil
		}
	}
	if _, _, err := record.ParseDamagedFrame(b); err != nil {
		return 0, nil
	}
	return f.Next() - from, nil
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// misplaced refuses an intact frame of the newest segment that follows another one, or begins the file, and has an offset
// that does not belong there. No crash leaves it: it is another file's, or something before it is gone.
func (s *scanner) misplaced(f scanned, cause error) error {
	if !errors.Is(cause, record.ErrSequence) {
		return nil
	}
	intact, err := s.intact(f)
	if err == nil && intact {
		err = &DamageError{File: s.name, At: f.at, Cause: cause}
	}
	return err
}

// frameAt returns the frame at a position when it continues the chain with offset next, and otherwise why not.
func (s *scanner) frameAt(at, next int64) (f scanned, cause, err error) {
	f, cause, err = s.header(at)
	if cause != nil || err != nil {
		return f, cause, err
	}
	if f.Base != next {
		return f, fmt.Errorf("frame of offset %d where %d belongs: %w", f.Base, next, record.ErrSequence), nil
	}
	if s.sums {
		intact, err := s.intact(f)
		if err != nil || !intact {
			return f, record.ErrChecksum, err
		}
	}
	return f, nil, nil
}

// header decodes the header at a position and checks that its frame fits the file and the limit.
func (s *scanner) header(at int64) (f scanned, cause, err error) {
	b, err := s.read(at, record.FrameHeaderSize)
	if err != nil {
		return f, nil, err
	}
	h, cause := record.ParseFrameHeader(b)
	if cause != nil {
		return f, cause, nil
	}
	f = scanned{at, h}
	if f.endAt() > s.size {
		return f, fmt.Errorf("frame of %d bytes, %d left: %w", h.Size(), s.size-at, record.ErrShort), nil
	}
	if h.Next() > s.limit {
		return f, fmt.Errorf("frame up to offset %d, the next segment begins at %d: %w", h.Next(), s.limit, record.ErrSequence), nil
	}
	return f, nil, nil
}

// intact verifies a frame's checksum in pieces.
func (s *scanner) intact(f scanned) (bool, error) {
	b, err := s.read(f.at, record.FrameHeaderSize)
	if err != nil || len(b) < record.FrameHeaderSize {
		return false, err
	}
	crc := record.HeaderFrameCRC(b)
	for at := f.at + record.FrameHeaderSize; at < f.endAt(); {
		b, err := s.some(at, 1)
		if err != nil || len(b) == 0 {
			return false, err
		}
		b = b[:min(int64(len(b)), f.endAt()-at)]
		crc = record.UpdateFrameCRC(crc, b)
		at += int64(len(b))
	}
	return crc == f.CRC, nil
}

// search finds the first intact frame after the damage that begins at byte at, where offset from belonged.
//
// Where the header is gone every magic is a candidate. But a plain frame states its length twice, so a header
// that is in its place and agrees with itself is believed about where its frame ends, provided that the file
// agrees as well: an intact frame follows there, or nothing. What a producer put into the body of the torn
// last frame is then not mistaken for a frame.
func (s *scanner) search(at, from int64) (scanned, bool, error) {
	b, err := s.read(at, record.FrameHeaderSize)
	if err != nil {
		return scanned{}, false, err
	}
	if h, cause := record.ParseFrameHeader(b); cause == nil && h.Codec == record.CodecNone && h.Base == from {
		end := at + h.Size()
		if end == s.size || end > s.size && s.limit == math.MaxInt64 { // a sealed file has no torn tail
			return scanned{}, false, nil
		}
		if f, found, err := s.candidate(end, at, from); err != nil || found {
			return f, found, err
		}
	}
	for next := at + 1; next < s.size && !s.exhausted; next++ {
		b, err := s.some(next, len(record.FrameMagic))
		if err != nil {
			return scanned{}, false, err
		}
		i := bytes.Index(b, record.FrameMagic[:])
		if i < 0 {
			next += int64(max(len(b)-2, 0)) // the magic may begin in the last byte
			continue
		}
		next += int64(i)
		if f, found, err := s.candidate(next, at, from); err != nil || found {
			return f, found, err
		}
	}
	return scanned{}, false, nil
}

// candidate returns the frame at a position when it is intact and may follow the damage.
func (s *scanner) candidate(next, at, from int64) (scanned, bool, error) {
	f, cause, err := s.header(next)
	if cause != nil || err != nil {
		return f, false, err
	}
	if f.Base < from || f.Base-from > (next-at)/record.FrameHeaderSize*frameRecordsMax {
		return f, false, nil
	}
	if s.hashed += f.Size(); s.hashed > s.searchBudget() {
		s.exhausted = true
		return f, false, nil
	}
	intact, err := s.intact(f)
	return f, intact, err
}

// read returns n bytes at a position, at most the window's size; fewer at the end of the file. The slice is
// valid until the next call.
func (s *scanner) read(at int64, n int) ([]byte, error) {
	b, err := s.some(at, n)
	return b[:min(n, len(b))], err
}

// some returns the bytes of the window from a position on, at least n unless the file ends before.
func (s *scanner) some(at int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-at))
	if n <= 0 {
		return nil, nil
	}
	if at < s.start || at+int64(n) > s.start+int64(len(s.window)) {
		if err := s.fill(at); err != nil {
			return nil, err
		}
	}
	return s.window[at-s.start:], nil
}

func (s *scanner) fill(at int64) error {
	want := int(min(windowBytes, s.size-at))
	if cap(s.window) < want {
		s.window = make([]byte, want)
	}
	s.start, s.window = at, s.window[:want]
	n, err := s.file.ReadAt(s.window, at)
	if err != nil && !errors.Is(err, io.EOF) {
		s.window = s.window[:0]
		return err
	}
	s.window = s.window[:n]
	return nil
}
