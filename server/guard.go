package server

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
)

// clientHeader, present with any value, shows that a request does not come from a form of a web page.
const clientHeader = "X-Narad-Client"

// ServeHTTP implements [http.Handler]. What every request passes, in this order: authentication, the content guard, the
// routes; so 401 comes before 415, and 415 before 404 and 405 (narad-facts 1.1).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer crashOnPanic()
	x := exchanges.Get().(*exchange)
	x.ResponseWriter, x.r, x.s = w, r, s
	if s.opts.Observer != nil {
		x.began = time.Now()
		s.opts.Observer.Started()
	}
	if err := x.admit(); err != nil {
		x.fail(err)
	} else if h := x.hotRoute(); h != nil {
		x.run(h)
	} else {
		s.routes.ServeHTTP(x, r)
	}
	if s.opts.Observer != nil {
		x.observe()
	}
	x.releaseAll()
	*x = exchange{held: x.held[:0]}
	exchanges.Put(x)
}

// admit is what a request must pass before it is routed.
func (x *exchange) admit() error {
	if auth := x.s.opts.Auth; auth != nil && !x.isOpen() {
		user, err := auth.Authenticate(x.r)
		if err != nil {
			return err
		}
		x.user = user
	}
	if carriesBody(x.r.Method) && !contentAllowed(x.r.Header) {
		return errContent
	}
	return nil
}

// isOpen reports a request that never needs credentials.
func (x *exchange) isOpen() bool {
	switch x.r.URL.Path {
	case "/healthz", "/readyz":
		return true
	case "/metrics":
		return x.s.opts.MetricsOpen
	}
	return false
}

// observe tells the observer of a request that is over.
func (x *exchange) observe() {
	route := x.r.Pattern
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" {
		route = "unmatched"
	}
	if x.status == 0 { // net/http answers for a handler that wrote nothing
		x.status = http.StatusOK
	}
	x.s.opts.Observer.Finished(Request{
		Route: route, Method: methodLabel(x.r.Method), Status: x.status, Took: time.Since(x.began), In: x.in, Out: x.out,
	})
}

// methodLabel bounds what a client can make of metrics (B202).
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "OTHER"
}

func carriesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// contentAllowed refuses what a web page could send across origins without asking first.
func contentAllowed(h http.Header) bool {
	if len(h[clientHeader]) > 0 {
		return true
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.TrimSpace(kind)
	return strings.EqualFold(kind, "application/json") || strings.EqualFold(kind, "application/octet-stream")
}

// crashOnPanic ends the process on a panic of the handler that deferred it: net/http would report it and
// serve on, with locks held for ever. The panic is raised again where nothing recovers it.
func crashOnPanic() {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		panic(v)
	}
	stack := debug.Stack()
	go func() { panic(fmt.Sprintf("%v\n\n%s", v, stack)) }()
	select {}
}
