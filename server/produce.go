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
	t, err := s.engine.Topic(m.Topic) // before a body for nobody is read
	if err != nil {
		return err
	}
	permit := s.produces.enter(x, 1)
	if permit == nil {
		return errTooManyProduces
	}
	defer permit.leave()
	s.producing.Add(1)
	defer s.producing.Add(-1)
	if m.Payload, err = x.body(engine.MaxPayload); err != nil {
		return err
	}
	if len(m.Payload) > 0 { // an empty one is refused for that
		if err := s.checkSchema(x, &t, m.Payload); err != nil {
			return err
		}
	}
	if err := s.engine.Produce(m); err != nil {
		return err
	}
	return x.accepted()
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
		m.Key = []byte(key)
	}
	return err
}

// checkSchema refuses a payload that the schema of its topic does not allow.
func (s *Server) checkSchema(x *exchange, t *engine.Topic, payload []byte) error {
	if s.opts.Schemas == nil {
		return nil
	}
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
