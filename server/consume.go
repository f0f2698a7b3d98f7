package server

import (
	"context"
	"errors"
	"net/http"

	"narad/engine"
)

// consume leases one message to the client, waiting for one as long as it asks.
func (s *Server) consume(x *exchange) error {
	if x.r.Method != http.MethodGet { // a HEAD would lease a message and throw it away
		x.Header().Set("Allow", http.MethodGet)
		return &Error{Status: http.StatusMethodNotAllowed, Text: http.StatusText(http.StatusMethodNotAllowed), Plain: true}
	}
	if err := x.mayDo(ActionConsume); err != nil {
		return err
	}
	req := &engine.ConsumeRequest{Topic: x.topic}
	clamped, err := s.consumeParams(x, req)
	if err != nil {
		return err
	}
	if s.isStopping() {
		return errStopping
	}
	if clamped {
		x.Header().Set("X-Narad-Wait-Clamped", req.Wait.String())
	}
	defer context.AfterFunc(x.r.Context(), req.Cancel)()
	defer context.AfterFunc(s.stopping, req.Cancel)()
	d, err := s.engine.Consume(req)
	switch {
	case err == nil:
		s.deliver(x, d)
		return nil
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrCancelled): // cancelled: stopping, or nobody is there to read this
		return x.noContent()
	}
	return err
}

// consumeParams fills in the request and reports whether the wait was cut.
func (s *Server) consumeParams(x *exchange, req *engine.ConsumeRequest) (clamped bool, err error) {
	q, err := x.query()
	if err != nil {
		return false, err
	}
	for _, name := range []string{"offset", "max"} {
		if q.has(name) {
			return false, badf("%s is not supported by this server", name)
		}
	}
	if req.Partition, err = q.partition(); err != nil {
		return false, err
	}
	if req.Wait, err = q.wait(); err != nil {
		return false, err
	}
	if req.Wait > s.opts.MaxConsumeWait {
		req.Wait = s.opts.MaxConsumeWait
		return true, nil
	}
	return false, nil
}

// deliver sends a message. When the client has left, or cannot be written to, nobody holds the handle: the
// lease is given back, so that the next consumer gets the message at once.
func (s *Server) deliver(x *exchange, d *engine.Delivery) {
	err := x.r.Context().Err()
	if err == nil {
		err = x.json(http.StatusOK, appendMessage(nil, d))
	}
	if err == nil {
		err = http.NewResponseController(x.ResponseWriter).Flush()
	}
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return
	}
	err = s.engine.Nack(d.Topic, d.Handle)
	if err != nil && !errors.Is(err, engine.ErrLeaseGone) && !errors.Is(err, engine.ErrClosed) {
		s.opts.Logger.Error("a message whose client had left could not be given back", "topic", d.Topic, "error", err)
	}
}
