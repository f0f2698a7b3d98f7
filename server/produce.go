package server

import (
	"net/http"

	"narad/engine"
)

// produce stores the body, byte for byte. 202 says that it is on disk.
func (s *Server) produce(w http.ResponseWriter, r *http.Request) {
	m, err := s.message(w, r)
	if err == nil {
		err = s.engine.Produce(m)
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
}

func (s *Server) message(w http.ResponseWriter, r *http.Request) (engine.Message, error) {
	m := engine.Message{Topic: r.PathValue("topic")}
	q, err := query(r)
	if err != nil {
		return m, err
	}
	if m.Partition, err = partitionParam(q); err != nil {
		return m, err
	}
	key, _, err := single(q, "key")
	if err != nil {
		return m, err
	}
	m.Key = []byte(key)
	if _, err := s.engine.Topic(m.Topic); err != nil { // before a body for nobody is read
		return m, err
	}
	m.Payload, err = readBody(w, r, engine.MaxPayload)
	return m, err
}
