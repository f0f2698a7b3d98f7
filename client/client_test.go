package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake answers every request with the next of its scripted answers, the last one for ever.
type fake struct {
	t       *testing.T
	script  []func(http.ResponseWriter, *http.Request)
	calls   atomic.Int32
	client  *Client
	last    *http.Request
	payload string
}

func newFake(t *testing.T, o Options, script ...func(http.ResponseWriter, *http.Request)) *fake {
	f := &fake{t: t, script: script}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(f.calls.Add(1))
		body, _ := io.ReadAll(r.Body)
		f.last, f.payload = r, string(body)
		f.script[min(n, len(f.script))-1](w, r)
	}))
	t.Cleanup(web.Close)
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	c, err := New(web.URL, o)
	require.NoError(t, err)
	f.client = c
	return f
}

func status(code int) func(http.ResponseWriter, *http.Request) { return text(code, "") }

func text(code int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// hangUp answers nothing.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// narad-facts 1.12 and 1.14: what each status is, and whether it is tried again.
func TestStatusesAndRetries(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   error
		tries  int
	}{
		{400, ErrBadRequest, 1}, {401, ErrUnauthorized, 1}, {403, ErrForbidden, 1}, {404, ErrNotFound, 1}, {405, ErrBadRequest, 1},
		{409, ErrExists, 1}, {410, ErrLeaseLost, 1}, {412, ErrBadRequest, 1}, {413, ErrTooLarge, 1}, {415, ErrBadRequest, 1},
		{431, ErrBadRequest, 1}, {301, ErrBadRequest, 1}, {200, ErrBadRequest, 1},
		{421, ErrUnavailable, 4}, {429, ErrTooMany, 4}, {500, ErrServer, 4}, {501, ErrServer, 4}, {502, ErrServer, 4}, {503, ErrUnavailable, 4},
	} {
		f := newFake(t, Options{}, text(c.status, `{"error":"the text"}`))
		for i, op := range []func() error{
			func() error { return f.client.Ack(t.Context(), "t", "0:0:1") },
			func() error { return f.client.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}) },
		} {
			f.calls.Store(0)
			err := op()
			require.ErrorIs(t, err, c.kind, "status %d, op %d", c.status, i)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.status, e.Status)
			require.Equal(t, "the text", e.Text)
			require.Equal(t, c.tries, int(f.calls.Load()), "status %d, op %d", c.status, i)
		}
	}
}

func TestRetrySucceeds(t *testing.T) {
	f := newFake(t, Options{}, status(503), hangUp, status(202))
	require.NoError(t, f.client.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("kept for every try")}))
	require.Equal(t, int32(3), f.calls.Load())
	require.Equal(t, "kept for every try", f.payload)

	f = newFake(t, Options{Attempts: 1}, status(503), status(202))
	require.ErrorIs(t, f.client.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}), ErrUnavailable)
	require.Equal(t, int32(1), f.calls.Load())
}

// An answer that was lost leaves the outcome unknown; a connection that was refused does not.
func TestNoAnswer(t *testing.T) {
	f := newFake(t, Options{Attempts: 1}, hangUp)
	err := f.client.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")})
	var e *Error
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, ErrNoAnswer)
	require.False(t, e.Unsent)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	c, err := New("http://"+ln.Addr().String(), Options{Attempts: 2, Backoff: time.Millisecond})
	require.NoError(t, err)
	err = c.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")})
	require.ErrorAs(t, err, &e)
	require.True(t, e.Unsent)
}

// The context ends requests and pauses; the server's Retry-After is kept.
func TestContextAndRetryAfter(t *testing.T) {
	f := newFake(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(503)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.ErrorIs(t, f.client.Ack(ctx, "t", "0:0:1"), ErrUnavailable)
	require.Equal(t, int32(1), f.calls.Load(), "tried again before Retry-After")
	require.Less(t, time.Since(start), 30*time.Second)

	block := make(chan struct{})
	defer close(block)
	f = newFake(t, Options{}, func(http.ResponseWriter, *http.Request) { <-block })
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	_, err := f.client.Consume(ctx, "t", ConsumeOptions{Wait: time.Minute})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrNoAnswer)
}

// Requests say who sends them, and names and keys are escaped.
func TestRequests(t *testing.T) {
	f := newFake(t, Options{Name: "me/1"}, status(202))
	require.NoError(t, f.client.Produce(t.Context(), Outgoing{Topic: "a.b", Key: []byte("k&=\xff"), Partition: new(2), Payload: []byte("x")}))
	require.Equal(t, "me/1", f.last.Header.Get("X-Narad-Client"))
	require.Equal(t, "application/octet-stream", f.last.Header.Get("Content-Type"))
	require.Equal(t, "/v1/topics/a.b/produce", f.last.URL.Path)
	require.Equal(t, "k&=\xff", f.last.URL.Query().Get("key"))
	require.Equal(t, "2", f.last.URL.Query().Get("partition"))

	f = newFake(t, Options{}, status(204))
	for want, op := range map[string]func(context.Context, string, string) error{
		"": f.client.Ack, "true": f.client.Extend, "0": f.client.Nack,
	} {
		require.NoError(t, op(t.Context(), "t", "1:2:3"))
		require.Equal(t, "1:2:3", f.last.URL.Query().Get("receipt_handle"))
		require.Equal(t, want, f.last.URL.Query().Get("extend"))
	}
	_, err := f.client.Consume(t.Context(), "t", ConsumeOptions{Wait: 1500 * time.Millisecond})
	require.ErrorIs(t, err, ErrEmpty)
	require.Equal(t, "wait=1.5s", f.last.URL.RawQuery)
	_, err = f.client.Consume(t.Context(), "t", ConsumeOptions{Partition: new(0)})
	require.ErrorIs(t, err, ErrEmpty)
	require.Equal(t, "partition=0", f.last.URL.RawQuery)
}

// narad-facts 1.5: key and payload come back as they were produced.
func TestDecodeMessage(t *testing.T) {
	for _, c := range []struct{ fields, key, payload string }{
		{`"payload":{"a": [1,  2]}`, "", `{"a": [1,  2]}`},
		{`"payload":1.50`, "", "1.50"},
		{`"payload":"text <"`, "", "text <"},
		{`"payload":"//4=","payload_encoding":"base64"`, "", "\xff\xfe"},
		{`"key":"k","payload":true`, "k", "true"},
		{`"key":"wyg=","key_encoding":"base64","payload":"x"`, "\xc3(", "x"},
		{`"payload":"x","something_new":1`, "", "x"}, // answers may gain fields
	} {
		f := newFake(t, Options{}, text(200, `{"topic":"t","partition":1,"offset":2,"timestamp":1700000000,"receipt_handle":"1:2:3",`+c.fields+`}`))
		m, err := f.client.Consume(t.Context(), "t", ConsumeOptions{})
		require.NoError(t, err, c.fields)
		require.Equal(t, c.key, string(m.Key))
		require.Equal(t, c.payload, string(m.Payload))
		require.Equal(t, Message{Topic: "t", Partition: 1, Offset: 2, Key: m.Key, Payload: m.Payload, Time: time.Unix(1700000000, 0), Handle: "1:2:3"}, *m)
	}
	for _, bad := range []string{`{`, `{"payload":"%","payload_encoding":"base64"}`, `{"payload":"x","payload_encoding":"rot13"}`, `[]`} {
		_, err := newFake(t, Options{}, text(200, bad)).client.Consume(t.Context(), "t", ConsumeOptions{})
		require.Error(t, err, bad)
	}
}

func TestTopicsFollowsPages(t *testing.T) {
	f := newFake(t, Options{},
		text(200, `{"topics":[{"name":"a"},{"name":"b"}],"next_page_token":"b"}`),
		text(200, `{"topics":[],"next_page_token":"c"}`), // a page may be empty and yet not the last
		text(200, `{"topics":[{"name":"d"}],"next_page_token":""}`))
	topics, err := f.client.Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 3)
	require.Equal(t, "c", f.last.URL.Query().Get("page_token"))
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	f := newFake(t, Options{}, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 307) })
	require.ErrorIs(t, f.client.Ack(t.Context(), "t", "0:0:1"), ErrBadRequest)
	require.Equal(t, int32(1), f.calls.Load())
}

func TestNewRefuses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:7942", "ftp://x", "http://", "http://x?y=1", "http://x#y", "http://%zz"} {
		_, err := New(bad, Options{})
		require.Error(t, err, bad)
	}
	_, err := New("https://narad.example/behind/", Options{})
	require.NoError(t, err)
}
