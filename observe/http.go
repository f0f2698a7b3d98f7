package observe

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"narad/server"
)

// requestKey names the series of a kind of request. All three have few values.
type requestKey struct {
	route, method string
	status        int
}

// requestSeries are the counters of a kind of request.
type requestSeries struct {
	count, in, out atomic.Uint64
	seconds        *hist
}

type requestTable struct {
	mu    sync.RWMutex // guards byKey
	byKey map[requestKey]*requestSeries
}

var _ server.Observer = (*Observer)(nil)

// Started implements server.Observer.
func (o *Observer) Started() { o.node.inFlight.Inc() }

// Finished implements server.Observer.
func (o *Observer) Finished(r server.Request) {
	o.node.inFlight.Dec()
	s := o.request(requestKey{r.Route, r.Method, r.Status})
	s.count.Add(1)
	s.seconds.took(r.Took)
	s.in.Add(uint64(max(r.In, 0)))
	s.out.Add(uint64(max(r.Out, 0)))
	if r.Status >= http.StatusInternalServerError {
		o.node.fail(errHTTP)
	}
}

func (o *Observer) request(key requestKey) *requestSeries {
	o.requests.mu.RLock()
	s := o.requests.byKey[key]
	o.requests.mu.RUnlock()
	if s != nil {
		return s
	}
	key.method, key.status = normalMethod(key.method), normalStatus(key.status)
	o.requests.mu.Lock()
	defer o.requests.mu.Unlock()
	if s := o.requests.byKey[key]; s != nil {
		return s
	}
	s = &requestSeries{seconds: newSeconds(requestBounds)}
	o.requests.byKey[key] = s
	return s
}

// normalMethod keeps a client from making series, whoever passes the method on (B202).
func normalMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "OTHER"
}

func normalStatus(status int) int {
	if status < 100 || status > 599 {
		return 0
	}
	return status
}

var (
	descRequests       = describe("http_requests_total", "Requests, by pattern of their route.", "route", "method", "status")
	descRequestSeconds = describe("http_request_duration_seconds", "Time of a request, the wait of a consume included.", "route", "method", "status")
	descRequestIn      = describe("http_request_bytes_in_total", "Bytes of request bodies that were read.", "route")
	descRequestOut     = describe("http_response_bytes_out_total", "Bytes of response bodies.", "route")
)

// requestCollector exports the counters of requests.
type requestCollector struct{ table *requestTable }

// Describe implements prometheus.Collector.
func (c *requestCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descRequestSeconds, descRequestIn, descRequestOut} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *requestCollector) Collect(to chan<- prometheus.Metric) {
	c.table.mu.RLock()
	defer c.table.mu.RUnlock()
	type bytes struct{ in, out uint64 }
	routes := map[string]bytes{}
	for key, s := range c.table.byKey {
		status := strconv.Itoa(key.status)
		count(to, descRequests, s.count.Load(), key.route, key.method, status)
		spread(to, descRequestSeconds, s.seconds, key.route, key.method, status)
		sum := routes[key.route]
		routes[key.route] = bytes{sum.in + s.in.Load(), sum.out + s.out.Load()}
	}
	for route, sum := range routes {
		count(to, descRequestIn, sum.in, route)
		count(to, descRequestOut, sum.out, route)
	}
}

// Waited implements server.Observer.
func (o *Observer) Waited(topic string, outcome server.WaitOutcome, took time.Duration) {
	t := o.topics.topic(topic)
	if t == nil || int(outcome) >= len(t.waits) {
		return
	}
	t.waits[outcome].took(took)
	if outcome == server.WaitTimeout || outcome == server.WaitNone {
		t.empty.Add(1)
	}
}

// ProduceRefused implements server.Observer.
func (o *Observer) ProduceRefused(topic, reason string) {
	t := o.topics.topic(topic)
	if t == nil {
		return
	}
	for i, known := range produceRefusals {
		if known == reason || i == len(produceRefusals)-1 {
			t.refused[i].Add(1)
			return
		}
	}
}

// BatchBodyRefused implements server.Observer.
func (o *Observer) BatchBodyRefused() { o.node.bodyBudget.Inc() }

// schemaReasons are the values of the label reason of schema rejections.
var schemaReasons = [...]string{"depth", "malformed", "invalid", "busy", "canceled", "definition_paths", "definition_pattern"}

// SchemaStarted reports that a payload or a document is being checked, until SchemaFinished.
func (o *Observer) SchemaStarted() { o.node.schemaInFlight.Inc() }

// SchemaFinished reports the end of a check, and in one word why it refused; empty when it did not.
func (o *Observer) SchemaFinished(took time.Duration, reason string) {
	o.node.schemaInFlight.Dec()
	o.node.schemaSeconds.took(took)
	if reason == "" {
		return
	}
	if !slices.Contains(schemaReasons[:], reason) {
		reason = "other"
	}
	o.node.schemaRejections.WithLabelValues(reason).Inc()
}
