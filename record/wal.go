package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Frame of the ingress write-ahead log, big-endian:
//
//	offset  size  field
//	     0     4  magic     0x4e57414c, "NWAL"
//	     4     4  length    of the payload, 1 … MaxWALRecord
//	     8     8  sequence  dense, so a reader knows which one must come next
//	    16     4  checksum  CRC-32 (IEEE) of the payload only
//	    20     …  payload
//
// The header has no checksum of its own: magic, length and sequence are checked against what must be there,
// and a length that is wrong by accident makes the checksum cover the wrong bytes.
const (
	WALMagic      = 0x4e57414c
	WALHeaderSize = 20
	// MaxWALRecord is the size in bytes of the largest payload that a frame carries.
	MaxWALRecord = 16 << 20
)

// The errors of ParseWALFrame, made once because a reader meets ErrShort at the end of every buffer.
var (
	errWALShort    = fmt.Errorf("wal frame: %w", ErrShort)
	errWALMagic    = fmt.Errorf("wal frame: %w", ErrMagic)
	errWALLength   = fmt.Errorf("wal frame: %w", ErrLength)
	errWALSequence = fmt.Errorf("wal frame: %w", ErrSequence)
	errWALChecksum = fmt.Errorf("wal frame: %w", ErrChecksum)
)

// WALHeader is the header of a WAL frame as it was read: nothing in it has been verified but the magic and
// the bounds of the length.
type WALHeader struct {
	Length   int // of the payload, in bytes
	Sequence uint64
	Checksum uint32
}

// Size returns the size in bytes of the frame that the header describes.
func (h WALHeader) Size() int { return WALHeaderSize + h.Length }

// AppendWALFrame appends the frame of payload with sequence number seq to dst. It panics when payload is
// empty or longer than MaxWALRecord: such a frame could not be read back.
func AppendWALFrame(dst []byte, seq uint64, payload []byte) []byte {
	return AppendSummedWALFrame(dst, seq, payload, WALChecksum(payload))
}

// AppendSummedWALFrame is AppendWALFrame for a payload whose checksum is known.
func AppendSummedWALFrame(dst []byte, seq uint64, payload []byte, checksum uint32) []byte {
	if len(payload) == 0 || len(payload) > MaxWALRecord {
		panic(fmt.Sprintf("record: a WAL frame cannot carry %d bytes", len(payload)))
	}
	dst = binary.BigEndian.AppendUint32(dst, WALMagic)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.BigEndian.AppendUint64(dst, seq)
	dst = binary.BigEndian.AppendUint32(dst, checksum)
	return append(dst, payload...)
}

// WALChecksum returns the checksum of a payload in a WAL frame.
func WALChecksum(payload []byte) uint32 { return crc32.ChecksumIEEE(payload) }

// ParseWALHeader parses the header at the start of b. It returns ErrShort, ErrMagic or ErrLength.
func ParseWALHeader(b []byte) (h WALHeader, err error) {
	if len(b) < WALHeaderSize {
		return h, errWALShort
	}
	if binary.BigEndian.Uint32(b) != WALMagic {
		return h, errWALMagic
	}
	length := binary.BigEndian.Uint32(b[4:])
	if length == 0 || length > MaxWALRecord {
		return h, errWALLength
	}
	return WALHeader{
		Length:   int(length),
		Sequence: binary.BigEndian.Uint64(b[8:]),
		Checksum: binary.BigEndian.Uint32(b[16:]),
	}, nil
}

// ParseWALFrame parses the frame at the start of b, which must have sequence number wantSeq. It returns the
// payload, which aliases b, and the size of the frame. The header is judged before the payload is looked
// for, so the errors in the order of their tests are: ErrShort when b ends inside the header, ErrMagic,
// ErrLength, ErrSequence, ErrShort when b ends inside the payload, ErrChecksum.
func ParseWALFrame(b []byte, wantSeq uint64) (payload []byte, n int, err error) {
	h, err := ParseWALHeader(b)
	if err != nil {
		return nil, 0, err
	}
	if h.Sequence != wantSeq {
		return nil, 0, errWALSequence
	}
	if len(b) < h.Size() {
		return nil, 0, errWALShort
	}
	payload = b[WALHeaderSize:h.Size():h.Size()]
	if WALChecksum(payload) != h.Checksum {
		return nil, 0, errWALChecksum
	}
	return payload, h.Size(), nil
}
