package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const oneNode = "http://a:1"

// narad-facts 1.12: what a second try tells of a first one whose outcome is not known. (FAIL-05, FAIL-06, Q-40)
func TestAckAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		codes []int
		want  error
	}{
		{"landed, the answer was lost", []int{0, 410}, nil},
		{"landed behind a proxy", []int{502, 410}, nil},
		{"landed, the gateway gave up", []int{504, 410}, nil},
		{"not applied, then gone", []int{503, 410}, ErrLeaseLost},
		{"not applied, but before that unknown", []int{502, 503, 410}, nil},
		{"gone at once", []int{410}, ErrLeaseLost},
		{"too many, then gone", []int{429, 410}, ErrLeaseLost},
		{"unknown, then another refusal", []int{502, 404}, ErrNotFound},
		{"unknown to the end", []int{502}, ErrServer},
	} {
		t.Run(c.name, func(t *testing.T) {
			for verb, op := range map[string]func(*Client) error{
				"ack":   func(k *Client) error { return k.Ack(context.Background(), "t", "0:0:1") },
				"nack":  func(k *Client) error { return k.Nack(context.Background(), "t", "0:0:1") },
				"batch": func(k *Client) error { return k.Settle(context.Background(), "t", VerbAck, []string{"0:0:1"})[0] },
			} {
				virtual(t, oneNode, Options{}, statuses(c.codes...), func(t *testing.T, k *Client, _ *transport) {
					require.ErrorIs(t, op(k), c.want, verb)
				})
			}
		})
	}
	virtual(t, oneNode, Options{}, statuses(0, 410), func(t *testing.T, c *Client, _ *transport) {
		require.ErrorIs(t, c.Extend(t.Context(), "t", "0:0:1"), ErrLeaseLost, "an extension that landed leaves the lease alive")
	})
	virtual(t, oneNode, Options{}, statuses(0, 404), func(t *testing.T, c *Client, _ *transport) {
		require.NoError(t, c.DeleteTopic(t.Context(), "t"))
	})
	virtual(t, oneNode, Options{}, statuses(404), func(t *testing.T, c *Client, _ *transport) {
		require.ErrorIs(t, c.DeleteTopic(t.Context(), "t"), ErrNotFound)
	})
}

// The pauses are drawn between nothing and a bound that doubles.
func TestBackoff(t *testing.T) {
	longest := map[int]time.Duration{}
	for range 200 {
		virtual(t, oneNode, Options{}, statuses(500), func(t *testing.T, c *Client, tr *transport) {
			require.ErrorIs(t, c.Produce(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}), ErrServer)
			require.Len(t, tr.requests, 4)
			for i := 1; i < 4; i++ {
				pause := tr.requests[i].at - tr.requests[i-1].at
				require.Less(t, pause, 100*time.Millisecond<<(i-1))
				longest[i] = max(longest[i], pause)
			}
		})
	}
	require.Greater(t, longest[1], 80*time.Millisecond)
	require.Greater(t, longest[3], 320*time.Millisecond)
}

func TestRetryAfterRaisesThePause(t *testing.T) {
	virtual(t, oneNode, Options{Attempts: 2}, func(request) reply {
		return reply{status: 503, header: http.Header{"Retry-After": {"7"}}}
	}, func(t *testing.T, c *Client, tr *transport) {
		require.ErrorIs(t, c.Ack(t.Context(), "t", "0:0:1"), ErrUnavailable)
		require.Equal(t, 7*time.Second, tr.requests[1].at)
	})
}

// A try that is not answered ends, and the next one may succeed; a long poll has its wait on top.
func TestTimeout(t *testing.T) {
	hang := func(request) reply { return reply{status: 204, after: time.Hour} }
	virtual(t, oneNode, Options{Attempts: 2, Timeout: 3 * time.Second}, hang, func(t *testing.T, c *Client, tr *transport) {
		require.ErrorIs(t, c.Ack(t.Context(), "t", "0:0:1"), ErrNoAnswer)
		require.InDelta(t, 3.05, tr.requests[1].at.Seconds(), 0.06)
		_, err := c.Consume(t.Context(), "t", ConsumeOptions{Wait: 10 * time.Second})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 13.05, (tr.requests[3].at - tr.requests[2].at).Seconds(), 0.06)
	})
}

// A request goes to the nodes in turn, and again to another one.
func TestNodes(t *testing.T) {
	down := func(q request) reply {
		if q.node == "b:1" {
			return reply{err: &net.OpError{Op: "dial", Err: io.EOF}}
		}
		return reply{status: 204}
	}
	virtual(t, "http://a:1, http://b:1,http://c:1/base", Options{}, down, func(t *testing.T, c *Client, tr *transport) {
		for range 60 {
			require.NoError(t, c.Ack(t.Context(), "t", "0:0:1"))
		}
		by := map[string]int{}
		for i, r := range tr.requests {
			by[r.node]++
			if r.node == "b:1" {
				require.NotEqual(t, "b:1", tr.requests[i+1].node)
			}
			if r.node == "c:1" {
				require.Equal(t, "/base/v1/topics/t/ack", r.path)
			}
		}
		require.InDelta(t, breakerFailures, by["b:1"], 1, "it is left alone once it failed five times in a row")
		require.Greater(t, by["a:1"], 20)
		require.Greater(t, by["c:1"], 20)

		// After its pause it is tried by one request; after that one fails, it is avoided again.
		before := by["b:1"]
		time.Sleep(breakerPause)
		for range 30 {
			require.NoError(t, c.Ack(t.Context(), "t", "0:0:1"))
		}
		require.Equal(t, before+1, countNode(tr, "b:1"))
	})
}

func countNode(tr *transport, node string) (n int) {
	for _, r := range tr.requests {
		if r.node == node {
			n++
		}
	}
	return n
}

// A node that comes back is used as before; answers that say nothing of the node do not count.
func TestBreakerCloses(t *testing.T) {
	code := 502
	virtual(t, "http://a:1,http://b:1", Options{Attempts: 1}, func(q request) reply {
		if q.node == "b:1" {
			return reply{status: code}
		}
		return reply{status: 204}
	}, func(t *testing.T, c *Client, tr *transport) {
		for range 20 {
			c.Ack(t.Context(), "t", "0:0:1")
		}
		require.Equal(t, breakerFailures, countNode(tr, "b:1"))
		code = 410
		time.Sleep(breakerPause)
		for range 20 {
			c.Ack(t.Context(), "t", "0:0:1")
		}
		require.Greater(t, countNode(tr, "b:1"), breakerFailures+8)
	})
}

// With one node, or none that works, the breaker refuses nothing by itself.
func TestBreakerOfAll(t *testing.T) {
	for _, nodes := range []string{oneNode, "http://a:1,http://b:1"} {
		virtual(t, nodes, Options{Attempts: 1}, statuses(0), func(t *testing.T, c *Client, tr *transport) {
			for range 40 {
				require.ErrorIs(t, c.Ack(t.Context(), "t", "0:0:1"), ErrNoAnswer)
			}
			require.Len(t, tr.requests, 40)
		})
	}
}

func TestNotDone(t *testing.T) {
	for _, c := range []struct {
		err  Error
		want bool
	}{
		{Error{Unsent: true}, true},
		{Error{Cause: io.EOF}, false},
		{Error{Status: 400}, true},
		{Error{Status: 409}, true},
		{Error{Status: 429}, true},
		{Error{Status: 499}, false},
		{Error{Status: 500}, false},
		{Error{Status: 502}, false},
		{Error{Status: 503}, false},
		{Error{Status: 503, Text: "schema: validation capacity busy, retry"}, true},
		{Error{Status: 503, Text: "message 3: schema: validation capacity busy, retry"}, true},
		{Error{Status: 503, Text: "this node is being decommissioned and takes no new produce; send it to another node"}, true},
	} {
		require.Equal(t, c.want, c.err.NotDone(), "%+v", c.err)
	}
}

// Credentials and the name are sent with every request, and no error or option shows the password.
func TestCredentials(t *testing.T) {
	virtual(t, oneNode, Options{Username: "me", Password: "secret:1"}, statuses(204), func(t *testing.T, c *Client, tr *transport) {
		require.NoError(t, c.Ack(t.Context(), "t", "0:0:1"))
		r := http.Request{Header: tr.requests[0].header}
		user, password, ok := r.BasicAuth()
		require.True(t, ok)
		require.Equal(t, "me/secret:1", user+"/"+password)
		require.Equal(t, "narad-go", tr.requests[0].header.Get("X-Narad-Client"))
	})
	for _, bad := range []Options{{Username: "a:b"}, {Name: "a\nb"}, {Attempts: -1}} {
		_, err := New(oneNode, bad)
		require.Error(t, err)
	}
	for _, bad := range []string{"http://me:secret@host:1", "http://%zz:secret", "http://a:1,", "http://a:1,http://me:secret@b"} {
		_, err := New(bad, Options{})
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestAnswerIsBounded(t *testing.T) {
	f := newFake(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(answerMax+1))
		w.Write([]byte("x"))
	})
	_, err := f.client.Consume(t.Context(), "t", ConsumeOptions{})
	require.ErrorIs(t, err, errTooLong)

	f = newFake(t, Options{}, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range answerMax>>20 + 1 {
			w.Write(chunk)
		}
	})
	_, err = f.client.Consume(t.Context(), "t", ConsumeOptions{})
	require.ErrorIs(t, err, errTooLong)
}

func TestReplay(t *testing.T) {
	virtual(t, oneNode, Options{}, statuses(204, 410, 400), func(t *testing.T, c *Client, tr *transport) {
		_, err := c.Replay(t.Context(), "t", 2, 17)
		require.ErrorIs(t, err, ErrEmpty)
		require.Equal(t, "partition=2&offset=17", tr.requests[0].query)
		_, err = c.Replay(t.Context(), "t", 2, 17)
		require.ErrorIs(t, err, ErrOffsetGone)
		require.False(t, errors.Is(err, ErrLeaseLost))
		_, err = c.Replay(t.Context(), "t", 2, -1)
		require.ErrorIs(t, err, ErrBadRequest)
	})
}

// Users, schemas and changes of topics have their routes and bodies.
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		want, body string
		status     int
		op         func(*Client) error
	}{
		{"PATCH /v1/topics/t", `{"retention_ms":0,"partitions":5}`, 200, func(c *Client) error {
			_, err := c.PatchTopic(context.Background(), "t", TopicPatch{RetentionMs: new(int64(0)), Partitions: new(5)})
			return err
		}},
		{"DELETE /v1/topics/t", "", 204, func(c *Client) error { return c.DeleteTopic(context.Background(), "t") }},
		{"GET /v1/topics/t/schema", "", 200, func(c *Client) error { _, err := c.Schemas(context.Background(), "t"); return err }},
		{"GET /v1/topics/t/children", "", 200, func(c *Client) error { _, err := c.Children(context.Background(), "t"); return err }},
		{"POST /v1/users", `{"username":"u","password":"p","grants":[{"action":"produce","patterns":["a*"]}]}`, 201, func(c *Client) error {
			_, err := c.CreateUser(context.Background(), "u", "p", []Grant{{"produce", []string{"a*"}}})
			return err
		}},
		{"GET /v1/users/u", "", 200, func(c *Client) error { _, err := c.User(context.Background(), "u"); return err }},
		{"DELETE /v1/users/u", "", 204, func(c *Client) error { return c.DeleteUser(context.Background(), "u") }},
		{"PUT /v1/users/u/grants", `{"grants":[]}`, 200, func(c *Client) error { _, err := c.SetGrants(context.Background(), "u", nil); return err }},
		{"PUT /v1/users/u/password", `{"new_password":"n","current_password":"o"}`, 204, func(c *Client) error {
			return c.SetPassword(context.Background(), "u", "n", "o")
		}},
		{"POST /v1/x", `{"a":1}`, 202, func(c *Client) error {
			return c.Call(context.Background(), http.MethodPost, "/v1/x", nil, map[string]int{"a": 1}, nil)
		}},
	} {
		virtual(t, oneNode, Options{}, func(request) reply { return reply{status: c.status, body: "{}"} }, func(t *testing.T, k *Client, tr *transport) {
			require.NoError(t, c.op(k), c.want)
			require.Equal(t, []string{c.want}, tr.paths())
			require.Equal(t, c.body, tr.requests[0].body)
		})
	}
	virtual(t, oneNode, Options{}, func(request) reply {
		return reply{status: 200, body: `[{"username":"a"},{"username":"b","root":true}]`}
	}, func(t *testing.T, c *Client, _ *transport) {
		users, err := c.Users(t.Context())
		require.NoError(t, err)
		require.Equal(t, []User{{Name: "a"}, {Name: "b", Root: true}}, users)
	})
}

// Failures count in a row: one success between them, and the node is not avoided.
func TestBreakerCountsInARow(t *testing.T) {
	tries := 0
	virtual(t, "http://a:1,http://b:1", Options{Attempts: 1}, func(q request) reply {
		if q.node == "a:1" {
			return reply{status: 204}
		}
		if tries++; tries%breakerFailures == 0 {
			return reply{status: 204}
		}
		return reply{status: 502}
	}, func(t *testing.T, c *Client, tr *transport) {
		for range 40 {
			c.Ack(t.Context(), "t", "0:0:1")
		}
		require.Equal(t, 20, countNode(tr, "b:1"))
	})
}

// A second try goes to another node, also when the turn would have come to the same again.
func TestAgainElsewhere(t *testing.T) {
	var c *Client
	virtual(t, "http://a:1,http://b:1", Options{}, func(q request) reply {
		if q.node == "b:1" {
			c.turn.Add(1) // as another request does meanwhile
			return reply{status: 502}
		}
		return reply{status: 204}
	}, func(t *testing.T, k *Client, tr *transport) {
		c = k
		for range 8 {
			before := len(tr.requests)
			require.NoError(t, c.Ack(t.Context(), "t", "0:0:1"))
			require.LessOrEqual(t, len(tr.requests)-before, 2)
		}
		require.Positive(t, countNode(tr, "b:1"))
	})
}

// When the pause of a node has ended, one request tries it and the others go on avoiding it until that has come back.
func TestBreakerLetsOneTry(t *testing.T) {
	virtual(t, "http://a:1,http://b:1", Options{Attempts: 1}, func(q request) reply {
		if q.node == "b:1" {
			return reply{status: 502, after: 10 * time.Millisecond}
		}
		return reply{status: 204, after: 10 * time.Millisecond}
	}, func(t *testing.T, c *Client, tr *transport) {
		for range 20 {
			c.Ack(t.Context(), "t", "0:0:1")
		}
		before := countNode(tr, "b:1")
		time.Sleep(breakerPause)
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() { c.Ack(context.Background(), "t", "0:0:1") })
		}
		all.Wait()
		require.Equal(t, before+1, countNode(tr, "b:1"))
	})
}
