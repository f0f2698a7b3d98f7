package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"narad/record"
	"narad/vfs"
)

// searchBudget bounds, in bytes to checksum, the search for frames behind a damaged one. Bytes made up to
// look like very many long frames exhaust it; then the question stays open and the log is not opened.
const searchBudget = 256 << 20

// minFrame is the size of the smallest frame.
const minFrame = record.WALHeaderSize + 1

// judgeTail decides about the end of the last segment. rest is what follows the last good frame, from offset
// on, and does not begin with a whole frame with number seq. The answer is nil when rest is what an
// unfinished write leaves, so that nothing in it was acknowledged and it must be cut, and otherwise why
// it may not be cut. whole tells that rest holds a whole frame all the same.
//
// What a write of up to maxUnsynced bytes can leave: a prefix (the process died, the disk was full), or,
// after a power failure, any of its sectors, with or without the file's new size (rules D1 and D5 of package
// vfs). A sector that did not make it reads as zeros from the end of the older data on, since the file
// was growing, or had zeros on the disk from there on when it became a segment. So the first bad frame either
// reaches beyond the end of the file, overlaps such a hole, or is the last; whole frames may follow a hole, and the
// write was not acknowledged. written is how far it may have come, all of rest unless the file was prepared.
//
// Everything else is damage to bytes that had been synced. If later frames follow, cutting would lose
// them: refused. If none follows, the frame is the last one and cannot be told from a torn one: cut. Only a
// whole frame with a number that does not belong here is refused all the same.
//
// Payloads are chosen by clients and may contain whole frames, on purpose or not. Therefore
//   - a frame that is announced by a good header and ends beyond the file is torn, whatever is inside it,
//     unless its length can be proved wrong: the bytes up to some later frame match its checksum;
//   - behind a complete frame whose checksum fails, the search begins at its end;
//   - a frame found d bytes behind the damaged one has a number above it by 1 … d/21, as many frames as fit.
//
// A client can still make up a record that, torn by a power failure at the right place, looks like a proof,
// because CRC-32 is no signature. The log then refuses to open; nothing is lost by it.
func judgeTail(rest []byte, offset int64, seq uint64, written int64) (whole bool, refuse error) {
	search := &frameSearch{rest: rest, seq: seq, budget: searchBudget}
	header, err := record.ParseWALHeader(rest)
	announced := err == nil && header.Sequence == seq
	if announced && search.lengthDisproved(header) {
		return true, errLaterFrame
	}
	if announced && header.Size() > len(rest) {
		return false, search.exhausted()
	}
	from, extent := 1, record.WALHeaderSize
	if announced {
		from, extent = header.Size(), header.Size()
	}
	found := search.find(from)
	if written <= maxUnsynced && hasHole(rest, offset, extent) {
		return found, nil
	}
	if found {
		return true, errLaterFrame
	}
	if err == nil && !announced && isWhole(rest, header) {
		return true, errNumber
	}
	return false, search.exhausted()
}

// hasHole reports whether one of the sectors that hold the first extent bytes of rest is nothing but zeros, as
// far as it belongs to rest.
func hasHole(rest []byte, offset int64, extent int) bool {
	end := offset + int64(len(rest))
	for sector := offset - offset%vfs.SectorSize; sector < min(offset+int64(extent), end); sector += vfs.SectorSize {
		if isZero(rest[max(sector, offset)-offset : min(sector+vfs.SectorSize, end)-offset]) {
			return true
		}
	}
	return false
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// isWhole reports whether the frame with that header at the start of b is all there and matches its checksum.
func isWhole(b []byte, h record.WALHeader) bool {
	_, _, err := record.ParseWALFrame(b, h.Sequence)
	return err == nil
}

// frameSearch looks for whole frames in what follows a damaged one.
type frameSearch struct {
	rest   []byte // begins with the damaged frame
	seq    uint64 // number of the damaged frame
	budget int    // bytes that may still be checksummed
}

func (s *frameSearch) exhausted() error {
	if s.budget < 0 {
		return errUndecided
	}
	return nil
}

// magic returns the place of the first magic at or after from, or -1.
func (s *frameSearch) magic(from int) int {
	if from >= len(s.rest) {
		return -1
	}
	i := bytes.Index(s.rest[from:], magicBytes)
	if i < 0 {
		return -1
	}
	return from + i
}

var magicBytes = binary.BigEndian.AppendUint32(nil, record.WALMagic)

// find reports whether a frame that can belong to the log starts at or after from.
func (s *frameSearch) find(from int) bool {
	for at := s.magic(from); at >= 0 && s.budget >= 0; at = s.magic(at + 1) {
		if s.isFrame(at, s.seq+uint64(at/minFrame)) {
			return true
		}
	}
	return false
}

// isFrame reports whether there is a whole frame at that place with a number above the damaged one's and no
// higher than highest.
func (s *frameSearch) isFrame(at int, highest uint64) bool {
	h, err := record.ParseWALHeader(s.rest[at:])
	if err != nil || h.Sequence <= s.seq || h.Sequence > highest || at+h.Size() > len(s.rest) {
		return false
	}
	if s.budget -= h.Length; s.budget < 0 {
		return false
	}
	_, _, err = record.ParseWALFrame(s.rest[at:], h.Sequence)
	return err == nil
}

// lengthDisproved reports whether the damaged frame, whose header is otherwise good, is followed by the next one
// at a place that its length does not tell but its checksum confirms.
func (s *frameSearch) lengthDisproved(h record.WALHeader) bool {
	sum, summed := uint32(0), record.WALHeaderSize
	for at := s.magic(minFrame); at >= 0 && at <= maxUnsynced && s.budget >= 0; at = s.magic(at + 1) {
		sum = crc32.Update(sum, crc32.IEEETable, s.rest[summed:at])
		summed = at
		if sum == h.Checksum && s.isFrame(at, s.seq+1) {
			return true
		}
	}
	return false
}
