package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wireBatch is the body of a batch produce.
type wireBatch struct {
	Messages []struct {
		Key             string          `json:"key"`
		KeyEncoding     string          `json:"key_encoding"`
		Payload         json.RawMessage `json:"payload"`
		PayloadEncoding string          `json:"payload_encoding"`
		Partition       *int            `json:"partition"`
	} `json:"messages"`
}

// payloads decodes a batch to the bytes that a server would store.
func payloads(t *testing.T, body string) (all []string) {
	t.Helper()
	var b wireBatch
	require.NoError(t, json.Unmarshal([]byte(body), &b), body)
	for _, m := range b.Messages {
		payload := string(m.Payload)
		if m.PayloadEncoding == "base64" {
			var text string
			require.NoError(t, json.Unmarshal(m.Payload, &text))
			plain, err := base64.StdEncoding.DecodeString(text)
			require.NoError(t, err)
			payload = string(plain)
		}
		all = append(all, payload)
	}
	return all
}

// narad-facts 1.4: a payload arrives byte for byte, whatever it is; keys as well.
func TestProduceBatch(t *testing.T) {
	want := []string{`{"a": 1.50}`, `[1, 2]`, ` {"a":1} `, `"text"`, "plain", "\xff\x00", `{"a":"` + "\xff" + `"}`, "{broken}", "true", "[", "0"}
	var messages []Outgoing
	for _, p := range want {
		messages = append(messages, Outgoing{Payload: []byte(p)})
	}
	messages[0].Key, messages[0].Partition = []byte("k\"<\x01"), new(7)
	messages[1].Key = []byte("\xff")
	virtual(t, oneNode, Options{}, statuses(202), func(t *testing.T, c *Client, tr *transport) {
		require.NoError(t, c.ProduceBatch(t.Context(), "a b", messages))
		require.NoError(t, c.ProduceBatch(t.Context(), "a b", nil))
		require.Equal(t, []string{"POST /v1/topics/a%20b/produce/batch"}, tr.paths())
		require.Equal(t, "application/json", tr.requests[0].header.Get("Content-Type"))
		require.Equal(t, want, payloads(t, tr.requests[0].body))
		var b wireBatch
		require.NoError(t, json.Unmarshal([]byte(tr.requests[0].body), &b))
		require.Equal(t, "k\"<\x01", b.Messages[0].Key)
		require.Equal(t, 7, *b.Messages[0].Partition)
		require.Equal(t, "/w== base64", b.Messages[1].Key+" "+b.Messages[1].KeyEncoding)
		require.Nil(t, b.Messages[1].Partition)
	})
}

// A server without batches gets single messages, now and from then on; one without the topic does not.
func TestBatchFallsBack(t *testing.T) {
	old := func(q request) reply {
		if strings.HasSuffix(q.path, "/batch") {
			return reply{status: 404, body: "404 page not found\n"}
		}
		return reply{status: 202}
	}
	messages := []Outgoing{{Payload: []byte("1")}, {Payload: []byte("2")}}
	virtual(t, oneNode, Options{}, old, func(t *testing.T, c *Client, tr *transport) {
		require.NoError(t, c.ProduceBatch(t.Context(), "t", messages))
		require.NoError(t, c.ProduceBatch(t.Context(), "t", messages))
		require.Equal(t, 1, tr.count("/batch"))
		require.Len(t, tr.requests, 5)
	})
	virtual(t, oneNode, Options{}, func(request) reply { return reply{status: 404, body: `{"error":"no topic"}`} }, func(t *testing.T, c *Client, tr *transport) {
		require.ErrorIs(t, c.ProduceBatch(t.Context(), "t", messages), ErrNotFound)
		require.Len(t, tr.requests, 1)
	})
}

func TestConsumeBatch(t *testing.T) {
	body := `{"messages":[{"topic":"t","partition":1,"offset":2,"payload":{},"receipt_handle":"1:2:3"},{"topic":"t","partition":0,"offset":9,"payload":"x","receipt_handle":"0:9:3"}]}`
	virtual(t, oneNode, Options{}, func(request) reply { return reply{status: 200, body: body} }, func(t *testing.T, c *Client, tr *transport) {
		got, err := c.ConsumeBatch(t.Context(), "t", ConsumeOptions{Max: 7, Wait: time.Second, Partition: new(3)})
		require.NoError(t, err)
		require.Equal(t, "wait=1s&partition=3&max=7", tr.requests[0].query)
		require.Len(t, got, 2)
		require.Equal(t, "0:9:3", got[1].Handle)
		_, err = c.ConsumeBatch(t.Context(), "t", ConsumeOptions{})
		require.NoError(t, err)
		require.Equal(t, "max=100", tr.requests[1].query)
	})
	virtual(t, oneNode, Options{}, func(request) reply {
		return reply{status: 200, body: `{"topic":"t","partition":1,"offset":2,"payload":{},"receipt_handle":"1:2:3"}`}
	}, func(t *testing.T, c *Client, _ *transport) {
		got, err := c.ConsumeBatch(t.Context(), "t", ConsumeOptions{})
		require.NoError(t, err)
		require.Equal(t, "1:2:3", got[0].Handle, "a server that does not know max")
	})
	virtual(t, oneNode, Options{}, statuses(204), func(t *testing.T, c *Client, _ *transport) {
		_, err := c.ConsumeBatch(t.Context(), "t", ConsumeOptions{})
		require.ErrorIs(t, err, ErrEmpty)
	})
}

// Many handles go a hundred at a time; only those that may succeed are tried again, and each has its own outcome.
func TestSettle(t *testing.T) {
	tries := map[string]int{}
	answer := func(q request) reply {
		var body struct {
			Handles []string `json:"receipt_handles"`
		}
		if err := json.Unmarshal([]byte(q.body), &body); err != nil || len(body.Handles) > 100 {
			return reply{status: 400}
		}
		var results []string
		for _, h := range body.Handles {
			tries[h]++
			code := 204
			switch {
			case h == "lost":
				code = 410
			case h == "unknown":
				code = []int{502, 410}[tries[h]-1]
			case h == "later":
				code = []int{503, 503, 204}[tries[h]-1]
			case h == "never":
				code = 503
			}
			results = append(results, fmt.Sprintf(`{"status":%d,"error":"e"}`, code))
		}
		return reply{status: 200, body: `{"results":[` + strings.Join(results, ",") + `]}`}
	}
	virtual(t, oneNode, Options{}, answer, func(t *testing.T, c *Client, tr *transport) {
		handles := []string{"lost", "unknown", "later", "never"}
		for i := range 246 {
			handles = append(handles, fmt.Sprint(i))
		}
		errs := c.Settle(t.Context(), "t", VerbNack, handles)
		require.Len(t, errs, 250)
		require.ErrorIs(t, errs[0], ErrLeaseLost)
		require.NoError(t, errs[1])
		require.NoError(t, errs[2])
		require.ErrorIs(t, errs[3], ErrUnavailable)
		for _, err := range errs[4:] {
			require.NoError(t, err)
		}
		require.Equal(t, map[string]int{"lost": 1, "unknown": 2, "later": 3, "never": 4},
			map[string]int{"lost": tries["lost"], "unknown": tries["unknown"], "later": tries["later"], "never": tries["never"]})
		require.Equal(t, 1, tries["0"])
		require.Len(t, tr.requests, 3+3)
		require.Equal(t, "extend=0", tr.requests[0].query)
	})
	virtual(t, oneNode, Options{}, func(request) reply { return reply{status: 200, body: `{"results":[]}`} }, func(t *testing.T, c *Client, _ *transport) {
		require.Error(t, c.Settle(t.Context(), "t", VerbAck, []string{"a"})[0], "an answer for fewer handles is no success")
	})
}

// A batch is sent when it has enough messages or bytes, or has lingered.
func TestBatcherCuts(t *testing.T) {
	virtual(t, oneNode, Options{}, statuses(202), func(t *testing.T, c *Client, tr *transport) {
		b := c.NewBatcher(BatcherOptions{Messages: 10, Bytes: 2000, Linger: 20 * time.Millisecond})
		var all sync.WaitGroup
		for i := range 25 {
			all.Go(func() {
				require.NoError(t, b.Produce(t.Context(), Outgoing{Topic: "t", Payload: fmt.Appendf(nil, "message %d", i)}))
			})
		}
		all.Wait()
		require.Equal(t, 20*time.Millisecond, time.Since(epoch), "the last five linger")
		require.Len(t, tr.requests, 3)
		var got []string
		for i, r := range tr.requests {
			got = append(got, payloads(t, r.body)...)
			require.Equal(t, []time.Duration{0, 0, 20 * time.Millisecond}[i], r.at)
		}
		for i := range 25 {
			require.Contains(t, got, fmt.Sprintf("message %d", i))
		}

		tr.requests = nil
		big := make([]byte, 900)
		for range 3 {
			require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "t", Payload: big}, func(error) {}))
		}
		require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "u", Payload: big}, func(error) {}))
		b.Flush()
		require.Len(t, tr.requests, 4, "1.2 kB in its wire form: one in a batch of 2 kB; topics do not share a batch")
		require.NoError(t, b.Close(t.Context()))
		require.ErrorIs(t, b.Produce(t.Context(), Outgoing{Topic: "t", Payload: big}), ErrBatcherClosed)
	})
}

// A message that is refused by itself does not take the others with it: nothing of its batch was stored.
func TestBatcherSetsTheRefusedAside(t *testing.T) {
	answer := func(q request) reply {
		for i, p := range strings.Split(q.body, `{"payload"`)[1:] {
			if strings.Contains(p, "poison") {
				return reply{status: 400, body: fmt.Sprintf(`{"error":"message %d: invalid argument"}`, i)}
			}
		}
		return reply{status: 202}
	}
	virtual(t, oneNode, Options{}, answer, func(t *testing.T, c *Client, tr *transport) {
		b := c.NewBatcher(BatcherOptions{})
		outcome := map[string]error{}
		for _, p := range []string{`{"n":0}`, `{"poison":1}`, `{"n":2}`, `{"poison":3}`} {
			require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "t", Payload: []byte(p)}, func(err error) { outcome[p] = err }))
		}
		require.NoError(t, b.Close(t.Context()))
		require.NoError(t, outcome[`{"n":0}`])
		require.NoError(t, outcome[`{"n":2}`])
		require.ErrorIs(t, outcome[`{"poison":1}`], ErrBadRequest)
		require.ErrorIs(t, outcome[`{"poison":3}`], ErrBadRequest)
		require.Len(t, tr.requests, 3)
	})
}

// No more requests are in flight than allowed; who fills a batch meanwhile waits, and may give up. Close ends everything.
func TestBatcherIsBounded(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	answer := func(request) reply {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		now--
		mu.Unlock()
		return reply{status: 202}
	}
	virtual(t, oneNode, Options{}, answer, func(t *testing.T, c *Client, tr *transport) {
		b := c.NewBatcher(BatcherOptions{Messages: 1, InFlight: 3})
		var done sync.WaitGroup
		done.Add(9)
		for range 9 {
			require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}, func(error) { done.Done() }))
		}
		done.Wait()
		require.Equal(t, 3, most)
		require.Equal(t, 3*time.Second, time.Since(epoch))

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for range 3 {
			require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}, func(error) {}))
		}
		require.ErrorIs(t, b.Produce(ctx, Outgoing{Topic: "t", Payload: []byte("late")}), context.DeadlineExceeded)
		require.NoError(t, b.Close(t.Context()))
		require.Len(t, tr.requests, 13, "the message of who gave up is sent all the same")
	})
	virtual(t, oneNode, Options{}, func(request) reply { return reply{status: 202, after: time.Hour} }, func(t *testing.T, c *Client, _ *transport) {
		b := c.NewBatcher(BatcherOptions{})
		var got error
		require.NoError(t, b.Send(t.Context(), Outgoing{Topic: "t", Payload: []byte("x")}, func(err error) { got = err }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, b.Close(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, got, ErrNoAnswer)
		require.True(t, errors.Is(got, context.Canceled))
	})
}
