package record

import (
	"encoding/binary"
	"fmt"
)

// Trailer of a prepared segment of the ingress log, the last bytes of a file that is zeros before it:
//
//	offset    size  field
//	limit        8  magic  "NWPREP01", the last two characters are the version
//	limit+8      8  limit  bytes of the file before the trailer, big-endian
//
// Frames are written below limit. The limit ties the trailer to the size of its file, so that bytes which look like
// one elsewhere are none.
const (
	WALTrailerMagic = "NWPREP01"
	WALTrailerSize  = 16
)

var errWALTrailer = fmt.Errorf("wal trailer: %w", ErrMagic)
var errWALTrailerLimit = fmt.Errorf("wal trailer: %w", ErrLength)

// AppendWALTrailer appends the trailer of a file with limit bytes before it to dst.
func AppendWALTrailer(dst []byte, limit int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, WALTrailerMagic...), uint64(limit))
}

// ParseWALTrailer parses the last WALTrailerSize bytes of a file of that size. It returns ErrMagic when they
// are not a trailer, and ErrLength when they are that of a file of another size.
func ParseWALTrailer(b []byte, fileSize int64) (limit int64, err error) {
	if len(b) != WALTrailerSize || string(b[:8]) != WALTrailerMagic {
		return 0, errWALTrailer
	}
	if binary.BigEndian.Uint64(b[8:]) != uint64(fileSize-WALTrailerSize) {
		return 0, errWALTrailerLimit
	}
	return fileSize - WALTrailerSize, nil
}
