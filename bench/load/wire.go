package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
	"strings"
)

// Payloads are JSON objects of a given size that carry the number of the message:
//
//	{"n":"00000000000001a4","p":"xxxxxxxxxxx"}
const (
	payloadFront = `{"n":"`
	idDigits     = 16
	payloadMid   = `","p":"`
	payloadEnd   = `"}`
	// MinSize is the size of the smallest payload, in bytes.
	MinSize = len(payloadFront) + idDigits + len(payloadMid) + len(payloadEnd)
)

func newPayload(size int) []byte {
	size = max(size, MinSize)
	return []byte(payloadFront + strings.Repeat("0", idDigits) + payloadMid + strings.Repeat("x", size-MinSize) + payloadEnd)
}

// putID writes a number over the digits at the start of b.
func putID(b []byte, id int64) {
	const digits = "0123456789abcdef"
	for i := idDigits - 1; i >= 0; i-- {
		b[i] = digits[id&15]
		id >>= 4
	}
}

// payloadID reads the number from the front of a payload, -1 when there is none.
func payloadID(b []byte) int64 {
	if len(b) < len(payloadFront)+idDigits || string(b[:len(payloadFront)]) != payloadFront {
		return -1
	}
	id, err := strconv.ParseUint(string(b[len(payloadFront):len(payloadFront)+idDigits]), 16, 63)
	if err != nil {
		return -1
	}
	return int64(id)
}

// template is a request whose message numbers can be exchanged.
type template struct {
	bytes []byte
	ids   []int // where the digits are
}

// produceTemplate is a produce of n messages; one goes as a body, several as a batch.
func produceTemplate(host, topic string, n, size int) template {
	payload := newPayload(size)
	body, path := payload, "/produce"
	if n > 1 {
		path += "/batch"
		parts := make([][]byte, n)
		for i := range parts {
			parts[i] = fmt.Appendf(nil, `{"payload":%s}`, payload)
		}
		body = fmt.Appendf(nil, `{"messages":[%s]}`, bytes.Join(parts, []byte(",")))
	}
	t := template{bytes: request("POST", "/v1/topics/"+topic+path, host, body)}
	head := len(t.bytes) - len(body)
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(payloadFront))
		if i < 0 {
			return t
		}
		at += i + len(payloadFront)
		t.ids = append(t.ids, head+at)
	}
}

// numbered returns the request for n messages from first on.
func (t *template) numbered(first int64) []byte {
	for i, at := range t.ids {
		putID(t.bytes[at:], first+int64(i))
	}
	return t.bytes
}

func request(method, path, host string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nX-Narad-Client: narad-bench\r\n", method, path, host)
	if method != "GET" {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// received is one message of an answer.
type received struct {
	id     int64
	handle []byte // aliases the answer
}

var handleField = []byte(`"receipt_handle":"`)

// messages finds the messages of an answer to a consume, single or batch.
func messages(dst []received, body []byte) ([]received, error) {
	for {
		at := bytes.Index(body, []byte(payloadFront))
		if at < 0 {
			if bytes.Contains(body, handleField) {
				return dst, errors.New("load: a message with a payload that is not of this run")
			}
			return dst, nil
		}
		id := payloadID(body[at:])
		body = body[at+len(payloadFront):]
		h := bytes.Index(body, handleField)
		if h < 0 {
			return dst, errors.New("load: a message without a receipt handle")
		}
		body = body[h+len(handleField):]
		end := bytes.IndexByte(body, '"')
		if end < 0 {
			return dst, errors.New("load: an answer that ends within a receipt handle")
		}
		dst = append(dst, received{id, body[:end]})
		body = body[end:]
	}
}

// ackRequest acks messages: one by its handle in the address, several in a body. It appends to dst.
func ackRequest(dst []byte, host, topic string, all []received) []byte {
	if len(all) == 1 {
		dst = append(dst, "POST /v1/topics/"...)
		dst = append(dst, topic...)
		dst = append(dst, "/ack?receipt_handle="...)
		dst = append(dst, all[0].handle...)
		dst = append(dst, " HTTP/1.1\r\nHost: "...)
		dst = append(dst, host...)
		return append(dst, "\r\nX-Narad-Client: narad-bench\r\nContent-Length: 0\r\n\r\n"...)
	}
	body := []byte(`{"receipt_handles":[`)
	for i, m := range all {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(append(body, '"'), m.handle...), '"')
	}
	body = append(body, "]}"...)
	return append(dst, request("POST", "/v1/topics/"+topic+"/ack", host, body)...)
}

// answer is one HTTP response.
type answer struct {
	status int
	body   []byte
	closes bool // the server closes the connection after it
}

var errAnswer = errors.New("load: not an HTTP/1.1 answer")

// parseAnswer takes the first answer from b. It returns how many bytes that was, 0 when more must be read.
func parseAnswer(b []byte) (a answer, n int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return a, 0, nil
	}
	head := b[:end+2]
	if len(head) < 12 || string(head[:9]) != "HTTP/1.1 " {
		return a, 0, fmt.Errorf("%w: %q", errAnswer, head[:min(len(head), 40)])
	}
	if a.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return a, 0, errAnswer
	}
	length, chunked := 0, false
	for head = head[bytes.IndexByte(head, '\n')+1:]; len(head) > 0; {
		eol := bytes.IndexByte(head, '\n')
		name, value, _ := bytes.Cut(head[:eol], []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return a, 0, errAnswer
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			a.closes = bytes.EqualFold(value, []byte("close"))
		}
		head = head[eol+1:]
	}
	body := b[end+4:]
	if chunked {
		return parseChunked(a, b, body)
	}
	if len(body) < length {
		return a, 0, nil
	}
	a.body = body[:length]
	return a, len(b) - len(body) + length, nil
}

// parseChunked is for the rare long answer.
func parseChunked(a answer, b, body []byte) (answer, int, error) {
	end := bytes.Index(body, []byte("\r\n0\r\n\r\n"))
	switch {
	case bytes.HasPrefix(body, []byte("0\r\n\r\n")):
		end = -2
	case end < 0:
		return a, 0, nil
	}
	total := end + len("\r\n0\r\n\r\n")
	var err error
	a.body, err = io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body[:total])))
	return a, len(b) - len(body) + total, err
}
