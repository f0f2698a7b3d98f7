package server

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is how a batch is compressed.
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingZstd
)

var (
	errCoding    = &Error{Status: http.StatusUnsupportedMediaType, Text: "this Content-Encoding is not supported; zstd and gzip are"}
	errUndecoded = badRequest("the request body is not what its Content-Encoding says")
)

// coding returns how the body is compressed. What else the header says is not repeated in the answer.
func (x *exchange) coding() (coding, error) {
	values := x.r.Header["Content-Encoding"]
	if len(values) == 0 {
		return codingNone, nil
	}
	if len(values) > 1 {
		return 0, errCoding
	}
	switch name := strings.TrimSpace(values[0]); {
	case name == "", strings.EqualFold(name, "identity"):
		return codingNone, nil
	case strings.EqualFold(name, "gzip"):
		return codingGzip, nil
	case strings.EqualFold(name, "zstd"):
		return codingZstd, nil
	}
	return 0, errCoding
}

// decoding bounds how many bodies are decoded at a time: a decoder takes up to its window of memory, and decoding waits for
// no client, so that more at a time would not be quicker.
var decoding = make(chan struct{}, runtime.GOMAXPROCS(0))

// decode returns the decoded body, at most limit bytes of it: decoding ends there, whatever is still to come.
func (x *exchange) decode(c coding, body []byte, limit int64, b *budget) ([]byte, error) {
	if c == codingNone {
		return body, nil
	}
	decoding <- struct{}{}
	defer func() { <-decoding }()
	d, err := newDecoder(c, body)
	if err != nil {
		return nil, err
	}
	defer d.done()
	g := grower{x: x, budget: b, limit: limit, buf: x.buffer(bodyFirst)}
	switch err := g.fill(d); {
	case errors.Is(err, errBodyUnread):
		return nil, errUndecoded
	case err != nil:
		return nil, err
	}
	x.discard(body)
	return g.buf, nil
}

// decoder is a reader that is used again.
type decoder struct {
	io.Reader
	done func()
}

var gzipReaders, zstdReaders sync.Pool

func newDecoder(c coding, body []byte) (decoder, error) {
	if c == codingGzip {
		return newGzipDecoder(body)
	}
	return newZstdDecoder(body)
}

func newGzipDecoder(body []byte) (decoder, error) {
	z, ok := gzipReaders.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	if err := z.Reset(bytes.NewReader(body)); err != nil {
		gzipReaders.Put(z)
		return decoder{}, errUndecoded
	}
	return decoder{z, func() { gzipReaders.Put(z) }}, nil
}

func newZstdDecoder(body []byte) (decoder, error) {
	z, ok := zstdReaders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		// One goroutine, the caller's; and no window that is larger than what may come out.
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(bodyMaxBatch), zstd.WithDecoderMaxMemory(bodyMaxBatch+1))
		if err != nil {
			panic(err) // the options are constants
		}
	}
	if err := z.Reset(bytes.NewReader(body)); err != nil {
		zstdReaders.Put(z)
		return decoder{}, errUndecoded
	}
	return decoder{z, func() {
		_ = z.Reset(nil) // lets go of the body
		zstdReaders.Put(z)
	}}, nil
}
