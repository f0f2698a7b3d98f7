package client

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// DefaultServer is where a server is expected when nothing else is said.
const DefaultServer = "http://127.0.0.1:7942"

// Options configure a client. The zero value of every field means its default.
type Options struct {
	// Name identifies the program to the server, in X-Narad-Client. Default "narad-go".
	Name string
	// Username and Password are sent with every request when either is set.
	Username, Password string
	// Attempts is how often an operation is tried in total. Default 4; 1 never tries again.
	Attempts int
	// Backoff is the bound of the first pause between two tries; it doubles up to 32 times that. Default 100 ms.
	Backoff time.Duration
	// Timeout bounds one try, beyond what a consume waits. Default 30 s.
	Timeout time.Duration
	// Connections is how many idle connections to one node are kept for later requests: as many as there are requests at
	// a time. Default 256.
	Connections int
	// HTTP makes the requests. Default: a client of its own that never follows redirects and asks for no compression.
	HTTP *http.Client
}

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "narad-go")
	setDefault(&o.Attempts, 4)
	setDefault(&o.Backoff, 100*time.Millisecond)
	setDefault(&o.Timeout, 30*time.Second)
	setDefault(&o.Connections, 256)
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: newTransport(o.Connections), CheckRedirect: noRedirect}
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// newTransport returns a transport whose idle connections end before those of a server with its defaults (60 s) do, so that
// no request meets a connection that is being closed.
func newTransport(connections int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       45 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Client talks to the nodes of one server. It may be used by any number of goroutines at once.
type Client struct {
	opts    Options
	nodes   []*node
	turn    atomic.Uint32 // which node is next
	headers [kinds]http.Header
	single  atomic.Bool // the server has no batch produce
}

// New returns a client of the server at the given URL, such as "http://127.0.0.1:7942", or of several nodes of one server,
// with commas between their URLs. It makes no connection.
func New(server string, o Options) (*Client, error) {
	c := &Client{opts: o.withDefaults()}
	for text := range strings.SplitSeq(server, ",") {
		n, err := newNode(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, n)
	}
	switch {
	case strings.ContainsAny(c.opts.Name, "\r\n"):
		return nil, fmt.Errorf("client: Options.Name has a line break")
	case strings.Contains(o.Username, ":"):
		return nil, fmt.Errorf("client: Options.Username has a colon")
	case c.opts.Attempts < 1:
		return nil, fmt.Errorf("client: Options.Attempts is %d, allowed is at least 1", o.Attempts)
	}
	for k := range c.headers {
		c.headers[k] = c.header(kind(k))
	}
	return c, nil
}

// kind is a content type.
type kind int

const (
	noBody kind = iota
	bytesBody
	jsonBody
	kinds
)

// header returns what is sent with every request of a kind. All requests share it; nobody writes to it.
func (c *Client) header(k kind) http.Header {
	h := http.Header{"X-Narad-Client": {c.opts.Name}, "User-Agent": {c.opts.Name}}
	if c.opts.Username != "" || c.opts.Password != "" {
		login := base64.StdEncoding.EncodeToString([]byte(c.opts.Username + ":" + c.opts.Password))
		h["Authorization"] = []string{"Basic " + login}
	}
	switch k {
	case bytesBody:
		h["Content-Type"] = []string{"application/octet-stream"}
	case jsonBody:
		h["Content-Type"] = []string{"application/json"}
	}
	return h
}

// Close closes idle connections. Requests in flight go on; the client may still be used.
func (c *Client) Close() { c.opts.HTTP.CloseIdleConnections() }
