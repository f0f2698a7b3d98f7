package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// settleMax is how many handles one request settles at most.
const settleMax = 100

// ProduceBatch stores messages of one topic, up to 1,000 of together at most 16 MiB in their wire form; Outgoing.Topic is
// ignored. All are stored or none: when it returns nil, all are on the server's disk.
//
// A server that does not know batches gets the messages one by one; then an error leaves those before it stored.
func (c *Client) ProduceBatch(ctx context.Context, topic string, messages []Outgoing) error {
	if len(messages) == 0 {
		return nil
	}
	if !c.single.Load() {
		_, err := c.do(ctx, call{
			method: http.MethodPost, path: topicPath(topic, "/produce/batch"), kind: jsonBody, body: appendBatch(nil, messages), want: http.StatusAccepted,
		})
		var e *Error
		if !errors.As(err, &e) || !e.noRoute() {
			return err
		}
		c.single.Store(true)
	}
	for i, m := range messages {
		m.Topic = topic
		if err := c.Produce(ctx, m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// noRoute reports whether the server does not know the route; a topic that it does not know has an answer in JSON.
func (e *Error) noRoute() bool {
	return e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotFound && len(e.Body) > 0 && e.Body[0] != '{'
}

// appendBatch appends the wire form of messages.
func appendBatch(dst []byte, messages []Outgoing) []byte {
	size := 0
	for _, m := range messages {
		size += wireSize(m)
	}
	if dst == nil {
		dst = make([]byte, 0, size+len(`{"messages":[]}`))
	}
	dst = append(dst, `{"messages":[`...)
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOutgoing(dst, m)
	}
	return append(dst, "]}"...)
}

// wireSize bounds the wire form of a message, mostly from above: control bytes of keys take more.
func wireSize(m Outgoing) int {
	const fields = len(`{"payload":"","payload_encoding":"base64","key":"","key_encoding":"base64","partition":1234567},`)
	return fields + base64.StdEncoding.EncodedLen(len(m.Payload)) + base64.StdEncoding.EncodedLen(len(m.Key))
}

func appendOutgoing(dst []byte, m Outgoing) []byte {
	dst = append(dst, `{"payload":`...)
	if isPlainJSON(m.Payload) {
		dst = append(dst, m.Payload...)
	} else {
		dst = append(appendBase64(dst, m.Payload), `,"payload_encoding":"base64"`...)
	}
	switch {
	case len(m.Key) == 0:
	case isPlainText(m.Key):
		dst = append(append(append(dst, `,"key":"`...), m.Key...), '"')
	case utf8.Valid(m.Key):
		quoted, err := json.Marshal(string(m.Key))
		if err != nil {
			panic(err) // a string always encodes
		}
		dst = append(append(dst, `,"key":`...), quoted...)
	default:
		dst = append(appendBase64(append(dst, `,"key":`...), m.Key), `,"key_encoding":"base64"`...)
	}
	if m.Partition != nil {
		dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(*m.Partition), 10)
	}
	return append(dst, '}')
}

// isPlainText reports whether a key needs no escapes: that is most of them.
func isPlainText(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// isPlainJSON reports whether a payload may be sent as it is and is stored so: an object or an array, without white space
// around it.
func isPlainJSON(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	first, last := b[0], b[len(b)-1]
	return (first == '{' && last == '}' || first == '[' && last == ']') && utf8.Valid(b) && json.Valid(b)
}

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// ConsumeBatch leases up to o.Max messages. It waits for the first one only. It returns [ErrEmpty] when none came within the
// wait.
func (c *Client) ConsumeBatch(ctx context.Context, topic string, o ConsumeOptions) ([]Message, error) {
	setDefault(&o.Max, 100)
	q := o.params()
	q.addInt("max", &o.Max)
	a, err := c.do(ctx, call{
		method: http.MethodGet, path: topicPath(topic, "/consume"), query: q.String(), wait: o.Wait,
		want: http.StatusOK, alsoWant: http.StatusNoContent,
	})
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusNoContent {
		return nil, ErrEmpty
	}
	var batch struct {
		Messages []Message `json:"messages"`
	}
	if err := a.decode(&batch); err != nil {
		return nil, err
	}
	if batch.Messages == nil { // a server that does not know max leases one message
		var m Message
		if err := a.decode(&m); err != nil {
			return nil, err
		}
		batch.Messages = []Message{m}
	}
	return batch.Messages, nil
}

// Settle does one thing with many leases of a topic, a hundred in a request. The result has an error for each handle, in
// order, nil for success; each is what [Client.Ack] and its like would have returned.
func (c *Client) Settle(ctx context.Context, topic string, v Verb, handles []string) []error {
	errs := make([]error, len(handles))
	for from := 0; from < len(handles); from += settleMax {
		to := min(from+settleMax, len(handles))
		c.settleSome(ctx, topic, v, handles[from:to], errs[from:to])
	}
	return errs
}

// settleSome settles the handles of one request, and those again that may succeed at another try.
func (c *Client) settleSome(ctx context.Context, topic string, v Verb, handles []string, errs []error) {
	open := make([]int, len(handles)) // indexes of what is not decided
	for i := range open {
		open[i] = i
	}
	maybe := make([]bool, len(handles)) // an earlier try may have done it
	var failed *node
	for attempt := 1; ; attempt++ {
		failed = c.settleOnce(ctx, topic, v, handles, open, errs, failed)
		var again []int
		pause := time.Duration(0)
		for _, i := range open {
			var e *Error
			if !errors.As(errs[i], &e) {
				continue
			}
			if v.ends() && maybe[i] && isGone(e) {
				errs[i] = nil
			} else if retryable(e) {
				maybe[i] = maybe[i] || mayBeSettled(e)
				again = append(again, i)
				pause = max(pause, c.pause(attempt, e))
			}
		}
		if open = again; len(open) == 0 || attempt >= c.opts.Attempts || !sleep(ctx, pause) {
			return
		}
	}
}

// settleOnce makes one request for the open handles and notes how each came out.
func (c *Client) settleOnce(ctx context.Context, topic string, v Verb, handles []string, open []int, errs []error, failed *node) *node {
	var body struct {
		Handles []string `json:"receipt_handles"`
	}
	for _, i := range open {
		body.Handles = append(body.Handles, handles[i])
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings always encode
	}
	var q params
	v.param(&q)
	n := c.pick(failed)
	a, err := c.once(ctx, n, call{
		method: http.MethodPost, path: topicPath(topic, "/ack"), query: q.String(), kind: jsonBody, body: text, want: http.StatusOK,
	})
	n.came(err)
	var batch struct {
		Results []struct {
			Status int    `json:"status"`
			Error  string `json:"error"`
		} `json:"results"`
	}
	if err == nil {
		err = a.decode(&batch)
	}
	if err == nil && len(batch.Results) != len(open) {
		err = fmt.Errorf("client: %d handles were sent, the server answered for %d", len(open), len(batch.Results))
	}
	for k, i := range open {
		switch {
		case err != nil:
			errs[i] = err
		case batch.Results[k].Status == http.StatusNoContent || batch.Results[k].Status == http.StatusOK:
			errs[i] = nil
		default:
			errs[i] = &Error{Status: batch.Results[k].Status, Text: batch.Results[k].Error}
		}
	}
	return n
}
