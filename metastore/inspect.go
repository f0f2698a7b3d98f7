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
}

// DecodeSnapshot reads the bytes of a snapshot file. The error is a *[CorruptError].
func DecodeSnapshot(b []byte) (SnapshotContents, error) {
	store, v, err := parseSnapshot(b)
	if err != nil {
		return SnapshotContents{}, err
	}
	return SnapshotContents{Store: store, Sequence: v.sequence, Topics: copyTopics(v)}, nil
}

func copyTopics(v *view) []Topic {
	topics := make([]Topic, 0, len(v.topics))
	for _, t := range v.topics {
		topics = append(topics, *t)
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
	Op       string // "create", "update", "replace" or "delete"
	Topic    Topic
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
		var c change
		if err := decodeStrict(payload, &c); err != nil {
			return j, &CorruptError{journalName, j.End, err.Error()}
		}
		visit(JournalChange{At: j.End, Size: int64(size), Sequence: sequence, Op: c.Op, Topic: c.Topic})
		j.Last = sequence
		j.Changes++
		j.End += int64(size)
	}
	return j, missing(j.End, j.Last, confirmed)
}

// Replay returns the topics that an open would find in the bytes of the two files; nil is a missing one. The
// error is why it would refuse.
func Replay(snapshot, journal []byte) ([]Topic, Recovery, error) {
	l := &Local{folded: map[string]string{}}
	v := &view{}
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
		v, err = l.replay(snapshot, journal)
	}
	if err == nil {
		err = l.index(v)
	}
	if err != nil {
		return nil, l.recovery, err
	}
	return copyTopics(v), l.recovery, nil
}
