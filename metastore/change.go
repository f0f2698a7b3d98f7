package metastore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Operations of a change.
const (
	opCreate  = "create" // with the first version of the schema, if there is one
	opUpdate  = "update"
	opDelete  = "delete"  // only name and id of the topic are given
	opReplace = "replace" // gives a name to another incarnation with the topic's settings
	opSchema  = "append-schema"

	opCreateUser  = "create-user"
	opSetPassword = "set-password" // only name, hash and time of the user are given
	opSetGrants   = "set-grants"   // only name, grants and time of the user are given
	opDeleteUser  = "delete-user"  // only the name of the user is given
)

// changeBytesMax bounds the encoding of a change. A document of SchemaBytesMax fits.
const changeBytesMax = 1 << 20

// Change is one step from a [State] to the next. It holds everything that is not determined by the state, so applying it gives
// the same result everywhere. A Change is never written to once it is made.
type Change struct {
	Op     string          `json:"op"`
	Topic  *Topic          `json:"topic,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Base   int             `json:"base,omitempty"` // the newest version of the schema before an append
	User   *userRecord     `json:"user,omitempty"`
}

// UnknownChangeError reports a change that a newer program made. To pass it over would make this state another than
// everybody else's.
type UnknownChangeError struct {
	Why string
}

func (e *UnknownChangeError) Error() string {
	return "a change that this program does not know: " + e.Why
}

// IsNone reports whether there is nothing to change.
func (c Change) IsNone() bool { return c.Op == "" }

// Name returns the topic or user that the change is about.
func (c Change) Name() string {
	switch {
	case c.Topic != nil:
		return c.Topic.Name
	case c.User != nil:
		return c.User.Name
	}
	return ""
}

// Encode returns the bytes of a change.
func (c Change) Encode() ([]byte, error) {
	b, err := encodeJSON(c)
	if err == nil && len(b) > changeBytesMax {
		err = fmt.Errorf("%w: a change of %d bytes, at most %d are allowed", ErrInvalid, len(b), changeBytesMax)
	}
	return b, err
}

// DecodeChange reads the bytes of a change. The error is an *UnknownChangeError when they are a change of a newer program.
func DecodeChange(b []byte) (Change, error) {
	var c Change
	if strict := decodeStrict(b, &c); strict != nil {
		c = Change{}
		if err := json.Unmarshal(b, &c); err != nil {
			return Change{}, err
		}
		return Change{}, &UnknownChangeError{strict.Error()}
	}
	if !c.known() {
		return Change{}, &UnknownChangeError{fmt.Sprintf("operation %.40q", c.Op)}
	}
	if !c.complete() {
		return Change{}, fmt.Errorf("%s lacks what it is about", c.Op)
	}
	return c, nil
}

func (c Change) known() bool { return c.aboutTopic() || c.aboutUser() }

func (c Change) aboutTopic() bool {
	switch c.Op {
	case opCreate, opUpdate, opDelete, opReplace, opSchema:
		return true
	}
	return false
}

func (c Change) aboutUser() bool {
	switch c.Op {
	case opCreateUser, opSetPassword, opSetGrants, opDeleteUser:
		return true
	}
	return false
}

func (c Change) complete() bool {
	return (c.Topic != nil) == c.aboutTopic() && (c.User != nil) == c.aboutUser()
}

// encodeJSON writes a document as it is: characters are not escaped for HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// contents is a state as a change looks at it.
type contents interface {
	entry(name string) *entry                        // nil when no topic has this name
	clash(name string) (existing string, found bool) // a topic whose name differs at most in case
	user(name string) *userRecord                    // nil when no user has this name
	schemaTotal() int64                              // bytes of all documents
}

// check returns why a change cannot be made to a state, nil when it can. It decides the same before a change is proposed and
// where it is applied.
func (c *Change) check(in contents) error {
	switch {
	case !c.known():
		return &UnknownChangeError{fmt.Sprintf("operation %.40q", c.Op)}
	case !c.complete():
		return fmt.Errorf("%w: %s lacks what it is about", ErrInvalid, c.Op)
	case c.Op == opCreate:
		return c.checkCreate(in)
	case c.aboutTopic():
		return c.checkTopic(in)
	}
	return c.checkUser(in)
}

func (c *Change) checkCreate(in contents) error {
	if err := c.Topic.check(); err != nil {
		return err
	}
	if existing, clash := in.clash(c.Topic.Name); clash && existing == c.Topic.Name {
		return ErrExists
	} else if clash {
		return &CaseClashError{Name: c.Topic.Name, Existing: existing}
	}
	if owner := c.Topic.Owner; owner != "" && in.user(owner) == nil {
		return fmt.Errorf("owner %s: %w", owner, ErrUserNotFound)
	}
	if c.Schema == nil {
		return nil
	}
	return c.checkRoom(in, nil)
}

// checkRoom returns why the document cannot follow these versions.
func (c *Change) checkRoom(in contents, before []Schema) error {
	if err := checkDocument(c.Schema); err != nil {
		return err
	}
	size := int64(len(c.Schema))
	switch {
	case len(before) >= SchemaVersionsMax:
		return fmt.Errorf("%w: the topic has %d versions", ErrSchemaBudget, len(before))
	case schemaBytes(before)+size > SchemaTopicBytesMax:
		return fmt.Errorf("%w: the topic's versions would take more than %d bytes", ErrSchemaBudget, SchemaTopicBytesMax)
	case in.schemaTotal()+size > SchemaTotalBytesMax:
		return fmt.Errorf("%w: all schemas would take more than %d bytes", ErrSchemaBudget, SchemaTotalBytesMax)
	}
	return nil
}

// checkTopic judges a change of a topic that must exist.
func (c *Change) checkTopic(in contents) error {
	now := in.entry(c.Topic.Name)
	if now == nil {
		return ErrNotFound
	}
	switch c.Op {
	case opUpdate:
		if now.ID != c.Topic.ID {
			return ErrOtherIncarnation
		}
		return now.checkChange(c.Topic)
	case opReplace:
		return now.checkReplacement(c.Topic)
	}
	if now.ID != c.Topic.ID {
		return ErrOtherIncarnation
	}
	if c.Op == opDelete {
		return nil
	}
	if c.Base != len(now.Schemas) {
		return fmt.Errorf("%w: version %d is the newest, not %d", ErrSchemaConflict, len(now.Schemas), c.Base)
	}
	return c.checkRoom(in, now.Schemas)
}

func (c *Change) checkUser(in contents) error {
	now := in.user(c.User.Name)
	if c.Op == opCreateUser {
		if now != nil {
			return ErrUserExists
		}
		return c.User.check()
	}
	if now == nil {
		return ErrUserNotFound
	}
	switch c.Op {
	case opSetPassword:
		return checkHash(c.User.PasswordHash)
	case opSetGrants:
		if now.Root {
			return fmt.Errorf("%w grant: those of the root user are fixed", ErrInvalid)
		}
		return ValidateGrants(c.User.Grants)
	}
	if now.Root {
		return fmt.Errorf("%w user: the root user cannot be deleted", ErrInvalid)
	}
	return nil
}

// topicAfter returns a topic as it is after a change that is legal; nil when it is gone. The entry before is nil for a new topic.
func (c *Change) topicAfter(before *entry) *entry {
	after := &entry{}
	if before != nil {
		*after = *before
	}
	switch c.Op {
	case opDelete:
		return nil
	case opSchema:
		after.appendSchema(c.Schema)
	default:
		after.Topic = *c.Topic
		if c.Schema != nil {
			after.appendSchema(c.Schema)
		}
	}
	return after
}

// userAfter returns a user as it is after a change that is legal; nil when it is gone.
func (c *Change) userAfter(before *userRecord) *userRecord {
	after := &userRecord{}
	if before != nil {
		*after = *before
	}
	switch c.Op {
	case opDeleteUser:
		return nil
	case opCreateUser:
		*after = *c.User
	case opSetPassword:
		after.PasswordHash, after.UpdatedAtMs = c.User.PasswordHash, c.User.UpdatedAtMs
	case opSetGrants:
		after.Grants, after.UpdatedAtMs = c.User.Grants, c.User.UpdatedAtMs
	}
	return after
}

// foldName returns the same for names that differ only in the case of their letters.
func foldName(name string) string { return strings.ToLower(name) }
