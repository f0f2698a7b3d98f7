package wal

import (
	"errors"
	"io"

	"narad/record"
)

// Rest tells what follows the last good frame of a segment. Sizes are in bytes from there on.
type Rest struct {
	// Prepared tells that the file ends with the trailer of a prepared segment.
	Prepared bool
	// Zeros tells that there are only zeros, up to the trailer if there is one.
	Zeros bool
	// Written is how far a write can have come: of a prepared segment up to where the zeros begin, else all.
	Written int64
	// Judged is how much JudgeTail has to see.
	Judged int64
}

// LookBehind tells what follows the frames of a segment, which go up to end. file has the given size. A trailer is believed
// only as to where zeros end: a record that looks like one changes nothing.
func LookBehind(file io.ReaderAt, end, size int64) (r Rest, err error) {
	limit := size
	if r.Prepared, err = hasTrailer(file, end, size); err != nil {
		return r, err
	}
	if r.Prepared {
		limit -= record.WALTrailerSize
	}
	used, err := endOfData(file, end, limit)
	if err != nil {
		return r, err
	}
	r.Zeros = used == end
	r.Written, r.Judged = size-end, size-end
	if r.Prepared {
		r.Written = used - end
		r.Judged = min(size-end, r.Written+maxUnsynced) // a frame in the written part ends in there
	}
	return r, nil
}

// hasTrailer reports whether a file ends with the trailer of a prepared segment, behind its frames.
func hasTrailer(file io.ReaderAt, end, size int64) (bool, error) {
	if size-end < record.WALTrailerSize {
		return false, nil
	}
	var b [record.WALTrailerSize]byte
	if _, err := file.ReadAt(b[:], size-record.WALTrailerSize); err != nil && err != io.EOF {
		return false, err
	}
	_, err := record.ParseWALTrailer(b[:], size)
	return err == nil, nil
}

// trimZeros returns the length of b without the zeros at its end. Prepared segments are mostly zeros: these are passed in blocks.
func trimZeros(b []byte) int {
	var zeros [512]byte
	end := len(b)
	for end >= len(zeros) && [len(zeros)]byte(b[end-len(zeros):end]) == zeros {
		end -= len(zeros)
	}
	for end > 0 && b[end-1] == 0 {
		end--
	}
	return end
}

// endOfData returns where the zeros at the end of [from, to) begin.
func endOfData(file io.ReaderAt, from, to int64) (int64, error) {
	buf := make([]byte, min(loadChunk, to-from))
	for to > from {
		b := buf[:min(int64(len(buf)), to-from)]
		if _, err := file.ReadAt(b, to-int64(len(b))); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		used := trimZeros(b)
		to -= int64(len(b) - used)
		if used > 0 {
			break
		}
	}
	return to, nil
}
