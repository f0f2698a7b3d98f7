package raft

import (
	"time"

	hraft "github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// snapshot is the replica as it was when the snapshot was begun: a transaction that only reads.
type snapshot struct {
	tx     *bbolt.Tx
	counts *counts
}

// Snapshot begins a snapshot. Entries go on being applied while it is written.
func (f *fsm) Snapshot() (hraft.FSMSnapshot, error) {
	if err := f.failed(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	tx, err := f.disk.db.Begin(false)
	if err != nil {
		f.counts.snapshotFailures.Add(1)
		return nil, err
	}
	return &snapshot{tx, &f.counts}, nil
}

// Persist copies the file, as it was, without holding it in memory.
func (s *snapshot) Persist(sink hraft.SnapshotSink) error {
	start := time.Now()
	n, err := s.tx.WriteTo(sink)
	if err != nil {
		s.counts.snapshotFailures.Add(1)
		return err
	}
	s.counts.snapshots.Add(1)
	s.counts.snapshotBytes.Store(n)
	took := time.Since(start)
	s.counts.snapshotNanos.Store(int64(took))
	s.counts.snapshotNanosSum.Add(int64(took))
	return nil
}

// Release ends the transaction.
func (s *snapshot) Release() { _ = s.tx.Rollback() }
