package metastore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// Frozen constants of the two formats.
const (
	headerSize      = 64
	cellsAt         = 48 // of the two cells in the header of a journal
	cellSize        = 8
	entryHeaderSize = 16
	formatVersion   = 2 // written; 1, which has neither users nor schemas, is read
	snapshotMagic   = "NARADMSS"
	journalMagic    = "NARADMSJ"
	entryPayloadMax = changeBytesMax
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity tells the files of one store from those of another.
type identity [16]byte

type header struct {
	version  uint16 // of a header that was read
	store    identity
	sequence uint64
	topics   uint32
	payload  uint32
}

// appendHeader appends a header whose checksum also covers payload, and the payload.
func appendHeader(dst []byte, magic string, h header, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint16(dst, formatVersion)
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	dst = append(dst, h.store[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, h.sequence)
	dst = binary.LittleEndian.AppendUint32(dst, h.topics)
	dst = binary.LittleEndian.AppendUint32(dst, h.payload)
	dst = append(dst, make([]byte, headerSize-cellsAt)...)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start+12:], headerSum(dst[start:]))
	return dst
}

func headerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:])
}

// parseHeader reads a header whose checksum covers all of b.
func parseHeader(file, magic string, b []byte) (header, error) {
	corrupt := func(offset int64, format string, a ...any) (header, error) {
		return header{}, &CorruptError{file, offset, fmt.Sprintf(format, a...)}
	}
	if len(b) < headerSize {
		return corrupt(0, "%d bytes are too few for a header", len(b))
	}
	if string(b[:8]) != magic {
		return corrupt(0, "magic %q where %q belongs", b[:8], magic)
	}
	version := binary.LittleEndian.Uint16(b[8:])
	if version < 1 || version > formatVersion {
		return corrupt(8, "version %d, this program knows 1 to %d", version, formatVersion)
	}
	if got, want := headerSum(b), binary.LittleEndian.Uint32(b[12:]); got != want {
		return corrupt(12, "checksum %08x where %08x belongs", got, want)
	}
	h := header{
		version:  version,
		store:    identity(b[16:32]),
		sequence: binary.LittleEndian.Uint64(b[32:]),
		topics:   binary.LittleEndian.Uint32(b[40:]),
		payload:  binary.LittleEndian.Uint32(b[44:]),
	}
	return h, nil
}

// parseJournalHeader reads the header of a journal, and the last change that is confirmed in it.
func parseJournalHeader(journal []byte) (h header, confirmed uint64, err error) {
	var fixed [headerSize]byte
	n := copy(fixed[:], journal)
	cells := [headerSize - cellsAt]byte(fixed[cellsAt:])
	clear(fixed[cellsAt:]) // the checksum does not cover them
	if h, err = parseHeader(journalName, journalMagic, fixed[:n]); err != nil {
		return header{}, 0, err
	}
	confirmed = h.sequence
	for i := range uint64(2) {
		if last := h.sequence + uint64(binary.LittleEndian.Uint32(cells[i*cellSize:])); [cellSize]byte(cells[i*cellSize:]) == h.cell(last) && last%2 == i {
			confirmed = max(confirmed, last)
		}
	}
	return h, confirmed, nil
}

// cell returns what says in a journal's header that every change up to last is durable in it. It goes to cell last%2.
func (h header) cell(last uint64) (c [cellSize]byte) {
	binary.LittleEndian.PutUint32(c[:], uint32(last-h.sequence))
	sum := crc32.Update(crc32.Checksum(h.store[:], castagnoli), castagnoli, binary.LittleEndian.AppendUint64(nil, last))
	binary.LittleEndian.PutUint32(c[4:], sum)
	return c
}

// missing is why a journal may not end at byte at, after the change last; nil when it may.
func missing(at int64, last, confirmed uint64) error {
	if last >= confirmed {
		return nil
	}
	return &CorruptError{journalName, at, fmt.Sprintf("no entry here, and changes up to %d were confirmed", confirmed)}
}

// snapshotPayload is the payload of a snapshot of version 2.
type snapshotPayload struct {
	Topics []*entry      `json:"topics"`
	Users  []*userRecord `json:"users"`
}

// encodeSnapshot returns the bytes of a snapshot file.
func encodeSnapshot(store identity, s *State) ([]byte, error) {
	payload, err := encodeJSON(snapshotPayload{s.entries, s.users})
	if err != nil {
		return nil, err
	}
	if len(payload) > snapshotSizeMax-headerSize {
		return nil, fmt.Errorf("the snapshot of %d topics takes more than %d bytes", len(s.entries), snapshotSizeMax)
	}
	h := header{store: store, sequence: s.sequence, topics: uint32(len(s.entries)), payload: uint32(len(payload))}
	return appendHeader(nil, snapshotMagic, h, payload), nil
}

// parseSnapshot reads a snapshot file.
func parseSnapshot(b []byte) (identity, *State, error) {
	corrupt := func(offset int64, why string) (identity, *State, error) {
		return identity{}, nil, &CorruptError{snapshotName, offset, why}
	}
	h, err := parseHeader(snapshotName, snapshotMagic, b)
	if err != nil {
		return identity{}, nil, err
	}
	if int64(h.payload) != int64(len(b))-headerSize {
		return corrupt(44, fmt.Sprintf("payload of %d bytes, header says %d", len(b)-headerSize, h.payload))
	}
	var p snapshotPayload
	if h.version == 1 { // topics alone
		var topics []*Topic
		err = decodeStrict(b[headerSize:], &topics)
		for _, t := range topics {
			if t == nil {
				t = &Topic{}
			}
			p.Topics = append(p.Topics, &entry{Topic: *t})
		}
	} else {
		err = decodeStrict(b[headerSize:], &p)
	}
	if err != nil {
		return corrupt(headerSize, err.Error())
	}
	if len(p.Topics) != int(h.topics) {
		return corrupt(40, fmt.Sprintf("%d topics, header says %d", len(p.Topics), h.topics))
	}
	s, err := newState(h.sequence, p.Topics, p.Users)
	if err != nil {
		return corrupt(headerSize, err.Error())
	}
	return h.store, s, nil
}

// decodeStrict reads one JSON value and nothing else. A field that this program does not know is an error: the next rewrite
// would lose it.
func decodeStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(b)) {
		return fmt.Errorf("%d bytes after the value", int64(len(b))-d.InputOffset())
	}
	return nil
}

// appendEntry appends the journal entry of an encoded change.
func appendEntry(dst []byte, store identity, sequence uint64, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, sequence)
	dst = append(dst, payload...)
	binary.LittleEndian.PutUint32(dst[start+4:], entrySum(store, dst[start:]))
	return dst
}

func entrySum(store identity, entry []byte) uint32 {
	sum := crc32.Checksum(store[:], castagnoli)
	sum = crc32.Update(sum, castagnoli, entry[:4])
	return crc32.Update(sum, castagnoli, entry[8:])
}

// parseEntry returns the sequence and payload of the entry that b starts with, and its size; ok is false when there is no
// whole entry of this store.
func parseEntry(store identity, b []byte) (sequence uint64, payload []byte, size int, ok bool) {
	if len(b) < entryHeaderSize {
		return 0, nil, 0, false
	}
	length := binary.LittleEndian.Uint32(b)
	if length == 0 || length > entryPayloadMax || int(length) > len(b)-entryHeaderSize {
		return 0, nil, 0, false
	}
	size = entryHeaderSize + int(length)
	if entrySum(store, b[:size]) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, nil, 0, false
	}
	return binary.LittleEndian.Uint64(b[8:]), b[entryHeaderSize:size], size, true
}

// laterEntry finds a whole entry of this store with a sequence from the given one on, anywhere in b.
func laterEntry(store identity, b []byte, from uint64) (int, bool) {
	for i := 0; i+entryHeaderSize < len(b); i++ {
		sequence := binary.LittleEndian.Uint64(b[i+8:])
		if sequence < from || sequence-from > uint64(len(b)) {
			continue // cheap refusal before the checksum
		}
		if _, _, _, ok := parseEntry(store, b[i:]); ok {
			return i, true
		}
	}
	return 0, false
}
