package schema

import (
	"errors"
	"fmt"
)

// Reason says what was wrong, in one word, for a metric.
type Reason string

// The reasons.
const (
	ReasonDepth     Reason = "depth"              // nested too deep
	ReasonMalformed Reason = "malformed"          // not one JSON text, or a document that is no JSON Schema
	ReasonInvalid   Reason = "invalid"            // a message that does not match its schema
	ReasonBusy      Reason = "busy"               // no slot became free
	ReasonCanceled  Reason = "canceled"           // the client left while it waited for a slot
	ReasonPaths     Reason = "definition_paths"   // a document whose subschemas are applied too often
	ReasonPattern   Reason = "definition_pattern" // a document with a pattern that costs too much
)

// Error is a refusal of a message or a document. Its text is for the client, and may quote what it sent.
type Error struct {
	Reason Reason
	Text   string
}

func (e *Error) Error() string { return e.Text }

// prefix begins the text of every error that is the client's.
const prefix = "invalid argument: schema: "

func refuse(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Text: cut(prefix + fmt.Sprintf(format, args...))}
}

// ErrBusy reports that no slot for an expensive check became free in time. Nothing was stored. Clients know the
// text.
var ErrBusy = &Error{Reason: ReasonBusy, Text: "schema: validation capacity busy, retry"}

// Errors of a change to the schema of a topic.
var (
	// ErrVersion reports that the newest version is not the one that the change was made for.
	ErrVersion = errors.New("schema: the newest version is not the one that this change is based on")
	// ErrIncompatible reports a document that may refuse what the newest version accepts. It is wrapped with where and why.
	ErrIncompatible = errors.New("schema: the new version may refuse messages that the newest version accepts")
	// ErrFull reports a history that may not grow.
	ErrFull = errors.New("schema: the history is full")
)
