package metastore

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Topic is what the store knows of a topic.
type Topic struct {
	Name          string `json:"name"`
	ID            string `json:"id"` // incarnation: 16 lower-case hexadecimal digits, minted by whoever creates the topic
	Partitions    int32  `json:"partitions"`
	RetentionMs   int64  `json:"retention_ms"` // 0: keep for ever
	VisibilityMs  int64  `json:"visibility_timeout_ms"`
	MaxInFlight   int32  `json:"max_in_flight_per_partition"`
	MaxAckedAhead int32  `json:"max_acked_ahead_per_partition"`
	CreatedAt     int64  `json:"created_at"`      // unix seconds
	Owner         string `json:"owner,omitempty"` // the user that created it; empty when there is none, or none any more
}

// Store holds topics with their schemas, and users. Reads see one consistent state at a time and never wait for a change.
// Changes wait for each other; one that returns nil is durable, and every later read of this store shows it. What reads return
// is the caller's, except for the documents of schemas, which must not be written to.
//
// A change that returns an error has not been made, unless the error wraps [ErrFailed] or [ErrUncertain]: then it may have been
// made, or may still be made. Any change may return ErrFailed, ErrClosed, ErrNoLeader and ErrUncertain.
type Store interface {
	// Get returns the topic of a name.
	Get(name string) (Topic, bool)
	// List returns up to limit topics with names after the given one, in byte order of their names. A limit of 0 or less
	// means all.
	List(after string, limit int) []Topic
	// Version grows with every change. The state that reads show is at least as new as a version read before.
	Version() uint64
	// Create adds a topic without a schema. Errors: ErrExists, *CaseClashError, ErrInvalid, ErrUserNotFound (the owner).
	Create(t Topic) error
	// CreateWithSchema adds a topic with the first version of its schema, in one step; a nil document is none. Errors: those of
	// Create, ErrSchemaBudget.
	CreateWithSchema(t Topic, document json.RawMessage) error
	// Update changes the settings of the incarnation id of a topic as fn does, and returns the topic as it is then. fn must
	// not block or call the store, and may be called more than once, each time with the newest settings. When fn
	// changes nothing, nothing is written. Errors: what fn returns, ErrNotFound, ErrInvalid.
	Update(name, id string, fn func(*Topic) error) (Topic, error)
	// Replace gives the name of the incarnation id to the incarnation t.ID, in one step. Nothing but the id may differ; the
	// schemas go on. Errors: ErrNotFound, ErrInvalid.
	Replace(id string, t Topic) error
	// Delete removes the incarnation id of a topic and its schemas. Errors: ErrNotFound.
	Delete(name, id string) error

	// Schemas returns the versions of a topic's schema, oldest first: 1, 2, and so on.
	Schemas(name string) []Schema
	// AppendSchema adds a version to the incarnation id of a topic and returns its number. The base is the newest version, 0 for
	// none, that the document was checked against. Errors: ErrSchemaConflict when that is not the newest any more,
	// ErrSchemaBudget, ErrNotFound, ErrInvalid.
	AppendSchema(name, id string, base int, document json.RawMessage) (version int, err error)

	// User returns the user of a name.
	User(name string) (User, bool)
	// Users returns all users in byte order of their names.
	Users() []User
	// CreateUser adds a user. Errors: ErrUserExists, ErrInvalid.
	CreateUser(u User) error
	// SetPassword changes the password hash of a user and nothing else. Errors: ErrUserNotFound, ErrInvalid.
	SetPassword(name string, hash []byte, atMs int64) error
	// SetGrants changes the grants of a user and nothing else. Errors: ErrUserNotFound, ErrInvalid.
	SetGrants(name string, grants []Grant, atMs int64) error
	// DeleteUser removes a user and, in the same step, the owner of each topic that it owns: nobody inherits them with the
	// name. Errors: ErrUserNotFound, ErrInvalid (the root user).
	DeleteUser(name string) error

	// Close releases the store. Everything answered is durable already. Reads keep answering.
	Close() error
}

var (
	// ErrExists reports that a topic of this very name exists.
	ErrExists = errors.New("topic exists")
	// ErrNotFound reports that no topic has this name, or not in this incarnation.
	ErrNotFound = errors.New("topic not found")
	// ErrOtherIncarnation is the ErrNotFound of a name that another incarnation has now.
	ErrOtherIncarnation = fmt.Errorf("%w: its name belongs to another incarnation", ErrNotFound)
	// ErrInvalid reports settings that no topic or user may have, or a change that none may undergo.
	ErrInvalid = errors.New("invalid")
	// ErrUserExists reports that a user of this name exists.
	ErrUserExists = errors.New("user exists")
	// ErrUserNotFound reports that no user has this name.
	ErrUserNotFound = errors.New("user not found")
	// ErrSchemaConflict reports that the schema of a topic has moved on since it was read.
	ErrSchemaConflict = errors.New("the schema changed since it was read")
	// ErrSchemaBudget reports that there is no room for another version of a schema.
	ErrSchemaBudget = errors.New("schema budget exceeded")
	// ErrNoLeader reports that no change can be made now, as no leader is known here. Nothing was changed.
	ErrNoLeader = errors.New("metastore has no leader")
	// ErrUncertain reports that the leader was lost while it made a change, which may still be made, or not.
	ErrUncertain = errors.New("metastore leader lost during a change, which may still be applied")
	// ErrFailed reports that a write failed, now or earlier: the store takes no change until it is opened again.
	ErrFailed = errors.New("metastore failed")
	// ErrClosed reports a change to a closed store.
	ErrClosed = errors.New("metastore is closed")
)

// CaseClashError reports a name that differs from an existing topic's only in the case of its letters. The two would share a
// directory on some file systems.
type CaseClashError struct {
	Name     string
	Existing string
}

func (e *CaseClashError) Error() string {
	return fmt.Sprintf("topic %q differs from the existing topic %q only in case", e.Name, e.Existing)
}

// CorruptError reports damage that cannot come from a crash.
type CorruptError struct {
	File   string
	Offset int64
	Why    string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("metastore: %s is damaged at byte %d: %s", e.File, e.Offset, e.Why)
}
