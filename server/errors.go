package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"narad/engine"
)

// statusOf returns the status that tells a client of an error.
func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, engine.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, engine.ErrTopicNotFound):
		return http.StatusNotFound
	case errors.Is(err, engine.ErrTopicExists):
		return http.StatusConflict
	case errors.Is(err, engine.ErrLeaseGone):
		return http.StatusGone
	case errors.Is(err, engine.ErrTooLarge), errors.Is(err, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, engine.ErrClosed):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// textOf returns what the client reads. An internal error names files and causes that are not its business.
func textOf(err error) string {
	switch {
	case errors.Is(err, engine.ErrProduceFailed):
		return engine.ErrProduceFailed.Error()
	case statusOf(err) == http.StatusInternalServerError:
		return "internal error"
	default:
		return err.Error()
	}
}

// failWith answers with the status and text of err.
func (s *Server) failWith(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == http.StatusInternalServerError {
		s.opts.Logger.Error("a request failed", "method", r.Method, "route", r.Pattern, "topic", r.PathValue("topic"), "error", err)
	}
	s.fail(w, status, textOf(err))
}

// fail answers with a status and a text. Of a 503 the server knows that nothing was done.
func (s *Server) fail(w http.ResponseWriter, status int, text string) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	body, err := json.Marshal(struct {
		Error string `json:"error"`
	}{text})
	if err != nil {
		panic(err) // a string always encodes
	}
	writeJSON(w, status, body)
}

// writeJSON sends one line of JSON with its length.
func writeJSON(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, err := w.Write(append(body, '\n'))
	return err
}
