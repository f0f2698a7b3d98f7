package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"narad/engine"
)

// consume leases one message to the client, waiting for one as long as it asks.
func (s *Server) consume(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // a HEAD would lease a message and throw it away
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	req := &engine.ConsumeRequest{Topic: r.PathValue("topic")}
	clamped, err := s.consumeParams(r, req)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if s.isStopping() {
		s.fail(w, http.StatusServiceUnavailable, "shutting down; nothing is handed out any more")
		return
	}
	if clamped {
		w.Header().Set("X-Narad-Wait-Clamped", req.Wait.String())
	}
	defer context.AfterFunc(r.Context(), req.Cancel)()
	defer context.AfterFunc(s.stopping, req.Cancel)()
	d, err := s.engine.Consume(req)
	switch {
	case err == nil:
		s.deliver(w, r, d)
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrCancelled): // cancelled: stopping, or nobody is there to read this
		w.WriteHeader(http.StatusNoContent)
	default:
		s.failWith(w, r, err)
	}
}

// consumeParams fills in the request and reports whether the wait was cut.
func (s *Server) consumeParams(r *http.Request, req *engine.ConsumeRequest) (clamped bool, err error) {
	q, err := query(r)
	if err != nil {
		return false, err
	}
	for _, name := range []string{"offset", "max"} {
		if q.Has(name) {
			return false, badf("%s is not supported by this server", name)
		}
	}
	if req.Partition, err = partitionParam(q); err != nil {
		return false, err
	}
	if req.Wait, err = waitParam(q); err != nil {
		return false, err
	}
	if req.Wait > s.opts.MaxConsumeWait {
		req.Wait = s.opts.MaxConsumeWait
		return true, nil
	}
	return false, nil
}

func waitParam(q url.Values) (time.Duration, error) {
	text, given, err := single(q, "wait")
	if err != nil || !given {
		return 0, err
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, badf("wait is not a duration like 10s")
	}
	return wait, nil
}

// deliver sends a message. When the client has left, or cannot be written to, nobody holds the handle: the
// lease is given back, so that the next consumer gets the message at once.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, d *engine.Delivery) {
	err := r.Context().Err()
	if err == nil {
		err = writeJSON(w, http.StatusOK, appendMessage(nil, d))
	}
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return
	}
	err = s.engine.Nack(d.Topic, d.Handle)
	if err != nil && !errors.Is(err, engine.ErrLeaseGone) && !errors.Is(err, engine.ErrClosed) {
		s.opts.Logger.Error("a message whose client had left could not be given back", "topic", d.Topic, "error", err)
	}
}
