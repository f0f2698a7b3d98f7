package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/metastore"
)

// wordAuth is security by one word: the user is what X-User says, and may do what grants says.
type wordAuth struct {
	grants map[string]bool // "user action topic"
}

func (a wordAuth) Authenticate(r *http.Request) (string, error) {
	switch user := r.Header.Get("X-User"); user {
	case "":
		return "", &Error{Status: http.StatusUnauthorized, Text: "who are you?"}
	case "flood":
		return "", &Error{Status: http.StatusTooManyRequests, Text: "too many failed logins", RetryAfter: 12}
	default:
		return user, nil
	}
}

func (a wordAuth) May(user string, action Action, topic, owner string) bool {
	return user == "root" || owner != "" && owner == user && (action == ActionRead || action == ActionManage) ||
		a.grants[fmt.Sprintf("%s %d %s", user, action, topic)]
}

// users makes the metastore know them.
func (n *node) users(names ...string) {
	n.t.Helper()
	for _, name := range names {
		u := metastore.User{Name: name, PasswordHash: []byte("x"), CreatedAtMs: 1, UpdatedAtMs: 1}
		require.NoError(n.t, n.engine.Metastore().CreateUser(u))
	}
}

func as(user string) string { return "X-User: " + user }

// Authentication comes first, then the content guard, then routes and methods; health needs no credentials (narad-facts 1.1).
func TestAuthenticationComesFirst(t *testing.T) {
	n := newNode(t, Options{Auth: wordAuth{}, Metrics: http.NotFoundHandler()})
	for _, c := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{"POST", "/v1/topics/orders/produce", nil, 401},
		{"GET", "/v1/topics", nil, 401},
		{"GET", "/nowhere", nil, 401},
		{"PUT", "/v1/topics", nil, 401},
		{"GET", "/metrics", nil, 401},
		{"GET", "/v1/topics", []string{as("flood")}, 429},
		{"POST", "/v1/topics/orders/produce", []string{as("root")}, 415},
		{"POST", "/nowhere", []string{as("root")}, 415},
		{"GET", "/nowhere", []string{as("root")}, 404},
		{"PUT", "/v1/topics", []string{as("root"), asClient}, 405},
		{"GET", "/healthz", nil, 200},
		{"GET", "/readyz", nil, 200},
	} {
		r := n.do(c.method, c.path, nil, c.headers...)
		require.Equal(t, c.status, r.status, "%s %s: %s", c.method, c.path, r.body)
		switch c.status {
		case 401:
			require.Equal(t, `Basic realm="narad"`, r.header.Get("WWW-Authenticate"))
			require.Equal(t, "application/json", r.header.Get("Content-Type"))
		case 429:
			require.Equal(t, "12", r.header.Get("Retry-After"))
		}
	}
}

// Each route asks for the right that it needs, and for no other.
func TestRights(t *testing.T) {
	auth := wordAuth{map[string]bool{
		"ann 2 orders": true, "pia 0 orders": true, "con 1 orders": true, "rea 3 orders": true, "adm 5 ": true,
	}}
	n := newNode(t, Options{Auth: auth})
	n.users("ann")
	created := n.do("POST", "/v1/topics", []byte(`{"name":"orders"}`), asClient, as("ann"))
	require.Equal(t, 201, created.status)
	require.Contains(t, created.body, `"owner":"ann"`)
	r := n.do("POST", "/v1/topics", []byte(`{"name":"other"}`), asClient, as("root"))
	require.Equal(t, 403, r.status, "who is deleted at this moment: %s", r.body)
	for _, c := range []struct {
		method, path, body string
		allowed            string // users, beside root
		status             int    // of those
	}{
		{"POST", "/v1/topics/orders/produce", "x", "pia", 202},
		{"POST", "/v1/topics/orders/produce/batch", `{"messages":[{"payload":1}]}`, "pia", 202},
		{"GET", "/v1/topics/orders/consume?partition=0&offset=99", "", "con", 204},
		{"POST", "/v1/topics/orders/ack?receipt_handle=0:0:1", "", "con", 410},
		{"POST", "/v1/topics/orders/ack", `{"receipt_handles":["0:0:1"]}`, "con", 200},
		{"GET", "/v1/topics/orders", "", "rea ann", 200},
		{"GET", "/v1/topics/orders/children", "", "rea ann", 200},
		{"PATCH", "/v1/topics/orders", `{"partitions":3}`, "ann", 200},
		{"POST", "/v1/topics/orders/children", `{"child":"absent"}`, "ann", 404},
		{"DELETE", "/v1/topics/orders/children/x", "", "ann", 404},
		{"POST", "/v1/topics/orders/children/x/pause", "", "adm", 404},
		{"GET", "/v1/cluster/members", "", "adm", 200},
		{"GET", "/v1/cluster/moves", "", "adm", 200},
		{"GET", "/v1/remotes", "", "adm", 501},
		{"POST", "/v1/cluster/members/narad/decommission", "", "adm", 409},
		{"GET", "/v1/topics/absent", "", "", 404},
		{"DELETE", "/v1/topics/absent", "", "ann pia con rea adm", 404}, // a change of what is not there
		{"POST", "/v1/topics/absent/produce", "x", "", 404},
		{"GET", "/v1/topics/absent/consume", "", "", 404},
		{"POST", "/v1/topics/absent/ack?receipt_handle=0:0:1", "", "", 404},
		{"DELETE", "/v1/topics/orders", "", "ann", 204}, // last
	} {
		users := strings.Fields(c.allowed)
		if !strings.HasPrefix(c.path, "/v1/topics/orders") || c.method != "DELETE" || strings.Contains(c.path, "children") {
			users = append(users, "root")
		}
		for _, user := range []string{"pia", "con", "rea", "adm", "nob"} {
			if !strings.Contains(" "+c.allowed+" ", " "+user+" ") {
				want := 403
				if c.method == "DELETE" && c.path == "/v1/topics/absent" {
					want = 404
				}
				r := n.do(c.method, c.path, []byte(c.body), asClient, as(user))
				require.Equal(t, want, r.status, "%s: %s %s: %s", user, c.method, c.path, r.body)
			}
		}
		for _, user := range users {
			r := n.do(c.method, c.path, []byte(c.body), asClient, as(user))
			require.Equal(t, c.status, r.status, "%s: %s %s: %s", user, c.method, c.path, r.body)
		}
	}
	require.Equal(t, 403, n.do("POST", "/v1/topics", []byte(`{"name":"other"}`), asClient, as("ann")).status)
}

// The page of a list is cut before what the user may not see is left out: it can be short, and go on.
func TestListShowsWhatMayBeRead(t *testing.T) {
	n := newNode(t, Options{Auth: wordAuth{map[string]bool{"rea 3 b": true, "rea 3 d": true}}})
	n.users("root")
	for _, name := range []string{"a", "b", "c", "d"} {
		require.Equal(t, 201, n.do("POST", "/v1/topics", fmt.Appendf(nil, `{"name":%q}`, name), asClient, as("root")).status)
	}
	list := func(query string) (names []string, next string) {
		r := n.do("GET", "/v1/topics"+query, nil, as("rea"))
		var page struct {
			Topics []struct{ Name string }
			Next   string `json:"next_page_token"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.body), &page))
		for _, topic := range page.Topics {
			names = append(names, topic.Name)
		}
		return names, page.Next
	}
	names, next := list("?limit=1")
	require.Empty(t, names)
	require.Equal(t, "a", next)
	names, next = list("?limit=2&page_token=" + next)
	require.Equal(t, []string{"b"}, names)
	require.Equal(t, "c", next)
	names, next = list("?page_token=" + next)
	require.Equal(t, []string{"d"}, names)
	require.Empty(t, next)
}

// Caps count per user, or per address while security is off, and a long poll that is held counts like any other. (CON-07)
func TestCapsPerIdentity(t *testing.T) {
	s := newServed(t, Options{Auth: wordAuth{}, MaxConsumesPerIdentity: 1, MaxProducesPerIdentity: 1})
	s.users("root")
	require.Equal(t, 201, s.do("POST", "/v1/topics", []byte(`{"name":"orders"}`), asClient, as("root")).status)
	c := s.dial()
	_, err := fmt.Fprint(c, "GET /v1/topics/orders/consume?wait=10s HTTP/1.1\r\nHost: x\r\nX-User: root\r\n\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == 1 }, patience, time.Millisecond)
	require.Equal(t, 429, s.do("GET", "/v1/topics/orders/consume", nil, as("root")).status)
	require.Equal(t, 403, s.do("GET", "/v1/topics/orders/consume", nil, as("ann")).status, "another one is not held up")
	c.Close()
	require.Eventually(t, func() bool { return s.do("GET", "/v1/topics/orders/consume", nil, as("root")).status == 204 }, patience, time.Millisecond)

	slow := s.dial()
	_, err = fmt.Fprint(slow, "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-User: root\r\nX-Narad-Client: x\r\nContent-Length: 10\r\n\r\nx")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.server.producing.Load() == 1 }, patience, time.Millisecond)
	require.Equal(t, 429, s.do("POST", "/v1/topics/orders/produce", []byte("x"), as("root"), asClient).status)
	require.Equal(t, 429, s.do("POST", "/v1/topics/orders/produce/batch", []byte("{"), as("root"), asClient).status, "before its body is read")
	slow.Close()
	require.Eventually(t, func() bool {
		return s.do("POST", "/v1/topics/orders/produce", []byte("x"), as("root"), asClient).status == 202
	}, patience, time.Millisecond)
	require.Equal(t, 202, s.do("POST", "/v1/topics/orders/produce/batch", []byte(`{"messages":[{"payload":1},{"payload":2}]}`), as("root"), asClient).status,
		"more than the cap is the cap")
}

func TestClientIP(t *testing.T) {
	for remote, ip := range map[string]string{"127.0.0.1:80": "127.0.0.1", "[::1]:9": "[::1]", "pipe": "pipe"} {
		require.Equal(t, ip, clientIP(remote))
	}
}

// recorder keeps what an observer is told.
type recorder struct {
	mu       sync.Mutex
	inFlight int
	requests []Request
	waited   []string
	refused  int
}

func (o *recorder) Started() { o.with(func() { o.inFlight++ }) }
func (o *recorder) Finished(r Request) {
	o.with(func() { o.inFlight--; o.requests = append(o.requests, r) })
}
func (o *recorder) Waited(topic string, outcome WaitOutcome, took time.Duration) {
	o.with(func() { o.waited = append(o.waited, topic+" "+outcome.String()) })
}
func (o *recorder) ProduceRefused(topic, reason string) { o.with(func() { o.refused++ }) }
func (o *recorder) BatchBodyRefused()                   { o.with(func() { o.refused++ }) }

func (o *recorder) with(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// last waits for the end of a request and returns it.
func (o *recorder) last(t *testing.T, n int) (r Request) {
	t.Helper()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.requests) < n {
			return false
		}
		r = o.requests[n-1]
		return true
	}, patience, time.Millisecond)
	return r
}

func TestObserver(t *testing.T) {
	o := &recorder{}
	s := newServed(t, Options{Observer: o})
	for i, c := range []struct {
		method, path, body string
		want               Request
	}{
		{"POST", "/v1/topics", `{"name":"orders"}`, Request{Route: "/v1/topics", Method: "POST", Status: 201, In: 17}},
		{"POST", "/v1/topics/orders/produce", "hello", Request{Route: "/v1/topics/{topic}/produce", Method: "POST", Status: 202, In: 5}},
		{"GET", "/v1/topics/absent", "", Request{Route: "/v1/topics/{topic}", Method: "GET", Status: 404}},
		{"GET", "/nowhere/at/all", "", Request{Route: "unmatched", Method: "GET", Status: 404}},
		{"BREW", "/v1/topics", "", Request{Route: "unmatched", Method: "OTHER", Status: 405}},
		{"GET", "/v1/topics/orders/consume?wait=10s", "", Request{Route: "/v1/topics/{topic}/consume", Method: "GET", Status: 200}},
		{"GET", "/v1/topics/orders/consume?wait=1ms", "", Request{Route: "/v1/topics/{topic}/consume", Method: "GET", Status: 204}},
		{"GET", "/v1/topics/orders/consume", "", Request{Route: "/v1/topics/{topic}/consume", Method: "GET", Status: 204}},
	} {
		r := s.do(c.method, c.path, []byte(c.body), asClient)
		require.Equal(t, c.want.Status, r.status)
		got := o.last(t, i+1)
		require.Positive(t, got.Took)
		c.want.Out, got.Took = int64(len(r.body)), 0
		require.Equal(t, c.want, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/topics/orders/consume?wait=10s", nil)
	require.NoError(t, err)
	go func() {
		if resp, err := s.http.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	require.Eventually(t, func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == 1 }, patience, time.Millisecond)
	cancel()
	require.Equal(t, 499, o.last(t, 9).Status)
	o.with(func() {
		require.Equal(t, []string{"orders hit", "orders timeout", "orders no_wait", "orders cancelled"}, o.waited)
		require.Zero(t, o.inFlight)
	})
}

// pickySchemas is a schema by hand: payloads must not contain "bad".
type pickySchemas struct {
	Schemas
	appended []string
}

func (p *pickySchemas) Check(_ context.Context, _ *engine.Topic, payload []byte) error {
	if strings.Contains(string(payload), "bad") {
		return &Error{Status: 400, Text: "invalid argument: schema: bad"}
	}
	return nil
}

func (p *pickySchemas) CheckFirst(_ context.Context, _ string, doc json.RawMessage) (json.RawMessage, error) {
	if string(doc) == "7" {
		return nil, &Error{Status: 400, Text: "invalid argument: schema: 7"}
	}
	return doc, nil
}

func (p *pickySchemas) Append(_ context.Context, t *engine.Topic, base *int64, doc json.RawMessage) error {
	if base != nil && *base != 1 {
		return fmt.Errorf("append: %w", metastore.ErrSchemaConflict)
	}
	p.appended = append(p.appended, t.Name+" "+string(doc))
	return nil
}

func (p *pickySchemas) Current(*engine.Topic) (int, json.RawMessage) {
	return 1, json.RawMessage(`{"a":1}`)
}

func TestSchemasAreAsked(t *testing.T) {
	o, p := &recorder{}, &pickySchemas{}
	n := newNode(t, Options{Schemas: p, Observer: o})
	require.Equal(t, 400, n.post("/v1/topics", `{"name":"orders","schema":7}`).status)
	require.Equal(t, 201, n.post("/v1/topics", `{"name":"orders","schema":{"type":"object"}}`).status)
	stored := n.engine.Metastore().Schemas("orders")
	require.Len(t, stored, 1)
	require.Contains(t, n.get("/v1/topics/orders").body, `"schema_version":1,"schema":{"a":1}`)
	r := n.post("/v1/topics/orders/produce", "bad")
	require.Equal(t, 400, r.status)
	require.Equal(t, `{"error":"invalid argument: schema: bad"}`+"\n", r.body)
	require.Equal(t, 202, n.post("/v1/topics/orders/produce", "good").status)
	r = n.post("/v1/topics/orders/produce/batch", `{"messages":[{"payload":"good"},{"payload":"bad"}]}`)
	require.Equal(t, 400, r.status)
	require.Equal(t, `{"error":"message 1: invalid argument: schema: bad"}`+"\n", r.body)
	require.Equal(t, 2, o.refused)
	require.Equal(t, 409, n.do("PATCH", "/v1/topics/orders", []byte(`{"retention_ms":0,"schema":{},"schema_base_version":2}`), asClient).status)
	require.Contains(t, n.get("/v1/topics/orders").body, `"retention_ms":0`, "what came before the refusal stays")
	require.Equal(t, 200, n.do("PATCH", "/v1/topics/orders", []byte(`{"schema":{},"schema_base_version":1}`), asClient).status)
	require.Equal(t, []string{"orders {}"}, p.appended)
}

// A node says that it is not ready, and why, as long as its metastore does. (API-10, AVL-05, FAIL-21)
func TestReadiness(t *testing.T) {
	var trouble error
	n := newNode(t, Options{Ready: func() error { return trouble }, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1\n") })})
	require.Equal(t, `{"status":"ready"}`+"\n", n.get("/readyz").body)
	trouble = errors.New("no leader is known")
	r := n.get("/readyz")
	require.Equal(t, 503, r.status)
	require.Equal(t, `{"error":"not ready: no leader is known"}`+"\n", r.body)
	require.Equal(t, 200, n.get("/healthz").status)
	require.Contains(t, n.get("/v1/cluster/members").body, `"leader":false`)
	require.Equal(t, "up 1\n", n.get("/metrics").body)
	trouble = nil
	require.Equal(t, 200, n.get("/readyz").status)

	ops := httptest.NewServer(n.server.OpsHandler())
	defer ops.Close()
	n.url = ops.URL
	require.Equal(t, "up 1\n", n.get("/metrics").body)
	require.Equal(t, 200, n.get("/healthz").status)
	require.Equal(t, 200, n.get("/readyz").status)
	require.Equal(t, 404, n.get("/v1/topics").status)
	n.server.Stop()
	require.Equal(t, 503, n.get("/healthz").status)
	require.Equal(t, 503, n.get("/readyz").status)
}

// The page of the node is shown with what its user may read.
func TestStatusPage(t *testing.T) {
	page := func(w http.ResponseWriter, r *http.Request, mayRead func(topic, owner string) bool) {
		fmt.Fprintf(w, "%s %v %v", r.URL.Path, mayRead("orders", ""), mayRead("mine", "rea"))
	}
	n := newNode(t, Options{StatusPage: page, Auth: wordAuth{}})
	require.Equal(t, 401, n.get("/status").status)
	require.Equal(t, "/status false true", n.do("GET", "/status", nil, as("rea")).body)
	require.Equal(t, "/status/data true true", n.do("GET", "/status/data", nil, as("root")).body)
}

// API-09: what the metastore says becomes the status that facts 1 have for it.
func TestMetastoreStatuses(t *testing.T) {
	for err, status := range map[error]int{
		metastore.ErrNoLeader: 503, metastore.ErrUncertain: 503, metastore.ErrClosed: 503, metastore.ErrFailed: 500,
		metastore.ErrUserExists: 409, metastore.ErrUserNotFound: 404, metastore.ErrSchemaConflict: 409, metastore.ErrSchemaBudget: 409,
		metastore.ErrInvalid: 400, errDisk: 500, engine.ErrOffsetGone: 410, engine.ErrProduceFailed: 500,
	} {
		wrapped := fmt.Errorf("engine: create topic x: %w", err)
		require.Equal(t, status, statusOf(wrapped), "%v", err)
		if status == 500 {
			require.NotContains(t, textOf(wrapped), "x", "%v", err)
		}
	}
	require.Contains(t, textOf(metastore.ErrUncertain), "may still be applied")
}

// swapSchemas replaces the topic by another one of its name while a message is being checked.
type swapSchemas struct {
	pickySchemas
	swap func()
	ids  []string
}

func (p *swapSchemas) Check(_ context.Context, t *engine.Topic, _ []byte) error {
	p.ids = append(p.ids, t.ID)
	if len(p.ids) == 1 {
		p.swap()
	}
	return nil
}

// A message goes into the incarnation that it was checked for, or is checked again (facts 6, accept).
func TestCheckedForThisIncarnation(t *testing.T) {
	for _, path := range []string{"produce", "produce/batch"} {
		p := &swapSchemas{}
		n := newNode(t, Options{Schemas: p})
		n.topic(`"name":"orders"`)
		p.swap = func() {
			require.NoError(t, n.engine.DeleteTopic("orders"))
			_, err := n.engine.CreateTopic(engine.TopicSpec{Name: "orders"})
			require.NoError(t, err)
		}
		require.Equal(t, 202, n.post("/v1/topics/orders/"+path, `{"messages":[{"payload":1}]}`).status)
		require.Len(t, p.ids, 2)
		require.NotEqual(t, p.ids[0], p.ids[1])
		n.consumeOne("orders", "")
	}
}
