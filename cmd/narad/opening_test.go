package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While the node opens, it is alive and not ready, and a request waits; then the node answers it, and the next ones, on the
// same listener.
func TestOpening(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	o := newOpening(ln, 1<<16)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + ln.Addr().String() + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	status, body := get("/healthz")
	require.Equal(t, "200 {\"status\":\"ok\"}\n", fmt.Sprint(status, " ", body))
	status, _ = get("/readyz")
	require.Equal(t, 503, status)
	waited := make(chan string)
	go func() {
		status, body := get("/v1/topics")
		waited <- fmt.Sprint(status, " ", body)
	}()
	require.Eventually(t, func() bool { return o.waiting.Load() == 1 }, patience, time.Millisecond)

	node := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "the node: "+r.URL.Path) })
	require.NoError(t, o.handOver(node))
	require.Equal(t, "200 the node: /v1/topics", <-waited)
	web := &http.Server{Handler: node}
	go web.Serve(ln)
	defer web.Close()
	for range 20 {
		status, body = get("/healthz")
		require.Equal(t, "200 the node: /healthz", fmt.Sprint(status, " ", body))
	}
	require.NoError(t, o.close())
}

// A node that does not open leaves nobody waiting.
func TestOpeningFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	o := newOpening(ln, 1<<16)
	gone := make(chan error)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String() + "/v1/topics")
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	require.Eventually(t, func() bool { return o.waiting.Load() == 1 }, patience, time.Millisecond)
	require.NoError(t, o.close())
	require.Error(t, <-gone)
	ln.Close()
}
