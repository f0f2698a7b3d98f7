package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"narad/engine"
	"narad/metastore"
	"narad/schema"
)

// NewSchemas returns [Schemas] that are kept in a metastore and checked by a checker.
func NewSchemas(store metastore.Store, checker *schema.Checker) Schemas {
	return &topicSchemas{store: store, checker: checker}
}

type topicSchemas struct {
	store   metastore.Store
	checker *schema.Checker
	newest  sync.Map // id of an incarnation to newestSchema
	kept    atomic.Int64
}

// newestKept bounds the incarnations that newest remembers; beyond it, it starts anew.
const newestKept = 100_000

// newestSchema is the newest version of a topic's schema as the store had it at a version of its own.
type newestSchema struct {
	at       uint64
	version  int // 0: none
	document json.RawMessage
}

// newestOf returns the newest version. It reads the store only after something in it has changed. What it remembers
// belongs to an incarnation, so that a later topic of the same name is never taken for this one (B201).
func (s *topicSchemas) newestOf(t *engine.Topic) newestSchema {
	at := s.store.Version() // before the schemas: what is remembered may be newer than it says, never older
	if found, ok := s.newest.Load(t.ID); ok {
		if n := found.(newestSchema); n.at == at {
			return n
		}
	}
	n := newestSchema{at: at}
	if all := s.store.Schemas(t.Name); len(all) > 0 {
		n.version, n.document = all[len(all)-1].Version, all[len(all)-1].Document
	}
	if now, ok := s.store.Get(t.Name); !ok || now.ID != t.ID {
		return n // perhaps of another incarnation: it serves this call only
	}
	if s.kept.Add(1) > newestKept {
		s.newest.Clear()
		s.kept.Store(0)
	}
	s.newest.Store(t.ID, n)
	return n
}

// Check implements [Schemas].
func (s *topicSchemas) Check(ctx context.Context, t *engine.Topic, payload []byte) error {
	n := s.newestOf(t)
	if n.version == 0 {
		return nil
	}
	return schemaError(s.checker.Check(ctx, schema.Key{ID: t.ID, Version: n.version}, t.Name, n.document, payload))
}

// CheckFirst implements [Schemas].
func (s *topicSchemas) CheckFirst(ctx context.Context, topic string, doc json.RawMessage) (json.RawMessage, error) {
	return s.next(ctx, topic, nil, nil, doc)
}

// Append implements [Schemas]. When the history has moved on meanwhile, the document is checked against the new one once
// more, unless the client named the version that it had seen.
func (s *topicSchemas) Append(ctx context.Context, t *engine.Topic, base *int64, doc json.RawMessage) error {
	for tries := 1; ; tries++ {
		var history [][]byte
		for _, version := range s.store.Schemas(t.Name) {
			history = append(history, version.Document)
		}
		next, err := s.next(ctx, t.Name, history, base, doc)
		if err != nil || next == nil {
			return err
		}
		_, err = s.store.AppendSchema(t.Name, t.ID, len(history), next)
		if !errors.Is(err, metastore.ErrSchemaConflict) || base != nil || tries == 2 {
			return err
		}
	}
}

func (s *topicSchemas) next(ctx context.Context, topic string, history [][]byte, base *int64, doc json.RawMessage) (next json.RawMessage, err error) {
	err = s.checker.Document(ctx, func() (err error) {
		next, err = schema.Next(topic, history, base, doc)
		return err
	})
	return next, schemaError(err)
}

// schemaError returns what a client is told.
func schemaError(err error) error {
	var refused *schema.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Reason == schema.ReasonBusy:
		return &Error{Status: http.StatusServiceUnavailable, Text: refused.Text, RetryAfter: 1}
	case errors.As(err, &refused) && refused.Reason == schema.ReasonCanceled:
		return errClientLeft
	case errors.Is(err, schema.ErrVersion), errors.Is(err, schema.ErrIncompatible), errors.Is(err, schema.ErrFull):
		return &Error{Status: http.StatusConflict, Text: err.Error()}
	case refused != nil:
		return &Error{Status: http.StatusBadRequest, Text: refused.Text}
	default:
		return err
	}
}

// Current implements [Schemas].
func (s *topicSchemas) Current(t *engine.Topic) (version int, doc json.RawMessage) {
	n := s.newestOf(t)
	return n.version, n.document
}

func (s *Server) schemaRoutes() []route {
	return []route{{"GET /v1/topics/{topic}/schema", s.getSchema}}
}

// getSchema returns all versions of a topic's schema.
func (s *Server) getSchema(x *exchange) error {
	t, err := x.found(ActionRead)
	if err != nil {
		return err
	}
	body := struct {
		Topic    string             `json:"topic"`
		Version  int                `json:"version"`
		Versions []metastore.Schema `json:"versions"`
	}{t.Name, 0, s.engine.Metastore().Schemas(t.Name)}
	if body.Versions == nil {
		body.Versions = []metastore.Schema{}
	}
	body.Version = len(body.Versions)
	return x.value(http.StatusOK, body)
}
