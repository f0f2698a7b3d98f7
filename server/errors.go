package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"narad/engine"
	"narad/metastore"
)

// badRequest is a request that the server refuses by itself. Its text goes to the client.
type badRequest string

func (e badRequest) Error() string { return string(e) }

func badf(format string, args ...any) error { return badRequest(fmt.Sprintf(format, args...)) }

// Answers that need no details.
var (
	errForbidden = &Error{Status: http.StatusForbidden, Text: "you may not do this"}
	errContent   = &Error{Status: http.StatusUnsupportedMediaType,
		Text: "send Content-Type application/json or application/octet-stream, or an " + clientHeader + " header"}
	errStopping = &Error{Status: http.StatusServiceUnavailable, Text: "shutting down; nothing is handed out any more"}
)

// statusOf returns the status that tells a client of an error.
func statusOf(err error) int {
	var bad badRequest
	var own *Error
	switch {
	case errors.As(err, &own):
		return own.Status
	case errors.As(err, &bad), errors.Is(err, engine.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, engine.ErrTopicNotFound):
		return http.StatusNotFound
	case errors.Is(err, engine.ErrTopicExists):
		return http.StatusConflict
	case errors.Is(err, engine.ErrLeaseGone), errors.Is(err, engine.ErrOffsetGone):
		return http.StatusGone
	case errors.Is(err, engine.ErrTooLarge), errors.Is(err, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, engine.ErrClosed):
		return http.StatusServiceUnavailable
	default:
		return metastoreStatus(err)
	}
}

// textOf returns what the client reads. An internal error names files and causes that are not its business.
func textOf(err error) string {
	var own *Error
	switch {
	case errors.As(err, &own):
		return err.Error()
	case errors.Is(err, engine.ErrProduceFailed):
		return engine.ErrProduceFailed.Error()
	case errors.Is(err, engine.ErrOffsetGone):
		return engine.ErrOffsetGone.Error()
	case statusOf(err) == http.StatusInternalServerError:
		return "internal error"
	default:
		return err.Error()
	}
}

// metastoreStatus returns the status of a change that the metastore did not make.
func metastoreStatus(err error) int {
	var clash *metastore.CaseClashError
	switch {
	case errors.Is(err, metastore.ErrNoLeader), errors.Is(err, metastore.ErrUncertain), errors.Is(err, metastore.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.As(err, &clash), errors.Is(err, metastore.ErrExists), errors.Is(err, metastore.ErrUserExists),
		errors.Is(err, metastore.ErrSchemaConflict), errors.Is(err, metastore.ErrSchemaBudget):
		return http.StatusConflict
	case errors.Is(err, metastore.ErrNotFound), errors.Is(err, metastore.ErrUserNotFound):
		return http.StatusNotFound
	case errors.Is(err, metastore.ErrInvalid):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// fail answers with the status and text of err, which is not nil. When the handler has answered already, it does nothing.
func (x *exchange) fail(err error) {
	if x.status != 0 {
		return
	}
	if errors.Is(err, errClientLeft) {
		x.clientLeft(http.StatusServiceUnavailable)
		return
	}
	status := statusOf(err)
	x.logInternal(err)
	own := &Error{}
	errors.As(err, &own)
	h := x.Header()
	switch {
	case own.RetryAfter > 1:
		h["Retry-After"] = []string{strconv.Itoa(own.RetryAfter)}
	case own.RetryAfter == 1, status == http.StatusServiceUnavailable:
		h["Retry-After"] = headerOne
	}
	if status == http.StatusUnauthorized {
		h["Www-Authenticate"] = headerBasic
	}
	if own.Plain {
		http.Error(x, textOf(err), status)
		return
	}
	_ = x.json(status, errorBody(textOf(err), own.Fields)) // the client has gone: there is nobody to tell
}

// producePause is how long at least lies between two log lines of failed produces: once the ingress log has failed, all of
// them do, and for the same reason.
const producePause = 10 * time.Second

// logInternal logs an error whose cause the client is not told.
func (x *exchange) logInternal(err error) {
	if errors.Is(err, engine.ErrProduceFailed) {
		now, last := time.Now().UnixNano(), x.s.produceLogged.Load()
		if last != 0 && now-last < int64(producePause) || !x.s.produceLogged.CompareAndSwap(last, now) {
			return
		}
	}
	if statusOf(err) == http.StatusInternalServerError {
		x.s.opts.Logger.Error("a request failed", "method", x.r.Method, "route", x.r.Pattern, "topic", x.topic, "error", err)
	}
}

// errorBody returns {"error":text} with more fields behind it.
func errorBody(text string, fields map[string]any) []byte {
	body := appendString([]byte(`{"error":`), text)
	if len(fields) == 0 {
		return append(body, '}')
	}
	more := encode(fields)
	more[0] = ','
	return append(body, more...)
}

// encode returns the JSON of a value of ours, as encoding/json writes it.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // what is passed here always encodes
	}
	return body
}
