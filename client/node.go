package client

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// A node that failed breakerFailures times in a row is avoided for breakerPause. Then one request tries it again; the others
// go on avoiding it until that one has come back.
const (
	breakerFailures = 5
	breakerPause    = 2 * time.Second
)

// node is one address of the server.
type node struct {
	url      url.URL // scheme and host, and the path before every route
	failures atomic.Int32
	avoid    atomic.Int64 // until then, in unix nanoseconds; 0: not at all
}

func newNode(text string) (*node, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("client: %s is not the URL of a server, like %s", shownURL(text, u), DefaultServer)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return &node{url: *u}, nil
}

// shownURL is a URL for an error: a password in it is not shown.
func shownURL(text string, u *url.URL) string {
	if u == nil {
		return "this text" // it may hold anything
	}
	if u.User != nil {
		return fmt.Sprintf("%q, which names a user,", u.Redacted())
	}
	return fmt.Sprintf("%q", text)
}

// pick returns the node for the next try: the next one in turn that is not avoided and is not the one that has just
// failed. When all are avoided it is the one whose pause ends first: a client with one node never refuses by itself.
func (c *Client) pick(failed *node) *node {
	if len(c.nodes) == 1 {
		return c.nodes[0]
	}
	first, now := int(c.turn.Add(1)), time.Now().UnixNano()
	var second *node
	for i := range c.nodes {
		n := c.nodes[(first+i)%len(c.nodes)]
		switch {
		case n == failed:
		case n.usable(now):
			return n
		case second == nil || n.avoid.Load() < second.avoid.Load():
			second = n
		}
	}
	if failed != nil && failed.usable(now) {
		return failed
	}
	return second
}

// usable reports whether a node may be tried. When its pause has ended, it is for one caller, and avoided for another pause
// by the others.
func (n *node) usable(now int64) bool {
	until := n.avoid.Load()
	if until == 0 {
		return true
	}
	return now >= until && n.avoid.CompareAndSwap(until, now+int64(breakerPause))
}

// came takes in how a try ended.
func (n *node) came(err error) {
	if !isNodeFailure(err) {
		n.failures.Store(0)
		n.avoid.Store(0)
		return
	}
	if n.failures.Add(1) >= breakerFailures {
		n.avoid.Store(time.Now().Add(breakerPause).UnixNano())
	}
}

// isNodeFailure reports whether an error says something of the node, not of the request.
func isNodeFailure(err error) bool {
	e, ok := err.(*Error)
	if !ok {
		return false
	}
	switch e.Status {
	case 0, http.StatusMisdirectedRequest, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !e.abandoned
	}
	return false
}
