package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// transcript sends pieces to a server, ends its side, and returns all answers, in a form that can be compared.
func transcript(t *testing.T, addr string, pieces ...string) (answers []string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(20 * time.Millisecond) // so that they are, most of the time, read apart
		}
		if _, err := io.WriteString(c, p); err != nil {
			break // it was closed before
		}
	}
	_ = c.(*net.TCPConn).CloseWrite()
	for from := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return answers
		}
		body, err := io.ReadAll(resp.Body)
		resp.Header.Del("Date")
		answers = append(answers, fmt.Sprint(resp.Status, resp.Header, resp.ContentLength, resp.Close, string(body), err))
	}
}

// last ends the connection on both servers in the same way.
const last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

// What comes in pieces, late, or with more behind it than it should, is answered as by net/http, and so is what follows. (One difference
// is known: when a body that the handler wants ends early, net/http does not say that the connection ends with the answer.)
func TestDirectPiecesAsNetHTTP(t *testing.T) {
	s := newServed(t, Options{MaxProducesPerIdentity: 2})
	s.topic(`"name":"orders"`)
	s.topic(`"name":"none"`)
	other := httptest.NewServer(s.server)
	defer other.Close()
	ack := post("/v1/topics/none/ack?receipt_handle=0:0:1", "")
	produce := post("/v1/topics/orders/produce?partition=0", "x")
	body := strings.Repeat("y", 100000)
	refused := func(target, body string) []string {
		r := post(target, body)
		at := len(r) - len(body)/2
		return []string{r[:at], r[at:] + ack, last}
	}
	foreign := strings.ReplaceAll(post("/v1/topics/orders/produce", body), clientHeader, "X-Other")
	for name, pieces := range map[string][]string{
		"a line end behind a POST":         {produce + "\r\n", ack, last},
		"and more of them":                 {produce + "\r\n\r\n" + ack + "\n" + last},
		"too many":                         {produce + "\r\n\r\n\r\n" + ack, last},
		"one by one":                       {produce, "\r", "\n", "\r", ack, last},
		"one by one, too many":             {produce, "\r\n", "\r\n", "\r\n", ack, last},
		"behind a GET":                     {get("/v1/topics/none/consume") + "\r\n", ack, last},
		"before all":                       {"\r\n" + ack, last},
		"404 before the body is there":     refused("/v1/topics/nowhere/produce", body),
		"404 with little missing":          refused("/v1/topics/nowhere/produce/batch", "12345678"),
		"400 before the body is there":     refused("/v1/topics/orders/produce?partition=", body),
		"410 with a body":                  refused("/v1/topics/none/ack?receipt_handle=0:0:1", body),
		"the most that is drained":         refused("/v1/topics/nowhere/produce", strings.Repeat("y", 250000)),
		"413":                              refused("/v1/topics/none/ack", body),
		"415":                              {foreign[:200], foreign[200:] + ack, last},
		"a refused body that ends early":   {ack + post("/v1/topics/nowhere/produce", body)[:2000]},
		"a client that ends its side":      {get("/v1/topics/none/consume?wait=10s") + produce + ack},
		"sent while a consume waits":       {get("/v1/topics/none/consume?wait=200ms"), produce, ack + last},
		"the last byte while one waits":    {get("/v1/topics/none/consume?wait=200ms") + ack[:len(ack)-1], ack[len(ack)-1:], last},
		"of a body":                        {get("/v1/topics/none/consume?wait=200ms") + produce[:len(produce)-1], produce[len(produce)-1:], last},
		"the first byte while one waits":   {get("/v1/topics/none/consume?wait=200ms"), produce[:1], produce[1:], last},
		"a head in three pieces":           {ack, produce[:1], produce[1:40], produce[40:] + last},
		"many at once":                     {strings.Repeat(produce+get("/v1/topics/none/consume")+ack, 100) + last},
		"other routes in between":          {ack + get("/v1/topics/none") + ack + get("/nowhere") + ack + last},
		"chunks, then a plain one":         {"POST /v1/topics/orders/produce" + plainTail + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + produce, last},
		"chunks that hide a request":       {"POST /v1/topics/orders/produce" + plainTail + fmt.Sprintf("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", produce), last},
		"HTTP/2":                           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		"a wait for 100":                   {"POST /v1/topics/orders/produce" + plainTail + "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n", "x", last},
		"an address with what hides a dot": {get("/v1/topics/%2e%2e/consume") + last},
	} {
		want := transcript(t, other.Listener.Addr().String(), pieces...)
		require.Equal(t, want, transcript(t, s.addr, pieces...), "%s", name)
		if name != "HTTP/2" {
			require.NotEmpty(t, want, name)
		}
	}
	require.Positive(t, s.plain.Load())
}

// A byte more, or one fewer, at any place of a request makes no difference between the two, be it for that request or for what is behind it.
func TestDirectMutatedAsNetHTTP(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"none"`)
	other := httptest.NewServer(s.server)
	defer other.Close()
	base := "POST /v1/topics/none/ack?receipt_handle=0:0:1 HTTP/1.1\r\nHost: x:1\r\nX-Narad-Client: x\r\nContent-Length: 3\r\n\r\nabc"
	behind := "GET /v1/topics/none/consume" + plainTail + "\r\n"
	inserts := []string{"", "\x00", " ", "\t", "\r", "\n", "\r\n", ":", "1", ";", "%", "\x7f", "\xc3", ",", "+", "\r\nContent-Length: 4", "\r\n x"}
	for at := range base {
		for _, ins := range inserts {
			mutated := base[:at] + ins + base[at:]
			if ins == "" {
				mutated = base[:at] + base[at+1:]
			}
			// Known to the connection, then changed: what is remembered must not be taken for it.
			for _, script := range []string{mutated + behind, base + mutated + behind} {
				want := transcript(t, other.Listener.Addr().String(), script)
				require.Equal(t, want, transcript(t, s.addr, script), "%q", script)
			}
		}
	}
}

// When an answer could be sent in part only, nothing follows it: a client would take the next one for the rest of it.
func TestDirectNothingAfterPartOfAnAnswer(t *testing.T) {
	timeout := 300 * time.Millisecond
	for answersUntilCutOff(t, timeout) == 0 { // a slow machine had not begun to send by then
		timeout *= 2
		require.Less(t, timeout, patience)
	}
}

// answersUntilCutOff returns how many answers a client sees begin that reads nothing until the write timeout has passed. There is at most one.
func answersUntilCutOff(t *testing.T, timeout time.Duration) int {
	s := newServed(t, Options{WriteTimeout: timeout})
	s.topic(`"name":"orders","visibility_timeout_ms":600000`)
	const count = 4
	for range count { // in base64 it is more than what the buffers of a loopback connection hold
		s.produceTo("orders", "?partition=0", strings.Repeat("\xff", 1<<20))
	}
	s.awaitStored("orders", count)
	c := s.dial()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(64<<10))
	_, err := io.WriteString(c, get("/v1/topics/orders/consume?max=100")+post("/v1/topics/orders/ack?receipt_handle=0:0:1", ""))
	require.NoError(t, err)
	leases := func() int {
		stats, err := s.engine.Stats("orders")
		require.NoError(t, err)
		return stats[0].Leases
	}
	require.Eventually(t, func() bool { return leases() == count }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return leases() == 0 }, patience, time.Millisecond, "they are free again when it could not be sent")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	all, _ := io.ReadAll(c) // the end, or a reset
	answers := strings.Count(string(all), "HTTP/1.1 ")
	require.LessOrEqual(t, answers, 1)
	return answers
}

// A refused batch holds nothing of the budget while the rest of it is waited for.
func TestDirectRefusedBatchHoldsNothing(t *testing.T) {
	const budget = 1 << 20
	s := newServed(t, Options{MaxBatchBodyBytes: budget, ReadTimeout: patience})
	s.topic(`"name":"orders"`)
	body := strings.Repeat(" ", 2<<20+100_000)
	request := post("/v1/topics/orders/produce/batch", body)
	rest := request[len(request)-90_000:]
	c, from := s.dialDirect()
	_, err := io.WriteString(c, request[:len(request)-len(rest)])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.plain.Load() == 1 && s.ended.Load() == s.inside.Load() }, patience, time.Millisecond)
	require.Equal(t, int64(budget), s.server.batchBodies.left.Load())
	resp, text := ask(t, c, from, rest)
	require.Equal(t, 503, resp.StatusCode, text)
	require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	resp, _ = ask(t, c, from, post("/v1/topics/orders/produce", "x"))
	require.Equal(t, 202, resp.StatusCode, "the connection goes on")
}

// pipeConn returns a connection that nobody serves, and its client.
func pipeConn(t *testing.T, o Options) (*directConn, net.Conn) {
	client, server := net.Pipe()
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return newDirectConn(&direct{server: New(nil, o), others: newHandover(nil), conns: map[*directConn]struct{}{}}, server), client
}

// A client that always has sent more than was answered makes the connection hold no more than its one buffer.
func TestDirectBufferDoesNotGrow(t *testing.T) {
	c, client := pipeConn(t, Options{})
	request := get("/v1/topics/orders/consume?wait=1ms")
	stream := strings.Repeat(request, 2*directBuffer/len(request))
	c.buf = append(c.buf, stream[:directBuffer]...)
	require.True(t, c.parse())
	c.inside = true
	<-func() chan struct{} {
		c.watchClient()
		_, err := io.WriteString(client, stream[directBuffer:directBuffer+1])
		require.NoError(t, err)
		return c.watch
	}()
	c.unwatch()
	require.Equal(t, directBuffer, cap(c.buf))
	require.Equal(t, stream[len(request):directBuffer+1], string(c.buf[c.at:]))
	require.False(t, c.begun, "there is more than that byte: it may be a whole request")
}

// Headers that are many or long are not for us: what is remembered of them is held while a connection is idle.
func TestPlainHeadsAreSmall(t *testing.T) {
	c, _ := pipeConn(t, Options{})
	for more, plain := range map[string]bool{
		"": true,
		strings.Repeat("a: b\r\n", headerLinesMost-2):            true,
		strings.Repeat("a: b\r\n", headerLinesMost-1):            false,
		"a: " + strings.Repeat("b", headerBytesMost-60) + "\r\n": true,
		"a: " + strings.Repeat("b", headerBytesMost) + "\r\n":    false,
	} {
		c.buf, c.at = []byte("GET /v1/topics/orders/consume"+plainTail+more+"\r\n"), 0
		require.Equal(t, plain, c.parse(), "%.50q", more)
	}
}

// The date is that of the answer, which may come long after the request.
func TestDirectDate(t *testing.T) {
	c, _ := pipeConn(t, Options{})
	c.began = time.Now().Add(-time.Hour)
	before := time.Now().Truncate(time.Second)
	_, text, _ := strings.Cut(string(c.answer.appendHead(nil, 0, false)), "\r\nDate: ")
	text, _, _ = strings.Cut(text, "\r\n")
	at, err := http.ParseTime(text)
	require.NoError(t, err)
	require.False(t, at.Before(before), text)
}

// The time for the first head begins with the connection, also when net/http reads the rest of it.
func TestDirectHeaderTimeoutIsHandedOver(t *testing.T) {
	const timeout = 5 * time.Second
	c, client := pipeConn(t, Options{HeaderTimeout: timeout})
	opened := time.Now().Add(-2 * time.Second)
	c.since, c.headBy = opened, opened.Add(timeout)
	go c.serve()
	_, err := io.WriteString(client, "POST /v1/to")
	require.NoError(t, err)
	handed, err := c.direct.others.Accept()
	require.NoError(t, err)
	r := handed.(*replayed)
	require.Equal(t, opened.Add(timeout), r.headBy)
	set := &deadlines{Conn: r.Conn}
	r.Conn = set
	later := time.Now().Add(time.Minute)
	require.NoError(t, r.SetReadDeadline(later))
	require.NoError(t, r.SetReadDeadline(later))
	require.Equal(t, []time.Time{opened.Add(timeout), later}, set.reads)
}

// deadlines notes the deadlines that are set.
type deadlines struct {
	net.Conn
	reads []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.reads = append(d.reads, at)
	return nil
}

// The body of the first request has ReadTimeout from when the connection was opened, as with net/http.
func TestDirectReadTimeoutBeginsWithTheConnection(t *testing.T) {
	const timeout = 10 * time.Second
	c, client := pipeConn(t, Options{ReadTimeout: timeout})
	request := post("/v1/topics/orders/produce", "xy")
	c.buf = append(c.buf, request[:len(request)-1]...)
	opened := time.Now().Add(-3 * time.Second)
	c.since, c.began = opened, time.Now()
	require.True(t, c.parse())
	go io.WriteString(client, "y")
	body, err := io.ReadAll(&c.body)
	require.NoError(t, err)
	require.Equal(t, "xy", string(body))
	require.Equal(t, opened.Add(timeout), c.readBy.real)
}

// An operator can leave everything to net/http.
func TestNoDirect(t *testing.T) {
	s := newServed(t, Options{NoDirect: true})
	s.topic(`"name":"orders"`)
	c, from := s.dialDirect()
	resp, _ := ask(t, c, from, post("/v1/topics/orders/produce", "x"))
	require.Equal(t, 202, resp.StatusCode)
	require.Zero(t, s.plain.Load())
	s.cancel()
	require.NoError(t, s.stopped())
}
