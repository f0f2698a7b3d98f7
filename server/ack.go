package server

import (
	"net/http"
	"net/url"

	"narad/inflight"
)

// ack settles, extends or gives back one lease. 204 says that it was done, 410 that the handle names no
// live lease and nothing changed.
func (s *Server) ack(w http.ResponseWriter, r *http.Request) {
	apply, handle, err := s.ackParams(r)
	if err == nil {
		err = apply(r.PathValue("topic"), handle)
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ackParams returns what to do with which lease. The first of a repeated parameter counts.
func (s *Server) ackParams(r *http.Request) (apply func(string, inflight.Handle) error, h inflight.Handle, err error) {
	q, err := query(r)
	if err != nil {
		return nil, h, err
	}
	if apply, err = s.ackMode(q); err != nil {
		return nil, h, err
	}
	text := q.Get("receipt_handle")
	if text == "" && r.ContentLength != 0 && !q.Has("receipt_handle") {
		return nil, h, badf("receipt_handle is missing; a body of handles is not supported by this server")
	}
	if text == "" {
		return nil, h, badf("receipt_handle is missing")
	}
	if h, err = inflight.ParseHandle(text); err != nil {
		return nil, h, badf("%s", err)
	}
	return apply, h, nil
}

func (s *Server) ackMode(q url.Values) (func(string, inflight.Handle) error, error) {
	switch q.Get("extend") {
	case "", "false":
		return s.engine.Ack, nil
	case "true", "1":
		return s.engine.Extend, nil
	case "0":
		return s.engine.Nack, nil
	default:
		return nil, badf("extend is none of true, 1 (extend), 0 (give back), false (acknowledge)")
	}
}
