package server

import (
	"net/http"
	"slices"
	"strings"
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

const (
	patternProduce = "POST /v1/topics/{topic}/produce"
	patternConsume = "GET /v1/topics/{topic}/consume"
	patternAck     = "POST /v1/topics/{topic}/ack"
)

func (s *Server) messageRoutes() []route {
	return []route{
		{patternProduce, s.produce},
		{"POST /v1/topics/{topic}/produce/batch", s.produceBatch},
		{patternConsume, s.consume},
		{patternAck, s.ack},
	}
}

// hotRoute finds the three routes that nearly all requests ask for, as the mux would, which takes a microsecond and an
// allocation for it. Whatever is not plain is left to the mux: it returns nil.
func (x *exchange) hotRoute() handler {
	rest, ok := strings.CutPrefix(x.r.URL.Path, "/v1/topics/")
	if !ok || x.r.URL.RawPath != "" {
		return nil
	}
	topic, action, _ := strings.Cut(rest, "/")
	if topic == "" || topic[0] == '.' { // the mux redirects /./ and /../
		return nil
	}
	switch {
	case action == "produce" && x.r.Method == http.MethodPost:
		x.topic, x.r.Pattern = topic, patternProduce
		return x.s.hot.produce
	case action == "consume" && x.r.Method == http.MethodGet:
		x.topic, x.r.Pattern = topic, patternConsume
		return x.s.hot.consume
	case action == "ack" && x.r.Method == http.MethodPost:
		x.topic, x.r.Pattern = topic, patternAck
		return x.s.hot.ack
	}
	return nil
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
