package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"narad/record"
	"narad/vfs"
)

// The index of a sealed segment is kept beside it, so that its first read does not walk 64 MiB of frames. Big-endian:
//
//	offset  size  field
//	     0     8  magic "NARADIDX"
//	     8     2  version, 1
//	    10     2  zero
//	    12     4  count of entries, at least 1
//	    16     8  base: offset of the first record of the segment
//	    24     8  end: offset after the last one
//	    32     8  bytes of the segment
//	    40     8  last: byte at which its last frame begins
//	    48     4  checksum of the last frame, as in its header
//	    52     4  CRC-32C (Castagnoli) over bytes [0:52) and [56:end)
//	    56     —  count × (i64 offset, i64 byte at which the frame of that offset begins), ascending, from (base, 0) on
//
// It is a hint and never synced. It counts only when its name, its checksum, the size of the segment and the header of the
// last frame all agree with it; a read that it leads to damage rebuilds it from the segment before it calls anything
// corrupt. A segment with damage has none.
//
// It is made when its segment has changed for the last time. So one that is whole, and of these offsets, but of other bytes than
// a segment without damage, was made for another file: one of the two was exchanged as a whole. Then reads of the segment are
// refused with a DamageError, for its frames, which do not say whose they are, would be served as this log's.
const (
	indexSuffix     = ".idx"
	indexMagic      = "NARADIDX"
	indexVersion    = 1
	indexHeaderSize = 56
	indexEntrySize  = 16
	// indexBytesMax bounds an index file: entries for a segment of 16 GiB.
	indexBytesMax = indexHeaderSize + indexEntrySize*(16<<30/indexStride)
)

// Index is what an index file holds.
type Index struct {
	Base, End int64  // offsets of the segment, the end exclusive
	Bytes     int64  // of the segment
	LastAt    int64  // where its last frame begins
	LastCRC   uint32 // that frame's checksum
	Entries   []IndexEntry
}

// IndexEntry says at which byte of a segment the frame with an offset begins.
type IndexEntry struct {
	Offset int64
	At     int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendIndex appends the file of an index to dst.
func AppendIndex(dst []byte, x Index) []byte {
	from := len(dst)
	dst = append(dst, indexMagic...)
	dst = binary.BigEndian.AppendUint16(dst, indexVersion)
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(x.Entries)))
	for _, v := range []int64{x.Base, x.End, x.Bytes, x.LastAt} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	dst = binary.BigEndian.AppendUint32(dst, x.LastCRC)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	for _, e := range x.Entries {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.Offset))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.At))
	}
	binary.BigEndian.PutUint32(dst[from+52:], indexCRC(dst[from:]))
	return dst
}

func indexCRC(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:52], castagnoli), castagnoli, b[indexHeaderSize:])
}

// ParseIndex decodes an index file and checks that it agrees with itself. Errors are those of package record.
func ParseIndex(b []byte) (x Index, err error) {
	switch {
	case len(b) < indexHeaderSize:
		return x, fmt.Errorf("index of %d bytes: %w", len(b), record.ErrShort)
	case string(b[:8]) != indexMagic:
		return x, fmt.Errorf("index: %w", record.ErrMagic)
	case binary.BigEndian.Uint16(b[8:]) != indexVersion:
		return x, fmt.Errorf("index of version %d: %w", binary.BigEndian.Uint16(b[8:]), record.ErrFormat)
	}
	count := binary.BigEndian.Uint32(b[12:])
	if int64(len(b)) != indexHeaderSize+indexEntrySize*int64(count) || count == 0 {
		return x, fmt.Errorf("index of %d bytes with %d entries: %w", len(b), count, record.ErrLength)
	}
	if binary.BigEndian.Uint32(b[52:]) != indexCRC(b) {
		return x, fmt.Errorf("index: %w", record.ErrChecksum)
	}
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	x = Index{Base: i64(16), End: i64(24), Bytes: i64(32), LastAt: i64(40), LastCRC: binary.BigEndian.Uint32(b[48:])}
	x.Entries = make([]IndexEntry, count)
	for i := range x.Entries {
		at := indexHeaderSize + i*indexEntrySize
		x.Entries[i] = IndexEntry{i64(at), i64(at + 8)}
	}
	return x, x.check()
}

// check looks for contradictions that no checksum excludes.
func (x *Index) check() error {
	last := x.Entries[len(x.Entries)-1]
	if x.Base < 0 || x.Entries[0] != (IndexEntry{x.Base, 0}) || last.Offset >= x.End || last.At > x.LastAt ||
		x.LastAt > x.Bytes-record.FrameHeaderSize {
		return fmt.Errorf("index of [%d, %d): %w", x.Base, x.End, record.ErrSequence)
	}
	for i, e := range x.Entries[1:] {
		if before := x.Entries[i]; e.Offset <= before.Offset || e.At <= before.At {
			return fmt.Errorf("index entry %d: %w", i+1, record.ErrSequence)
		}
	}
	return nil
}

func indexName(base int64) string { return fmt.Sprintf("%0*d%s", nameDigits, base, indexSuffix) }

// loadIndex returns the index file of a sealed segment whose log file is open, nil when there is none that counts. Other is one
// that is whole and of these offsets, but does not agree with the file.
func (l *Log) loadIndex(s *segment, file vfs.File) (x, other *Index) {
	x, err := readIndex(l.dir, s.base)
	if err != nil || x.End != s.end {
		return nil, nil
	}
	if x.Bytes != s.size || !x.matches(file) {
		return nil, x
	}
	return x, nil
}

// exchanged returns a DamageError when an index was made for other frames than those of a segment, in which a walk has found every
// offset; nil when the last frame is damaged. Where offsets are missing as well nothing tells a file that was cut from another one.
func (x *Index) exchanged(s *segment, scan *scanner, last *scanned) error {
	if last == nil || x.Bytes == last.endAt() && x.LastAt == last.at && x.LastCRC == last.CRC {
		return nil
	}
	if intact, err := scan.intact(*last); err != nil || !intact {
		return err
	}
	return &DamageError{File: s.name(), At: last.at, Cause: fmt.Errorf("%w: its frames take %d bytes, the last one with checksum %08x, and %s was made for %d bytes and %08x; restore it, or remove %s to go on with what is there",
		ErrOtherSegment, last.endAt(), last.CRC, indexName(s.base), x.Bytes, x.LastCRC, indexName(s.base))}
}

func readIndex(dir vfs.Dir, base int64) (*Index, error) {
	b, err := vfs.ReadFile(dir, indexName(base), indexBytesMax)
	if err != nil {
		return nil, err
	}
	x, err := ParseIndex(b)
	if err == nil && x.Base != base {
		err = fmt.Errorf("index of base %d: %w", x.Base, record.ErrSequence)
	}
	return &x, err
}

// matches reports whether the last frame of the segment is the one that the index was made for.
func (x *Index) matches(file vfs.File) bool {
	h, err := headerAt(file, x.LastAt)
	return err == nil && h.Next() == x.End && x.LastAt+h.Size() == x.Bytes && h.CRC == x.LastCRC
}

func headerAt(file vfs.File, at int64) (h record.FrameHeader, err error) {
	b := make([]byte, record.FrameHeaderSize)
	if n, err := file.ReadAt(b, at); n < len(b) {
		return h, noEOF(err)
	}
	return record.ParseFrameHeader(b)
}

// saveIndex keeps the index of a sealed segment without damage. Whatever goes wrong, the segment is walked instead.
func (l *Log) saveIndex(s *segment, file vfs.File, entries []IndexEntry, lastAt int64) {
	h, err := headerAt(file, lastAt)
	if err != nil || len(entries) == 0 || h.Next() != s.end || lastAt+h.Size() != s.size {
		return
	}
	x := Index{Base: s.base, End: s.end, Bytes: s.size, LastAt: lastAt, LastCRC: h.CRC, Entries: entries}
	if x.check() != nil {
		return
	}
	name := indexName(s.base)
	if err := l.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := l.dir.Create(name)
	if err != nil {
		return
	}
	defer f.Close()
	f.WriteAt(AppendIndex(nil, x), 0) // torn, it fails its checksum
}
