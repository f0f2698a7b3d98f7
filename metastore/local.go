package metastore

import (
	"fmt"

	"narad/env"
	"narad/vfs"
)

// Local is the store of one node, in two files of one directory. Any number of tasks may use it at once.
type Local struct {
	*Replica // what it shows is replaced only under the change lock

	env      *env.Env
	dir      vfs.Dir
	store    identity
	recovery Recovery

	change       *env.Mutex // held across the I/O of a change; guards what follows
	journal      vfs.File
	journalSize  int64  // where the next entry goes
	journalStart uint64 // the change before its first entry
	snapshotSize int64
	compactMin   int64
	failure      error // latched: why no change is taken any more
	buf          []byte
}

var _ Store = (*Local)(nil)

// Recovery tells what the open found.
func (l *Local) Recovery() Recovery { return l.recovery }

// Close implements [Store]. Reads keep answering; changes are refused.
func (l *Local) Close() error {
	l.change.Lock()
	defer l.change.Unlock()
	if l.journal == nil {
		return nil
	}
	err := l.journal.Close()
	l.journal = nil
	return err
}

// commit makes the change of a plan durable and then visible.
func (l *Local) commit(plan Plan) error {
	l.change.Lock()
	defer l.change.Unlock()
	now := l.State()
	c, err := plan(now)
	if err != nil || c.IsNone() {
		return err
	}
	next, err := now.Apply(c)
	if err != nil {
		return err
	}
	payload, err := c.Encode()
	if err != nil {
		return err
	}
	if l.journal == nil {
		return ErrClosed
	}
	if l.failure != nil {
		return l.failure
	}
	if err := l.appendLocked(now, payload); err != nil {
		l.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		return l.failure
	}
	l.Show(next)
	return nil
}

// appendLocked writes and syncs the entry of a change to the state now, after compacting the journal if it is long, and then notes in the
// journal's header that it is there: an entry that is damaged later is not taken for one that was never finished.
func (l *Local) appendLocked(now *State, payload []byte) error {
	if l.journalSize >= max(l.compactMin, l.snapshotSize) {
		if err := l.compact(now); err != nil {
			return err
		}
	}
	entry := appendEntry(l.buf[:0], l.store, now.sequence+1, payload)
	l.buf = entry
	if _, err := l.journal.WriteAt(entry, l.journalSize); err != nil {
		return fmt.Errorf("write %s: %w", journalName, err)
	}
	l.env.Point("metastore: change written, not synced")
	if err := l.journal.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", journalName, err)
	}
	l.journalSize += int64(len(entry))
	return l.confirmLocked(now.sequence + 1)
}

// confirmLocked makes durable that the journal holds every change up to last. The cell of the change before stays, for a write
// that is not completed.
func (l *Local) confirmLocked(last uint64) error {
	l.env.Point("metastore: change synced, not confirmed")
	cell := header{store: l.store, sequence: l.journalStart}.cell(last)
	if _, err := l.journal.WriteAt(cell[:], int64(cellsAt+last%2*cellSize)); err != nil {
		return fmt.Errorf("confirm a change in %s: %w", journalName, err)
	}
	if err := l.journal.Sync(); err != nil {
		return fmt.Errorf("sync header of %s: %w", journalName, err)
	}
	return nil
}
