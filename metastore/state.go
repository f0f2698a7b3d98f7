package metastore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// State is everything that a store holds, after some number of changes. It never changes: a change gives another one. Any
// number of tasks may read it at once.
type State struct {
	sequence uint64
	entries  []*entry      // by name; shared between states
	users    []*userRecord // by name; shared between states
	schemas  int64         // bytes of all documents
}

// entry is a topic with its schemas. It is never written to once it is in a state.
type entry struct {
	Topic
	Schemas []Schema `json:"schemas,omitempty"`
}

// appendSchema adds a version. The versions before are shared with other entries, so they are copied.
func (e *entry) appendSchema(document []byte) {
	e.Schemas = append(slices.Clip(e.Schemas), Schema{Version: len(e.Schemas) + 1, Document: document})
}

// Sequence returns how many changes led to the state.
func (s *State) Sequence() uint64 { return s.sequence }

// Topics returns how many topics there are.
func (s *State) Topics() int { return len(s.entries) }

// newState returns the state of these topics and users, or why there can be none.
func newState(sequence uint64, entries []*entry, users []*userRecord) (*State, error) {
	s := &State{sequence: sequence, entries: entries, users: users}
	for i, u := range users {
		if u == nil || i > 0 && users[i-1].Name >= u.Name {
			return nil, fmt.Errorf("user %d is out of order", i)
		}
		if err := u.check(); err != nil {
			return nil, fmt.Errorf("user %d: %w", i, err)
		}
	}
	folded := make(map[string]string, len(entries))
	for i, e := range entries {
		if e == nil || i > 0 && entries[i-1].Name >= e.Name {
			return nil, fmt.Errorf("topic %d is out of order", i)
		}
		if err := errors.Join(e.Topic.check(), checkHistory(e.Schemas)); err != nil {
			return nil, fmt.Errorf("topic %d: %w", i, err)
		}
		if e.Owner != "" && s.user(e.Owner) == nil {
			return nil, fmt.Errorf("topic %d: owner %s: %w", i, e.Owner, ErrUserNotFound)
		}
		if existing, clash := folded[foldName(e.Name)]; clash {
			return nil, &CaseClashError{e.Name, existing}
		}
		folded[foldName(e.Name)] = e.Name
		s.schemas += schemaBytes(e.Schemas)
	}
	return s, nil
}

func (s *State) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.entries, name, func(e *entry, name string) int { return strings.Compare(e.Name, name) })
}

func (s *State) findUser(name string) (int, bool) {
	return slices.BinarySearchFunc(s.users, name, func(u *userRecord, name string) int { return strings.Compare(u.Name, name) })
}

func (s *State) entry(name string) *entry {
	if at, found := s.find(name); found {
		return s.entries[at]
	}
	return nil
}

func (s *State) user(name string) *userRecord {
	if at, found := s.findUser(name); found {
		return s.users[at]
	}
	return nil
}

func (s *State) clash(name string) (string, bool) {
	for _, e := range s.entries {
		if len(e.Name) == len(name) && strings.EqualFold(e.Name, name) {
			return e.Name, true
		}
	}
	return "", false
}

func (s *State) schemaTotal() int64 { return s.schemas }

// Apply returns the state after a change, at a cost in proportion to the number of topics or users. The error says why
// the change cannot be made; it does not depend on anything but the state and the change.
func (s *State) Apply(c Change) (*State, error) {
	if err := c.check(s); err != nil {
		return nil, err
	}
	next := *s
	next.sequence++
	if c.aboutUser() {
		next.applyUser(&c)
		return &next, nil
	}
	at, found := s.find(c.Topic.Name)
	var before, after *entry
	rest := s.entries[at:]
	if found {
		before, rest = rest[0], rest[1:]
		next.schemas -= schemaBytes(before.Schemas)
	}
	entries := append(make([]*entry, 0, len(s.entries)+1), s.entries[:at]...)
	if after = c.topicAfter(before); after != nil {
		entries = append(entries, after)
		next.schemas += schemaBytes(after.Schemas)
	}
	next.entries = append(entries, rest...)
	return &next, nil
}

// applyUser makes a change of a user that is legal.
func (s *State) applyUser(c *Change) {
	at, found := s.findUser(c.User.Name)
	var before *userRecord
	rest := s.users[at:]
	if found {
		before, rest = rest[0], rest[1:]
	}
	users := append(make([]*userRecord, 0, len(s.users)+1), s.users[:at]...)
	if after := c.userAfter(before); after != nil {
		users = append(users, after)
	} else {
		s.disown(c.User.Name)
	}
	s.users = append(users, rest...)
}

// disown takes the topics of a user away from it.
func (s *State) disown(owner string) {
	s.entries = slices.Clone(s.entries)
	for i, e := range s.entries {
		s.entries[i] = e.without(owner)
	}
}

// without returns the topic as it is when this user is gone.
func (e *entry) without(owner string) *entry {
	if e.Owner != owner {
		return e
	}
	free := *e
	free.Owner = ""
	return &free
}

// builder applies many changes, each at a cost that does not depend on the number of topics.
type builder struct {
	sequence uint64
	entries  map[string]*entry
	folded   map[string]string // folded name → name
	users    map[string]*userRecord
	schemas  int64
}

func newBuilder(s *State) *builder {
	b := &builder{sequence: s.sequence, schemas: s.schemas, entries: make(map[string]*entry, len(s.entries)),
		folded: make(map[string]string, len(s.entries)), users: make(map[string]*userRecord, len(s.users))}
	for _, e := range s.entries {
		b.entries[e.Name] = e
		b.folded[foldName(e.Name)] = e.Name
	}
	for _, u := range s.users {
		b.users[u.Name] = u
	}
	return b
}

func (b *builder) entry(name string) *entry     { return b.entries[name] }
func (b *builder) user(name string) *userRecord { return b.users[name] }
func (b *builder) schemaTotal() int64           { return b.schemas }

func (b *builder) clash(name string) (string, bool) {
	existing, found := b.folded[foldName(name)]
	return existing, found
}

// apply makes a change, or returns why it cannot be made.
func (b *builder) apply(c Change) error {
	if err := c.check(b); err != nil {
		return err
	}
	b.sequence++
	if c.aboutUser() {
		b.applyUser(&c)
		return nil
	}
	name := c.Topic.Name
	before := b.entries[name]
	after := c.topicAfter(before)
	if before != nil {
		b.schemas -= schemaBytes(before.Schemas)
	}
	if after == nil {
		delete(b.entries, name)
		delete(b.folded, foldName(name))
		return nil
	}
	b.schemas += schemaBytes(after.Schemas)
	b.entries[name], b.folded[foldName(name)] = after, name
	return nil
}

func (b *builder) applyUser(c *Change) {
	name := c.User.Name
	if after := c.userAfter(b.users[name]); after != nil {
		b.users[name] = after
		return
	}
	delete(b.users, name)
	for topic, e := range b.entries { // order-free: each is looked at by itself
		b.entries[topic] = e.without(name)
	}
}

func (b *builder) state() *State {
	s := &State{sequence: b.sequence, schemas: b.schemas, entries: make([]*entry, 0, len(b.entries)), users: make([]*userRecord, 0, len(b.users))}
	for _, e := range b.entries { // order-free: sorted below
		s.entries = append(s.entries, e)
	}
	for _, u := range b.users { // order-free: sorted below
		s.users = append(s.users, u)
	}
	slices.SortFunc(s.entries, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.users, func(a, b *userRecord) int { return strings.Compare(a.Name, b.Name) })
	return s
}
