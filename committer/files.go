package committer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"narad/vfs"
)

// Names of the state files in a partition's directory.
const (
	AheadFile  = "consumer.ahead"
	OffsetFile = "consumer.offset"
)

const offsetSize = 8

// CorruptError reports a place in a state file that holds nothing usable. Readers go on without it.
type CorruptError struct {
	File   string // name below the partition's directory
	Offset int64  // of the slot in the file
	Cause  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at %d: %v", e.File, e.Offset, e.Cause)
}

func (e *CorruptError) Unwrap() error { return e.Cause }

// SlotReport is what one slot of consumer.ahead holds.
type SlotReport struct {
	Identity uint64
	Sequence uint64
	State    State
	// Err says why the slot is not usable: a [CorruptError]. The fields above are zero then, except that a
	// slot of a foreign identity still shows what it holds.
	Err error
	// Lost says why a usable slot does not win, empty when it does.
	Lost string

	raw []byte // the record's bytes, padded to whole sectors
}

// Slots is what consumer.ahead holds.
type Slots struct {
	Exists bool
	Size   int64
	Slot   [slotCount]SlotReport
	// Newest is the slot that recovery takes, -1 when none is usable.
	Newest int
}

// unwritten reports whether nothing was ever written to a slot.
func (s *Slots) unwritten() bool {
	for i := range s.Slot {
		if !errors.Is(s.Slot[i].Err, ErrBlank) {
			return false
		}
	}
	return true
}

// ReadSlots reads consumer.ahead in dir without changing anything and says which slot wins and why the other
// one lost. With a zero identity slots of any identity are usable. A missing file is no error.
func ReadSlots(dir vfs.Dir, identity uint64) (Slots, error) {
	f, err := dir.Open(AheadFile)
	if errors.Is(err, fs.ErrNotExist) {
		return chooseSlots(nil, identity), nil
	}
	if err != nil {
		return Slots{}, fmt.Errorf("committer: open %s: %w", AheadFile, err)
	}
	defer f.Close()
	return readSlots(f, identity)
}

func readSlots(f vfs.File, identity uint64) (Slots, error) {
	size, err := f.Size()
	if err != nil {
		return Slots{}, fmt.Errorf("committer: size of %s: %w", AheadFile, err)
	}
	data := make([]byte, min(size, aheadSize))
	n, err := f.ReadAt(data, 0)
	if err != nil && (err != io.EOF || n < len(data)) {
		return Slots{}, fmt.Errorf("committer: read %s: %w", AheadFile, err)
	}
	s := chooseSlots(data, identity)
	s.Exists, s.Size = true, size
	return s, nil
}

// chooseSlots decodes the bytes of consumer.ahead, which may be cut short, and chooses the newest slot.
func chooseSlots(data []byte, identity uint64) Slots {
	s := Slots{Newest: noSlot}
	for i := range s.Slot {
		lo := min(len(data), i*slotSize)
		s.Slot[i] = reportSlot(data[lo:min(len(data), lo+slotSize)], i, identity)
		if s.Slot[i].Err != nil {
			continue
		}
		if s.Newest == noSlot {
			s.Newest = i
			continue
		}
		winner, loser := s.Newest, i
		if newer(s.Slot[i], s.Slot[s.Newest]) {
			winner, loser = i, s.Newest
		}
		s.Newest = winner
		s.Slot[loser].Lost = lostTo(s.Slot[loser], s.Slot[winner])
	}
	return s
}

func reportSlot(slot []byte, index int, identity uint64) SlotReport {
	r, err := decodeSlot(slot)
	report := SlotReport{Identity: r.identity, Sequence: r.seq, State: r.state}
	if err == nil && identity != 0 && r.identity != identity {
		err = fmt.Errorf("%w: %016x", ErrForeign, r.identity)
	}
	if err != nil {
		report.Err = &CorruptError{File: AheadFile, Offset: int64(index) * slotSize, Cause: err}
		return report
	}
	length := headerSize + int(binary.LittleEndian.Uint32(slot[36:]))
	report.raw = make([]byte, (length+vfs.SectorSize-1)/vfs.SectorSize*vfs.SectorSize)
	copy(report.raw, slot[:length])
	return report
}

// newer reports whether a wins over b: by sequence, and by frontier between equal sequences.
func newer(a, b SlotReport) bool {
	if a.Sequence != b.Sequence {
		return a.Sequence > b.Sequence
	}
	return a.State.Committed > b.State.Committed
}

func lostTo(loser, winner SlotReport) string {
	if loser.Sequence == winner.Sequence {
		return fmt.Sprintf("same sequence %d, lower or equal frontier", loser.Sequence)
	}
	return fmt.Sprintf("sequence %d is below %d", loser.Sequence, winner.Sequence)
}

// Why consumer.offset holds no frontier.
var (
	// ErrSize reports a consumer.offset that is not 8 bytes long.
	ErrSize = errors.New("consumer.offset has a wrong size")
	// ErrFrontier reports a consumer.offset that holds a number below -1.
	ErrFrontier = errors.New("consumer.offset holds no frontier")
)

func decodeOffset(b []byte) (int64, error) {
	if len(b) != offsetSize {
		return -1, fmt.Errorf("%w: %d bytes", ErrSize, len(b))
	}
	v := int64(binary.BigEndian.Uint64(b))
	if v < -1 {
		return -1, fmt.Errorf("%w: %d", ErrFrontier, v)
	}
	return v, nil
}

func encodeOffset(frontier int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(frontier))
}

// readOffset reads consumer.offset in dir. A missing file is -1; contents that count as absent are -1 and a
// reason.
func readOffset(dir vfs.Dir) (frontier int64, absent error, err error) {
	f, err := dir.Open(OffsetFile)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil, nil
	}
	if err != nil {
		return -1, nil, fmt.Errorf("committer: open %s: %w", OffsetFile, err)
	}
	defer f.Close()
	data := make([]byte, offsetSize+1) // one more, to see a file that is too long
	n, err := f.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return -1, nil, fmt.Errorf("committer: read %s: %w", OffsetFile, err)
	}
	frontier, absent = decodeOffset(data[:n])
	if n == 0 {
		return -1, nil, nil // an empty file is none
	}
	if absent != nil {
		absent = &CorruptError{File: OffsetFile, Cause: absent}
	}
	return frontier, absent, nil
}
