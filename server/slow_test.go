package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heapInUse returns the bytes of the heap that are in use now.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first one leaves what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// B198: uploads that declare much, send little and stall pin little.
func TestStalledUploadsPinLittle(t *testing.T) {
	s := newServed(t, Options{ReadTimeout: time.Minute})
	s.topic(`"name":"orders"`)
	const uploads = 128
	before := heapInUse()
	began := s.inside.Load()
	for i := range uploads {
		c := s.dial()
		path, length := "produce/batch", 16<<20
		if i%2 == 0 {
			path, length = "produce", 1<<20
		}
		_, err := fmt.Fprintf(c, "POST /v1/topics/orders/%s HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: %d\r\n\r\n{", path, length)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return s.inside.Load() == began+uploads }, patience, time.Millisecond)
	require.Eventually(t, func() bool { return s.server.producing.Load() == uploads }, patience, time.Millisecond)
	held := heapInUse() - before
	require.Less(t, held, int64(uploads*128<<10), "%d KiB a stalled upload", held/uploads>>10)
	s.produceTo("orders", "", "others are served")
}

// The bodies of all batches together are bounded, and what one held is free again however it ended.
func TestBatchBudget(t *testing.T) {
	s := newServed(t, Options{MaxBatchBodyBytes: 4 << 20})
	s.topic(`"name":"orders"`)
	stalled := s.dial()
	_, err := io.WriteString(stalled, "POST /v1/topics/orders/produce/batch HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 16000000\r\n\r\n"+strings.Repeat(" ", 3500000))
	require.NoError(t, err)
	left := func() int64 { return s.server.batchBodies.left.Load() }
	require.Eventually(t, func() bool { return left() == 1<<20 }, patience, time.Millisecond, "3.4 MiB hold 3 MiB beyond the first")
	body := func(padding int) []byte {
		return []byte(`{"messages":[{"payload":1}]` + strings.Repeat(" ", padding) + `}`)
	}
	post := func(padding int) reply {
		return s.do("POST", "/v1/topics/orders/produce/batch", body(padding), asClient)
	}
	require.Equal(t, 202, post(1900000).status, "1 MiB more is there")
	r := post(2900000)
	require.Equal(t, 503, r.status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Equal(t, `{"error":"batch produce bodies in flight on this node are at their limit; retry"}`+"\n", r.body)
	require.Equal(t, 202, post(1000000).status, "up to 1 MiB nothing is asked for")
	require.Equal(t, int64(1<<20), left())
	stalled.Close()
	require.Eventually(t, func() bool { return left() == 4<<20 }, patience, time.Millisecond)
	require.Equal(t, 202, post(4900000).status)
	require.Eventually(t, func() bool { return left() == 4<<20 }, patience, time.Millisecond)
}

// A client that stops reading in the middle of an answer is let go, and all of its messages are free again at once.
func TestClientThatStopsReading(t *testing.T) {
	s := newServed(t, Options{WriteTimeout: 500 * time.Millisecond})
	s.topic(`"name":"orders","visibility_timeout_ms":600000`)
	for range 4 { // in base64 it is more than what the buffers of a loopback connection hold
		s.produceTo("orders", "?partition=0", strings.Repeat("\xff", 1<<20))
	}
	require.Eventually(t, func() bool { return s.get("/v1/topics/orders/consume?partition=0&offset=3").status == 200 }, patience, time.Millisecond)
	c := s.dial()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
	_, err := io.WriteString(c, "GET /v1/topics/orders/consume?max=100 HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\n\r\n")
	require.NoError(t, err)
	leases := func() (n int) {
		stats, err := s.engine.Stats("orders")
		require.NoError(t, err)
		return stats[0].Leases
	}
	require.Eventually(t, func() bool { return leases() == 4 }, patience, time.Millisecond)
	for offset := range int64(4) {
		var r reply
		require.Eventually(t, func() bool { r = s.get("/v1/topics/orders/consume"); return r.status == 200 }, patience, time.Millisecond)
		require.Equal(t, offset, parseMessage(t, r.body).Offset)
	}
}

// 4,096 connections are open and idle, and the next one waits until one of them goes.
func TestManyConnections(t *testing.T) {
	const most = 4096
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur < 2*most+200 {
		t.Skipf("it takes %d open files, %d are allowed", 2*most+200, limit.Cur)
	}
	s := newServed(t, Options{})
	s.topic(`"name":"orders"`)
	before := heapInUse()
	conns := make([]net.Conn, most)
	var wait sync.WaitGroup
	for i := range conns {
		conns[i] = s.dial()
	}
	s.http.CloseIdleConnections() // the connection that made the topic
	for _, c := range conns {
		wait.Go(func() {
			_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			if err == nil {
				_, err = io.ReadFull(c, make([]byte, 64))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	held := heapInUse() - before
	require.Less(t, held, int64(most*32<<10), "%d KiB a connection", held/most>>10)
	extra := s.dial()
	_, err := io.WriteString(extra, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, extra.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = extra.Read(make([]byte, 1))
	require.Error(t, err, "one connection more than there may be was served")
	conns[0].Close()
	require.NoError(t, extra.SetReadDeadline(time.Now().Add(patience)))
	answer, err := io.ReadAll(extra)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK")))
}

// A body that is refused is not read on: the answer comes before the client has sent it.
func TestRefusedBodyIsNotRead(t *testing.T) {
	s := newServed(t, Options{ReadTimeout: time.Minute})
	s.topic(`"name":"orders"`)
	c := s.dial()
	_, err := io.WriteString(c, "POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nContent-Length: 1048577\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(answer, []byte("HTTP/1.1 413 ")), "%s", answer)
}
