package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A template is a request as the HTTP library reads it, with the numbers in their places.
func TestProduceTemplate(t *testing.T) {
	for _, n := range []int{1, 3} {
		tpl := produceTemplate("h:1", "t", n, 100)
		require.Len(t, tpl.ids, n)
		tpl.numbered(1)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(tpl.numbered(0x1a4))))
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		if n == 1 {
			require.Equal(t, "/v1/topics/t/produce", r.URL.Path)
			require.Len(t, body, 100)
			require.EqualValues(t, 0x1a4, payloadID(body))
			continue
		}
		require.Equal(t, "/v1/topics/t/produce/batch", r.URL.Path)
		var batch struct {
			Messages []struct{ Payload json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(body, &batch))
		require.Len(t, batch.Messages, n)
		for i, m := range batch.Messages {
			require.Len(t, m.Payload, 100)
			require.EqualValues(t, 0x1a4+i, payloadID(m.Payload))
		}
	}
}

func TestPayloadID(t *testing.T) {
	for _, id := range []int64{0, 1, 1 << 40, 1<<63 - 1} {
		b := newPayload(0)
		require.Len(t, b, MinSize)
		putID(b[len(payloadFront):], id)
		require.Equal(t, id, payloadID(b))
	}
	for _, bad := range []string{"", "x", `{"n":"`, `{"n":"zzzzzzzzzzzzzzzz"`, `{"n":"ffffffffffffffff"`} {
		require.EqualValues(t, -1, payloadID([]byte(bad)), bad)
	}
}

func TestMessages(t *testing.T) {
	one := func(id int64, handle string) string {
		p := newPayload(60)
		putID(p[len(payloadFront):], id)
		return fmt.Sprintf(`{"topic":"t","partition":0,"offset":3,"payload":%s,"timestamp":1,"receipt_handle":"%s"}`, p, handle)
	}
	got, err := messages(nil, []byte(one(7, "0:3:9")))
	require.NoError(t, err)
	require.Equal(t, []received{{7, []byte("0:3:9")}}, got)
	got, err = messages(got[:0], []byte(`{"messages":[`+one(1, "a")+","+one(2, "b")+`]}`))
	require.NoError(t, err)
	require.Equal(t, []received{{1, []byte("a")}, {2, []byte("b")}}, got)
	for _, bad := range []string{`{"payload":"x","receipt_handle":"1"}`, `{"payload":` + string(newPayload(0)) + `}`, `{"payload":` + string(newPayload(0)) + `,"receipt_handle":"1`} {
		_, err := messages(nil, []byte(bad))
		require.Error(t, err, bad)
	}
}

func TestAckRequest(t *testing.T) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(ackRequest(nil, "h:1", "t", []received{{1, []byte("0:3:9")}}))))
	require.NoError(t, err)
	require.Equal(t, "0:3:9", r.URL.Query().Get("receipt_handle"))
	r, err = http.ReadRequest(bufio.NewReader(bytes.NewReader(ackRequest(nil, "h:1", "t", []received{{1, []byte("a")}, {2, []byte("b")}}))))
	require.NoError(t, err)
	var body struct {
		Handles []string `json:"receipt_handles"`
	}
	require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
	require.Equal(t, []string{"a", "b"}, body.Handles)
}

// An answer is taken only when it is whole, however it arrives.
func TestParseAnswer(t *testing.T) {
	for _, c := range []struct {
		text   string
		status int
		body   string
		closes bool
	}{
		{"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "", false},
		{"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", 204, "", false},
		{"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nConnection: close\r\n\r\nhello", 200, "hello", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", 200, "hello!", false},
	} {
		for cut := range len(c.text) {
			_, n, err := parseAnswer([]byte(c.text[:cut]))
			require.NoError(t, err)
			require.Zero(t, n)
		}
		a, n, err := parseAnswer([]byte(c.text + "HTTP/1.1 500"))
		require.NoError(t, err)
		require.Equal(t, len(c.text), n)
		require.Equal(t, c.status, a.status)
		require.Equal(t, c.body, string(a.body))
		require.Equal(t, c.closes, a.closes)
	}
	for _, bad := range []string{"HTTP/1.0 200 OK\r\n\r\n", "garbage\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"} {
		_, _, err := parseAnswer([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, n, err := parseAnswer(b)
		if n < 0 || n > len(b) || err != nil && n == 0 && len(b) == 0 {
			t.Fatal(n, err)
		}
		messages(nil, b)
	})
}
