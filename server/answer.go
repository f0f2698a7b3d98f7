package server

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// directBody is the body of a plain request: what came with the head, and what is still to come.
type directBody struct {
	conn *directConn
	left int64 // that nobody has read
}

// buffered is how much of it is in the buffer of the connection.
func (b *directBody) buffered() int64 { return min(b.left, int64(len(b.conn.buf)-b.conn.at)) }

// missing is how much of it has not come yet.
func (b *directBody) missing() int64 { return b.left - b.buffered() }

// skip passes over what nobody has read. Nothing is missing.
func (b *directBody) skip() {
	b.conn.at += int(b.left)
	b.left = 0
}

func (b *directBody) Read(p []byte) (n int, err error) {
	switch c := b.conn; {
	case b.left == 0:
		return 0, io.EOF
	case b.buffered() > 0:
		n = copy(p, c.buf[c.at:c.at+int(b.buffered())])
		c.at += n
	default:
		c.readBy.want(c.since, c.direct.server.opts.ReadTimeout)
		p = p[:min(int64(len(p)), b.left)]
		n, err = c.Read(p)
		if n == 0 && c.readBy.early(err) {
			n, err = c.Read(p)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	b.left -= int64(n)
	if b.left == 0 {
		b.conn.bodyRead()
	}
	return n, err
}

func (b *directBody) Close() error { return nil }

// drainedMost bounds what is read of a body that the handler has left, so that the connection can go on. It is the bound of net/http.
const drainedMost = 256 << 10

// drain reads what has not come yet, and reports false when that is too much or does not come.
func (b *directBody) drain() bool {
	if b.missing() == 0 {
		return true
	}
	if b.left >= drainedMost {
		return false
	}
	buf := takeBuffer(b.left)
	defer release(buf)
	for b.left > 0 {
		if n, err := b.Read((*buf)[:cap(*buf)]); n == 0 && err != nil {
			return false
		}
	}
	return true
}

// bodyRead is told that all of the body has come: from now on the client can be watched.
func (c *directConn) bodyRead() {
	c.mu.Lock()
	c.inside = true
	c.mu.Unlock()
}

// answer is the answer to a plain request. It is sent when its handler returns; JSON is sent at once, so that the handler
// knows whether it can be, unless there is still a body to come.
type answer struct {
	conn   *directConn
	header http.Header
	status int
	body   []byte
	isJSON bool // body
	sent   bool
	failed error // of sending
	closes bool  // the connection ends with it
}

// answerKept bounds the memory for a body that stays with a connection.
const answerKept = 4 << 10

func (a *answer) reset() {
	clear(a.header)
	if a.body = a.body[:0]; cap(a.body) > answerKept {
		a.body = nil
	}
	a.status, a.isJSON, a.sent, a.failed, a.closes = 0, false, false, nil, false
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	switch {
	case !hasBody(a.status):
		return 0, http.ErrBodyNotAllowed
	case a.sent:
		return 0, http.ErrContentLength
	}
	a.body = append(a.body, p...)
	return len(p), nil
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// json sends an answer that is JSON.
func (a *answer) json(status int, body []byte) error {
	a.WriteHeader(status)
	if a.conn.body.missing() > 0 { // that is waited for when the handler has given back all that it holds
		a.body, a.isJSON = append(a.body, body...), true
		return nil
	}
	return a.send(body, true)
}

// finish sends the answer unless it is sent. It returns an error when it was not sent as a whole: nothing may follow it then.
func (a *answer) finish() error {
	if a.sent {
		return a.failed
	}
	a.WriteHeader(http.StatusOK)
	return a.send(a.body, a.isJSON)
}

// oneWrite is up to where head and body are copied together.
const oneWrite = 32 << 10

func (a *answer) send(body []byte, isJSON bool) error {
	a.sent = true
	a.closes = len(a.header["Connection"]) > 0 || a.conn.direct.stopping.Load() || !a.conn.body.drain()
	a.conn.unwatch()
	a.failed = a.sendNow(body, isJSON)
	return a.failed
}

func (a *answer) sendNow(body []byte, isJSON bool) error {
	size := answerHead
	if len(body) <= oneWrite {
		size += len(body)
	}
	buf := takeBuffer(int64(size))
	defer release(buf)
	out := a.appendHead((*buf)[:0], len(body), isJSON)
	if len(body) <= oneWrite {
		return a.conn.write(append(out, body...))
	}
	if err := a.conn.write(out); err != nil {
		return err
	}
	return a.conn.write(body)
}

// answerHead is room for most heads.
const answerHead = 512

// appendHead appends status line and headers, as net/http would have them.
func (a *answer) appendHead(dst []byte, length int, isJSON bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(a.status), 10)
	dst = append(append(dst, ' '), http.StatusText(a.status)...)
	dst = append(dst, "\r\nDate: "...)
	dst = append(dst, dateOf(time.Now())...)
	switch {
	case isJSON:
		dst = append(dst, "\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff"...)
	case length > 0 && a.header["Content-Type"] == nil:
		dst = append(append(dst, "\r\nContent-Type: "...), http.DetectContentType(a.body)...)
	}
	if hasBody(a.status) {
		dst = append(dst, "\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(length), 10)
	}
	if a.closes {
		dst = append(dst, "\r\nConnection: close"...)
	}
	dst = append(dst, "\r\n"...)
	if len(a.header) > 0 {
		w := sliceWriter(dst)
		_ = a.header.WriteSubset(&w, headWritten) // a slice takes everything
		dst = w
	}
	return append(dst, "\r\n"...)
}

// headWritten are the headers that appendHead writes by itself.
var headWritten = map[string]bool{"Content-Length": true, "Connection": true, "Date": true}

type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// date is the text of a second.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

func dateOf(at time.Time) string {
	d := lastDate.Load()
	if d == nil || d.second != at.Unix() {
		d = &date{at.Unix(), at.UTC().Format(http.TimeFormat)}
		lastDate.Store(d)
	}
	return d.text
}
