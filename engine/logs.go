package engine

import (
	"sync"

	"narad/segment"
)

// logTable knows which logs of a topic are open, by partition, so that a scan resolves many of them under one lock
// (LOG-21, CON-13). It is written by the partition that opens or drops the log, under its own lock.
type logTable struct {
	mu   sync.RWMutex // guards logs
	logs []*segment.Log
}

func (t *logTable) set(partition int32, log *segment.Log) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for int(partition) >= len(t.logs) {
		t.logs = append(t.logs, nil)
	}
	t.logs[partition] = log
}

// many writes the open logs of all partitions to dst, nil for one that is not open.
func (t *logTable) many(dst []*segment.Log) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	copy(dst, t.logs)
}
