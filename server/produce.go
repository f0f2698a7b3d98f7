package server

import (
	"narad/engine"
)

// produce stores the body, byte for byte. 202 says that it is on disk.
func (s *Server) produce(x *exchange) error {
	if err := x.mayDo(ActionProduce); err != nil {
		return err
	}
	q, err := x.query()
	if err != nil {
		return err
	}
	m := engine.Message{Topic: x.topic}
	if m.Partition, err = q.partition(); err != nil {
		return err
	}
	key, given, err := q.single("key")
	if err != nil {
		return err
	}
	if given {
		m.Key = []byte(key)
	}
	if _, err := s.engine.Topic(m.Topic); err != nil { // before a body for nobody is read
		return err
	}
	if m.Payload, err = x.body(engine.MaxPayload); err != nil {
		return err
	}
	if err := s.engine.Produce(m); err != nil {
		return err
	}
	return x.accepted()
}
