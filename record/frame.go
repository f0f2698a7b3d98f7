package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Partition-log frame. Everything is big-endian and every constant is frozen.
//
//	offset  size  field
//	     0     2  magic 0xCA 0xFE
//	     2     1  flags: bits 0–2 codec (0 none, 1 zstd), bits 3–7 zero
//	     3     4  count, i32: records in the frame, at least 1
//	     7     8  base, i64: offset of the first record; the others follow densely
//	    15     4  uncompressed, i32: bytes of the body
//	    19     4  compressed, i32: bytes stored; equal to uncompressed when the codec is none
//	    23     4  CRC-32C (Castagnoli) over bytes [2:23] and the stored bytes
//	    27     —  stored bytes = codec(body)
//
// The body is count times: u32 length, record. The checksum leaves out the magic, so that a search for the
// magic can confirm a candidate without knowing what stands before it. A frame, header included, is at most
// [MaxFrame] long, for writers and readers alike.
const (
	// FrameHeaderSize is the number of bytes before the stored bytes.
	FrameHeaderSize = 27
	// MaxFrame bounds a frame, header included, and its body, in bytes.
	MaxFrame = 256 << 20
	// MaxFrameRecord bounds one record of a frame, in bytes.
	MaxFrameRecord = MaxFrame - FrameHeaderSize - lengthSize

	frameMagic0, frameMagic1 = 0xCA, 0xFE
	codecMask                = 0x07
	lengthSize               = 4
	// zstdRatioMax is how many bytes one stored byte can become: zstd's densest block spends 4 bytes on 128 KiB.
	zstdRatioMax = (128 << 10) / 4
)

const _ = uint(math.MaxInt32 - MaxFrame) // lengths fit their i32

// FrameMagic are the first two bytes of a frame.
var FrameMagic = [2]byte{frameMagic0, frameMagic1}

// Codec says how the body of a frame is stored.
type Codec uint8

// The codecs of the format.
const (
	CodecNone Codec = 0
	CodecZstd Codec = 1
)

// String returns the codec's name.
func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecZstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// FrameHeader is the head of a frame, already checked for what it can contradict by itself.
type FrameHeader struct {
	Codec        Codec
	Count        int32 // records
	Base         int64 // offset of the first
	Uncompressed int32 // bytes of the body
	Compressed   int32 // bytes stored
	CRC          uint32
}

// Size returns the length of the whole frame in bytes.
func (h FrameHeader) Size() int64 { return FrameHeaderSize + int64(h.Compressed) }

// Next returns the offset after the frame's last record.
func (h FrameHeader) Next() int64 { return h.Base + int64(h.Count) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// UpdateFrameCRC adds p to a frame's checksum. Start from [HeaderFrameCRC] and add the stored bytes in any
// number of pieces; the frame is intact when the result equals FrameHeader.CRC.
func UpdateFrameCRC(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// HeaderFrameCRC returns the checksum of the part of a frame header that it covers. b holds at least
// FrameHeaderSize bytes.
func HeaderFrameCRC(b []byte) uint32 { return UpdateFrameCRC(0, b[2:23]) }

// ParseFrameHeader decodes the header at the start of b. It does not look at the stored bytes, which need
// not be there, and so checks no checksum. Errors: ErrShort, ErrMagic, ErrCodec (also for unknown flags),
// ErrSequence (impossible offsets), ErrLength, ErrCount.
func ParseFrameHeader(b []byte) (FrameHeader, error) {
	if len(b) < FrameHeaderSize {
		return FrameHeader{}, fmt.Errorf("frame header of %d bytes, have %d: %w", FrameHeaderSize, len(b), ErrShort)
	}
	if b[0] != frameMagic0 || b[1] != frameMagic1 {
		return FrameHeader{}, fmt.Errorf("frame begins %#02x %#02x: %w", b[0], b[1], ErrMagic)
	}
	h := FrameHeader{
		Codec:        Codec(b[2] & codecMask),
		Count:        int32(binary.BigEndian.Uint32(b[3:])),
		Base:         int64(binary.BigEndian.Uint64(b[7:])),
		Uncompressed: int32(binary.BigEndian.Uint32(b[15:])),
		Compressed:   int32(binary.BigEndian.Uint32(b[19:])),
		CRC:          binary.BigEndian.Uint32(b[23:]),
	}
	if b[2]&^codecMask != 0 || h.Codec > CodecZstd {
		return FrameHeader{}, fmt.Errorf("frame flags %#02x: %w", b[2], ErrCodec)
	}
	return h, h.check()
}

func (h FrameHeader) check() error {
	switch {
	case h.Compressed < 1 || int64(h.Compressed) > MaxFrame-FrameHeaderSize || h.Uncompressed < lengthSize || h.Uncompressed > MaxFrame:
		return fmt.Errorf("frame of %d bytes stored as %d: %w", h.Uncompressed, h.Compressed, ErrLength)
	case h.Codec == CodecNone && h.Uncompressed != h.Compressed:
		return fmt.Errorf("plain frame of %d bytes stored as %d: %w", h.Uncompressed, h.Compressed, ErrLength)
	case int64(h.Uncompressed) > int64(h.Compressed)*zstdRatioMax:
		return fmt.Errorf("frame of %d bytes stored as %d: %w", h.Uncompressed, h.Compressed, ErrLength)
	case h.Count < 1 || h.Count > h.Uncompressed/lengthSize:
		return fmt.Errorf("frame of %d records in %d bytes: %w", h.Count, h.Uncompressed, ErrCount)
	case h.Base < 0 || h.Base > math.MaxInt64-int64(h.Count):
		return fmt.Errorf("frame at offset %d: %w", h.Base, ErrSequence)
	}
	return nil
}

// Frame is a verified frame and its body.
type Frame struct {
	FrameHeader
	// Body is the decoded body. When the codec is none it aliases what was parsed.
	Body []byte
}

// ParseFrame decodes the frame at the start of b, verifies its checksum and its body, and returns how many
// bytes it takes. n is that length also when the frame is there in full but damaged, and 0 otherwise.
// It allocates nothing for a plain frame and the body for a compressed one. Errors: those of
// [ParseFrameHeader], ErrShort, ErrChecksum, ErrCodec (the body does not decompress), ErrCount (the body
// does not hold Count records).
func ParseFrame(b []byte) (f Frame, n int, err error) { return parseFrame(b, true) }

// ParseDamagedFrame is ParseFrame without the test of the checksum. It is for judging damage: what it returns is not what
// was written.
func ParseDamagedFrame(b []byte) (f Frame, n int, err error) { return parseFrame(b, false) }

func parseFrame(b []byte, verify bool) (f Frame, n int, err error) {
	h, err := ParseFrameHeader(b)
	if err != nil {
		return Frame{}, 0, err
	}
	if int64(len(b)) < h.Size() {
		return Frame{}, 0, fmt.Errorf("frame of %d bytes, have %d: %w", h.Size(), len(b), ErrShort)
	}
	n = int(h.Size())
	stored := b[FrameHeaderSize:n:n]
	if crc := UpdateFrameCRC(HeaderFrameCRC(b), stored); verify && crc != h.CRC {
		return Frame{}, n, fmt.Errorf("frame sums to %08x, header says %08x: %w", crc, h.CRC, ErrChecksum)
	}
	f = Frame{FrameHeader: h, Body: stored}
	if h.Codec == CodecZstd {
		if f.Body, err = unzstd(stored, int(h.Uncompressed)); err != nil {
			return Frame{}, n, err
		}
	}
	if err := f.checkBody(); err != nil {
		return Frame{}, n, err
	}
	return f, n, nil
}

func (f Frame) checkBody() error {
	rest := f.Body
	for i := range f.Count {
		if len(rest) < lengthSize {
			return fmt.Errorf("body ends before record %d of %d: %w", i, f.Count, ErrCount)
		}
		size := binary.BigEndian.Uint32(rest)
		if uint64(size) > uint64(len(rest)-lengthSize) {
			return fmt.Errorf("record %d of %d bytes in %d: %w", i, size, len(rest)-lengthSize, ErrCount)
		}
		rest = rest[lengthSize+size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes after %d records: %w", len(rest), f.Count, ErrCount)
	}
	return nil
}

// Record returns the i-th record, counted from 0; it aliases the body. It walks the records before it:
// use [Frame.Records] to visit many. The error is ErrCount when the frame has no such record.
func (f Frame) Record(i int) ([]byte, error) {
	if i >= 0 && i < int(f.Count) {
		for j, r := range f.Records() {
			if j == i {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("record %d of %d: %w", i, f.Count, ErrCount)
}

// Records visits the records in order, with their index from 0; they alias the body.
func (f Frame) Records() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		rest := f.Body
		for i := 0; len(rest) >= lengthSize; i++ {
			end := lengthSize + int(binary.BigEndian.Uint32(rest))
			if !yield(i, rest[lengthSize:end:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// FrameWriter builds frames in place, without a second copy of the records and, for plain frames whose
// buffer is large enough, without allocating. Not safe for concurrent use.
//
//	w.Reset(buf[:0], base, codec)
//	w.AddRecord(key, ms, payload) // or w.Add(record); at least once
//	buf, err = w.Finish()
type FrameWriter struct {
	Level  Level // of a frame that is compressed
	buf    []byte
	start  int // of the frame in buf
	base   int64
	count  int32
	codec  Codec
	packed []byte // the compressed body, before it takes the body's place
}

// Reset begins a frame that will be appended to dst.
func (w *FrameWriter) Reset(dst []byte, base int64, codec Codec) {
	w.start, w.base, w.count, w.codec = len(dst), base, 0, codec
	var header [FrameHeaderSize]byte
	w.buf = append(dst, header[:]...)
}

// Count returns the number of records added since Reset.
func (w *FrameWriter) Count() int { return int(w.count) }

// Size returns the bytes that the frame has so far, uncompressed, header included.
func (w *FrameWriter) Size() int { return len(w.buf) - w.start }

// Add appends a record.
func (w *FrameWriter) Add(rec []byte) {
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(rec)))
	w.buf = append(w.buf, rec...)
	w.count++
}

// AddRecord appends the record that [AppendRecord] makes of its arguments.
func (w *FrameWriter) AddRecord(key []byte, committedMs int64, payload []byte) {
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(RecordSize(len(key), len(payload))))
	w.buf = AppendRecord(w.buf, key, committedMs, payload)
	w.count++
}

// Finish completes the frame and returns the grown slice. A body that does not become smaller is stored
// plain. Errors: ErrCount for a frame without records, ErrLength for one longer than MaxFrame, ErrSequence
// for impossible offsets; the slice is then dst as it was.
func (w *FrameWriter) Finish() ([]byte, error) {
	size := w.Size() - FrameHeaderSize
	if w.count == 0 {
		return w.buf[:w.start], fmt.Errorf("frame without records: %w", ErrCount)
	}
	if size > MaxFrame-FrameHeaderSize {
		return w.buf[:w.start], fmt.Errorf("frame of %d bytes: %w", size, ErrLength)
	}
	h := FrameHeader{Count: w.count, Base: w.base, Uncompressed: int32(size), Compressed: int32(size)}
	body := w.buf[w.start+FrameHeaderSize:]
	if w.codec == CodecZstd {
		w.packed = w.Level.encoder().EncodeAll(body, w.packed[:0])
		if len(w.packed) < len(body) {
			h.Codec, h.Compressed = CodecZstd, int32(len(w.packed))
			body = body[:copy(body, w.packed)]
		}
	}
	if err := h.check(); err != nil {
		return w.buf[:w.start], err
	}
	b := w.buf[w.start:]
	b[0], b[1], b[2] = frameMagic0, frameMagic1, byte(h.Codec)
	binary.BigEndian.PutUint32(b[3:], uint32(h.Count))
	binary.BigEndian.PutUint64(b[7:], uint64(h.Base))
	binary.BigEndian.PutUint32(b[15:], uint32(h.Uncompressed))
	binary.BigEndian.PutUint32(b[19:], uint32(h.Compressed))
	binary.BigEndian.PutUint32(b[23:], UpdateFrameCRC(HeaderFrameCRC(b), body))
	return w.buf[: w.start+FrameHeaderSize+len(body) : cap(w.buf)], nil
}

// AppendFrame appends a plain frame of records, the first at offset base, and returns the grown slice. It
// panics when there are none or they exceed MaxFrame: callers split before.
func AppendFrame(dst []byte, base int64, records ...[]byte) []byte {
	var w FrameWriter
	w.Reset(dst, base, CodecNone)
	for _, r := range records {
		w.Add(r)
	}
	dst, err := w.Finish()
	if err != nil {
		panic("record: AppendFrame: " + err.Error())
	}
	return dst
}

// zstdDecoder keeps no state between calls and may be shared.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(MaxFrame), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("record: zstd: " + err.Error())
	}
	return d
})

// unzstd decompresses exactly size bytes.
func unzstd(stored []byte, size int) ([]byte, error) {
	body, err := zstdDecoder().DecodeAll(stored, make([]byte, 0, size))
	if err != nil {
		return nil, fmt.Errorf("zstd body: %v: %w", err, ErrCodec)
	}
	if len(body) != size {
		return nil, fmt.Errorf("zstd body of %d bytes, header says %d: %w", len(body), size, ErrCodec)
	}
	return body, nil
}
