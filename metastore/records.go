package metastore

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Buckets of records.
const (
	TopicBucket  = "topics"  // by name: the topic as JSON, without its schemas
	SchemaBucket = "schemas" // by the topic's name, a zero byte and the version as 4 bytes, big-endian: the document
	UserBucket   = "users"   // by name: the user as JSON, with its password hash
)

// Record is a piece of a state, for stores that keep a state in pieces. A nil value says that there is no such record.
type Record struct {
	Bucket string
	Key    []byte
	Value  []byte
}

func schemaKey(topic string, version int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(topic), 0), uint32(version))
}

func (e *entry) record() (Record, error) {
	value, err := encodeJSON(e.Topic)
	return Record{TopicBucket, []byte(e.Name), value}, err
}

func (u *userRecord) record() (Record, error) {
	value, err := encodeJSON(u)
	return Record{UserBucket, []byte(u.Name), value}, err
}

// schemaRecords appends the records of the versions after from.
func (e *entry) schemaRecords(records []Record, from int) []Record {
	for _, s := range e.Schemas[from:] {
		records = append(records, Record{SchemaBucket, schemaKey(e.Name, s.Version), s.Document})
	}
	return records
}

// Records returns all of a state but its sequence, bucket by bucket and in order of the keys.
func (s *State) Records() ([]Record, error) {
	var records []Record
	for _, e := range s.entries {
		r, err := e.record()
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	for _, e := range s.entries {
		records = e.schemaRecords(records, 0)
	}
	for _, u := range s.users {
		r, err := u.record()
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}

// Changed returns the records in which s, the state after the change c to the state before, differs from that.
func (s *State) Changed(before *State, c Change) ([]Record, error) {
	if c.aboutUser() {
		return s.changedUser(before, c)
	}
	name := c.Topic.Name
	was, now := before.entry(name), s.entry(name)
	versions := 0
	if was != nil {
		versions = len(was.Schemas)
	}
	if now == nil {
		gone := []Record{{TopicBucket, []byte(name), nil}}
		for v := range versions {
			gone = append(gone, Record{SchemaBucket, schemaKey(name, v+1), nil})
		}
		return gone, nil
	}
	r, err := now.record()
	return now.schemaRecords([]Record{r}, versions), err
}

func (s *State) changedUser(before *State, c Change) ([]Record, error) {
	name := c.User.Name
	if now := s.user(name); now != nil {
		r, err := now.record()
		return []Record{r}, err
	}
	changed := []Record{{UserBucket, []byte(name), nil}}
	for i, e := range s.entries { // the same topics as before, perhaps without their owner
		if e == before.entries[i] {
			continue
		}
		r, err := e.record()
		if err != nil {
			return nil, err
		}
		changed = append(changed, r)
	}
	return changed, nil
}

// LoadState returns the state that records, in the order of [State.Records], make after that many changes. It keeps no
// memory of theirs.
func LoadState(sequence uint64, records iter.Seq[Record]) (*State, error) {
	s := &State{}
	for r := range records {
		if err := s.load(r); err != nil {
			return nil, fmt.Errorf("record %q of %s: %w", r.Key, r.Bucket, err)
		}
	}
	return newState(sequence, s.entries, s.users)
}

func (s *State) load(r Record) error {
	switch r.Bucket {
	case TopicBucket:
		e := &entry{}
		if err := decodeStrict(r.Value, &e.Topic); err != nil {
			return err
		}
		s.entries = append(s.entries, e)
		return sameKey(r, e.Name)
	case UserBucket:
		u := &userRecord{}
		if err := decodeStrict(r.Value, u); err != nil {
			return err
		}
		s.users = append(s.users, u)
		return sameKey(r, u.Name)
	case SchemaBucket:
		return s.loadSchema(r)
	}
	return fmt.Errorf("unknown bucket")
}

func sameKey(r Record, name string) error {
	if string(r.Key) != name {
		return fmt.Errorf("it is about %q", name)
	}
	return nil
}

func (s *State) loadSchema(r Record) error {
	at := len(r.Key) - 5
	if at < 0 || r.Key[at] != 0 {
		return fmt.Errorf("the key is not a name and a version")
	}
	e := s.entry(string(r.Key[:at]))
	if e == nil {
		return ErrNotFound
	}
	if v := binary.BigEndian.Uint32(r.Key[at+1:]); v != uint32(len(e.Schemas)+1) {
		return fmt.Errorf("version %d where %d belongs", v, len(e.Schemas)+1)
	}
	e.appendSchema(append([]byte{}, r.Value...))
	return nil
}
