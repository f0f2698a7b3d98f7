package load

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// Single is one connection to a server that sends one request after the other.
type Single struct {
	host    string
	conn    net.Conn
	closed  bool      // by the server, after the last answer
	used    time.Time // last
	in, out []byte
}

// Dial connects to the server.
func (s *Server) Dial() (*Single, error) {
	conn, err := net.Dial("tcp", s.Host)
	if err != nil {
		return nil, err
	}
	return &Single{host: s.Host, conn: conn, used: time.Now()}, nil
}

// idleMost is for how long a connection may rest and be used again; a server closes it after a minute.
const idleMost = 10 * time.Second

// Close ends the connection.
func (c *Single) Close() error { return c.conn.Close() }

// Through produces a message of a size to a partition that holds none, takes it and acks it.
func (c *Single) Through(topic string, partition, size int) error {
	path := fmt.Sprintf("/v1/topics/%s/produce?partition=%d", topic, partition)
	if _, err := c.call(202, request("POST", path, c.host, newPayload(size))); err != nil {
		return err
	}
	path = fmt.Sprintf("/v1/topics/%s/consume?wait=10s&partition=%d", topic, partition)
	body, err := c.call(200, request("GET", path, c.host, nil))
	if err != nil {
		return err
	}
	got, err := messages(nil, body)
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return fmt.Errorf("load: %d messages instead of one", len(got))
	}
	c.out = ackRequest(c.out[:0], c.host, topic, got)
	_, err = c.call(204, c.out)
	return err
}

// call sends a request and returns the body of the answer, which is valid until the next call.
func (c *Single) call(want int, request []byte) ([]byte, error) {
	if c.closed || time.Since(c.used) > idleMost { // those that came while the server opened are closed by it
		conn, err := net.Dial("tcp", c.host)
		if err != nil {
			return nil, err
		}
		c.conn.Close()
		c.conn, c.closed = conn, false
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, fmt.Errorf("load: %.60q: %w", request, err)
	}
	c.in = c.in[:0]
	for {
		a, n, err := parseAnswer(c.in)
		if err == nil && n == 0 {
			if c.in, err = readMore(c.conn, c.in); err == nil {
				continue
			}
		}
		c.closed, c.used = a.closes, time.Now()
		switch {
		case err != nil:
			return nil, fmt.Errorf("load: answer to %.60q: %w", request, err)
		case a.status != want:
			return nil, fmt.Errorf("load: %.60q was answered %d instead of %d: %.200s", request, a.status, want, a.body)
		case n < len(c.in):
			return nil, errors.New("load: an answer that nobody asked for")
		}
		return a.body, nil
	}
}
