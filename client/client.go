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

// DefaultServer is where a server is expected when nothing else is said.
const DefaultServer = "http://127.0.0.1:7942"

// answerMax bounds the body of an answer, in bytes.
const answerMax = 8 << 20

// Options configure a client. The zero value of every field means its default.
type Options struct {
	// Name identifies the program to the server, in X-Narad-Client. Default "narad-go".
	Name string
	// Attempts is how often an operation is tried in total. Default 4; 1 never tries again.
	Attempts int
	// Backoff is the bound of the first pause between two tries; it doubles up to 32 times that. Default 100 ms.
	Backoff time.Duration
	// HTTP makes the requests. Default: a client of its own that never follows redirects. Its timeout, if any, must
	// exceed the longest wait of a consume.
	HTTP *http.Client
}

// Client talks to one server. It may be used by any number of goroutines at once.
type Client struct {
	base string
	opts Options
}

// New returns a client of the server at the given URL, such as "http://127.0.0.1:7942".
func New(server string, o Options) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: %q is not the URL of a server, like %s", server, DefaultServer)
	}
	if o.Name == "" {
		o.Name = "narad-go"
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Backoff == 0 {
		o.Backoff = 100 * time.Millisecond
	}
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		o.HTTP = &http.Client{Transport: transport, CheckRedirect: noRedirect}
	}
	return &Client{base: strings.TrimRight(server, "/"), opts: o}, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// call is one operation.
type call struct {
	method, path string
	query        url.Values
	kind         string // content type of body
	body         []byte
	want         int // status of success
	alsoWant     int // another one, 0 for none
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
	for attempt := 1; ; attempt++ {
		a, err := c.once(ctx, op)
		if err == nil || attempt >= c.opts.Attempts || !retryable(err) || ctx.Err() != nil {
			return a, err
		}
		if !sleep(ctx, c.pause(attempt, err)) {
			return a, err
		}
	}
}

// pause draws how long to wait after a failed try.
func (c *Client) pause(attempt int, err error) time.Duration {
	bound := c.opts.Backoff << min(attempt-1, 5)
	pause := rand.N(bound)
	var e *Error
	if errors.As(err, &e) {
		pause = max(pause, e.RetryAfter)
	}
	return pause
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

func (c *Client) once(ctx context.Context, op call) (answer, error) {
	target := c.base + op.path
	if len(op.query) > 0 {
		target += "?" + op.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, op.method, target, bytes.NewReader(op.body))
	if err != nil {
		return answer{}, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("X-Narad-Client", c.opts.Name)
	if op.kind != "" {
		req.Header.Set("Content-Type", op.kind)
	}
	resp, err := c.opts.HTTP.Do(req)
	if err != nil {
		return answer{}, &Error{Cause: err, Unsent: unsent(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	if err != nil {
		return answer{}, &Error{Cause: err}
	}
	if len(body) > answerMax {
		return answer{}, fmt.Errorf("client: the server's answer is larger than %d bytes", answerMax)
	}
	if resp.StatusCode != op.want && (op.alsoWant == 0 || resp.StatusCode != op.alsoWant) {
		return answer{}, &Error{Status: resp.StatusCode, Text: errorText(body), RetryAfter: retryAfter(resp.Header)}
	}
	return answer{resp.StatusCode, body}, nil
}

// unsent reports whether a request certainly never reached the server: no connection could be made for it.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// errorText takes the text out of an error body, which is JSON or plain.
func errorText(body []byte) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error != "" {
		return e.Error
	}
	return strings.TrimSpace(string(body[:min(len(body), 512)]))
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 60)) * time.Second
}
