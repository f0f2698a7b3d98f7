package server

import (
	"net"
	"sync"
)

// limitedListener accepts no more connections than it has permits; the others wait in the kernel's backlog. (The one of
// golang.org/x/net hides CloseWrite, without which a client that is refused while it still sends sees a reset instead of
// the answer.)
type limitedListener struct {
	net.Listener
	permits   chan struct{}
	closed    chan struct{}
	closeOnce sync.Once
}

func newLimitedListener(ln net.Listener, most int) *limitedListener {
	return &limitedListener{Listener: ln, permits: make(chan struct{}, most), closed: make(chan struct{})}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.permits <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.permits
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.permits })}, nil
}

func (l *limitedListener) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn gives its permit back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite ends what this side sends and leaves the other direction open. net/http looks for it.
func (c *limitedConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
