package metastore

import (
	"errors"
	"fmt"
	"io/fs"

	"narad/env"
	"narad/vfs"
)

const (
	snapshotName = "topics.snapshot"
	journalName  = "topics.journal"

	snapshotSizeMax = 1 << 30
	journalSizeMax  = 1 << 30
	// compactMin is the size in bytes below which a journal is never compacted while the store is open. Above, it is once it outgrew
	// the snapshot, so that the cost of compactions is in proportion to the changes.
	compactMin = 256 << 10
)

// Recovery tells what an open found.
type Recovery struct {
	Created  bool   // there was no store
	Topics   int    // topics found
	Sequence uint64 // of the last change found
	Replayed int    // changes taken from the journal
	Cut      int64  // bytes at the end of the journal that are no whole entry: a change that was never answered
}

// OpenLocal opens the store in dir, or creates it in a directory without one. Exactly one store may be open in a directory at
// a time; whoever owns the directory sees to it. The directory stays the caller's and must outlive the store.
// The store is a [*Local], whose Recovery tells what was found.
func OpenLocal(e *env.Env, dir vfs.Dir) (Store, error) {
	l, err := openLocal(e, dir)
	if err != nil {
		return nil, err // not l: a nil *Local is not a nil Store
	}
	return l, nil
}

func openLocal(e *env.Env, dir vfs.Dir) (*Local, error) {
	l := &Local{env: e, dir: dir, change: e.NewMutex(), compactMin: compactMin}
	l.Replica = NewReplica(l.commit)
	if err := l.load(); err != nil {
		return nil, fmt.Errorf("open metastore: %w", err)
	}
	return l, nil
}

// load finds the state, makes it durable, and opens the journal for appending.
func (l *Local) load() error {
	snapshot, snapErr := readAll(l.dir, snapshotName, snapshotSizeMax)
	journal, journalErr := readAll(l.dir, journalName, journalSizeMax)
	if err := errors.Join(snapErr, journalErr); err != nil {
		return err
	}
	var s *State
	var err error
	switch {
	case snapshot == nil && journal == nil:
		s, err = l.create()
	case snapshot == nil:
		s, err = l.adopt(journal)
	case journal == nil:
		err = &CorruptError{journalName, 0, "there is a snapshot and no journal"}
	default:
		s, err = l.replay(snapshot, journal)
	}
	if err != nil {
		return err
	}
	l.recovery.found(s)
	// Whatever was found may be in the page cache alone, after a crash of the process or a sync that failed, file by file or
	// name by name. To sync it again would prove nothing, so all of it is written afresh before any of it is served (M3).
	if err := l.compact(s); err != nil {
		return err
	}
	l.Show(s)
	return nil
}

// readAll reads a whole file; a missing one is nil, an empty one is not.
func readAll(dir vfs.Dir, name string, limit int64) ([]byte, error) {
	b, err := vfs.ReadFile(dir, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if b == nil {
		b = []byte{}
	}
	return b, err
}

// create makes the journal of a new store.
func (l *Local) create() (*State, error) {
	seed := l.env.Seed("metastore")
	l.store = identity(seed[:])
	l.recovery.Created = true
	s := &State{}
	return s, l.replaceJournal(s)
}

// adopt goes on with a creation that stopped between journal and snapshot.
func (l *Local) adopt(journal []byte) (*State, error) {
	h, confirmed, err := parseJournalHeader(journal)
	if err != nil {
		return nil, err
	}
	if len(journal) > headerSize || confirmed != 0 {
		return nil, &CorruptError{snapshotName, 0, "there is a journal of changes and no snapshot"}
	}
	l.store = h.store
	l.recovery.Created = true
	s := &State{}
	return s, l.replaceJournal(s) // its name may not be durable, and a snapshot must never be alone
}

// replay returns the state that the two files describe.
func (l *Local) replay(snapshot, journal []byte) (*State, error) {
	store, s, err := parseSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	h, confirmed, err := parseJournalHeader(journal)
	if err != nil {
		return nil, err
	}
	if h.store != store {
		return nil, &CorruptError{journalName, 16, "it belongs to another store than the snapshot"}
	}
	if h.sequence > s.sequence {
		return nil, &CorruptError{journalName, 32, fmt.Sprintf("it begins after change %d, the snapshot ends at %d", h.sequence, s.sequence)}
	}
	l.store = store
	return l.replayEntries(s, journal, h.sequence, confirmed)
}

// replayEntries applies the entries of a journal that are not in s yet. The sequence is that before the first entry.
func (l *Local) replayEntries(s *State, journal []byte, sequence, confirmed uint64) (*State, error) {
	b := newBuilder(s)
	at := headerSize
	for at < len(journal) {
		got, payload, size, ok := parseEntry(l.store, journal[at:])
		if !ok {
			if off, found := laterEntry(l.store, journal[at:], max(sequence, b.sequence)+1); found {
				return nil, &CorruptError{journalName, int64(at), fmt.Sprintf("no entry here, but one at byte %d", at+off)}
			}
			l.recovery.Cut = int64(len(journal) - at)
			break
		}
		sequence++
		if got != sequence {
			return nil, &CorruptError{journalName, int64(at), fmt.Sprintf("change %d where %d belongs", got, sequence)}
		}
		if sequence > b.sequence {
			if err := b.applyEntry(payload); err != nil {
				return nil, &CorruptError{journalName, int64(at), err.Error()}
			}
			l.recovery.Replayed++
		}
		at += size
	}
	if err := missing(int64(at), max(sequence, b.sequence), confirmed); err != nil {
		return nil, err
	}
	// The journal may end before the snapshot does: an open that found an entry in the page cache alone wrote the
	// snapshot with it, and a power failure then took the entry.
	return b.state(), nil
}

func (b *builder) applyEntry(payload []byte) error {
	c, err := DecodeChange(payload)
	if err != nil {
		return err
	}
	if err := b.apply(c); err != nil {
		return fmt.Errorf("%s of %q does not fit the state before it: %w", c.Op, c.Name(), err)
	}
	return nil
}

// found notes the state found.
func (r *Recovery) found(s *State) { r.Topics, r.Sequence = len(s.entries), s.sequence }

// compact writes all of s into the snapshot and starts an empty journal after it.
func (l *Local) compact(s *State) error {
	b, err := encodeSnapshot(l.store, s)
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(l.dir, snapshotName, b); err != nil {
		return fmt.Errorf("write %s: %w", snapshotName, err)
	}
	l.snapshotSize = int64(len(b))
	l.env.Point("metastore: snapshot replaced, journal not")
	if err := l.replaceJournal(s); err != nil {
		return err
	}
	return l.openJournal()
}

// replaceJournal puts an empty journal that begins after s in the place of the old one.
func (l *Local) replaceJournal(s *State) error {
	l.journalStart = s.sequence
	b := appendHeader(nil, journalMagic, header{store: l.store, sequence: s.sequence}, nil)
	if err := vfs.ReplaceFile(l.dir, journalName, b); err != nil {
		return fmt.Errorf("write %s: %w", journalName, err)
	}
	return nil
}

// openJournal opens the empty journal for appending and lets go of the one before.
func (l *Local) openJournal() error {
	f, err := l.dir.Open(journalName)
	if err != nil {
		return err
	}
	old := l.journal
	l.journal, l.journalSize = f, headerSize
	if old == nil {
		return nil
	}
	return old.Close()
}
