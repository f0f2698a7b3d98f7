package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"narad/internal/cleanmark"
	"narad/vfs"
)

// readCleanMark returns the mark of the last graceful stop, nil when the last stop was none.
func (e *Engine) readCleanMark() (*cleanmark.Mark, error) {
	raw, err := vfs.ReadFile(e.root, cleanmark.Name, cleanmark.SizeMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := cleanmark.Decode(raw)
	if err != nil {
		e.emit(CleanMarkIgnored{err})
		return nil, nil
	}
	return &m, nil
}

// expect tells the partitions and the ingress log how far they have to go. When the ingress log ends earlier, the engine
// does not open, and keeps the mark. It may end later: a log whose write failed keeps what it had written (WAL-10).
func (e *Engine) expect(m *cleanmark.Mark) error {
	if m == nil {
		return nil
	}
	if next := e.wal.Next(); next < m.WALNext {
		return &CorruptError{produceDir, 0, fmt.Errorf("the ingress log ended before record %d when the engine stopped and ends before %d now; "+
			"restore it, or remove the file %s to go on without what is missing", m.WALNext, next, cleanmark.Name)}
	}
	ends := make(map[cleanmark.End]int64, len(m.Partitions))
	for _, p := range m.Partitions {
		ends[cleanmark.End{ID: p.ID, Partition: p.Partition}] = p.HighWatermark
	}
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			p.mu.Lock()
			p.end = ends[cleanmark.End{ID: t.info.ID, Partition: p.index}]
			p.mu.Unlock()
		}
	}
	return nil
}

// knowsTopics reports an error when the metastore has made fewer changes than when the engine stopped: what it does not know would be
// taken for deleted.
func (e *Engine) knowsTopics(m *cleanmark.Mark) error {
	if m == nil || e.meta.Version() >= m.Metastore {
		return nil
	}
	if e.meta.Version() == 0 {
		return &CorruptError{metastoreDir, 0, fmt.Errorf("there is no metastore, and there was one of %d changes when the engine stopped: restore it", m.Metastore)}
	}
	return &CorruptError{metastoreDir, 0, fmt.Errorf("the metastore had made %d changes when the engine stopped and has made %d now, so it is older than the "+
		"messages; restore it, or remove the file %s to go on without the topics that it does not know", m.Metastore, e.meta.Version(), cleanmark.Name)}
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
		fmt.Errorf("the log ended before offset %d when it was closed and ends before %d now; restore it, or stop the engine and remove the file %s to go on without what is missing", end, hw, cleanmark.Name)}
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
	err := e.root.Remove(cleanmark.Name)
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
	m := cleanmark.Mark{WALNext: e.wal.Next(), Metastore: e.meta.Version()}
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			p.mu.Lock()
			end := p.end
			p.mu.Unlock()
			if end > 0 {
				m.Partitions = append(m.Partitions, cleanmark.End{ID: t.info.ID, Partition: p.index, HighWatermark: end})
			}
		}
	}
	b, err := cleanmark.Encode(m)
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(e.root, cleanmark.Name, b)
}
