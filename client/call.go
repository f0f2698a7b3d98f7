package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answerMax bounds the body of an answer, in bytes: a batch of the largest messages in their largest form stays below it.
const answerMax = 32 << 20

// call is one operation.
type call struct {
	method, path string // the path is escaped
	query        string // encoded
	kind         kind
	body         []byte
	wait         time.Duration // that the server may take by intention
	want         int           // status of success
	alsoWant     int           // another one, 0 for none
	replay       bool          // 410 means that the offset is gone
	// maybe reports whether a failed try may have done it, and done then whether the failure of a later try shows that it
	// has most likely happened. Both or none are set.
	maybe, done func(*Error) bool
}

// answer is what a call got.
type answer struct {
	status int
	body   []byte
}

// decode reads the body of an answer.
func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("client: the server's answer is not understood: %w", err)
	}
	return nil
}

// do runs a call with its retries.
func (c *Client) do(ctx context.Context, op call) (answer, error) {
	var failed *node
	maybe := false // an earlier try may have done it
	for attempt := 1; ; attempt++ {
		n := c.pick(failed)
		a, err := c.once(ctx, n, op)
		n.came(err)
		if err == nil {
			return a, nil
		}
		var e *Error
		if errors.As(err, &e) && maybe && op.done(e) {
			return a, nil
		}
		if attempt >= c.opts.Attempts || !retryable(err) || ctx.Err() != nil {
			return a, err
		}
		maybe = maybe || op.maybe != nil && op.maybe(e)
		failed = n
		if !sleep(ctx, c.pause(attempt, e)) {
			return a, err
		}
	}
}

// pause draws how long to wait after a failed try.
func (c *Client) pause(attempt int, e *Error) time.Duration {
	bound := c.opts.Backoff << min(attempt-1, 5)
	return max(rand.N(bound), e.RetryAfter)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once tries a call at one node. Its error is an *Error, unless the answer itself makes no sense.
func (c *Client) once(parent context.Context, n *node, op call) (answer, error) {
	ctx, cancel := context.WithTimeout(parent, op.wait+c.opts.Timeout)
	defer cancel()
	resp, err := c.opts.HTTP.Do(c.request(ctx, n, op))
	if err != nil {
		return answer{}, noAnswer(parent, err)
	}
	defer resp.Body.Close()
	body, err := readAnswer(resp)
	switch {
	case errors.Is(err, errTooLong):
		return answer{}, err
	case err != nil:
		return answer{}, noAnswer(parent, err)
	case resp.StatusCode != op.want && (op.alsoWant == 0 || resp.StatusCode != op.alsoWant):
		return answer{}, &Error{
			Status: resp.StatusCode, Text: errorText(body), RetryAfter: retryAfter(resp.Header), Body: body, replay: op.replay,
		}
	}
	return answer{resp.StatusCode, body}, nil
}

// request makes a request by hand: [http.NewRequest] would parse the URL again and copy the headers.
func (c *Client) request(ctx context.Context, n *node, op call) *http.Request {
	u := n.url
	u.RawPath = u.Path + op.path
	if plain, err := url.PathUnescape(u.RawPath); err == nil {
		u.Path = plain
	}
	u.RawQuery = op.query
	r := &http.Request{
		Method: op.method, URL: &u, Host: u.Host, Header: c.headers[op.kind], Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(op.body) > 0 {
		r.ContentLength = int64(len(op.body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(op.body)), nil }
		r.Body, _ = r.GetBody()
	}
	return r.WithContext(ctx)
}

var errTooLong = fmt.Errorf("client: the server's answer is larger than %d bytes", answerMax)

// readAnswer reads the body of an answer, in one piece when its length is known.
func readAnswer(resp *http.Response) ([]byte, error) {
	switch length := resp.ContentLength; {
	case length > answerMax:
		return nil, errTooLong
	case length >= 0:
		body := make([]byte, length)
		_, err := io.ReadFull(resp.Body, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	if len(body) > answerMax {
		return nil, errTooLong
	}
	return body, err
}

// noAnswer is the error of a try without an answer. That the caller gave up says nothing of the node.
func noAnswer(parent context.Context, err error) *Error {
	var op *net.OpError
	return &Error{Cause: err, Unsent: errors.As(err, &op) && op.Op == "dial", abandoned: parent.Err() != nil}
}

// errorText takes the text out of an error body, which is JSON or plain.
func errorText(body []byte) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error != "" {
		return e.Error
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), 512)]), "\ufffd"))
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 60)) * time.Second
}

// Call sends a request to a route that has no method of its own and decodes the answer into what into points to, unless that
// is nil. The path begins with a slash and is escaped; body, unless nil, is sent as JSON. Any status of 2xx is success; the
// retries are those of every operation.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body, into any) error {
	op := call{method: method, path: path, query: query.Encode(), want: http.StatusOK}
	if body != nil {
		var err error
		if op.body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("client: %w", err)
		}
		op.kind = jsonBody
	}
	a, err := c.do(ctx, op)
	var e *Error
	if errors.As(err, &e) && e.Status > 200 && e.Status < 300 {
		a, err = answer{e.Status, e.Body}, nil
	}
	if err != nil || into == nil || len(a.body) == 0 {
		return err
	}
	return a.decode(into)
}
