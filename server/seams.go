package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"narad/engine"
)

// This file holds what the server asks of the parts that are plugged into it by Options. Each may be nil, which turns it
// off. All methods may be called from any number of goroutines at once.

// Action is something that a user does with a topic, or with the node.
type Action uint8

// The actions. Administrators may do all of them.
const (
	ActionProduce Action = iota // store messages
	ActionConsume               // lease, settle and replay messages
	ActionCreate                // create a topic of this name
	ActionRead                  // describe a topic: any grant that matches its name, whatever the action, or ownership
	ActionManage                // alter, delete, attach, detach: ownership
	ActionAdmin                 // users, cluster, remotes; names no topic
)

// Auth says who sends a request and what that user may do. Without one security is off: requests carry no credentials, and
// everybody may do everything.
type Auth interface {
	// Authenticate returns the user who sends r. It is called before anything else is looked at, for every route but the
	// health routes. Its errors are *Error: 401, which the server answers with WWW-Authenticate, 429 for too many
	// failed logins, or 503. It must be quick for credentials that it has verified before.
	Authenticate(r *http.Request) (user string, err error)
	// May reports whether the user may do this to the topic of that name and owner; owner is empty when there is no such
	// topic, or nobody owns it. It answers from memory.
	May(user string, action Action, topic, owner string) bool
}

// Schemas checks messages and documents against the schemas of topics. Without one, documents are refused and messages are not
// checked. Its errors are *Error, or errors of the engine or metastore.
type Schemas interface {
	// Check checks a payload that is about to be produced to t. Of several calls for one batch all are made before anything is
	// stored. It is called for every message: a topic without a schema must cost next to nothing. ctx ends when the client leaves.
	Check(ctx context.Context, t *engine.Topic, payload []byte) error
	// CheckFirst checks the document of a topic that is about to be created, and returns it as it is to be stored, nil
	// when the topic is to have no schema.
	CheckFirst(ctx context.Context, topic string, doc json.RawMessage) (json.RawMessage, error)
	// Append makes doc the newest schema of t, unless it says the same as the newest. base is the version that the client
	// has seen, nil when it did not say. (PATCH)
	Append(ctx context.Context, t *engine.Topic, base *int64, doc json.RawMessage) error
	// Current returns the newest schema of t and its version; 0 and nil when it has none. It is in the description of a topic.
	Current(t *engine.Topic) (version int, doc json.RawMessage)
}

// Observer is told of requests, for metrics. It is called once or twice a request and must be quick.
type Observer interface {
	// Started reports that a request has begun; it is in flight until Finished.
	Started()
	// Finished reports the end of a request.
	Finished(Request)
	// Waited reports a consume that came to its end.
	Waited(topic string, outcome WaitOutcome, took time.Duration)
	// ProduceRefused reports a message that was refused for a reason of its topic, "schema" so far.
	ProduceRefused(topic, reason string)
	// BatchBodyRefused reports a batch that was refused because the bodies being read are at their limit.
	BatchBodyRefused()
}

// Request is what is known of a request at its end.
type Request struct {
	Route   string // as in the table of routes, "unmatched" otherwise: the values are few
	Method  string // GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or "OTHER"
	Status  int    // 499 when the client left before it was answered
	Took    time.Duration
	In, Out int64 // bytes of the bodies; In as far as the server read it
}

// WaitOutcome says how a consume ended.
type WaitOutcome uint8

// The outcomes.
const (
	WaitHit       WaitOutcome = iota // messages were handed out
	WaitTimeout                      // none came within the wait
	WaitCancelled                    // the client left, or the server stops
	WaitNone                         // nothing was there, and the client did not wait
)

func (o WaitOutcome) String() string {
	return [...]string{"hit", "timeout", "cancelled", "no_wait"}[o]
}

// StatusPage serves pages below /status to a user who may read some topics. mayRead says which.
type StatusPage func(w http.ResponseWriter, r *http.Request, mayRead func(topic, owner string) bool)

// Error is an answer other than success: what a client reads, and with which status.
type Error struct {
	Status     int
	Text       string
	RetryAfter int            // seconds; 0 for none, a 503 always has one
	Plain      bool           // plain text instead of {"error":…}
	Fields     map[string]any // more fields of the JSON body
	Cause      error          // logged when the status is 500, never sent
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }
