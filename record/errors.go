package record

import "errors"

// What can be wrong with bytes read back. The package returns these wrapped with what was being parsed;
// test them with errors.Is. Every one of them means that the bytes are not what was written, except
// ErrShort, which may also mean that they are not all there yet.
var (
	// ErrShort reports bytes that end before the structure they begin does.
	ErrShort = errors.New("record: bytes end inside the structure")
	// ErrMagic reports that the bytes do not begin with the structure's magic.
	ErrMagic = errors.New("record: wrong magic")
	// ErrLength reports a length that the format does not allow or that contradicts another one.
	ErrLength = errors.New("record: impossible length")
	// ErrSequence reports a frame that is whole but is not the one expected at its place.
	ErrSequence = errors.New("record: wrong sequence number")
	// ErrChecksum reports bytes that do not match their checksum.
	ErrChecksum = errors.New("record: checksum mismatch")
	// ErrCodec reports an unknown codec or flag, or a compressed body that does not decompress.
	ErrCodec = errors.New("record: unknown codec or undecodable body")
	// ErrCount reports a number of records that the format does not allow or the body does not hold.
	ErrCount = errors.New("record: impossible record count")
	// ErrFormat reports an encoding version or layout that this build does not read.
	ErrFormat = errors.New("record: unknown format")
)
