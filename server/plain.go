package server

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// A request is plain when it has come with its whole head in one piece, has the form
//
//	POST /v1/topics/orders/produce?partition=0 HTTP/1.1
//	Host: narad.example:7942
//	Content-Length: 12
//
// and asks for one of the routes below; when its address holds nothing that has to be decoded before the query string; and when
// its headers are printable ASCII, ask for nothing of HTTP itself, have one Host and at most one length, and are few and short.

// plainHeads remembers heads, since those of one connection repeat: what was understood once is only compared.
type plainHeads struct {
	line                string
	method, path, query string // of line

	known [4]heading
	next  int // which of them is forgotten next
}

// Bounds of what is remembered: it is held while the connection is idle.
const (
	headerLinesMost = 32
	headerBytesMost = 2 << 10
)

// heading is a block of header lines.
type heading struct {
	before, after string // the block, around the digits of the length; all is in before when there is none
	sized         bool
	header        http.Header // without Host, as of net/http, and without the length
	host          string
}

// lengthDigits bounds what a plain request says of its length: more is refused anyway.
const lengthDigits = 8

// parse makes c.request of what was read. It reports false when that does not begin with a plain request.
func (c *directConn) parse() bool {
	b := c.buf[c.at:]
	end := bytes.Index(b, []byte("\r\n\r\n"))
	eol := bytes.IndexByte(b, '\r')
	if end < 0 || eol == end || b[eol+1] != '\n' || end > c.direct.server.opts.MaxHeaderBytes {
		return false
	}
	p := &c.heads
	if !p.isLine(b[:eol]) {
		return false
	}
	block := b[eol+2 : end+2]
	h, length := p.find(block)
	if h == nil {
		if h, length = p.learn(block); h == nil {
			return false
		}
	}
	if p.method == http.MethodGet && h.sized {
		return false
	}
	c.at += end + 4
	c.url.Path, c.url.RawQuery = p.path, p.query
	r := &c.request
	*r = c.base
	r.Method, r.RequestURI, r.Host, r.Header = p.method, p.line[len(p.method)+1:len(p.line)-len(lineEnd)], h.host, h.header
	r.ContentLength, r.Body = length, http.NoBody
	if length > 0 {
		r.Body = &c.body
	}
	c.body.left = length
	c.answer.reset()
	return true
}

const (
	lineEnd    = " HTTP/1.1"
	pathTopics = "/v1/topics/"
)

// isLine takes a request line.
func (p *plainHeads) isLine(b []byte) bool {
	if len(b) > 0 && string(b) == p.line {
		return true
	}
	line := string(b)
	method, rest, _ := strings.Cut(line, " ")
	target, ok := strings.CutSuffix(rest, lineEnd)
	if !ok {
		return false
	}
	path, query, _ := strings.Cut(target, "?")
	if !all(path, pathByte) || !all(query, queryByte) {
		return false
	}
	rest, ok = strings.CutPrefix(path, pathTopics)
	topic, action, _ := strings.Cut(rest, "/")
	if !ok || topic == "" || topic[0] == '.' { // the mux redirects /./ and /../
		return false
	}
	switch action {
	case "consume":
		ok = method == http.MethodGet
	case "produce", "produce/batch", "ack":
		ok = method == http.MethodPost
	default:
		ok = false
	}
	if ok {
		p.line, p.method, p.path, p.query = line, method, path, query
	}
	return ok
}

// find returns the heading that a block is, and its length; nil when it is not known.
func (p *plainHeads) find(block []byte) (h *heading, length int64) {
	for i := range p.known {
		h := &p.known[i]
		if h.header == nil {
			break
		}
		if !h.sized {
			if string(block) == h.before {
				return h, 0
			}
			continue
		}
		digits := len(block) - len(h.before) - len(h.after)
		if digits < 1 || string(block[:len(h.before)]) != h.before || string(block[len(h.before)+digits:]) != h.after {
			continue
		}
		if length, ok := lengthOf(block[len(h.before) : len(h.before)+digits]); ok {
			return h, length
		}
	}
	return nil, 0
}

func lengthOf(digits []byte) (length int64, ok bool) {
	for _, d := range digits {
		if !isDigit(d) {
			return 0, false
		}
	}
	if len(digits) == 0 || len(digits) > lengthDigits {
		return 0, false
	}
	length, err := strconv.ParseInt(string(digits), 10, 64)
	return length, err == nil
}

// learn takes a block that is not known. It returns nil when it is not plain.
func (p *plainHeads) learn(block []byte) (h *heading, length int64) {
	if len(block) > headerBytesMost || bytes.Count(block, []byte{'\n'}) > headerLinesMost {
		return nil, 0
	}
	l := heading{before: string(block), header: http.Header{}}
	for rest := l.before; rest != ""; {
		line, more, ok := strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !ok || !found || name == "" || !all(name, nameByte) || !all(value, valueByte) {
			return nil, 0
		}
		trimmed := strings.Trim(value, " \t")
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Host":
			if l.host != "" || trimmed == "" || !all(trimmed, hostByte) {
				return nil, 0
			}
			l.host = trimmed
		case "Content-Length":
			if length, ok = lengthOf([]byte(trimmed)); !ok || l.sized {
				return nil, 0
			}
			l.sized = true
			at := len(l.before) - len(rest) + strings.Index(line, trimmed) // no name of a header has a digit here
			l.before, l.after = l.before[:at], l.before[at+len(trimmed):]
			rest = more
			continue
		case "Connection":
			if !strings.EqualFold(trimmed, "keep-alive") {
				return nil, 0
			}
			l.header[name] = append(l.header[name], trimmed)
		case "Transfer-Encoding", "Expect", "Upgrade", "Trailer", "Te", "Keep-Alive", "Proxy-Connection", "Http2-Settings", "Pragma":
			return nil, 0
		default:
			l.header[name] = append(l.header[name], trimmed)
		}
		rest = more
	}
	if l.host == "" {
		return nil, 0
	}
	h = &p.known[p.next]
	p.next = (p.next + 1) % len(p.known)
	*h = l
	return h, length
}

// byteSet is a set of bytes.
type byteSet [256]bool

func setOf(more string) (t byteSet) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte(more, byte(c)) >= 0
	}
	return t
}

var (
	pathByte  = setOf("-._/")
	queryByte = setOf("-._~%=&:+,")
	nameByte  = setOf("-_")
	hostByte  = setOf("-.:[]")
	valueByte = func() byteSet {
		t := setOf("\t ")
		for c := '!'; c <= '~'; c++ {
			t[c] = true
		}
		return t
	}()
)

func all(s string, of byteSet) bool {
	for i := range len(s) {
		if !of[s[i]] {
			return false
		}
	}
	return true
}
