package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/internal/testprog"
)

// openServer starts the program without security.
func openServer(t *testing.T, more ...string) *process {
	t.Helper()
	return start(t, append([]string{"NARAD_SECURITY_ENABLED=false"}, more...)...)
}

// ask sends one request over a connection of its own that stays open, and returns the connection.
func (p *process) ask(request string) (net.Conn, *bufio.Reader) {
	p.t.Helper()
	c, err := net.Dial("tcp", p.addr)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { c.Close() })
	require.NoError(p.t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, request)
	require.NoError(p.t, err)
	return c, bufio.NewReader(c)
}

// awaitInFlight waits until so many requests are in flight, by the metrics.
func (p *process) awaitInFlight(n int) {
	p.t.Helper()
	want := fmt.Sprintf("\nnarad_http_requests_in_flight %d\n", n+1) // and the one that asks
	require.Eventually(p.t, func() bool {
		resp, err := http.Get("http://" + p.addr + "/metrics")
		require.NoError(p.t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(p.t, err)
		return strings.Contains(string(text), want)
	}, patience, 10*time.Millisecond)
}

// answer reads one answer.
func answer(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

const (
	createOrders = "POST /v1/topics HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 17\r\n\r\n{\"name\":\"orders\"}"
	produceHello = "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 5\r\n\r\nhello"
)

// A graceful stop: parked consumes get 204, health and readiness turn 503, acks that come over open connections are served,
// and no consume hands out anything any more.
func TestStop(t *testing.T) {
	t.Parallel()
	p := openServer(t)
	open, answers := p.ask(createOrders)
	resp, _ := answer(t, answers)
	require.Equal(t, 201, resp.StatusCode)
	send := func(request string) (*http.Response, string) {
		_, err := io.WriteString(open, request)
		require.NoError(t, err)
		return answer(t, answers)
	}
	resp, _ = send(produceHello)
	require.Equal(t, 202, resp.StatusCode)
	resp, body := send("GET /v1/topics/orders/consume?wait=10s HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 200, resp.StatusCode)
	_, handle, _ := strings.Cut(body, `"receipt_handle":"`)
	handle, _, _ = strings.Cut(handle, `"`)

	// An upload that is under way keeps the server from ending at once; the ack is one.
	_, err := fmt.Fprintf(open, "POST /v1/topics/orders/ack HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 100\r\n\r\n{\"receipt_handles\":[%q", handle)
	require.NoError(t, err)
	_, parked := p.ask("GET /v1/topics/orders/consume?wait=10s HTTP/1.1\r\nHost: x\r\n\r\n")
	late, lateAnswers := p.ask("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, _ = answer(t, lateAnswers)
	require.Equal(t, 200, resp.StatusCode)
	half := "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 5\r\n\r\nhe"
	_, err = io.WriteString(late, half) // this connection is busy, so it stays open too
	require.NoError(t, err)

	p.awaitInFlight(3)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	resp, body = answer(t, parked)
	require.Equal(t, 204, resp.StatusCode, body)
	_, err = io.WriteString(late, "llo")
	require.NoError(t, err)
	resp, _ = answer(t, lateAnswers)
	require.Equal(t, 202, resp.StatusCode, "what was under way is done")
	_, err = io.WriteString(open, "]}"+strings.Repeat(" ", 100-len(`{"receipt_handles":["`)-len(handle)-len(`"]}`)))
	require.NoError(t, err)
	resp, body = answer(t, answers)
	require.Equal(t, 200, resp.StatusCode, body)
	require.Equal(t, `{"results":[{"status":204}]}`+"\n", body, "acks are served to the end")
	select {
	case <-p.gone:
	case <-time.After(patienceWithProcess):
		require.Fail(t, "the server does not end")
	}
	require.Zero(t, p.cmd.ProcessState.ExitCode(), p.log.String())
}

// A disk that takes no more: produce is 500 until the restart, and consume and ack go on.
func TestProduceFailed(t *testing.T) {
	t.Parallel()
	path, err := testprog.Narad()
	require.NoError(t, err)
	// No file may grow beyond 4 MiB (ulimit counts KiB here): the ingress log is the first to hit that.
	p := startCommand(t, exec.Command("bash", "-c", `ulimit -f 4096; exec "$0" serve --addr 127.0.0.1:0 --data-dir data`, path), "NARAD_SECURITY_ENABLED=false")
	target := Target{URL: "http://" + p.addr}
	one := int(1 << 20)
	story := func(steps ...Step) error { return Run(t.Context(), target, Story{Steps: steps}) }
	text := func(s string) *string { return &s }
	require.NoError(t, story(Step{Do: "POST /v1/topics", JSON: []byte(`{"name":"orders","visibility_timeout_ms":600000}`), Expect: Expect{Status: 201}},
		Step{Do: "POST /v1/topics/orders/produce?partition=0", Text: text("first"), Expect: Expect{Status: 202}},
		Step{Do: "GET /v1/topics/orders/consume?wait=10s", Expect: Expect{Status: 200}, Save: map[string]string{"h": "receipt_handle"}},
		Step{Do: "POST /v1/topics/orders/ack?receipt_handle=${h}&extend=0", Expect: Expect{Status: 204}}))
	failed := Expect{Status: 500, JSON: []byte(`{"error":"produce failed"}`)}
	require.NoError(t, story(Step{Do: "POST /v1/topics/orders/produce?partition=1", Repeat: &Repeat{Text: "x", Times: one}, Expect: failed, Retry: true}))
	require.NoError(t, story(
		Step{Do: "POST /v1/topics/orders/produce?partition=1", Text: text("small"), Expect: failed, About: "it is latched"},
		Step{Do: "POST /v1/topics/orders/produce/batch", JSON: []byte(`{"messages":[{"payload":1}]}`), Expect: failed},
		Step{Do: "GET /v1/topics/orders/consume?partition=0", Expect: Expect{Status: 200, JSON: []byte(`{"payload":"first"}`)}, Save: map[string]string{"h": "receipt_handle"}},
		Step{Do: "POST /v1/topics/orders/ack?receipt_handle=${h}", Expect: Expect{Status: 204}},
		Step{Do: "GET /healthz", Expect: Expect{Status: 200}}))
}

// A message that was leased for a client which has left is there for the next one at once, whatever its visibility timeout is.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	p := openServer(t)
	body := `{"name":"orders","visibility_timeout_ms":3600000}`
	c, r := p.ask(fmt.Sprintf("POST /v1/topics HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	resp, _ := answer(t, r)
	require.Equal(t, 201, resp.StatusCode)
	for range 20 {
		gone, _ := p.ask("GET /v1/topics/orders/consume?wait=10s HTTP/1.1\r\nHost: x\r\n\r\n")
		gone.Close()
	}
	// What is written to a socket before the news of its end arrived counts as delivered; so the news must have arrived.
	p.awaitInFlight(0)
	_, err := io.WriteString(c, produceHello)
	require.NoError(t, err)
	resp, _ = answer(t, r)
	require.Equal(t, 202, resp.StatusCode)
	deadline := time.Now().Add(patience)
	for status := 0; status != 200; {
		require.True(t, time.Now().Before(deadline), "the message stays with a client that has left")
		_, err := io.WriteString(c, "GET /v1/topics/orders/consume?wait=1s HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		resp, _ = answer(t, r)
		status = resp.StatusCode
	}
}
