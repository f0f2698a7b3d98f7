package server

import (
	"net/http"
	"slices"
)

// route is one line of the table of routes. pattern is in the form of [http.ServeMux].
type route struct {
	pattern string
	handle  handler
}

// newMux relies on http.ServeMux for two plain-text answers: 404 of an unknown route, 405 with Allow.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range s.table() {
		mux.Handle(r.pattern, r.handle)
	}
	return mux
}

// table returns all routes.
func (s *Server) table() []route {
	return slices.Concat(s.nodeRoutes(), s.messageRoutes(), s.topicRoutes(), s.schemaRoutes(), s.userRoutes(), s.childRoutes(), s.clusterRoutes())
}

// Routes returns the patterns of all routes that a server without options has.
func Routes() (patterns []string) {
	for _, r := range new(Server).table() {
		patterns = append(patterns, r.pattern)
	}
	return patterns
}

func (s *Server) messageRoutes() []route {
	return []route{
		{"POST /v1/topics/{topic}/produce", s.produce},
		{"POST /v1/topics/{topic}/produce/batch", s.produceBatch},
		{"GET /v1/topics/{topic}/consume", s.consume},
		{"POST /v1/topics/{topic}/ack", s.ack},
	}
}

func (s *Server) topicRoutes() []route {
	return []route{
		{"POST /v1/topics", s.createTopic},
		{"GET /v1/topics", s.listTopics},
		{"GET /v1/topics/{topic}", s.getTopic},
		{"PATCH /v1/topics/{topic}", s.patchTopic},
		{"DELETE /v1/topics/{topic}", s.deleteTopic},
	}
}
