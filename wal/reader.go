package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"narad/record"
	"narad/vfs"
)

// readChunk is how many bytes a reader asks the file for at once.
const readChunk = 256 << 10

// Reader walks the durable records of a log in order. It is not safe for concurrent use; any number of
// readers may work beside each other and beside appends.
type Reader struct {
	log  *Log
	pos  uint64   // sequence number of the next record
	seg  *segment // that the scanner is in; nil: none
	file vfs.File // of seg
	scan scanner
}

// NewReader returns a reader whose first record is from.
func (l *Log) NewReader(from uint64) *Reader {
	return &Reader{log: l, pos: from, scan: scanner{chunk: readChunk}}
}

// Seek makes seq the next record to be read.
func (r *Reader) Seek(seq uint64) {
	if seq == r.pos {
		return
	}
	r.pos = seq
	r.leave()
}

// Next returns the next record. ok is false when the reader has reached the durable end; it may be asked again
// once the log has grown. The payload is valid until the next call. After an error the reader stays where it
// is: ErrCompacted when the record is no longer kept, a *[CorruptError] when its bytes are damaged,
// ErrClosed, or what the file system said.
func (r *Reader) Next() (seq uint64, payload []byte, ok bool, err error) {
	for {
		if r.pos >= r.log.Next() {
			return 0, nil, false, nil
		}
		if r.seg == nil {
			if err := r.enter(); err != nil {
				r.leave()
				return 0, nil, false, err
			}
		}
		_, payload, damage, err := r.scan.next(r.pos)
		if err == nil && damage == nil {
			r.pos++
			return r.pos - 1, payload, true, nil
		}
		if err == io.EOF && r.extend() {
			continue
		}
		err = r.failure(damage, err)
		r.leave()
		return 0, nil, false, err
	}
}

// Buffered returns the next record if it was read from the file along with an earlier one: it does no I/O, and leaves everything else,
// also what is damaged, to Next. The payload is valid until the next call of Next.
func (r *Reader) Buffered() (seq uint64, payload []byte, ok bool) {
	if r.seg == nil {
		return 0, nil, false
	}
	if payload, ok = r.scan.buffered(r.pos); !ok {
		return 0, nil, false
	}
	r.pos++
	return r.pos - 1, payload, true
}

// Close releases the reader's file.
func (r *Reader) Close() error {
	file := r.file
	r.seg, r.file = nil, nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// leave forgets the place in the file; the next read finds it anew.
func (r *Reader) leave() { r.Close() }

// enter opens the segment with the next record and goes to it.
func (r *Reader) enter() error {
	seg, start, size, err := r.log.locate(r.pos)
	if err != nil {
		return err
	}
	file, err := r.log.dir.Open(seg.name())
	if errors.Is(err, fs.ErrNotExist) {
		return ErrCompacted
	}
	if err != nil {
		return fmt.Errorf("read record %d: %w", r.pos, err)
	}
	r.seg, r.file = seg, file
	r.scan.reset(file, start.offset, size)
	for seq := start.seq; seq < r.pos; seq++ {
		if _, _, damage, err := r.scan.next(seq); err != nil || damage != nil {
			return r.failure(damage, err)
		}
	}
	return nil
}

// extend makes more of the log readable after the scanner came to its end: what the segment has gained, or
// the next one. It reports false when neither holds the next record.
func (r *Reader) extend() bool {
	r.log.mu.Lock()
	size, next := r.seg.size, r.seg.next
	r.log.mu.Unlock()
	if size > r.scan.end {
		r.scan.end = size
		return true
	}
	if r.pos < next {
		return false
	}
	r.leave()
	return true
}

// failure names the reason for which durable bytes could not be read as the next record.
func (r *Reader) failure(damage, err error) error {
	if damage == nil && (err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)) {
		damage = record.ErrShort
	}
	if r.log.isRemoved(r.seg) {
		return ErrCompacted // the file may be in use for something else
	}
	if damage != nil {
		return &CorruptError{File: r.seg.name(), Offset: r.scan.offset(), Cause: damage}
	}
	return fmt.Errorf("read record %d: %w", r.pos, err)
}

// locate returns the segment with record seq, a start of a frame at or before it, and how many bytes of the
// segment are durable.
func (l *Log) locate(seq uint64) (seg *segment, start mark, size int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, mark{}, 0, ErrClosed
	}
	i := sort.Search(len(l.segments), func(i int) bool { return l.segments[i].first > seq })
	if i == 0 {
		return nil, mark{}, 0, ErrCompacted
	}
	seg = l.segments[i-1]
	return seg, seg.nearest(seq), seg.size, nil
}

// isRemoved reports whether compaction has removed the segment.
func (l *Log) isRemoved(seg *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return seg.first < l.segments[0].first
}
