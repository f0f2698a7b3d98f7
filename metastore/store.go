package metastore

import (
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
	CreatedAt     int64  `json:"created_at"` // unix seconds
}

// Store holds the topics. Reads see one consistent state at a time and never wait for a change; changes wait for each other
// and are durable when they return nil. A change that returns an error which wraps [ErrFailed] may have been made or not.
type Store interface {
	// Get returns the topic of a name.
	Get(name string) (Topic, bool)
	// List returns up to limit topics with names after the given one, in byte order of their names. A limit of 0 or less
	// means all.
	List(after string, limit int) []Topic
	// Version grows with every change. The state that Get and List show is at least as new as a version read before.
	Version() uint64
	// Create adds a topic. Errors: ErrExists, *CaseClashError, ErrInvalid, ErrFailed, ErrClosed.
	Create(t Topic) error
	// Update changes the settings of the incarnation id of a topic as fn does, which must not block or call the store, and
	// returns the topic as it is then. When fn changes nothing, nothing is written. Errors: what fn returns, ErrNotFound,
	// ErrInvalid, ErrFailed, ErrClosed.
	Update(name, id string, fn func(*Topic) error) (Topic, error)
	// Replace gives the name of the incarnation id to the incarnation t.ID, in one step. Nothing but the id may differ.
	// Errors: ErrNotFound, ErrInvalid, ErrFailed, ErrClosed.
	Replace(id string, t Topic) error
	// Delete removes the incarnation id of a topic. Errors: ErrNotFound, ErrFailed, ErrClosed.
	Delete(name, id string) error
	// Close releases the store. Everything answered is durable already.
	Close() error
}

var (
	// ErrExists reports that a topic of this very name exists.
	ErrExists = errors.New("topic exists")
	// ErrNotFound reports that no topic has this name, or not in this incarnation.
	ErrNotFound = errors.New("topic not found")
	// ErrOtherIncarnation is the ErrNotFound of a name that another incarnation has now.
	ErrOtherIncarnation = fmt.Errorf("%w: its name belongs to another incarnation", ErrNotFound)
	// ErrInvalid reports settings that no topic may have, or a change that no topic may undergo.
	ErrInvalid = errors.New("invalid topic")
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

// check returns an error that wraps ErrInvalid unless t is a topic that may exist.
func (t *Topic) check() error {
	if err := ValidateName(t.Name); err != nil {
		return err
	}
	switch {
	case !validID(t.ID):
		return fmt.Errorf("%w: id %q is not 16 lower-case hexadecimal digits", ErrInvalid, t.ID)
	case t.Partitions <= 0:
		return fmt.Errorf("%w: %d partitions", ErrInvalid, t.Partitions)
	case t.RetentionMs < 0:
		return fmt.Errorf("%w: retention of %d ms", ErrInvalid, t.RetentionMs)
	case t.VisibilityMs <= 0:
		return fmt.Errorf("%w: visibility timeout of %d ms", ErrInvalid, t.VisibilityMs)
	case t.MaxInFlight <= 0 || t.MaxAckedAhead <= 0:
		return fmt.Errorf("%w: caps %d and %d", ErrInvalid, t.MaxInFlight, t.MaxAckedAhead)
	}
	return nil
}

// checkReplacement returns an error that wraps ErrInvalid unless the incarnation to may follow t under its name.
func (t *Topic) checkReplacement(to *Topic) error {
	same := *to
	same.ID = t.ID
	if to.ID == t.ID || same != *t {
		return fmt.Errorf("%w: a replacement differs in its id and in nothing else", ErrInvalid)
	}
	return to.check()
}

// checkChange returns an error that wraps ErrInvalid unless a topic may turn from t into to.
func (t *Topic) checkChange(to *Topic) error {
	switch {
	case to.Name != t.Name || to.ID != t.ID || to.CreatedAt != t.CreatedAt:
		return fmt.Errorf("%w: name, id and creation time cannot change", ErrInvalid)
	case to.VisibilityMs != t.VisibilityMs:
		return fmt.Errorf("%w: the visibility timeout cannot change", ErrInvalid)
	case to.Partitions < t.Partitions:
		return fmt.Errorf("%w: partitions cannot shrink from %d to %d", ErrInvalid, t.Partitions, to.Partitions)
	}
	return to.check()
}
