package inspect

import (
	"fmt"
	"io"

	"narad/vfs"
)

// windowBytes is how much of a file is read at once; windowKept bounds what a window keeps after a large frame.
const (
	windowBytes = 256 << 10
	windowKept  = 1 << 20
)

// source reads a file through a window.
type source struct {
	file  vfs.File
	size  int64 // bytes to look at
	meter *meter

	window []byte
	start  int64 // byte of the file where the window begins
}

// readError is an answer of the operating system, and where it was got.
type readError struct {
	offset int64
	cause  error
}

func (e *readError) Error() string { return fmt.Sprintf("read at byte %d: %v", e.offset, e.cause) }
func (e *readError) Unwrap() error { return e.cause }

// at returns n bytes from a place on, fewer only where the file ends. They are valid until the next call.
func (s *source) at(off int64, n int) ([]byte, error) {
	n = int(min(int64(n), s.size-off))
	if n <= 0 {
		return nil, nil
	}
	if off < s.start || off+int64(n) > s.start+int64(len(s.window)) {
		if err := s.fill(off, n); err != nil {
			return nil, err
		}
	}
	b := s.window[off-s.start:]
	return b[:min(n, len(b))], nil
}

// some returns what the window holds from a place on, at least n bytes unless the file ends before.
func (s *source) some(off int64, n int) ([]byte, error) {
	if _, err := s.at(off, n); err != nil || off >= s.start+int64(len(s.window)) || off < s.start {
		return nil, err
	}
	return s.window[off-s.start:], nil
}

func (s *source) fill(off int64, n int) error {
	want := int(min(int64(max(n, windowBytes)), s.size-off))
	if cap(s.window) < want || cap(s.window) > windowKept && want <= windowBytes {
		s.window = make([]byte, want)
	}
	s.start, s.window = off, s.window[:want]
	got, err := s.file.ReadAt(s.window, off)
	s.window = s.window[:got]
	s.meter.moved(off + int64(got))
	if err != nil && err != io.EOF && got < n {
		return &readError{off + int64(got), err}
	}
	return nil
}

// meter counts what has been read, for whoever waits.
type meter struct {
	tell   func(done, total int64, file string)
	total  int64
	before int64 // bytes of the files before this one
	file   string
	size   int64
	told   int64
}

// tellEvery is the distance in bytes between two reports of progress.
const tellEvery = 4 << 20

func (m *meter) begin(file string, size int64) { m.file, m.size = file, size }

// moved says how far reading has come in the file. Places are visited more than once around damage; that
// does not count.
func (m *meter) moved(to int64) {
	done := m.before + min(to, m.size)
	if m.tell != nil && done >= m.told+tellEvery {
		m.told = done
		m.tell(done, max(done, m.total), m.file)
	}
}

func (m *meter) end() {
	m.before += m.size
	m.size = 0
}
