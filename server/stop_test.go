package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
)

// parked starts a consume with a long wait and returns where its answer comes.
func (s *served) parked(topic string) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		resp, err := (&http.Client{Transport: &http.Transport{}}).Get(s.url + "/v1/topics/" + topic + "/consume?wait=10s")
		if err != nil {
			answers <- reply{body: err.Error()}
			return
		}
		answers <- readReply(s.t, resp)
	}()
	return answers
}

// begun waits until n more requests are in the handler, and a little longer.
func (s *served) begun(n int32) {
	s.t.Helper()
	want := s.inside.Load() + n
	require.Eventually(s.t, func() bool { return s.inside.Load() >= want }, patience, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
}

// A graceful stop answers who waits, lets finish what is in flight, and takes nothing new.
func TestGracefulStop(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders","visibility_timeout_ms":60000`)
	s.topic(`"name":"busy"`)
	s.produceTo("busy", "?partition=0", "held")
	held := s.consumeOne("busy", "")
	began := s.inside.Load()

	waiting := []<-chan reply{s.parked("orders"), s.parked("orders"), s.parked("orders")}
	upload := s.dial()
	_, err := io.WriteString(upload, "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 8\r\n\r\nhalf")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.inside.Load() == began+4 }, patience, time.Millisecond)
	time.Sleep(200 * time.Millisecond)

	start := time.Now()
	s.cancel()
	for _, answer := range waiting {
		r := <-answer
		require.Equal(t, 204, r.status, r.body)
	}
	require.Less(t, time.Since(start), 9*time.Second, "parked consumes were waited for")

	// Nobody can connect any more; what is asked on a connection that is still open gets this.
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, patience, time.Millisecond)
	direct := func(method, target string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, target, nil)
		r.Header.Set("X-Narad-Client", "test")
		s.server.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, 503, direct("GET", "/healthz").Code)
	consume := direct("GET", "/v1/topics/orders/consume")
	require.Equal(t, 503, consume.Code)
	require.Equal(t, "1", consume.Header().Get("Retry-After"))
	require.Equal(t, 204, direct("POST", "/v1/topics/busy/ack?receipt_handle="+held.Handle).Code, "finished work can be acknowledged")

	_, err = io.WriteString(upload, "full")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(upload), nil)
	require.NoError(t, err)
	require.Equal(t, 202, resp.StatusCode)
	require.NoError(t, s.stopped())
	require.NoError(t, s.engine.Close())
}

// A stop waits for what is in flight no longer than its grace.
func TestStopCutsConnections(t *testing.T) {
	var logged bytes.Buffer
	s := newServed(t, Options{Grace: 200 * time.Millisecond, Logger: textLogger(&logged)})
	s.topic(`"name":"orders"`)
	began := s.inside.Load()
	upload := s.dial()
	_, err := io.WriteString(upload, "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 8\r\n\r\nhalf")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.inside.Load() == began+1 }, patience, time.Millisecond)
	s.cancel()
	require.NoError(t, s.stopped())
	require.Contains(t, logged.String(), "connections were cut")
	answer, _ := io.ReadAll(upload)
	require.NotContains(t, string(answer), "202 Accepted")
}

// Serve reports a listener that fails by itself.
func TestServeFails(t *testing.T) {
	n := newNode(t, Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	require.Error(t, n.server.Serve(context.Background(), ln))
	require.True(t, n.server.isStopping())
}

// A client that disconnects frees its parked consume; the next message goes to one that is there.
func TestDisconnectCancels(t *testing.T) {
	s := newServed(t, Options{})
	s.topic(`"name":"orders","visibility_timeout_ms":60000`)
	parked := func(n int) func() bool {
		return func() bool { v, err := s.engine.Describe("orders"); return err == nil && v.Parked == n }
	}
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/topics/orders/consume?wait=10s", nil)
	require.NoError(t, err)
	go s.http.Do(req)
	require.Eventually(t, parked(1), patience, time.Millisecond)
	began := time.Now()
	cancel()
	require.Eventually(t, parked(0), patience, time.Millisecond)
	require.Less(t, time.Since(began), 9*time.Second, "the consume waited on for a client that had left")
	s.produceTo("orders", "", "for who is there")
	require.Equal(t, int64(0), s.consumeOne("orders", "").Offset)
}

// brokenWriter is a connection that has failed.
type brokenWriter struct{ httptest.ResponseRecorder }

func (*brokenWriter) FlushError() error { return errors.New("connection reset") }

// INF-37, at this layer: a message leased for a client that has gone, or that cannot be written to, is free again at once.
func TestGiveBackToNobody(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders","visibility_timeout_ms":60000`)
	n.produceTo("orders", "", "x")
	gone, leave := context.WithCancel(context.Background())
	leave()
	for _, c := range []struct {
		w   http.ResponseWriter
		ctx context.Context
	}{
		{httptest.NewRecorder(), gone},
		{&brokenWriter{*httptest.NewRecorder()}, context.Background()},
	} {
		d, err := n.engine.Consume(&engine.ConsumeRequest{Topic: "orders", Partition: engine.AnyPartition, Wait: 10 * time.Second})
		require.NoError(t, err)
		r := httptest.NewRequest("GET", "/", nil).WithContext(c.ctx)
		n.server.deliver(&exchange{ResponseWriter: c.w, r: r, s: n.server}, d)
		require.ErrorIs(t, n.engine.Ack("orders", d.Handle), engine.ErrLeaseGone)
	}
	m := n.consumeOne("orders", "")
	require.Equal(t, 204, n.post("/v1/topics/orders/ack?receipt_handle="+m.Handle, "").status)
}

// A panic in a handler is a broken invariant, perhaps with locks held: the process ends (rule H6).
func TestPanicEndsTheProcess(t *testing.T) {
	if os.Getenv("NARAD_TEST_PANIC") == "1" {
		s := New(nil, Options{})
		s.routes = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("planted") })
		web := httptest.NewServer(s)
		http.Get(web.URL)
		os.Exit(0) // the request ended: the panic was swallowed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
	cmd.Env = append(os.Environ(), "NARAD_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	require.NotZero(t, exit.ExitCode())
	require.Contains(t, string(out), "planted")
	require.Contains(t, string(out), "stop_test.go", "the stack of the panic itself")
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
