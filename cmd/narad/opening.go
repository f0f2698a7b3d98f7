package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// openingRequests bounds the requests that wait for the node to open; more are answered 503.
const openingRequests = 4096

// opening serves the main listener while the node recovers its data: /healthz says that the process is alive, so that nobody
// kills it for being busy, and everything else waits for the node. Then it hands the listener over.
type opening struct {
	ln      net.Listener
	web     *http.Server
	closed  atomic.Bool   // Accept returns no more connections
	done    chan struct{} // closed when web accepts no more
	open    chan struct{} // closed when node is set
	node    http.Handler
	waiting atomic.Int64
}

// newOpening begins to serve ln.
func newOpening(ln net.Listener, headerBytes int) *opening {
	o := &opening{ln: ln, done: make(chan struct{}), open: make(chan struct{})}
	o.web = &http.Server{Handler: o, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: headerBytes}
	go func() {
		defer close(o.done)
		o.web.Serve(acceptor{o})
	}()
	return o
}

// acceptor is the listener as the opening sees it: closing it leaves the real one open.
type acceptor struct{ o *opening }

func (a acceptor) Accept() (net.Conn, error) {
	c, err := a.o.ln.Accept()
	if err != nil && a.o.closed.Load() {
		return nil, net.ErrClosed
	}
	return c, err
}

func (acceptor) Close() error     { return nil }
func (a acceptor) Addr() net.Addr { return a.o.ln.Addr() }

// ServeHTTP answers a health check and has everything else wait for the node. The connection is closed after the answer: the
// next one is the node's own.
func (o *opening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	if r.URL.Path == "/healthz" && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{\"status\":\"ok\"}\n")
		return
	}
	waiting := o.waiting.Add(1)
	defer o.waiting.Add(-1)
	isReady := r.URL.Path == "/readyz"
	if waiting <= openingRequests && !isReady {
		select {
		case <-o.open:
		case <-r.Context().Done():
			return
		}
	}
	select {
	case <-o.open:
		o.node.ServeHTTP(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "{\"error\":\"the node is starting\"}\n")
	}
}

// handOver gives what waits to the node, and stops taking connections: the listener is the caller's.
func (o *opening) handOver(node http.Handler) error {
	o.node = node
	close(o.open)
	return o.release()
}

// release ends Accept without closing the listener.
func (o *opening) release() error {
	o.closed.Store(true)
	deadline, ok := o.ln.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return errors.New("the listener has no deadline")
	}
	if err := deadline.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	<-o.done
	return deadline.SetDeadline(time.Time{})
}

// close waits a moment for requests that came while the node opened, then cuts their connections.
func (o *opening) close() error {
	if !o.closed.Load() {
		o.release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if o.web.Shutdown(ctx) != nil {
		o.web.Close()
	}
	return nil
}
