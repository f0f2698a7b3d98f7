package server

import (
	"errors"
	"net/http"

	"narad/engine"
)

// produce stores the body, byte for byte. 202 says that it is on disk.
func (s *Server) produce(x *exchange) error {
	if err := x.mayDo(ActionProduce); err != nil {
		return err
	}
	m := engine.Message{Topic: x.topic}
	if err := x.destination(&m); err != nil {
		return err
	}
	if n := x.r.ContentLength; n < 0 || n > bodyExact { // before a large body for nobody is read
		if _, err := s.engine.Topic(m.Topic); err != nil {
			return err
		}
	}
	permit := s.produces.enter(x, 1)
	if permit == nil {
		return errTooManyProduces
	}
	defer permit.leave()
	s.producing.Add(1)
	defer s.producing.Add(-1)
	var err error
	if m.Payload, err = x.body(engine.MaxPayload); err != nil {
		return err
	}
	if err := s.store(x, &m); err != nil {
		return err
	}
	return x.accepted()
}

// store checks a message against the schema of its topic and stores it in the very incarnation that it was checked for.
func (s *Server) store(x *exchange, m *engine.Message) error {
	if s.opts.Schemas == nil || len(m.Payload) == 0 { // an empty one is refused for that
		return s.engine.Produce(*m)
	}
	for {
		t, err := s.engine.Topic(m.Topic)
		if err != nil {
			return err
		}
		if err := s.checkSchema(x, &t, m.Payload); err != nil {
			return err
		}
		m.Incarnation = t.ID
		if err := s.engine.Produce(*m); !errors.Is(err, engine.ErrTopicChanged) {
			return err
		}
	}
}

// destination reads where a message is to go.
func (x *exchange) destination(m *engine.Message) error {
	q, err := x.query()
	if err != nil {
		return err
	}
	if m.Partition, err = q.partition(); err != nil {
		return err
	}
	key, given, err := q.single("key")
	if given {
		m.Key = append(x.buffer(int64(len(key))), key...)
	}
	return err
}

// checkSchema refuses a payload that the schema of its topic does not allow.
func (s *Server) checkSchema(x *exchange, t *engine.Topic, payload []byte) error {
	err := s.opts.Schemas.Check(x.r.Context(), t, payload)
	if err != nil && s.opts.Observer != nil && statusOf(err) == http.StatusBadRequest {
		s.opts.Observer.ProduceRefused(t.Name, "schema")
	}
	if err != nil && isCancel(err) && x.left() {
		return errClientLeft
	}
	return err
}

// errClientLeft says that nobody is there to be answered.
var errClientLeft = errors.New("the client left")
