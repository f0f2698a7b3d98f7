package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Of a small request net/http takes more time than all that is behind it. So the requests that nearly all are, a produce, a consume
// and an ack in their plainest form (see plain.go), are read and answered here; they go through the same handlers. A connection
// that sends anything else, be it in form or route, is handed to net/http with what it has sent, and stays there. When in doubt,
// that is what happens: here is only what net/http would understand in the same way.

// direct owns the connections that have sent nothing but plain requests.
type direct struct {
	server   *Server
	listener net.Listener
	others   *handover
	stopping atomic.Bool

	mu    sync.Mutex // guards conns
	conns map[*directConn]struct{}
	empty sync.Cond // conns became empty
}

func newDirect(s *Server, ln net.Listener) *direct {
	d := &direct{server: s, listener: ln, others: newHandover(ln.Addr()), conns: map[*directConn]struct{}{}}
	d.empty.L = &d.mu
	return d
}

// Pauses after a failure to accept that may pass, like too many open files.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// accept serves connections until the listener is closed or fails for good.
func (d *direct) accept() error {
	pause := time.Duration(0)
	for {
		c, err := d.listener.Accept()
		var ne net.Error
		switch {
		case err == nil:
			pause = 0
			d.begin(c)
		case errors.As(err, &ne) && ne.Temporary() && !d.stopping.Load(): //nolint:staticcheck // net/http asks the same
			pause = min(max(2*pause, acceptPauseMin), acceptPauseMax)
			d.server.opts.Logger.Warn("a connection could not be accepted", "error", err, "retry_in", pause.String())
			time.Sleep(pause)
		default:
			return err
		}
	}
}

func (d *direct) begin(conn net.Conn) {
	if d.server.opts.NoDirect {
		d.others.give(conn)
		return
	}
	c := newDirectConn(d, conn)
	d.mu.Lock()
	d.conns[c] = struct{}{}
	d.mu.Unlock()
	if d.stopping.Load() { // stop may have looked before
		c.closeIdle()
	}
	go c.serve()
}

func (d *direct) remove(c *directConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
	if len(d.conns) == 0 {
		d.empty.Broadcast()
	}
}

// stop takes no further connection, closes those that are between two requests, and lets each other finish the one under way.
func (d *direct) stop() {
	d.stopping.Store(true)
	d.listener.Close()
	d.each((*directConn).closeIdle)
}

// wait returns when all connections are gone, or with the error of ctx.
func (d *direct) wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.empty.Broadcast()
	})()
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.conns) > 0 && ctx.Err() == nil {
		d.empty.Wait()
	}
	if len(d.conns) == 0 {
		return nil
	}
	return ctx.Err()
}

// cut closes all connections, whatever is under way.
func (d *direct) cut() { d.each(func(c *directConn) { c.Conn.Close() }) }

func (d *direct) each(do func(*directConn)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		do(c)
	}
}

// handover is the listener of net/http: it accepts the connections that are given to it.
type handover struct {
	addr      net.Addr
	conns     chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

func newHandover(addr net.Addr) *handover {
	return &handover{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handover) Addr() net.Addr { return h.addr }

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.closeOnce.Do(func() { close(h.closed) })
	return nil
}

// give hands a connection over, or closes it when nobody accepts any more.
func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.closed:
		c.Close()
	}
}

// replayed is a connection of which some was read already.
type replayed struct {
	net.Conn
	rest   []byte
	headBy time.Time // when the head of the request must be whole, if it was begun before; it bounds the first deadline
}

// SetReadDeadline is first called for the head.
func (c *replayed) SetReadDeadline(at time.Time) error {
	if by := c.headBy; !by.IsZero() && by.Before(at) {
		at = by
	}
	c.headBy = time.Time{}
	return c.Conn.SetReadDeadline(at)
}

func (c *replayed) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil
	}
	return n, nil
}

// CloseWrite is looked for by net/http.
func (c *replayed) CloseWrite() error { return closeWrite(c.Conn) }

// States of a connection.
const (
	connIdle   int32 = iota // between two requests, or before the first
	connBusy                // with a request under way
	connClosed              // closed while idle
)

const (
	directBuffer = 4 << 10
	// lingering is how long a connection that is closed before all was read stays, so that its client reads the answer and not
	// a reset. It is what net/http takes.
	lingering = 500 * time.Millisecond
)

// directConn is one connection. Its task alone uses the fields, unless they say something else.
type directConn struct {
	net.Conn
	direct *direct
	state  atomic.Int32

	buf             []byte // what was read; from at on nobody has used it
	at              int
	readBy, writeBy lazyDeadline

	base, request http.Request // base has what all requests of the connection share
	url           url.URL
	heads         plainHeads
	body          directBody
	answer        answer
	began, since  time.Time // of the request: when it came, and from when the time for its body counts
	headBy        time.Time // when its head must be whole; zero: HeaderTimeout after it came
	blanks        int       // line ends that may still be passed over before it

	early  []byte             // what the task that watches has read
	begun  bool               // that was the first byte of the next request, of which nothing else is there
	cancel context.CancelFunc // of the context of all requests: the client has left
	mu     sync.Mutex         // guards the fields below
	inside bool               // a request is in its handler, with its whole body read
	watch  chan struct{}      // closed by the task that watches for the client to leave; nil: there is none
}

func newDirectConn(d *direct, conn net.Conn) *directConn {
	c := &directConn{Conn: conn, direct: d, buf: make([]byte, 0, directBuffer)}
	c.readBy.set, c.writeBy.set = conn.SetReadDeadline, conn.SetWriteDeadline
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.base = *(&http.Request{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: conn.RemoteAddr().String(), URL: &c.url,
	}).WithContext(watchedContext{ctx, c})
	c.answer.conn, c.body.conn = c, c
	c.since = time.Now()
	c.headBy = c.since.Add(d.server.opts.HeaderTimeout)
	return c
}

// serve answers requests until the connection ends or is handed over.
func (c *directConn) serve() {
	defer c.direct.remove(c)
	defer c.cancel()
	for c.await() && c.state.CompareAndSwap(connIdle, connBusy) {
		c.began = time.Now()
		if c.since.IsZero() {
			c.since = c.began
		}
		if !c.parse() {
			c.handOver()
			return
		}
		if !c.exchange() {
			break
		}
		c.headBy, c.since = time.Time{}, time.Time{}
		if c.blanks = 0; c.request.Method == http.MethodPost {
			c.blanks = blanksMost
		}
		c.state.Store(connIdle)
		if c.direct.stopping.Load() {
			break
		}
	}
	c.Close()
}

// await returns when there is something of the next request. It reports false when nothing comes.
func (c *directConn) await() bool {
	opts := &c.direct.server.opts
	for {
		c.passBlanks()
		rest := len(c.buf) - c.at
		if rest > 0 && !c.begun {
			return true
		}
		now, wait := time.Now(), opts.IdleTimeout
		switch {
		case rest > 0:
			wait = opts.HeaderTimeout
			c.headBy = now.Add(wait)
		case !c.headBy.IsZero(): // nothing has come yet
			wait = c.headBy.Sub(now)
		}
		c.begun = false
		c.buf, c.at = append(c.buf[:0], c.buf[c.at:]...), 0
		c.readBy.want(now, wait)
		if !c.more() {
			return false
		}
	}
}

// blanksMost is how many carriage returns and line feeds net/http passes over behind a POST, for old clients that send them.
const blanksMost = 4

func (c *directConn) passBlanks() {
	for ; c.blanks > 0 && c.at < len(c.buf); c.blanks-- {
		if b := c.buf[c.at]; b != '\r' && b != '\n' {
			c.blanks = 0
			return
		}
		c.at++
	}
}

// closeIdle closes the connection unless a request is under way.
func (c *directConn) closeIdle() {
	if c.state.CompareAndSwap(connIdle, connClosed) {
		c.Close()
	}
}

// more reads once, behind what is there.
func (c *directConn) more() bool {
	for {
		n, err := c.Read(c.buf[len(c.buf):cap(c.buf)])
		if n > 0 {
			c.buf = c.buf[:len(c.buf)+n]
			return true
		}
		if !c.readBy.early(err) {
			return false
		}
	}
}

func (c *directConn) handOver() {
	c.SetDeadline(time.Time{})
	c.direct.others.give(&replayed{c.Conn, append([]byte(nil), c.buf[c.at:]...), c.headBy})
}

// exchange answers the request that was parsed, and reports whether another may follow.
func (c *directConn) exchange() bool {
	if !c.handle() {
		return false
	}
	c.unwatch()
	err := c.answer.finish()
	if err != nil || c.answer.closes {
		if err == nil && c.body.missing() > 0 && closeWrite(c.Conn) == nil {
			time.Sleep(lingering)
		}
		return false
	}
	c.body.skip()
	return true // also when the client has left: it may have sent more before
}

// handle runs the handler. It reports false when that has aborted the answer.
func (c *directConn) handle() (answered bool) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // it is compared like that by net/http
			panic(v)
		}
	}()
	c.mu.Lock()
	c.inside = c.body.missing() == 0
	c.mu.Unlock()
	c.direct.server.handler.ServeHTTP(&c.answer, &c.request)
	return true
}

// write sends p. It may take until WriteTimeout after the request came.
func (c *directConn) write(p []byte) error {
	c.writeBy.want(c.began, c.direct.server.opts.WriteTimeout)
	for {
		n, err := c.Write(p)
		if err == nil {
			return nil
		}
		if p = p[n:]; !c.writeBy.early(err) {
			return err
		}
	}
}

// lazyDeadline is the deadline of one direction. To set one costs as much as half a system call. So one that was set is left while it
// is not much too early, and when it fires too early it is set anew.
type lazyDeadline struct {
	set         func(time.Time) error
	armed, real time.Time
}

// want makes the deadline d after from.
func (l *lazyDeadline) want(from time.Time, d time.Duration) {
	l.real = from.Add(d)
	if l.armed.After(l.real) || l.armed.Before(from.Add(d/2)) {
		l.arm(l.real)
	}
}

func (l *lazyDeadline) arm(at time.Time) {
	l.armed = at
	_ = l.set(at) // fails on a closed connection only, and so will what is next
}

// early reports whether an error is only that of a deadline which came before the real one. What failed can go on then.
func (l *lazyDeadline) early(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(l.real) {
		return false
	}
	l.arm(l.real)
	return true
}

// watchedContext is the context of the requests of a connection. Only when somebody asks to be told that the client leaves is the
// connection watched for that.
type watchedContext struct {
	context.Context
	conn *directConn
}

func (w watchedContext) Done() <-chan struct{} {
	w.conn.watchClient()
	return w.Context.Done()
}

// watchClient reads on while the request is under way: the client leaves when that fails. What it sends meanwhile is of the next request.
func (c *directConn) watchClient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.inside || c.watch != nil {
		return
	}
	c.watch = make(chan struct{})
	c.readBy.arm(time.Time{})
	go c.watchUntil(c.watch)
}

func (c *directConn) watchUntil(ended chan struct{}) {
	defer close(ended)
	var room [1]byte
	n, err := c.Read(room[:])
	if n > 0 {
		c.early = append(c.early, room[0])
	} else if !errors.Is(err, os.ErrDeadlineExceeded) { // that is unwatch
		c.cancel()
	}
}

var longAgo = time.Unix(1, 0)

// unwatch ends the watch, if there is one: nobody else reads then. It must come before the answer, or the watch would take the first byte
// of the next request.
func (c *directConn) unwatch() {
	c.mu.Lock()
	c.inside = false
	watch := c.watch
	c.watch = nil
	c.mu.Unlock()
	if watch != nil {
		c.readBy.arm(longAgo)
		<-watch
	}
	if len(c.early) > 0 { // there is room, where the head was
		rest := c.buf[c.at:]
		c.begun = int64(len(rest)) == c.body.left
		c.buf, c.at = append(append(c.buf[:0], rest...), c.early...), 0
		c.early = c.early[:0]
	}
}
