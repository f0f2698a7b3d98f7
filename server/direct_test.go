package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialDirect returns a connection and what reads its answers.
func (s *served) dialDirect() (net.Conn, *bufio.Reader) {
	c := s.dial()
	return c, bufio.NewReader(c)
}

// ask sends a request as it is and reads the answer.
func ask(t testing.TB, c net.Conn, from *bufio.Reader, request string) (*http.Response, string) {
	t.Helper()
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	return answered(t, from, request)
}

func answered(t testing.TB, from *bufio.Reader, request string) (*http.Response, string) {
	t.Helper()
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(from, &http.Request{Method: method})
	require.NoError(t, err, request)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err, request)
	return resp, string(body)
}

const plainTail = " HTTP/1.1\r\nHost: x\r\nX-Narad-Client: test\r\n"

func post(target, body string) string {
	return fmt.Sprintf("POST %s%sContent-Length: %d\r\n\r\n%s", target, plainTail, len(body), body)
}

func get(target string) string { return "GET " + target + plainTail + "\r\n" }

// A request is answered as net/http would have it answered, and a connection goes on, or does not, as with net/http.
func TestDirectAnswersAsNetHTTP(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	s.topic(`"name":"none"`)
	other := httptest.NewServer(s.server)
	defer other.Close()
	type end struct {
		status     int
		header     http.Header
		body       string
		closes     bool
		length     int64
		goesOn     bool
		afterwards int
	}
	run := func(addr, request string) (e end) {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		from := bufio.NewReader(c)
		resp, body := ask(t, c, from, request)
		resp.Header.Del("Date")
		e = end{status: resp.StatusCode, header: resp.Header, body: body, closes: resp.Close, length: resp.ContentLength}
		if _, err = io.WriteString(c, post("/v1/topics/none/ack?receipt_handle=0:0:1", "")); err != nil {
			return e
		}
		if resp, err := http.ReadResponse(from, nil); err == nil {
			e.goesOn, e.afterwards = true, resp.StatusCode
		}
		return e
	}
	big := strings.Repeat("x", 1<<20+1)
	for _, request := range []string{
		post("/v1/topics/orders/produce", `{"a":1}`),
		post("/v1/topics/orders/produce?partition=2&key=a%20b", `{"a":1}`),
		post("/v1/topics/orders/produce?partition=9", `{"a":1}`),
		post("/v1/topics/orders/produce?partition=", `{"a":1}`),
		post("/v1/topics/orders/produce?key=%zz", `{"a":1}`),
		post("/v1/topics/orders/produce", ""),
		post("/v1/topics/orders/produce", strings.Repeat("y", 100000)),
		post("/v1/topics/orders/produce", big),
		post("/v1/topics/nowhere/produce", "x"),
		post("/v1/topics/nowhere/produce", strings.Repeat("y", 3000)),
		post("/v1/topics/orders/produce/batch", `{"messages":[{"payload":1},{"payload":"b"}]}`),
		post("/v1/topics/orders/produce/batch", `{"messages":[`),
		get("/v1/topics/none/consume"),
		get("/v1/topics/none/consume?wait=10ms"),
		get("/v1/topics/none/consume?wait=x"),
		get("/v1/topics/none/consume?max=3"),
		get("/v1/topics/nowhere/consume"),
		get("/v1/topics/.hidden/consume"),
		get("/v1/topics//consume"),
		get("/v1/topics/none/produce"),
		get("/v1/topics/none/consume/x"),
		get("/v1/topics/no%6ee/consume"),
		get("/healthz"),
		get("/nowhere"),
		post("/v1/topics/none/consume", ""),
		post("/v1/topics/none/ack", ""),
		post("/v1/topics/none/ack?receipt_handle=0:0:1", "not read"),
		post("/v1/topics/none/ack?receipt_handle=0:0:1", big),
		post("/v1/topics/none/ack?receipt_handle=junk", ""),
		post("/v1/topics/none/ack", `{"receipt_handles":["0:0:1","junk"]}`),
		"POST /v1/topics/none/ack?receipt_handle=0:0:1" + plainTail + "\r\n",
		"POST /v1/topics/none/ack HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx", // 415
		"POST /v1/topics/none/ack HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",            // no Host
		"POST /v1/topics/none/ack" + plainTail + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"POST /v1/topics/none/ack" + plainTail + "Content-Length: +1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "Content-Length: 1 \r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"POST /v1/topics/none/ack" + plainTail + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"POST /v1/topics/none/ack" + plainTail + "Connection: close\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "Connection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "X : y\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + " folded\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "X: a\x01b\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack" + plainTail + "Host: y\r\nContent-Length: 1\r\n\r\nx",
		"POST /v1/topics/none/ack HTTP/1.0\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 1\r\n\r\nx",
		"POST http://y/v1/topics/none/ack" + plainTail + "Content-Length: 1\r\n\r\nx",
		"GET /v1/topics/none/consume" + plainTail + "Content-Length: 4\r\n\r\nbody",
		"HEAD /v1/topics/none/consume" + plainTail + "\r\n",
	} {
		want := run(other.Listener.Addr().String(), request)
		require.Equal(t, want, run(s.addr, request), "%.200q", request)
	}
}

// A connection on which plain and other requests take turns, in pieces and several at once, answers all of them in order.
func TestDirectHandsOver(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	produce := func(n int) string { return post("/v1/topics/orders/produce?partition=0", fmt.Sprintf(`{"n":%d}`, n)) }
	for _, sends := range [][]string{
		{produce(1), produce(2), get("/healthz"), produce(3)},
		{produce(1) + produce(2) + get("/healthz") + produce(3)},
		{produce(1)[:20], produce(1)[20:], produce(2), get("/healthz"), produce(3)},
		{produce(1)[:len(produce(1))-3], produce(1)[len(produce(1))-3:] + produce(2), get("/healthz")[:9], get("/healthz")[9:], produce(3)},
	} {
		c, from := s.dialDirect()
		for _, part := range sends {
			_, err := io.WriteString(c, part)
			require.NoError(t, err)
			time.Sleep(5 * time.Millisecond) // so that they are, most of the time, read apart
		}
		for _, want := range []int{202, 202, 200, 202} {
			resp, _ := answered(t, from, "GET")
			require.Equal(t, want, resp.StatusCode, "%q", sends)
		}
		c.Close()
		for _, n := range []int{1, 2, 3} {
			m := s.consumeOne("orders", "")
			require.Equal(t, fmt.Sprintf(`{"n":%d}`, n), string(m.Payload))
			require.Equal(t, 204, s.post("/v1/topics/orders/ack?receipt_handle="+m.Handle, "").status)
		}
	}
}

// What a client sends while its consume is parked is its next request; and it is not taken for gone when the read that watches it
// ends for another reason.
func TestDirectParkedClientSends(t *testing.T) {
	s := newServed(t, Options{IdleTimeout: 100 * time.Millisecond})
	s.topic(`"name":"orders"`)
	c, from := s.dialDirect()
	_, err := io.WriteString(c, get("/v1/topics/orders/consume?wait=400ms"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == 1 }, patience, time.Millisecond)
	_, err = io.WriteString(c, post("/v1/topics/orders/produce", "next"))
	require.NoError(t, err)
	for _, want := range []int{204, 202} {
		resp, _ := answered(t, from, "GET")
		require.Equal(t, want, resp.StatusCode)
	}
	require.Equal(t, int32(2), s.plain.Load())
}

// A connection stays here while its consumes are parked and served and it acks what it was given.
func TestDirectStaysDirect(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	producer, fromProducer := s.dialDirect()
	consumer, fromConsumer := s.dialDirect()
	for range 50 {
		_, err := io.WriteString(consumer, get("/v1/topics/orders/consume?wait=10s"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == 1 }, patience, time.Millisecond)
		resp, _ := ask(t, producer, fromProducer, post("/v1/topics/orders/produce", "x"))
		require.Equal(t, 202, resp.StatusCode)
		resp, body := answered(t, fromConsumer, "GET")
		require.Equal(t, 200, resp.StatusCode)
		resp, _ = ask(t, consumer, fromConsumer, post("/v1/topics/orders/ack?receipt_handle="+parseMessage(t, body).Handle, ""))
		require.Equal(t, 204, resp.StatusCode)
	}
	require.Equal(t, int32(150), s.plain.Load())
}

// INF-37, at this layer: a client that leaves frees its parked consume at once.
func TestDirectDisconnectCancels(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	parked := func(n int) func() bool {
		return func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == n }
	}
	c, from := s.dialDirect()
	resp, _ := ask(t, c, from, post("/v1/topics/orders/ack?receipt_handle=0:0:1", ""))
	require.Equal(t, 410, resp.StatusCode)
	_, err := io.WriteString(c, get("/v1/topics/orders/consume?wait=10s"))
	require.NoError(t, err)
	require.Eventually(t, parked(1), patience, time.Millisecond)
	began := time.Now()
	c.Close()
	require.Eventually(t, parked(0), patience, time.Millisecond)
	require.Less(t, time.Since(began), 9*time.Second, "the consume waited on for a client that had left")
}

// A connection is closed after the pause that it may make, neither before nor much later, however often its deadline was left as it was.
func TestDirectIdleTimeout(t *testing.T) {
	const idle = 400 * time.Millisecond
	s := newServed(t, Options{IdleTimeout: idle, HeaderTimeout: idle})
	s.topic(`"name":"orders"`)
	c, from := s.dialDirect()
	var last time.Time
	for range 8 {
		resp, _ := ask(t, c, from, post("/v1/topics/orders/produce", "x"))
		require.Equal(t, 202, resp.StatusCode)
		last = time.Now()
		time.Sleep(idle / 4)
	}
	_, err := from.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.GreaterOrEqual(t, time.Since(last), idle-50*time.Millisecond)

	silent := s.dial()
	_, err = silent.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "a connection that sends nothing is closed, too")
}

func TestLazyDeadline(t *testing.T) {
	var set []time.Time
	l := lazyDeadline{set: func(at time.Time) error { set = append(set, at); return nil }}
	start := time.Now().Add(-time.Hour)
	l.want(start, 10*time.Second)
	l.want(start.Add(time.Second), 10*time.Second)
	l.want(start.Add(4*time.Second), 10*time.Second)
	require.Equal(t, []time.Time{start.Add(10 * time.Second)}, set)
	l.want(start.Add(6*time.Second), 10*time.Second)
	require.Len(t, set, 2, "one that comes in less than half the time is set anew")
	l.want(start.Add(7*time.Second), time.Second)
	require.Equal(t, start.Add(8*time.Second), set[2], "one that is earlier is always set")

	require.False(t, l.early(os.ErrDeadlineExceeded), "the real one has passed")
	l.want(time.Now(), time.Hour)
	require.False(t, l.early(io.EOF))
	n := len(set)
	require.True(t, l.early(os.ErrDeadlineExceeded))
	require.Equal(t, l.real, set[n])
}

// The stop closes connections between two requests at once, and answers what is under way with the news that it is the last.
func TestDirectStop(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	idle, fromIdle := s.dialDirect()
	resp, _ := ask(t, idle, fromIdle, post("/v1/topics/orders/ack?receipt_handle=0:0:1", ""))
	require.Equal(t, 410, resp.StatusCode)
	require.False(t, resp.Close)
	began := s.inside.Load()
	upload, fromUpload := s.dialDirect()
	request := post("/v1/topics/orders/produce", "whole")
	_, err := io.WriteString(upload, request[:len(request)-2])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.inside.Load() == began+1 }, patience, time.Millisecond)
	s.cancel()
	_, err = fromIdle.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	select {
	case err := <-s.result:
		require.Fail(t, "the stop did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	resp, _ = ask(t, upload, fromUpload, request[len(request)-2:])
	require.Equal(t, 202, resp.StatusCode)
	require.True(t, resp.Close)
	_, err = fromUpload.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, s.stopped())
}

// Whatever is taken for plain is what net/http reads.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{
		post("/v1/topics/orders/produce?partition=2&key=a%20b", `{"a":1}`),
		post("/v1/topics/orders/produce/batch", "x") + get("/v1/topics/o/consume"),
		get("/v1/topics/none/consume?wait=10ms"),
		"POST /v1/topics/none/ack" + plainTail + "content-length:  007 \r\nAuthorization: Basic eA==\r\nx-a: b\r\nX-A: c:d\r\nConnection: keep-alive\r\n\r\nabcdefg",
		"POST /v1/topics/none/ack HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /v1/topics/none/ack HTTP/1.1\rxA: b\r\nHost: y\r\n\r\n",
		"\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s), []byte(strings.ReplaceAll(s, "1", "2")))
	}
	d := &direct{server: New(nil, Options{})}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		c := newDirectConn(d, server)
		for range 2 { // the second time from what is remembered
			for _, b := range [][]byte{first, second} {
				c.buf, c.at = bytes.Clone(b), 0
				if !c.parse() {
					require.Zero(t, c.at, "nothing is taken from what is handed over")
					continue
				}
				from := bufio.NewReader(bytes.NewReader(b))
				r, err := http.ReadRequest(from)
				require.NoError(t, err, "%q", b)
				require.False(t, r.Close)
				require.Empty(t, r.TransferEncoding)
				got := c.request
				require.Equal(t, []any{r.Method, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.Host},
					[]any{got.Method, got.RequestURI, got.Proto, got.Host, got.ContentLength, got.URL.Path, got.URL.RawPath, got.URL.RawQuery, got.URL.Host})
				r.Header.Del("Content-Length")
				require.Equal(t, r.Header, got.Header)
				rest, err := io.ReadAll(from)
				require.NoError(t, err)
				require.Equal(t, string(rest), string(b[c.at:]))
			}
		}
	})
}

// Once the head of a request is known, reading it makes no memory but for the address that differs.
func TestPlainAllocations(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	c := newDirectConn(&direct{server: New(nil, Options{})}, server)
	requests := [][]byte{
		[]byte(post("/v1/topics/orders/produce", "x")), []byte(post("/v1/topics/orders/produce", strings.Repeat("x", 1000))),
	}
	n := testing.AllocsPerRun(100, func() {
		for _, b := range requests {
			c.buf, c.at = b, 0
			if !c.parse() {
				t.Error("not plain")
			}
		}
	})
	require.Zero(t, n)
	require.NoError(t, context.Cause(c.request.Context()))
}
