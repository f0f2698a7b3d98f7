package load

import (
	"errors"
	"fmt"
	"net"
)

// Single is one connection to a server that sends one request after the other.
type Single struct {
	host    string
	conn    net.Conn
	closed  bool // by the server, after the last answer
	in, out []byte
}

// Dial connects to the server.
func (s *Server) Dial() (*Single, error) {
	conn, err := net.Dial("tcp", s.Host)
	if err != nil {
		return nil, err
	}
	return &Single{host: s.Host, conn: conn}, nil
}

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
	if c.closed { // as it does with those that came while it opened
		conn, err := net.Dial("tcp", c.host)
		if err != nil {
			return nil, err
		}
		c.conn.Close()
		c.conn, c.closed = conn, false
	}
	if _, err := c.conn.Write(request); err != nil {
		return nil, err
	}
	c.in = c.in[:0]
	for {
		a, n, err := parseAnswer(c.in)
		if err == nil && n == 0 {
			if c.in, err = readMore(c.conn, c.in); err == nil {
				continue
			}
		}
		c.closed = a.closes
		switch {
		case err != nil:
			return nil, err
		case a.status != want:
			return nil, fmt.Errorf("load: %.60q was answered %d instead of %d: %.200s", request, a.status, want, a.body)
		case n < len(c.in):
			return nil, errors.New("load: an answer that nobody asked for")
		}
		return a.body, nil
	}
}
