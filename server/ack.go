package server

import (
	"narad/inflight"
)

// ack settles, extends or gives back one lease. 204 says that it was done, 410 that the handle names no
// live lease and nothing changed.
func (s *Server) ack(x *exchange) error {
	if err := x.mayDo(ActionConsume); err != nil {
		return err
	}
	apply, handle, err := s.ackParams(x)
	if err == nil {
		err = apply(x.topic, handle)
	}
	if err != nil {
		return err
	}
	return x.noContent()
}

// ackParams returns what to do with which lease. The first of a repeated parameter counts.
func (s *Server) ackParams(x *exchange) (apply func(string, inflight.Handle) error, h inflight.Handle, err error) {
	q, err := x.query()
	if err != nil {
		return nil, h, err
	}
	if apply, err = s.ackMode(q); err != nil {
		return nil, h, err
	}
	text, given := q.first("receipt_handle")
	if !given && x.r.ContentLength != 0 {
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

func (s *Server) ackMode(q params) (func(string, inflight.Handle) error, error) {
	switch mode, _ := q.first("extend"); mode {
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
