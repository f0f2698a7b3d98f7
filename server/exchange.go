package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"narad/engine"
)

// exchange is one request and its answer. It is the one ResponseWriter around that of net/http: it notes what metrics need
// and carries what the handlers share. It is used again for a later request once its own is over.
type exchange struct {
	http.ResponseWriter
	r     *http.Request
	s     *Server
	topic string // of the path
	user  string // empty while security is off

	status  int
	in, out int64
	began   time.Time

	permit  permit
	params  [6]param  // room for those of the query string
	held    []*[]byte // buffers to give back at the end
	charged int64     // bytes of the budget for batch bodies
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// handler answers one exchange, or returns why not; then [exchange.fail] does.
type handler func(x *exchange) error

// ServeHTTP implements [http.Handler] for the routes: what is behind the mux is always an exchange.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := w.(*exchange)
	x.r = r // with the values of the path
	x.topic = r.PathValue("topic")
	x.run(h)
}

func (x *exchange) run(h handler) {
	if err := h(x); err != nil {
		x.fail(err)
	}
}

// Unwrap is for [http.ResponseController].
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= 200 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.out += int64(n)
	return n, err
}

// left reports whether the client is gone. Nobody reads the answer then.
func (x *exchange) left() bool { return x.r.Context().Err() != nil }

// Values of headers that never change. They are shared, so that setting one costs nothing: never append to them.
var (
	headerJSON    = []string{"application/json"}
	headerNosniff = []string{"nosniff"}
	headerOne     = []string{"1"}
	headerBasic   = []string{`Basic realm="narad"`}
)

// accepted answers 202 without a body; net/http adds the Content-Length of 0. Like [exchange.noContent] it has no header of its
// own, so that none is made and copied.
func (x *exchange) accepted() error {
	x.WriteHeader(http.StatusAccepted)
	return nil
}

// noContent answers 204.
func (x *exchange) noContent() error {
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// json sends one line of JSON with its length, and returns an error only when the client cannot be reached. body is not
// kept; it has room for a newline when its capacity says so.
func (x *exchange) json(status int, body []byte) error {
	body = append(body, '\n')
	if a, ok := x.ResponseWriter.(*answer); ok {
		x.status, x.out = status, x.out+int64(len(body))
		return a.json(status, body)
	}
	h := x.Header()
	h["X-Content-Type-Options"] = headerNosniff
	h["Content-Type"] = headerJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.WriteHeader(status)
	_, err := x.Write(body)
	return err
}

// value sends v as JSON. An answer that does not arrive is no error of the handler's.
func (x *exchange) value(status int, v any) error {
	body := encode(v)
	_ = x.json(status, body) // the client has gone: there is nobody to tell
	return nil
}

// may refuses with 403 what the user may not do to a topic.
func (x *exchange) may(a Action, topic, owner string) error {
	if x.s.opts.Auth == nil || x.s.opts.Auth.May(x.user, a, topic, owner) {
		return nil
	}
	return errForbidden
}

// mayDo refuses what the user may not do to the topic of the path, for actions that ownership does not grant.
func (x *exchange) mayDo(a Action) error { return x.may(a, x.topic, "") }

// found returns the topic of the path when the user may do this to it. Whoever may not, and nobody could, is told 403;
// a topic that is not there is 404 to those who ask to manage it, since its owner cannot be known.
func (x *exchange) found(a Action) (engine.Topic, error) {
	t, err := x.s.engine.Topic(x.topic)
	if err == nil {
		return t, x.may(a, t.Name, t.Owner)
	}
	if a != ActionManage {
		if denied := x.may(a, x.topic, ""); denied != nil {
			return t, denied
		}
	}
	return t, err
}

// identity is whose caps a request counts under: the user, or the client's address while security is off.
func (x *exchange) identity() string {
	if x.s.opts.Auth != nil {
		return x.user
	}
	return clientIP(x.r.RemoteAddr)
}

// clientIP returns the address of "address:port".
func clientIP(remote string) string {
	for i := len(remote) - 1; i >= 0; i-- {
		if remote[i] == ':' {
			return remote[:i]
		}
	}
	return remote
}

// clientLeft ends an exchange whose client is gone. Should it be there and only have closed its side, it reads the status
// that is given.
func (x *exchange) clientLeft(status int) {
	if x.status == 0 {
		x.status = statusClientLeft
		x.ResponseWriter.WriteHeader(status)
	}
}

// statusClientLeft is for logs and metrics only; it is never sent (narad-facts 1.12).
const statusClientLeft = 499

// isCancel reports an error that says that the client left.
func isCancel(err error) bool { return errors.Is(err, context.Canceled) }
