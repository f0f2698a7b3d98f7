package server

import (
	"net/http"
)

func (s *Server) nodeRoutes() []route {
	routes := []route{
		{"GET /healthz", s.health},
		{"GET /readyz", s.ready},
	}
	if s.opts.Metrics != nil && !s.opts.MetricsAway {
		routes = append(routes, route{"GET /metrics", s.metrics})
	}
	if s.opts.StatusPage != nil {
		routes = append(routes, route{"GET /status", s.statusPage}, route{"GET /status/", s.statusPage})
	}
	return routes
}

var (
	bodyHealthy = []byte(`{"status":"ok"}`)
	bodyReady   = []byte(`{"status":"ready"}`)
)

// health says that the process serves. It is 503 from the beginning of a graceful stop.
func (s *Server) health(x *exchange) error {
	if s.isStopping() {
		return &Error{Status: http.StatusServiceUnavailable, Text: "shutting down"}
	}
	return x.json(http.StatusOK, bodyHealthy[:len(bodyHealthy):len(bodyHealthy)])
}

// ready says that the node can do its work.
func (s *Server) ready(x *exchange) error {
	if s.isStopping() {
		return &Error{Status: http.StatusServiceUnavailable, Text: "shutting down"}
	}
	if s.opts.Ready != nil {
		if err := s.opts.Ready(); err != nil {
			return &Error{Status: http.StatusServiceUnavailable, Text: "not ready: " + err.Error()}
		}
	}
	return x.json(http.StatusOK, bodyReady[:len(bodyReady):len(bodyReady)])
}

func (s *Server) metrics(x *exchange) error {
	x.Header()["X-Content-Type-Options"] = headerNosniff
	s.opts.Metrics.ServeHTTP(x, x.r)
	return nil
}

func (s *Server) statusPage(x *exchange) error {
	x.Header()["X-Content-Type-Options"] = headerNosniff
	s.opts.StatusPage(x, x.r, func(topic, owner string) bool { return x.may(ActionRead, topic, owner) == nil })
	return nil
}

// OpsHandler serves the health routes and /metrics, all without credentials, for a listener of their own.
func (s *Server) OpsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", bare(s, s.health))
	mux.Handle("GET /readyz", bare(s, s.ready))
	if s.opts.Metrics != nil {
		mux.Handle("GET /metrics", s.opts.Metrics)
	}
	return mux
}

// bare serves a handler outside of the table of routes.
func bare(s *Server, h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&exchange{ResponseWriter: w, r: r, s: s}, r)
	})
}
