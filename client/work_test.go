package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// broker is a queue behind a transport: it hands out messages, and counts what is done with each.
type broker struct {
	mu       sync.Mutex
	next     int
	messages int            // to hand out
	acked    map[string]int // by handle
	nacked   map[string]int
	extended map[string][]time.Duration
	lost     map[string]bool // handles whose lease is gone
	most     int             // largest batch asked for
}

func newBroker(messages int) *broker {
	return &broker{messages: messages, acked: map[string]int{}, nacked: map[string]int{}, extended: map[string][]time.Duration{}, lost: map[string]bool{}}
}

func (b *broker) answer(q request) reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	values, _ := url.ParseQuery(q.query)
	switch {
	case strings.HasSuffix(q.path, "/consume"):
		var limit int
		fmt.Sscan(values.Get("max"), &limit)
		b.most = max(b.most, limit)
		var out []string
		for ; len(out) < limit && b.next < b.messages; b.next++ {
			out = append(out, fmt.Sprintf(`{"topic":"t","partition":0,"offset":%d,"payload":{},"receipt_handle":"0:%d:1"}`, b.next, b.next))
		}
		if out == nil {
			wait, _ := time.ParseDuration(values.Get("wait"))
			return reply{status: 204, after: wait}
		}
		return reply{status: 200, body: `{"messages":[` + strings.Join(out, ",") + `]}`}
	case strings.HasSuffix(q.path, "/ack"):
		h := values.Get("receipt_handle")
		switch {
		case b.lost[h]:
			return reply{status: 410}
		case values.Get("extend") == "true":
			b.extended[h] = append(b.extended[h], q.at)
		case values.Get("extend") == "0":
			b.nacked[h]++
		default:
			b.acked[h]++
		}
		return reply{status: 204}
	}
	return reply{status: 200, body: `{"name":"t","visibility_timeout_ms":30000}`}
}

// Every message is handled once by as many workers as there are, and acknowledged; the end leaves nothing behind.
func TestWork(t *testing.T) {
	b := newBroker(500)
	virtual(t, oneNode, Options{}, b.answer, func(t *testing.T, c *Client, tr *transport) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		seen, now, most := map[int64]int{}, 0, 0
		err := c.Work(ctx, "t", WorkOptions{Workers: 7}, func(_ context.Context, m *Message) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Duration(m.Offset%13) * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now--
			if seen[m.Offset]++; len(seen) == 500 {
				stop()
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, seen, 500)
		require.Len(t, b.acked, 500)
		require.Equal(t, 7, most)
		require.Equal(t, 7, b.most)
		require.Empty(t, b.nacked)
		require.Equal(t, "GET /v1/topics/t", tr.paths()[0], "the visibility timeout is asked for")
	})
}

// A lease is renewed at a third of the visibility timeout while its handler runs, and no longer.
func TestWorkRenews(t *testing.T) {
	b := newBroker(1)
	virtual(t, oneNode, Options{}, b.answer, func(t *testing.T, c *Client, _ *transport) {
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Visibility: 30 * time.Second, Drain: time.Hour}, func(context.Context, *Message) error {
			stop()
			time.Sleep(35 * time.Second)
			return nil
		}))
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, b.extended["0:0:1"])
		require.Equal(t, 1, b.acked["0:0:1"])
	})
}

// A lease that is lost ends the context of its handler; it is neither renewed nor acknowledged after that.
func TestWorkStopsAtALostLease(t *testing.T) {
	b := newBroker(1)
	virtual(t, oneNode, Options{}, b.answer, func(t *testing.T, c *Client, tr *transport) {
		ctx, stop := context.WithCancel(t.Context())
		var cause error
		var reports []error
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Visibility: 30 * time.Second, Report: func(err error) { reports = append(reports, err) }},
			func(ctx context.Context, _ *Message) error {
				b.mu.Lock()
				b.lost["0:0:1"] = true
				b.mu.Unlock()
				<-ctx.Done()
				cause = context.Cause(ctx)
				time.Sleep(time.Minute)
				stop()
				return nil
			}))
		require.ErrorIs(t, cause, ErrLeaseLost)
		require.Len(t, reports, 1)
		require.ErrorIs(t, reports[0], ErrLeaseLost)
		require.Equal(t, 1, tr.count("/ack"), "one renewal that was refused, nothing after it")
		require.Equal(t, 70*time.Second, time.Since(epoch))
	})
}

// A renewal that gets no answer is tried again; after a visibility timeout without success the lease is taken for lost.
func TestWorkWithoutAnswers(t *testing.T) {
	b := newBroker(1)
	answer := func(q request) reply {
		if strings.HasSuffix(q.path, "/ack") {
			return reply{status: 503, body: `{"error":"x"}`}
		}
		return b.answer(q)
	}
	virtual(t, oneNode, Options{}, answer, func(t *testing.T, c *Client, _ *transport) {
		ctx, stop := context.WithCancel(t.Context())
		var lost time.Duration
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Visibility: 30 * time.Second}, func(ctx context.Context, _ *Message) error {
			<-ctx.Done()
			lost = time.Since(epoch)
			stop()
			return nil
		}))
		require.InDelta(t, 30, lost.Seconds(), 11)
	})
}

// A handler's error gives its message back; ErrNack does so silently.
func TestWorkGivesBack(t *testing.T) {
	b := newBroker(2)
	virtual(t, oneNode, Options{}, b.answer, func(t *testing.T, c *Client, _ *transport) {
		ctx, stop := context.WithCancel(t.Context())
		broken := errors.New("broken")
		var reports []error
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Workers: 1, Report: func(err error) { reports = append(reports, err) }},
			func(_ context.Context, m *Message) error {
				if m.Offset == 0 {
					return fmt.Errorf("not now: %w", ErrNack)
				}
				stop()
				return broken
			}))
		require.Equal(t, map[string]int{"0:0:1": 1, "0:1:1": 1}, b.nacked)
		require.Empty(t, b.acked)
		require.Len(t, reports, 1)
		require.ErrorIs(t, reports[0], broken)
	})
}

// At the end handlers may go on for a while; then their context ends.
func TestWorkDrains(t *testing.T) {
	b := newBroker(2)
	virtual(t, oneNode, Options{}, b.answer, func(t *testing.T, c *Client, _ *transport) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Drain: 5 * time.Second}, func(ctx context.Context, m *Message) error {
			if m.Offset == 0 {
				time.Sleep(3 * time.Second)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		require.Equal(t, 6*time.Second, time.Since(epoch))
		require.Equal(t, map[string]int{"0:0:1": 1}, b.acked)
		require.Equal(t, map[string]int{"0:1:1": 1}, b.nacked)
	})
}

// A server that is away for a while does not end the work; one that refuses does.
func TestWorkOutlivesTheServer(t *testing.T) {
	b := newBroker(1)
	answer := func(q request) reply {
		if time.Since(epoch) < time.Minute {
			return reply{status: 503}
		}
		return b.answer(q)
	}
	virtual(t, oneNode, Options{}, answer, func(t *testing.T, c *Client, tr *transport) {
		ctx, stop := context.WithCancel(t.Context())
		reports := 0
		require.NoError(t, c.Work(ctx, "t", WorkOptions{Visibility: time.Second, Report: func(error) { reports++ }}, func(context.Context, *Message) error {
			stop()
			return nil
		}))
		require.Greater(t, reports, 3)
		require.Less(t, len(tr.requests), 400, "the pauses grow")
		require.Equal(t, 1, b.acked["0:0:1"])
	})
	for _, code := range []int{401, 403, 404} {
		virtual(t, oneNode, Options{}, statuses(code), func(t *testing.T, c *Client, _ *transport) {
			for _, o := range []WorkOptions{{}, {Visibility: time.Second}} {
				var e *Error
				require.ErrorAs(t, c.Work(t.Context(), "t", o, nil), &e)
				require.Equal(t, code, e.Status)
			}
		})
	}
}
