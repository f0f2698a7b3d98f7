package metastore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
)

// Plan looks at the newest state and returns the change to make; a Change that IsNone makes none. The error is why there can be
// no change. It may be called again with a newer state.
type Plan func(*State) (Change, error)

// Propose makes the change that a plan finds, one plan at a time, and has shown the state after it when it returns nil.
type Propose func(Plan) error

// Replica is the half of a [Store] that all implementations share: reads of a state that is replaced as a whole, and changes
// that are planned against the newest state. How a change is made is up to the implementation.
type Replica struct {
	// state is replaced only by a state that is durable. A State is never written to after it is stored here, so whoever
	// loads the pointer may read what it leads to.
	state   atomic.Pointer[State]
	propose Propose
}

// NewReplica returns a replica that shows a state without anything in it.
func NewReplica(propose Propose) *Replica {
	r := &Replica{propose: propose}
	r.state.Store(&State{})
	return r
}

// State returns what is shown.
func (r *Replica) State() *State { return r.state.Load() }

// Show replaces what is shown. It is for whoever applies the changes.
func (r *Replica) Show(s *State) { r.state.Store(s) }

// Get implements [Store].
func (r *Replica) Get(name string) (Topic, bool) {
	if e := r.State().entry(name); e != nil {
		return e.Topic, true
	}
	return Topic{}, false
}

// List implements [Store].
func (r *Replica) List(after string, limit int) []Topic {
	s := r.State()
	at, found := s.find(after)
	if found {
		at++
	}
	rest := s.entries[at:]
	if limit > 0 && limit < len(rest) {
		rest = rest[:limit]
	}
	topics := make([]Topic, len(rest))
	for i, e := range rest {
		topics[i] = e.Topic
	}
	return topics
}

// Version implements [Store]. It is the number of changes since the store was made, so it goes on over a restart.
func (r *Replica) Version() uint64 { return r.State().sequence }

// Schemas implements [Store].
func (r *Replica) Schemas(name string) []Schema {
	e := r.State().entry(name)
	if e == nil {
		return nil
	}
	return append([]Schema(nil), e.Schemas...)
}

// User implements [Store].
func (r *Replica) User(name string) (User, bool) {
	if u := r.State().user(name); u != nil {
		return User(*u).clone(), true
	}
	return User{}, false
}

// Users implements [Store].
func (r *Replica) Users() []User {
	s := r.State()
	users := make([]User, len(s.users))
	for i, u := range s.users {
		users[i] = User(*u).clone()
	}
	return users
}

// Create implements [Store].
func (r *Replica) Create(t Topic) error { return r.CreateWithSchema(t, nil) }

// CreateWithSchema implements [Store].
func (r *Replica) CreateWithSchema(t Topic, document json.RawMessage) error {
	c := Change{Op: opCreate, Topic: &t}
	var err error
	if document != nil {
		c.Schema, err = compactDocument(document)
	}
	if err == nil {
		err = r.propose(c.always)
	}
	return about("create topic", t.Name, err)
}

// Update implements [Store].
func (r *Replica) Update(name, id string, fn func(*Topic) error) (Topic, error) {
	var after Topic
	var refused error // by fn: returned as it is
	err := r.propose(func(s *State) (Change, error) {
		now := s.entry(name)
		switch {
		case now == nil:
			return Change{}, ErrNotFound
		case now.ID != id:
			return Change{}, ErrOtherIncarnation
		}
		after = now.Topic
		if refused = fn(&after); refused != nil {
			return Change{}, refused
		}
		if after == now.Topic {
			return Change{}, nil
		}
		if err := now.checkChange(&after); err != nil {
			return Change{}, err
		}
		proposed := after
		return Change{Op: opUpdate, Topic: &proposed}, nil
	})
	if err == nil {
		return after, nil
	}
	if refused != nil {
		return Topic{}, refused
	}
	return Topic{}, about("update topic", name, err)
}

// Replace implements [Store].
func (r *Replica) Replace(id string, t Topic) error {
	return about("replace topic", t.Name, r.propose(func(s *State) (Change, error) {
		if now := s.entry(t.Name); now != nil && now.ID != id {
			return Change{}, ErrOtherIncarnation
		}
		return Change{Op: opReplace, Topic: &t}, nil
	}))
}

// Delete implements [Store].
func (r *Replica) Delete(name, id string) error {
	c := Change{Op: opDelete, Topic: &Topic{Name: name, ID: id}}
	return about("delete topic", name, r.propose(c.always))
}

// AppendSchema implements [Store].
func (r *Replica) AppendSchema(name, id string, base int, document json.RawMessage) (int, error) {
	document, err := compactDocument(document)
	if err == nil {
		c := Change{Op: opSchema, Topic: &Topic{Name: name, ID: id}, Base: base, Schema: document}
		err = r.propose(c.always)
	}
	if err != nil {
		return 0, about("append a schema to topic", name, err)
	}
	return base + 1, nil
}

// CreateUser implements [Store].
func (r *Replica) CreateUser(u User) error {
	record := userRecord(u.clone())
	c := Change{Op: opCreateUser, User: &record}
	return about("create user", u.Name, r.propose(c.always))
}

// SetPassword implements [Store].
func (r *Replica) SetPassword(name string, hash []byte, atMs int64) error {
	c := Change{Op: opSetPassword, User: &userRecord{Name: name, PasswordHash: bytes.Clone(hash), UpdatedAtMs: atMs}}
	return about("set password of user", name, r.propose(c.always))
}

// SetGrants implements [Store].
func (r *Replica) SetGrants(name string, grants []Grant, atMs int64) error {
	c := Change{Op: opSetGrants, User: &userRecord{Name: name, Grants: cloneGrants(grants), UpdatedAtMs: atMs}}
	return about("set grants of user", name, r.propose(c.always))
}

// DeleteUser implements [Store].
func (r *Replica) DeleteUser(name string) error {
	c := Change{Op: opDeleteUser, User: &userRecord{Name: name}}
	return about("delete user", name, r.propose(c.always))
}

// always is the plan that proposes c whatever the state.
func (c Change) always(*State) (Change, error) { return c, nil }

// about says what failed. A name that clashes says so itself.
func about(what, name string, err error) error {
	var clash *CaseClashError
	if err == nil || errors.As(err, &clash) {
		return err
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}
