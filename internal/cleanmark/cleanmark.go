// Package cleanmark holds the bytes of the mark that a graceful stop leaves in the data directory.
//
// The mark exists exactly after a graceful stop, and says how far each log went then. A log has no end mark of its own: without
// this, a last frame that rotted, or a file that was cut between two frames, looks like what a crash leaves.
//
//	offset  size  little-endian
//	     0     8  magic "NARADCLN"
//	     8     2  version, 1
//	    10     2  zero
//	    12     4  CRC-32C over bytes [0, 12) and [16, end of the file)
//	    16        JSON: {"wal_next":N,"metastore":V,"partitions":[{"id":"…","partition":P,"high_watermark":H},…]}
//
// It is replaced atomically, so one that does not verify was damaged; the stop then counts as unclean, which costs a sync of
// every consumer.ahead and the check.
package cleanmark

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
)

// Name is the file's name in the data directory.
const Name = "clean"

// SizeMax bounds the file, in bytes.
const SizeMax = 1 << 28

// Mark is what the file says.
type Mark struct {
	WALNext    uint64 `json:"wal_next"`            // the ingress log ended before this record
	Metastore  uint64 `json:"metastore,omitempty"` // version of the metastore
	Partitions []End  `json:"partitions"`
}

// End is how far the log of a partition went. One that never held a record is not listed.
type End struct {
	ID            string `json:"id"` // incarnation of the topic
	Partition     int32  `json:"partition"`
	HighWatermark int64  `json:"high_watermark"`
}

const (
	magic      = "NARADCLN"
	version    = 1
	headerSize = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrInvalid reports bytes that are no mark of this version, or a damaged one.
var ErrInvalid = errors.New("not a clean mark of this version, or damaged")

// Encode returns the file of a mark.
func Encode(m Mark) ([]byte, error) {
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b := append([]byte(magic), version, 0, 0, 0, 0, 0, 0, 0)
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[12:], sum(b))
	return b, nil
}

func sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[headerSize:])
}

// Decode reads the file of a mark; its error is ErrInvalid.
func Decode(b []byte) (m Mark, err error) {
	if len(b) < headerSize || !bytes.HasPrefix(b, []byte(magic)) || b[8] != version || b[9] != 0 || b[10] != 0 || b[11] != 0 ||
		binary.LittleEndian.Uint32(b[12:]) != sum(b) || json.Unmarshal(b[headerSize:], &m) != nil {
		return Mark{}, ErrInvalid
	}
	return m, nil
}
