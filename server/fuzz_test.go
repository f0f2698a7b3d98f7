package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/conformance"
)

// rawSeeds are requests that no fixture of package conformance can express.
var rawSeeds = []string{
	"", "\r\n\r\n", "GET", "GET / HTTP/1.1\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	"GET //v1//topics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/topics/..%2f..%2fetc HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/topics/%00/consume HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST /v1/topics/..%2fx/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client:\r\nContent-Length: 1\r\n\r\nx",
	"POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: f\r\nContent-Length: 5\r\n\r\nhel",
	"POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: f\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
	"POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: f\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"POST /v1/topics/orders/produce/batch HTTP/1.1\r\nHost: x\r\nX-Narad-Client: f\r\nContent-Encoding: zstd\r\nContent-Length: 4\r\n\r\n\x28\xb5\x2f\xfd",
	"POST /v1/topics/orders/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: f\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "BREW /v1/topics HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/topics HTTP/1.1\r\nHost: x\r\n\r\n",
}

// FuzzHandlers sends whatever comes to a server, as it is. The server must not panic, which would end this process, and what
// it answers must be an answer of the table of statuses, in its form.
func FuzzHandlers(f *testing.F) {
	for _, raw := range rawSeeds {
		f.Add([]byte(raw))
	}
	stories, err := conformance.Load(os.DirFS("../conformance/testdata"))
	require.NoError(f, err)
	for _, s := range stories {
		for _, step := range s.Steps {
			f.Add([]byte(rawRequest(f, step)))
		}
	}
	s := newServed(f, Options{MaxConsumeWait: time.Millisecond, HeaderTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second})
	s.disk.skipSync.Store(true)
	s.topic(`"name":"orders"`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			return
		}
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		c.Write(raw) // the server may have closed already
		c.(*net.TCPConn).CloseWrite()
		requireAnswers(t, c)
	})
}

func rawRequest(t testing.TB, step conformance.Step) string {
	line := strings.ReplaceAll(step.Do, "${t}", "orders")
	body := string(step.JSON)
	if step.Text != nil {
		body = *step.Text
	}
	headers := "X-Narad-Client: f\r\n"
	for name, value := range step.Headers {
		if value != nil && len(*value) < 100 {
			headers += name + ": " + *value + "\r\n"
		}
	}
	return fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", line, headers, len(body), strings.ReplaceAll(body, "${t}", "orders"))
}

// requireAnswers reads what the server answers until it closes.
func requireAnswers(t *testing.T, c net.Conn) {
	t.Helper()
	answers := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(answers, &http.Request{Method: "GET"})
		if err != nil {
			var timeout net.Error
			require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "no answer, and the connection is open")
			return // closed, or an answer to HEAD was taken for one with a body
		}
		if resp.StatusCode == http.StatusContinue {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return // HEAD again
		}
		requireKnownAnswer(t, resp, body)
	}
}

func requireKnownAnswer(t *testing.T, resp *http.Response, body []byte) {
	t.Helper()
	require.Contains(t, []int{200, 201, 202, 204, 301, 307, 400, 404, 405, 409, 410, 413, 415, 417, 429, 431, 501, 503, 505}, resp.StatusCode, "%q", body)
	if resp.StatusCode < 400 || resp.Header.Get("Content-Type") != "application/json" || len(body) == 0 {
		return
	}
	var e struct {
		Error *string `json:"error"`
	}
	require.NoError(t, json.Unmarshal(body, &e), "%q", body)
	require.NotNil(t, e.Error)
	require.Equal(t, 1, bytes.Count(body, []byte("\n")))
	require.NotContains(t, *e.Error, "/tmp")
}
