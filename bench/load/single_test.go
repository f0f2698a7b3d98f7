package load

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection that rested may have been closed by the server: another one is made. Without a rest it is an error, which names the request.
func TestSingleAfterRest(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
			}
			c.Close()
		}
	}()
	s := &Server{Host: ln.Addr().String()}
	c, err := s.Dial()
	require.NoError(t, err)
	ask := request("GET", "/v1/topics/x/consume", s.Host, nil)
	_, err = c.call(204, ask)
	require.NoError(t, err)
	_, err = c.call(204, ask)
	require.ErrorContains(t, err, "GET /v1/topics/x/consume")
	c.used = time.Now().Add(-2 * idleMost)
	_, err = c.call(204, ask)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
