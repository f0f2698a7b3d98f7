package observe

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
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
	count   prometheus.Counter
	seconds prometheus.Observer
	in, out prometheus.Counter
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
	s.count.Inc()
	s.seconds.Observe(r.Took.Seconds())
	s.in.Add(float64(r.In))
	s.out.Add(float64(r.Out))
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
	o.requests.mu.Lock()
	defer o.requests.mu.Unlock()
	if s := o.requests.byKey[key]; s != nil {
		return s
	}
	route, method, status := key.route, normalMethod(key.method), normalStatus(key.status)
	s = &requestSeries{
		count: o.node.requests.WithLabelValues(route, method, status), seconds: o.node.requestSeconds.WithLabelValues(route, method, status),
		in: o.node.requestIn.WithLabelValues(route), out: o.node.requestOut.WithLabelValues(route),
	}
	if len(o.requests.byKey) < requestKeysMax {
		o.requests.byKey[key] = s
	}
	return s
}

// requestKeysMax bounds what is kept ready: there are a few dozen routes, each with a few methods and statuses.
const requestKeysMax = 4096

// normalMethod keeps a client from making series, whoever passes the method on (B202).
func normalMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "OTHER"
}

func normalStatus(status int) string {
	if status < 100 || status > 599 {
		return "0"
	}
	return strconv.Itoa(status)
}

// Waited implements server.Observer.
func (o *Observer) Waited(topic string, outcome server.WaitOutcome, took time.Duration) {
	t := o.topics.topic(topic)
	if t == nil || int(outcome) >= len(t.waits) {
		return
	}
	t.waits[outcome].observe(took)
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
	o.node.schemaSeconds.Observe(took.Seconds())
	if reason == "" {
		return
	}
	if !slices.Contains(schemaReasons[:], reason) {
		reason = "other"
	}
	o.node.schemaRejections.WithLabelValues(reason).Inc()
}
