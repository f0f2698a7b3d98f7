package metastore

import "fmt"

// What follows is for tools that look at the files of a store without opening it. Nothing here does any I/O.

// Names of the files of a store.
const (
	SnapshotFile = snapshotName
	JournalFile  = journalName
)

// SnapshotContents is what a snapshot file holds.
type SnapshotContents struct {
	Store    [16]byte
	Sequence uint64 // of the last change in it
	Topics   []Topic
	Users    int
}

// DecodeSnapshot reads the bytes of a snapshot file. The error is a *[CorruptError].
func DecodeSnapshot(b []byte) (SnapshotContents, error) {
	store, s, err := parseSnapshot(b)
	if err != nil {
		return SnapshotContents{}, err
	}
	return SnapshotContents{Store: store, Sequence: s.sequence, Topics: copyTopics(s), Users: len(s.users)}, nil
}

func copyTopics(s *State) []Topic {
	topics := make([]Topic, 0, len(s.entries))
	for _, e := range s.entries {
		topics = append(topics, e.Topic)
	}
	return topics
}

// JournalContents is what a journal file holds.
type JournalContents struct {
	Store    [16]byte
	Sequence uint64 // before its first change
	Last     uint64 // of its last whole change; Sequence when it has none
	Changes  int
	End      int64 // byte after the last whole change
}

// JournalChange is one change in a journal.
type JournalChange struct {
	At       int64 // byte of its entry
	Size     int64 // of the entry in bytes
	Sequence uint64
	Op       string // what it does, as the package documentation lists them
	Topic    Topic  // as far as the entry says; without a name when the change is about a user
	User     string // name of the user that the change is about, if it is about one
}

// DecodeJournal reads the bytes of a journal file and calls visit for each change. What follows Contents.End is
// no whole entry: the end of a change that was never answered. The error is a *[CorruptError]; the contents before
// the damage are returned with it.
func DecodeJournal(b []byte, visit func(JournalChange)) (JournalContents, error) {
	h, confirmed, err := parseJournalHeader(b)
	if err != nil {
		return JournalContents{}, err
	}
	j := JournalContents{Store: h.store, Sequence: h.sequence, Last: h.sequence, End: headerSize}
	for j.End < int64(len(b)) {
		sequence, payload, size, ok := parseEntry(h.store, b[j.End:])
		if !ok {
			if off, found := laterEntry(h.store, b[j.End:], j.Last+1); found {
				return j, &CorruptError{journalName, j.End, fmt.Sprintf("no entry here, but one at byte %d", j.End+int64(off))}
			}
			break
		}
		if sequence != j.Last+1 {
			return j, &CorruptError{journalName, j.End, fmt.Sprintf("change %d where %d belongs", sequence, j.Last+1)}
		}
		c, err := DecodeChange(payload)
		if err != nil {
			return j, &CorruptError{journalName, j.End, err.Error()}
		}
		seen := JournalChange{At: j.End, Size: int64(size), Sequence: sequence, Op: c.Op}
		if c.Topic != nil {
			seen.Topic = *c.Topic
		}
		if c.User != nil {
			seen.User = c.User.Name
		}
		visit(seen)
		j.Last = sequence
		j.Changes++
		j.End += int64(size)
	}
	return j, missing(j.End, j.Last, confirmed)
}

// Replay returns the topics that an open would find in the bytes of the two files; nil is a missing one. The
// error is why it would refuse.
func Replay(snapshot, journal []byte) ([]Topic, Recovery, error) {
	s, r, err := ReplayState(snapshot, journal)
	if err != nil {
		return nil, r, err
	}
	return copyTopics(s), r, nil
}

// ReplayState is Replay of everything that the files hold.
func ReplayState(snapshot, journal []byte) (*State, Recovery, error) {
	l := &Local{}
	s := &State{}
	var err error
	switch {
	case snapshot == nil && journal == nil:
		l.recovery.Created = true
	case snapshot == nil:
		var confirmed uint64
		if _, confirmed, err = parseJournalHeader(journal); err == nil && (len(journal) > headerSize || confirmed != 0) {
			err = &CorruptError{snapshotName, 0, "there is a journal of changes and no snapshot"}
		}
		l.recovery.Created = true
	case journal == nil:
		err = &CorruptError{journalName, 0, "there is a snapshot and no journal"}
	default:
		s, err = l.replay(snapshot, journal)
	}
	if err != nil {
		return nil, l.recovery, err
	}
	l.recovery.found(s)
	return s, l.recovery, nil
}
