package server

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"narad/auth"
	"narad/engine"
	"narad/env"
	"narad/metastore"
	"narad/schema"
)

// syncBuffer is a log that may be written by several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// secure turns security on, with the root user, and returns what has been logged.
func secure(t testing.TB, n *node) *syncBuffer {
	t.Helper()
	a, err := auth.New(n.engine.Metastore(), auth.Options{Cost: bcrypt.MinCost})
	require.NoError(t, err)
	hash, err := a.Hash(t.Context(), "root-secret")
	require.NoError(t, err)
	require.NoError(t, n.engine.Metastore().CreateUser(metastore.User{Name: auth.RootName, PasswordHash: hash, Root: true}))
	log := &syncBuffer{}
	n.server.opts.Auth = NewAuth(a)
	n.server.opts.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return log
}

func basic(name, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// Who changed whom is logged. Passwords, hashes and credentials never are, and no answer has them.
func TestNoSecretIsShown(t *testing.T) {
	n := newNode(t, Options{})
	log := secure(t, n)
	root := basic(auth.RootName, "root-secret")
	var shown string
	do := func(status int, method, path, body string, headers ...string) {
		t.Helper()
		r := n.do(method, path, []byte(body), append(headers, asClient)...)
		require.Equal(t, status, r.status, r.body)
		shown += r.body
		for name, values := range r.header {
			shown += name + values[0]
		}
	}
	do(201, "POST", "/v1/users", `{"username":"ann","password":"ann-secret","grants":[{"action":"produce","patterns":["*"]}]}`, root)
	do(409, "POST", "/v1/users", `{"username":"ann","password":"ann-secret"}`, root)
	do(400, "POST", "/v1/users", `{"username":"a b","password":"ann-secret"}`, root)
	do(400, "POST", "/v1/users", `{"username":"bob","password":"ann-secret`, root)
	do(400, "POST", "/v1/users", `{"username":"bob","password":"ann-secret","passwort":"ann-secret"}`, root)
	do(401, "GET", "/v1/topics", "", basic("ann", "wrong-secret"))
	do(401, "GET", "/v1/topics", "", "Authorization: Basic !ann-secret")
	do(200, "GET", "/v1/topics", "", basic("ann", "ann-secret"))
	do(403, "PUT", "/v1/users/ann/password", `{"new_password":"new-secret","current_password":"wrong-secret"}`, basic("ann", "ann-secret"))
	do(204, "PUT", "/v1/users/ann/password", `{"new_password":"new-secret","current_password":"ann-secret"}`, basic("ann", "ann-secret"))
	do(200, "GET", "/v1/users", "", root)
	do(200, "PUT", "/v1/users/ann/grants", `{"grants":[]}`, root)
	do(204, "DELETE", "/v1/users/ann", "", root)
	logged := log.String()
	require.Contains(t, logged, `"msg":"a user was created","user":"ann","by":"root"`)
	require.Contains(t, logged, `"msg":"the password of a user was changed","user":"ann","by":"ann"`)
	for _, text := range []string{logged, shown} {
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, "$2a$")
		require.NotContains(t, text, "Basic cm9v")
	}
}

// While security is off everybody is an administrator, but what nobody may do nobody may.
func TestUsersWithoutSecurity(t *testing.T) {
	n := newNode(t, Options{})
	require.Equal(t, "[]\n", n.get("/v1/users").body)
	require.Equal(t, 201, n.post("/v1/users", `{"username":"boss","password":"p","grants":[{"action":"admin"}]}`).status)
	require.Equal(t, 409, n.post("/v1/users", `{"username":"root","password":"p"}`).status) // it would lock everybody out
	put := func(path, body string) int { return n.do("PUT", path, []byte(body), asClient).status }
	require.Equal(t, 200, put("/v1/users/boss/grants", `{"grants":[{"action":"consume","patterns":["a*"]}]}`))
	require.Equal(t, 204, put("/v1/users/boss/password", `{"new_password":"q"}`))
	require.NoError(t, n.engine.Metastore().CreateUser(metastore.User{Name: auth.RootName, PasswordHash: []byte("x"), Root: true}))
	require.Equal(t, 403, n.do("DELETE", "/v1/users/root", nil).status)
	require.Equal(t, 403, put("/v1/users/root/grants", `{"grants":[]}`))
	require.Equal(t, 204, n.do("DELETE", "/v1/users/boss", nil).status)
}

// Changes of topics, users and schemas answer 503 without a leader, and nothing is changed. Reads go on, and so do messages, which
// need the node's own disk and nobody else. (API-09, AVL-01, AVL-03, AVL-04, AVL-07, FAIL-21, WAL-25, INV-31, BUG-162)
func TestChangesWithoutALeader(t *testing.T) {
	var fate metastore.Fate
	e := env.OS()
	store := metastore.NewQuorum().Open(e, func() metastore.Fate { return fate })
	eng, err := engine.Open(t.TempDir(), engine.Options{Env: e, Metastore: store})
	require.NoError(t, err)
	defer eng.Close()
	s := New(eng, Options{Schemas: NewSchemas(store, schema.NewChecker(schema.CheckerOptions{}))})
	do := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Narad-Client", "test")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, 201, do("POST", "/v1/topics", `{"name":"orders","schema":{"type":"integer"}}`).Code)
	require.Equal(t, 201, do("POST", "/v1/users", `{"username":"ann","password":"p"}`).Code)
	changes := [][3]string{
		{"POST", "/v1/topics", `{"name":"more"}`},
		{"PATCH", "/v1/topics/orders", `{"partitions":4}`},
		{"PATCH", "/v1/topics/orders", `{"schema":{"type":"number"}}`},
		{"POST", "/v1/users", `{"username":"bob","password":"p"}`},
		{"PUT", "/v1/users/ann/password", `{"new_password":"q"}`},
		{"PUT", "/v1/users/ann/grants", `{"grants":[{"action":"produce","patterns":["*"]}]}`},
		{"DELETE", "/v1/users/ann", ""},
		{"DELETE", "/v1/topics/orders", ""},
	}
	topic, user := do("GET", "/v1/topics/orders/schema", "").Body.String(), do("GET", "/v1/users", "").Body.String()
	fate = metastore.Fate{NoLeader: true}
	for _, c := range changes {
		w := do(c[0], c[1], c[2])
		require.Equal(t, 503, w.Code, "%s %s: %s", c[0], c[1], w.Body)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
	}
	require.Equal(t, topic, do("GET", "/v1/topics/orders/schema", "").Body.String())
	require.Equal(t, user, do("GET", "/v1/users", "").Body.String())
	require.Equal(t, 202, do("POST", "/v1/topics/orders/produce", "7").Code)
	leased := do("GET", "/v1/topics/orders/consume?wait=10s", "")
	require.Equal(t, 200, leased.Code)
	require.Equal(t, 204, do("POST", "/v1/topics/orders/ack?receipt_handle="+parseMessage(t, leased.Body.String()).Handle, "").Code)
	fate = metastore.Fate{}
	for _, c := range changes {
		require.Less(t, do(c[0], c[1], c[2]).Code, 300, c)
	}
}
