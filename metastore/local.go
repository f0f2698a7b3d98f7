package metastore

import (
	"fmt"
	"strings"
	"sync/atomic"

	"narad/env"
	"narad/vfs"
)

// Local is the store of one node, in two files of one directory. Any number of tasks may use it at once.
type Local struct {
	env      *env.Env
	dir      vfs.Dir
	store    identity
	recovery Recovery

	// view is replaced as a whole, only after the change in it is durable and only under the change lock. A view is
	// never written after it is stored here, so whoever loads the pointer may read what it leads to.
	view atomic.Pointer[view]

	change       *env.Mutex        // held across the I/O of a change; guards what follows
	folded       map[string]string // lower-case name → name
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

// Get implements [Store].
func (l *Local) Get(name string) (Topic, bool) {
	v := l.view.Load()
	at, found := v.find(name)
	if !found {
		return Topic{}, false
	}
	return *v.topics[at], true
}

// List implements [Store].
func (l *Local) List(after string, limit int) []Topic {
	v := l.view.Load()
	at, found := v.find(after)
	if found {
		at++
	}
	rest := v.topics[at:]
	if limit > 0 && limit < len(rest) {
		rest = rest[:limit]
	}
	topics := make([]Topic, len(rest))
	for i, t := range rest {
		topics[i] = *t
	}
	return topics
}

// Version implements [Store]. It is the number of changes since the store was made, so it goes on over a restart.
func (l *Local) Version() uint64 { return l.view.Load().sequence }

// Create implements [Store].
func (l *Local) Create(t Topic) error {
	if err := t.check(); err != nil {
		return err
	}
	l.change.Lock()
	defer l.change.Unlock()
	if existing, clash := l.folded[strings.ToLower(t.Name)]; clash {
		if existing == t.Name {
			return fmt.Errorf("create topic %q: %w", t.Name, ErrExists)
		}
		return &CaseClashError{Name: t.Name, Existing: existing}
	}
	if err := l.commitLocked(change{opCreate, t}); err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	l.folded[strings.ToLower(t.Name)] = t.Name
	return nil
}

// Update implements [Store].
func (l *Local) Update(name, id string, fn func(*Topic) error) (Topic, error) {
	l.change.Lock()
	defer l.change.Unlock()
	before, err := l.incarnation(name, id)
	if err != nil {
		return Topic{}, fmt.Errorf("update topic %q: %w", name, err)
	}
	after := before
	if err := fn(&after); err != nil {
		return Topic{}, err
	}
	if after == before {
		return before, nil
	}
	if err := before.checkChange(&after); err != nil {
		return Topic{}, err
	}
	if err := l.commitLocked(change{opUpdate, after}); err != nil {
		return Topic{}, fmt.Errorf("update topic %q: %w", name, err)
	}
	return after, nil
}

// Replace implements [Store].
func (l *Local) Replace(id string, t Topic) error {
	l.change.Lock()
	defer l.change.Unlock()
	before, err := l.incarnation(t.Name, id)
	if err == nil {
		err = before.checkReplacement(&t)
	}
	if err == nil {
		err = l.commitLocked(change{opReplace, t})
	}
	if err != nil {
		return fmt.Errorf("replace topic %q: %w", t.Name, err)
	}
	return nil
}

// Delete implements [Store].
func (l *Local) Delete(name, id string) error {
	l.change.Lock()
	defer l.change.Unlock()
	_, err := l.incarnation(name, id)
	if err == nil {
		err = l.commitLocked(change{opDelete, Topic{Name: name, ID: id}})
	}
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	delete(l.folded, strings.ToLower(name))
	return nil
}

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

func (l *Local) incarnation(name, id string) (Topic, error) {
	t, found := l.Get(name)
	switch {
	case !found:
		return Topic{}, ErrNotFound
	case t.ID != id:
		return Topic{}, ErrOtherIncarnation
	}
	return t, nil
}

// commitLocked makes a change durable and then visible. The caller has checked that it fits the state.
func (l *Local) commitLocked(c change) error {
	if l.journal == nil {
		return ErrClosed
	}
	if l.failure != nil {
		return l.failure
	}
	v := l.view.Load()
	var now *Topic
	if at, found := v.find(c.Topic.Name); found {
		now = v.topics[at]
	}
	if !c.legal(now) { // a recovery would take its entry for damage
		panic("metastore: a checked change does not fit the state")
	}
	if err := l.appendLocked(v, c); err != nil {
		l.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		return l.failure
	}
	l.view.Store(v.next(c))
	return nil
}

// appendLocked writes and syncs the entry of a change to v, after compacting the journal if it is long, and then notes in the
// journal's header that it is there: an entry that is damaged later is not taken for one that was never finished.
func (l *Local) appendLocked(v *view, c change) error {
	if l.journalSize >= max(l.compactMin, l.snapshotSize) {
		if err := l.compact(v); err != nil {
			return err
		}
	}
	entry, err := appendEntry(l.buf[:0], l.store, v.sequence+1, c)
	if err != nil {
		return err
	}
	l.buf = entry
	if _, err := l.journal.WriteAt(entry, l.journalSize); err != nil {
		return fmt.Errorf("write %s: %w", journalName, err)
	}
	l.env.Point("metastore: change written, not synced")
	if err := l.journal.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", journalName, err)
	}
	l.journalSize += int64(len(entry))
	return l.confirmLocked(v.sequence + 1)
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
