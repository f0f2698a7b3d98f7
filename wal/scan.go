package wal

import (
	"errors"
	"io"

	"narad/record"
	"narad/vfs"
)

// minBuffer is the least memory that a scanner takes.
const minBuffer = 4 << 10

// scanner walks the frames of a file through a buffer.
type scanner struct {
	file  vfs.File
	chunk int    // bytes to read at once
	end   int64  // offset at which to stop
	base  int64  // offset of buf[0]
	buf   []byte // what has been read
	pos   int    // of the next frame in buf
}

// reset points the scanner at offset in file.
func (s *scanner) reset(file vfs.File, offset, end int64) {
	s.file, s.base, s.end = file, offset, end
	s.buf, s.pos = s.buf[:0], 0
}

// offset returns the place of the next frame in the file.
func (s *scanner) offset() int64 { return s.base + int64(s.pos) }

// next returns the next frame, which must have number seq, and its payload; both are valid until the next
// call. At the end it returns io.EOF. When what is there is not that frame, it returns the reason as damage
// and stays where it is.
func (s *scanner) next(seq uint64) (frame, payload []byte, damage, err error) {
	for {
		payload, n, damage := record.ParseWALFrame(s.buf[s.pos:], seq)
		if damage == nil {
			frame = s.buf[s.pos : s.pos+n]
			s.pos += n
			return frame, payload, nil, nil
		}
		if s.base+int64(len(s.buf)) >= s.end {
			if s.pos == len(s.buf) {
				return nil, nil, nil, io.EOF
			}
			return nil, nil, damage, nil
		}
		if !errors.Is(damage, record.ErrShort) {
			return nil, nil, damage, nil
		}
		if err := s.fill(); err != nil {
			return nil, nil, nil, err
		}
	}
}

// buffered returns the next frame's payload if it is in the buffer as a whole and as it should be.
func (s *scanner) buffered(seq uint64) (payload []byte, ok bool) {
	payload, n, damage := record.ParseWALFrame(s.buf[s.pos:], seq)
	if damage != nil {
		return nil, false
	}
	s.pos += n
	return payload, true
}

// fill reads on, as far as the next frame needs it and at least one chunk, but never beyond the end.
func (s *scanner) fill() error {
	rest := s.buf[s.pos:]
	need := record.WALHeaderSize
	if h, err := record.ParseWALHeader(rest); err == nil {
		need = h.Size()
	}
	s.base += int64(s.pos)
	s.pos = 0
	left := s.end - s.base
	size := int(min(int64(max(s.chunk, need)), max(left, minBuffer)))
	if size > cap(s.buf) || size <= s.chunk && cap(s.buf) > 8*s.chunk {
		s.buf = append(make([]byte, 0, size), rest...)
	} else {
		s.buf = s.buf[:copy(s.buf[:cap(s.buf)], rest)]
	}
	have := len(s.buf)
	want := int(min(int64(cap(s.buf)), left))
	n, err := s.file.ReadAt(s.buf[have:want], s.base+int64(have))
	s.buf = s.buf[:have+n]
	if have+n == want && err == io.EOF {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
