package server

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
)

// clientHeader, present with any value, shows that a request does not come from a form of a web page.
const clientHeader = "X-Narad-Client"

// guard is what every request passes before it is routed: the content guard, so that 415 comes before 404
// and 405, and the rule that a panic ends the process.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer crashOnPanic()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if carriesBody(r.Method) && !contentAllowed(r.Header) {
			s.fail(w, http.StatusUnsupportedMediaType,
				"send Content-Type application/json or application/octet-stream, or an "+clientHeader+" header")
			return
		}
		next.ServeHTTP(w, r)
	})
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
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/json", "application/octet-stream":
		return true
	}
	return false
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
