package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nullWriter is a ResponseWriter that keeps nothing but headers and status.
type nullWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *nullWriter) Header() http.Header { return w.header }
func (w *nullWriter) WriteHeader(s int)   { w.status = s }
func (w *nullWriter) Write(p []byte) (int, error) {
	w.body = append(w.body[:0], p...)
	return len(p), nil
}

// handlerBench calls the handler without a connection: what it costs is what this package adds to the engine and net/http.
func handlerBench(b *testing.B, o Options) (*node, func(method, path string, body []byte) *nullWriter) {
	n := newNode(b, o)
	n.disk.skipSync.Store(true)
	n.topic(`"name":"orders","visibility_timeout_ms":3600000`)
	w := &nullWriter{header: http.Header{}}
	reader := bytes.NewReader(nil)
	return n, func(method, path string, body []byte) *nullWriter {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
			fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nX-Narad-Client: b\r\nContent-Length: %d\r\n\r\n", method, path, len(body)))))
		if err != nil {
			b.Fatal(err)
		}
		reader.Reset(body)
		r.Body = io.NopCloser(reader)
		r.RemoteAddr = "127.0.0.1:1"
		clear(w.header)
		n.server.ServeHTTP(w, r)
		return w
	}
}

func BenchmarkHandler(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 1024)
	b.Run("health", func(b *testing.B) {
		_, do := handlerBench(b, Options{})
		b.ReportAllocs()
		for b.Loop() {
			do("GET", "/healthz", nil)
		}
	})
	b.Run("produce", func(b *testing.B) {
		_, do := handlerBench(b, Options{})
		b.ReportAllocs()
		for b.Loop() {
			if w := do("POST", "/v1/topics/orders/produce?key=customer-7", payload); w.status != 202 {
				b.Fatal(w.status)
			}
		}
	})
	b.Run("consume empty", func(b *testing.B) {
		_, do := handlerBench(b, Options{})
		b.ReportAllocs()
		for b.Loop() {
			if w := do("GET", "/v1/topics/orders/consume", nil); w.status != 204 {
				b.Fatal(w.status)
			}
		}
	})
	b.Run("ack gone", func(b *testing.B) {
		_, do := handlerBench(b, Options{})
		b.ReportAllocs()
		for b.Loop() {
			if w := do("POST", "/v1/topics/orders/ack?receipt_handle=0:1:2", nil); w.status != 410 {
				b.Fatal(w.status)
			}
		}
	})
}

// BenchmarkFlow has one client produce, consume and ack over a connection, with the syncs of the disk left out.
func BenchmarkFlow(b *testing.B) {
	s := newServed(b, Options{})
	s.disk.skipSync.Store(true)
	s.topic(`"name":"orders"`)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(b, err)
	defer c.Close()
	answers := bufio.NewReader(c)
	payload := strings.Repeat("x", 1024)
	ask := func(request string) (int, []byte) {
		if _, err := io.WriteString(c, request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			b.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, body
	}
	b.ReportAllocs()
	for b.Loop() {
		ask("POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: b\r\nContent-Length: 1024\r\n\r\n" + payload)
		status, body := ask("GET /v1/topics/orders/consume?wait=10s HTTP/1.1\r\nHost: x\r\n\r\n")
		if status != 200 {
			b.Fatal(status)
		}
		_, handle, _ := bytes.Cut(body, []byte(`"receipt_handle":"`))
		status, _ = ask("POST /v1/topics/orders/ack?receipt_handle=" + string(handle[:len(handle)-3]) + " HTTP/1.1\r\nHost: x\r\nX-Narad-Client: b\r\n\r\n")
		if status != 204 {
			b.Fatal(status)
		}
	}
}
