package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// meter is a body that records how much buffer each read was offered, and by how much that exceeds what had arrived.
type meter struct {
	rest    []byte
	arrived int
	reads   []int // len of the buffer of each read
	t       *testing.T
	x       *exchange
}

// held is how much memory the exchange has for its body.
func (m *meter) held() (bytes int) {
	for _, b := range m.x.held {
		bytes += cap(*b)
	}
	return bytes
}

func (m *meter) Read(p []byte) (int, error) {
	most := max(bodyFirst, min(bodyGrow*m.arrived, m.arrived+bodyPart))
	require.LessOrEqual(m.t, m.arrived+len(p), most+1, "after %d bytes", m.arrived)
	require.LessOrEqual(m.t, m.held(), most, "after %d bytes", m.arrived)
	m.reads = append(m.reads, len(p))
	if len(m.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.rest[:min(len(m.rest), 5000)]) // as it comes from a network
	m.rest = m.rest[n:]
	m.arrived += n
	return n, nil
}

// narad-facts 1.2: a body is one exact buffer when it declares little, and grows with what arrives otherwise. One that stalls
// holds 1 MiB more than what has arrived, at most.
func TestReadBody(t *testing.T) {
	const limit = 3 << 20
	for _, size := range []int{0, 1, bodyExact - 1, bodyExact, bodyExact + 1, 3 * bodyExact, 4 * bodyExact, 4*bodyExact + 1,
		bodyPart - 1, bodyPart, bodyPart + 1, 2*bodyPart - 1, 2 * bodyPart, 2*bodyPart + 1, limit - 1, limit, limit + 1} {
		for _, declared := range []bool{true, false} {
			name := fmt.Sprintf("size %d, declared %v", size, declared)
			want := make([]byte, size)
			rand.NewChaCha8([32]byte{byte(size)}).Read(want)
			m := &meter{rest: want, t: t}
			r := httptest.NewRequest("POST", "/", m)
			r.ContentLength = -1
			if declared {
				r.ContentLength = int64(size)
			}
			m.x = &exchange{ResponseWriter: httptest.NewRecorder(), r: r}
			got, err := m.x.body(limit)
			if size > limit {
				require.ErrorIs(t, err, errBodyTooLarge, name)
				if declared {
					require.Empty(t, m.reads, "refused by its length alone")
				}
				continue
			}
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(want, got), name)
			require.LessOrEqual(t, cap(got), max(bodyGrow*size, bodyFirst), name)
		}
	}
}

// A declared body of which only a part comes is refused, whatever the buffer.
func TestReadBodyCutShort(t *testing.T) {
	for _, declared := range []int64{10, bodyExact + 10} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("x"), iotestErr{io.ErrUnexpectedEOF}))
		r.ContentLength = declared
		_, err := (&exchange{ResponseWriter: httptest.NewRecorder(), r: r}).body(bodyMax)
		require.Equal(t, 400, statusOf(err))
	}
}

type iotestErr struct{ error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.error }

// chunked sends a body without declaring its length.
func (n *node) chunked(path string, body []byte) reply {
	n.t.Helper()
	req, err := http.NewRequest("POST", n.url+path, io.MultiReader(bytes.NewReader(body)))
	require.NoError(n.t, err)
	req.Header.Set("X-Narad-Client", "test")
	resp, err := n.http.Do(req)
	require.NoError(n.t, err)
	return readReply(n.t, resp)
}

// The largest payload comes out as it went in, declared or not; one byte more is 413.
func TestHugeUpload(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders"`)
	payload := bytes.Repeat([]byte("narad "), 1<<20/6+1)[:1<<20]
	require.Equal(t, 202, n.chunked("/v1/topics/orders/produce?partition=0", payload).status)
	require.Equal(t, 413, n.chunked("/v1/topics/orders/produce?partition=0", append(payload, 'x')).status)
	require.Equal(t, `"`+string(payload)+`"`, string(n.consumeOne("orders", "").Payload))
	require.Equal(t, 413, n.chunked("/v1/topics", append(payload, 'x')).status)
}

// dial opens a plain connection, to misbehave on.
func (s *served) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	require.NoError(s.t, c.SetReadDeadline(time.Now().Add(patience)))
	return c
}

// Clients that send slowly, or nothing, are let go, and nobody else waits for them.
func TestSlowClients(t *testing.T) {
	s := newServed(t, Options{HeaderTimeout: 200 * time.Millisecond, ReadTimeout: 400 * time.Millisecond})
	s.topic(`"name":"orders"`)
	const head = "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 100000\r\n"
	slowHead, slowBody := s.dial(), s.dial()
	_, err := io.WriteString(slowHead, head)
	require.NoError(t, err)
	_, err = io.WriteString(slowBody, head+"\r\nonly this")
	require.NoError(t, err)
	s.produceTo("orders", "", "others are served")
	for _, c := range []net.Conn{slowHead, slowBody} {
		answer, err := io.ReadAll(c) // ends because the server closes
		require.False(t, errors.Is(err, errTimeout(err)), "the server keeps a client that does not send")
		require.NotContains(t, string(answer), "202 Accepted")
	}
	s.consumeOne("orders", "")
	require.Equal(t, 204, s.get("/v1/topics/orders/consume").status, "half a message is none")
}

// errTimeout returns err when it is a time-out.
func errTimeout(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return err
	}
	return errors.New("no time-out")
}

// A parked consume outlasts the time that a request may take to arrive.
func TestWaitOutlastsReadTimeout(t *testing.T) {
	s := newServed(t, Options{ReadTimeout: 100 * time.Millisecond})
	s.topic(`"name":"orders"`)
	start := time.Now()
	r := s.get("/v1/topics/orders/consume?wait=600ms")
	require.Equal(t, 204, r.status)
	require.GreaterOrEqual(t, time.Since(start), 600*time.Millisecond)
}

func TestHeaderLimit(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	require.Equal(t, 200, s.do("GET", "/v1/topics", nil, "X-Long: "+strings.Repeat("x", 60<<10)).status)
	r := s.do("GET", "/v1/topics", nil, "X-Long: "+strings.Repeat("x", 80<<10))
	require.Equal(t, 431, r.status)
	require.True(t, strings.HasPrefix(r.header.Get("Content-Type"), "text/plain"))
}

// Connections beyond the limit wait until one is closed.
func TestConnectionLimit(t *testing.T) {
	s := newServed(t, Options{MaxConnections: 2})
	ask := func(c net.Conn) {
		_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
	}
	answered := func(c net.Conn, within time.Duration) bool {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	first, second, third := s.dial(), s.dial(), s.dial()
	ask(first)
	require.True(t, answered(first, patience))
	ask(second)
	require.True(t, answered(second, patience))
	ask(third)
	require.False(t, answered(third, 300*time.Millisecond))
	first.Close()
	require.True(t, answered(third, patience))
}
