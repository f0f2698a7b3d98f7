package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/env"
	"narad/vfs"
)

// node is a real engine on the real disk behind the handler under test.
type node struct {
	t      testing.TB
	engine *engine.Engine
	server *Server
	disk   *failingFS
	probed atomic.Int32 // handles that reached a lease table and were refused there
	url    string
	http   *http.Client
}

func newNode(t testing.TB, o Options) *node {
	t.Helper()
	n := &node{t: t, disk: &failingFS{}}
	e, err := engine.Open(t.TempDir(), engine.Options{Env: env.OS().WithFS(n.disk), Listener: n.listen})
	require.NoError(t, err)
	n.engine, n.server = e, New(e, o)
	web := httptest.NewServer(n.server)
	n.url, n.http = web.URL, web.Client()
	n.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		n.server.Stop() // a failed test may leave parked consumes behind
		web.CloseClientConnections()
		web.Close()
		e.Close()
	})
	return n
}

func (n *node) listen(v engine.Event) {
	if _, ok := v.(engine.HandleRefused); ok {
		n.probed.Add(1)
	}
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	length int64 // Content-Length, -1 without
}

// do sends one request. A header is "Name: value".
func (n *node) do(method, path string, body []byte, headers ...string) reply {
	n.t.Helper()
	req, err := http.NewRequest(method, n.url+path, bytes.NewReader(body))
	require.NoError(n.t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := n.http.Do(req)
	require.NoError(n.t, err)
	return readReply(n.t, resp)
}

func readReply(t testing.TB, resp *http.Response) reply {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(body), resp.ContentLength}
}

const asClient = "X-Narad-Client: test"

func (n *node) post(path, body string) reply {
	n.t.Helper()
	return n.do("POST", path, []byte(body), asClient)
}

func (n *node) get(path string) reply {
	n.t.Helper()
	return n.do("GET", path, nil)
}

// topic creates a topic with the fields given as JSON.
func (n *node) topic(fields string) {
	n.t.Helper()
	r := n.post("/v1/topics", "{"+fields+"}")
	require.Equal(n.t, 201, r.status, r.body)
}

// produceTo stores one message in a partition.
func (n *node) produceTo(topic, query, payload string) {
	n.t.Helper()
	r := n.post("/v1/topics/"+topic+"/produce"+query, payload)
	require.Equal(n.t, 202, r.status, r.body)
}

// consumeOne leases a message that is there or about to be.
func (n *node) consumeOne(topic, query string) received {
	n.t.Helper()
	r := n.get("/v1/topics/" + topic + "/consume?wait=10s" + query)
	require.Equal(n.t, 200, r.status, r.body)
	return parseMessage(n.t, r.body)
}

// received is the wire form of a message, for tests only.
type received struct {
	Topic           string
	Partition       int
	Offset          int64
	Key             *string
	KeyEncoding     string `json:"key_encoding"`
	Payload         json.RawMessage
	PayloadEncoding string `json:"payload_encoding"`
	Timestamp       int64
	Handle          string `json:"receipt_handle"`
}

func parseMessage(t require.TestingT, body string) (m received) {
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&m), body)
	return m
}

// served is a node behind Serve, with its listener, limits and stop.
type served struct {
	*node
	addr   string
	cancel context.CancelFunc
	result chan error
	inside atomic.Int32 // requests that the handler has begun
	plain  atomic.Int32 // of these, those that did not come through net/http
	ended  atomic.Int32 // requests that the handler has ended
}

func newServed(t testing.TB, o Options) *served {
	t.Helper()
	s := &served{node: newNode(t, o), result: make(chan error, 1)}
	next := s.server.handler
	s.server.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inside.Add(1)
		if _, ok := w.(*answer); ok {
			s.plain.Add(1)
		}
		next.ServeHTTP(w, r)
		s.ended.Add(1)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr, s.url = ln.Addr().String(), "http://"+ln.Addr().String()
	s.http = &http.Client{Transport: &http.Transport{}}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	finished := make(chan struct{})
	go func() {
		s.result <- s.server.Serve(ctx, ln)
		close(finished)
	}()
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		cancel()
		<-finished
	})
	return s
}

// patience bounds every wait for something that must happen; nothing is judged by it but a hang.
const patience = 30 * time.Second

func (s *served) stopped() error {
	s.t.Helper()
	select {
	case err := <-s.result:
		return err
	case <-time.After(patience):
		require.Fail(s.t, "Serve does not return")
		return nil
	}
}

// failingFS is the disk of the operating system, whose syncs fail when told to.
type failingFS struct {
	vfs.OS
	failSync atomic.Bool
	skipSync atomic.Bool // for tests that do not care
}

var errDisk = errors.New("the disk at /secret/path is broken")

func (f *failingFS) OpenRoot(path string, create bool) (vfs.Dir, error) {
	d, err := f.OS.OpenRoot(path, create)
	return f.dir(d, err)
}

func (f *failingFS) dir(d vfs.Dir, err error) (vfs.Dir, error) {
	if err != nil {
		return nil, err
	}
	return failingDir{d, f}, nil
}

func (f *failingFS) file(x vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return failingFile{x, f}, nil
}

type failingDir struct {
	vfs.Dir
	fs *failingFS
}

func (d failingDir) OpenDir(name string) (vfs.Dir, error) { return d.fs.dir(d.Dir.OpenDir(name)) }
func (d failingDir) Create(name string) (vfs.File, error) { return d.fs.file(d.Dir.Create(name)) }
func (d failingDir) Open(name string) (vfs.File, error)   { return d.fs.file(d.Dir.Open(name)) }

type failingFile struct {
	vfs.File
	fs *failingFS
}

func (f failingFile) Sync() error {
	if f.fs.failSync.Load() {
		return errDisk
	}
	if f.fs.skipSync.Load() {
		return nil
	}
	return f.File.Sync()
}
