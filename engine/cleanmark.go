package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"strings"

	"narad/vfs"
)

// The clean mark exists exactly after a graceful stop, and says how far each log went then. A log has no end mark of its own:
// without this, a last frame that rotted, or a file that was cut between two frames, looks like what a crash leaves.
//
//	offset  size  little-endian
//	     0     8  magic "NARADCLN"
//	     8     2  version, 1
//	    10     2  zero
//	    12     4  CRC-32C over bytes [0, 12) and [16, end of the file)
//	    16        JSON: {"wal_next":N,"partitions":[{"id":"…","partition":P,"high_watermark":H},…]}
//
// It is replaced atomically, so one that does not verify was damaged; the stop then counts as unclean, which costs a sync of
// every consumer.ahead and the check.
type cleanMark struct {
	WALNext    uint64         `json:"wal_next"`
	Partitions []partitionEnd `json:"partitions"`
}

// partitionEnd is how far the log of a partition went. One that was never opened since is not listed.
type partitionEnd struct {
	ID            string `json:"id"` // incarnation of the topic
	Partition     int32  `json:"partition"`
	HighWatermark int64  `json:"high_watermark"`
}

const (
	cleanMagic   = "NARADCLN"
	cleanVersion = 1
	cleanHeader  = 16
	cleanBytes   = 1 << 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m cleanMark) encode() ([]byte, error) {
	payload, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b := append([]byte(cleanMagic), cleanVersion, 0, 0, 0, 0, 0, 0, 0)
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[12:], cleanSum(b))
	return b, nil
}

func cleanSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[cleanHeader:])
}

var errNotACleanMark = errors.New("not a clean mark of this version, or damaged")

func decodeCleanMark(b []byte) (m cleanMark, err error) {
	if len(b) < cleanHeader || !bytes.HasPrefix(b, []byte(cleanMagic)) || b[8] != cleanVersion ||
		b[9] != 0 || b[10] != 0 || b[11] != 0 || binary.LittleEndian.Uint32(b[12:]) != cleanSum(b) {
		return m, errNotACleanMark
	}
	return m, json.Unmarshal(b[cleanHeader:], &m)
}

// readCleanMark returns the mark of the last graceful stop, nil when the last stop was none.
func (e *Engine) readCleanMark() (*cleanMark, error) {
	raw, err := vfs.ReadFile(e.root, cleanFile, cleanBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeCleanMark(raw)
	if err != nil {
		e.emit(CleanMarkIgnored{err})
		return nil, nil
	}
	return &m, nil
}

// expect tells the partitions and the ingress log how far they have to go. When the ingress log ends earlier, the engine
// does not open, and keeps the mark. It may end later: a log whose write failed keeps what it had written (WAL-10).
func (e *Engine) expect(m *cleanMark) error {
	if m == nil {
		return nil
	}
	if next := e.wal.Next(); next < m.WALNext {
		return &CorruptError{produceDir, 0, fmt.Errorf("the ingress log ended before record %d when the engine stopped and ends before %d now; "+
			"restore it, or remove the file %s to go on without what is missing", m.WALNext, next, cleanFile)}
	}
	ends := make(map[partitionEnd]int64, len(m.Partitions))
	for _, p := range m.Partitions {
		ends[partitionEnd{ID: p.ID, Partition: p.Partition}] = p.HighWatermark
	}
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			p.mu.Lock()
			p.end = ends[partitionEnd{ID: t.info.ID, Partition: p.index}]
			p.mu.Unlock()
		}
	}
	return nil
}

// reaches reports an error when the log, just opened, ends below where it ended when it was closed.
func (p *partition) reaches(dir vfs.Dir, hw int64) error {
	p.mu.Lock()
	end := p.end
	p.mu.Unlock()
	if hw >= end {
		return nil
	}
	file, size := newestSegment(dir)
	return &CorruptError{partitionPath(p.key.Topic, p.index) + "/" + file, size,
		fmt.Errorf("the log ended before offset %d when it was closed and ends before %d now; restore it, or stop the engine and remove the file %s to go on without what is missing", end, hw, cleanFile)}
}

// newestSegment returns the last segment file of a partition directory and its size, as far as they can be told.
func newestSegment(dir vfs.Dir) (name string, size int64) {
	entries, _ := dir.List()
	for _, f := range entries {
		if strings.HasSuffix(f.Name, ".log") {
			name, size = f.Name, f.Size
		}
	}
	return name, size
}

// dropCleanMark makes the removal of the mark durable before anything is accepted: a crash from now on is an unclean stop.
func (e *Engine) dropCleanMark() error {
	err := e.root.Remove(cleanFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.root.Sync()
}

// markClean says durably that everything is on disk, and how far it goes.
func (e *Engine) markClean() error {
	m := cleanMark{WALNext: e.wal.Next()}
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			p.mu.Lock()
			end := p.end
			p.mu.Unlock()
			if end > 0 {
				m.Partitions = append(m.Partitions, partitionEnd{t.info.ID, p.index, end})
			}
		}
	}
	b, err := m.encode()
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(e.root, cleanFile, b)
}
