package client

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// transport answers requests without a network, so that a test can run in virtual time, where nothing that is left running
// at the end goes unnoticed: the bubble of synctest fails.
type transport struct {
	mu       sync.Mutex
	requests []request
	answer   func(request) reply
}

// request is one request as a node got it.
type request struct {
	at           time.Duration // since the start of the test
	node         string
	method, path string
	query        string
	header       http.Header
	body         string
}

// reply is what a node does about it.
type reply struct {
	status int
	body   string
	header http.Header
	after  time.Duration // time that it takes
	err    error         // no answer
}

var epoch time.Time

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	q := request{time.Since(epoch), r.URL.Host, r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header, string(body)}
	tr.mu.Lock()
	tr.requests = append(tr.requests, q)
	tr.mu.Unlock()
	a := tr.answer(q)
	select {
	case <-time.After(a.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{
		StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader([]byte(a.body))), ContentLength: int64(len(a.body)), Request: r,
	}, nil
}

// paths returns what was asked for, as "METHOD path".
func (tr *transport) paths() (all []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, r := range tr.requests {
		all = append(all, r.method+" "+r.path)
	}
	return all
}

func (tr *transport) count(part string) (n int) {
	for _, p := range tr.paths() {
		if strings.Contains(p, part) {
			n++
		}
	}
	return n
}

// virtual runs a test in virtual time with a client of the given nodes.
func virtual(t *testing.T, nodes string, o Options, answer func(request) reply, test func(*testing.T, *Client, *transport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		epoch = time.Now()
		tr := &transport{answer: answer}
		o.HTTP = &http.Client{Transport: tr, CheckRedirect: noRedirect}
		c, err := New(nodes, o)
		require.NoError(t, err)
		test(t, c, tr)
	})
}

// statuses answers with one status after the other, the last one for ever; 0 is no answer.
func statuses(codes ...int) func(request) reply {
	var mu sync.Mutex
	return func(request) reply {
		mu.Lock()
		defer mu.Unlock()
		code := codes[0]
		if len(codes) > 1 {
			codes = codes[1:]
		}
		if code == 0 {
			return reply{err: io.ErrUnexpectedEOF}
		}
		return reply{status: code}
	}
}
