package server

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
)

// Limits of bodies, in bytes (narad-facts 1.2).
const (
	bodyMax      = 1 << 20
	bodyMaxBatch = 16 << 20 // as sent, and decoded
	bodyMaxAcks  = 64 << 10
	bodyExact    = 64 << 10 // a declared length up to here is one buffer
	bodyFirst    = 64 << 10 // otherwise the buffer starts here
	bodyGrow     = 4        // and grows by this factor as data arrives,
	bodyPart     = 1 << 20  // up to here; what is more comes in parts of this size
)

var (
	// errBodyTooLarge reports a body above its limit. (413)
	errBodyTooLarge = errors.New("the request body is too large")
	errBodyUnread   = badRequest("the request body could not be read")
	errBatchBudget  = &Error{Status: http.StatusServiceUnavailable, RetryAfter: 1,
		Text: "batch produce bodies in flight on this node are at their limit; retry"}
)

// body returns the request's body of at most limit bytes. What it allocates follows what has arrived, so that a client cannot
// make the server hold memory by declaring much and sending little. The bytes belong to the exchange and end with it.
func (x *exchange) body(limit int64) ([]byte, error) { return x.readBody(limit, nil) }

// readBody is body, with what exceeds 1 MiB taken from a budget; nil is without bounds.
func (x *exchange) readBody(limit int64, b *budget) ([]byte, error) {
	declared := x.r.ContentLength
	if declared > limit {
		return nil, x.tooLarge(limit)
	}
	size := int64(bodyFirst)
	if declared >= 0 && declared < size {
		size = declared
	}
	g := grower{x: x, budget: b, limit: limit, buf: x.buffer(size)}
	if declared >= 0 {
		g.limit, g.exact = declared, true
	}
	if err := g.fill(x.r.Body); err != nil {
		return nil, err
	}
	x.in += int64(len(g.buf))
	return g.buf, nil
}

// tooLarge answers 413. What the client still sends is not waited for.
func (x *exchange) tooLarge(limit int64) error {
	x.Header()["Connection"] = []string{"close"}
	return fmt.Errorf("%w: at most %d bytes are allowed", errBodyTooLarge, limit)
}

// grower reads a stream into memory that follows what has arrived: up to 1 MiB one buffer that grows, then a buffer more for
// each MiB, which are joined once all is there. So a client that stalls makes the server hold no more than it was sent, and
// what was charged for it.
type grower struct {
	x      *exchange
	budget *budget
	limit  int64
	exact  bool     // the stream has limit bytes, not at most
	full   [][]byte // buffers of bodyPart that are full, before buf
	buf    []byte
	probe  [1]byte
}

func (g *grower) size() int64 { return int64(len(g.full))*bodyPart + int64(len(g.buf)) }

// fill reads to the end. All is in buf then.
func (g *grower) fill(from io.Reader) error {
	for {
		if g.exact && g.size() == g.limit {
			g.join()
			return nil
		}
		n, err := from.Read(g.room())
		if terr := g.took(n); terr != nil {
			return terr
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return errBodyUnread // the client left, was too slow, or sent less than it had declared
		case g.exact && g.size() < g.limit:
			return errBodyUnread
		default:
			g.join()
			return nil
		}
	}
}

// room returns where to read to. When a MiB is full that is the probe: there must be a byte more before there is memory for it.
func (g *grower) room() []byte {
	if len(g.buf) == cap(g.buf) && len(g.buf) < bodyPart {
		g.grow()
	}
	if len(g.buf) == cap(g.buf) {
		return g.probe[:]
	}
	room := g.buf[len(g.buf):cap(g.buf)]
	if most := g.limit + 1 - g.size(); int64(len(room)) > most { // one more byte shows that there is more
		room = room[:most]
	}
	return room
}

// took notes that n bytes were read.
func (g *grower) took(n int) error {
	size := g.size() + int64(n)
	if size > g.limit {
		return g.x.tooLarge(g.limit)
	}
	if g.budget != nil {
		if err := g.x.charge(g.budget, size); err != nil {
			return err
		}
	}
	if n > 0 && len(g.buf) == cap(g.buf) {
		g.full = append(g.full, g.buf)
		g.buf = append(g.x.buffer(bodyPart), g.probe[0])
		return nil
	}
	g.buf = g.buf[:len(g.buf)+n]
	return nil
}

func (g *grower) grow() {
	size := bodyGrow * int64(max(cap(g.buf), bodyFirst/bodyGrow))
	if g.exact {
		size = min(size, g.limit)
	}
	old := g.buf
	g.buf = append(g.x.buffer(size), old...)
	g.x.discard(old)
}

// joining bounds how many bodies are in memory twice.
var joining = make(chan struct{}, runtime.GOMAXPROCS(0))

// join makes the buffers one.
func (g *grower) join() {
	if len(g.full) == 0 {
		return
	}
	joining <- struct{}{}
	defer func() { <-joining }()
	whole := g.x.buffer(g.size())
	for _, part := range append(g.full, g.buf) {
		whole = append(whole, part...)
		g.x.discard(part)
	}
	g.full, g.buf = nil, whole
}

// budget bounds the bytes that bodies hold, node-wide.
type budget struct{ left atomic.Int64 }

func newBudget(bytes int64) *budget {
	b := new(budget)
	b.left.Store(bytes)
	return b
}

// take takes n bytes, or nothing.
func (b *budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

// charge makes the exchange hold enough of the budget for a body of size bytes: nothing up to 1 MiB, then a MiB at a time.
// It is given back at the end of the exchange.
func (x *exchange) charge(b *budget, size int64) error {
	for size-bodyPart > x.charged {
		if !b.take(bodyPart) {
			if o := x.s.opts.Observer; o != nil {
				o.BatchBodyRefused()
			}
			return errBatchBudget
		}
		x.charged += bodyPart
	}
	return nil
}

// Buffers are kept by size, powers of two from 1 KiB to 1 MiB. Larger ones are left to the garbage collector.
const (
	bufferMinBits = 10
	bufferMaxBits = 20
)

var bufferPools [bufferMaxBits - bufferMinBits + 1]sync.Pool

// buffer returns an empty buffer with room for at least size bytes. It ends with the exchange.
func (x *exchange) buffer(size int64) []byte {
	if size > 1<<bufferMaxBits {
		return make([]byte, 0, size)
	}
	b := takeBuffer(size)
	x.held = append(x.held, b)
	return (*b)[:0]
}

// takeBuffer returns a buffer with room for at least size bytes, which are at most those of the largest class. It is the caller's
// until its release.
func takeBuffer(size int64) *[]byte {
	class := max(bits.Len64(uint64(max(size, 1)-1)), bufferMinBits)
	b, ok := bufferPools[class-bufferMinBits].Get().(*[]byte)
	if !ok {
		b = new([]byte)
		*b = make([]byte, 0, 1<<class)
	}
	return b
}

// discard gives a buffer back before the end of the exchange. Nobody may use it any more.
func (x *exchange) discard(buf []byte) {
	for i, b := range x.held {
		if cap(*b) == cap(buf) && cap(buf) > 0 && &(*b)[:1][0] == &buf[:1][0] {
			release(b)
			x.held = append(x.held[:i], x.held[i+1:]...)
			return
		}
	}
}

func release(b *[]byte) {
	class := bits.Len(uint(cap(*b) - 1))
	bufferPools[class-bufferMinBits].Put(b)
}

// releaseAll ends what the exchange holds.
func (x *exchange) releaseAll() {
	for _, b := range x.held {
		release(b)
	}
	if x.charged > 0 {
		x.s.batchBodies.left.Add(x.charged)
	}
}
