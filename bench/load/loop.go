package load

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loop drives sessions, each over a connection of its own, until all of them are over.
type loop struct {
	errs      chan error // of sessions that ended early; one is kept
	abandoned atomic.Bool
	live      atomic.Int64 // sessions with a goroutine
	group     sync.WaitGroup
}

// startLoop starts the sessions; wait returns when each has ended: its next said never.
func startLoop(host string, all []session) (*loop, error) {
	l := &loop{errs: make(chan error, 1)}
	return l, driveAll(l, host, all)
}

func (l *loop) wait() error {
	l.group.Wait()
	select {
	case err := <-l.errs:
		return err
	default:
		return nil
	}
}

func (l *loop) fail(err error) {
	select {
	case l.errs <- err:
	default:
	}
}

// dialAll opens n connections. To a server on loopback they come from many addresses, as a server bounds what one client may
// have in flight and clients are told apart by address.
func dialAll(host string, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, 0, n)
	for i := range n {
		c, err := dialFrom(host, i)
		if err != nil {
			closeAll(conns)
			return nil, fmt.Errorf("load: %w", err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

func dialFrom(host string, i int) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	if strings.HasPrefix(host, "127.") {
		from := d
		from.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%250))}
		if c, err := from.Dial("tcp", host); err == nil {
			return c, nil // elsewhere than on Linux only one such address is there
		}
	}
	return d.Dial("tcp", host)
}

// driveGoroutines gives each session a goroutine.
func driveGoroutines(l *loop, host string, all []session) error {
	conns, err := dialAll(host, len(all))
	if err != nil {
		return err
	}
	for i, s := range all {
		l.live.Add(1)
		l.group.Go(func() {
			defer l.live.Add(-1)
			if err := drive(s, conns[i]); err != nil && !l.abandoned.Load() {
				l.fail(err)
			}
		})
	}
	l.group.Go(func() { // cuts those that wait
		for !l.abandoned.Load() && l.live.Load() > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		closeAll(conns)
	})
	return nil
}

func drive(s session, c net.Conn) error {
	var in []byte
	for {
		out, again := s.next()
		switch {
		case out == nil && again == never:
			return nil
		case out == nil:
			time.Sleep(max(time.Duration(again-now()), 100*time.Microsecond))
			continue
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		a, n, err := answer{}, 0, error(nil)
		for n == 0 {
			if a, n, err = parseAnswer(in); err != nil {
				return err
			}
			if n == 0 {
				if in, err = readMore(c, in); err != nil {
					return err
				}
			}
		}
		if err := s.reply(a); err != nil {
			return err
		}
		if a.closes {
			return errClosing
		}
		in = append(in[:0], in[n:]...)
	}
}

var errClosing = errors.New("load: the server closes connections")

func readMore(c net.Conn, in []byte) ([]byte, error) {
	in = grown(in)
	n, err := c.Read(in[len(in):cap(in)])
	return in[:len(in)+n], err
}

// grown returns in with room behind it.
func grown(in []byte) []byte {
	if cap(in)-len(in) < 1024 {
		in = append(make([]byte, 0, max(8192, 2*cap(in))), in...)
	}
	return in
}
