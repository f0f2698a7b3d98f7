package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"narad/engine"
)

// consumeArgs is what a consume asks for.
type consumeArgs struct {
	partition int32
	wait      time.Duration
	batch     bool
	max       int
	replay    bool
	offset    int64
}

// consume leases a message to the client, waiting for one as long as it asks; or several; or it reads one again.
func (s *Server) consume(x *exchange) error {
	q, err := x.query()
	if err != nil {
		return err
	}
	if q.has("max") && len(x.r.Header[clientHeader]) == 0 { // a page could consume for somebody who is logged in (B207)
		return errBatchHeader
	}
	if x.r.Method != http.MethodGet { // a HEAD would lease a message and throw it away
		x.Header()["Allow"] = headerGet
		return &Error{Status: http.StatusMethodNotAllowed, Text: http.StatusText(http.StatusMethodNotAllowed), Plain: true}
	}
	if err := x.mayDo(ActionConsume); err != nil {
		return err
	}
	var a consumeArgs
	if err := a.parse(q); err != nil {
		return err
	}
	if s.isStopping() {
		return errStopping
	}
	permit := s.consumes.enter(x, max(a.max, 1))
	if permit == nil {
		return errTooManyConsumes
	}
	defer permit.leave()
	if a.replay {
		return s.replay(x, &a)
	}
	return s.lease(x, &a)
}

var (
	headerGet      = []string{http.MethodGet}
	errBatchHeader = badRequest("a consume with max needs an " + clientHeader + " header")
)

func (a *consumeArgs) parse(q params) (err error) {
	if a.partition, err = q.partition(); err != nil {
		return err
	}
	if a.wait, err = q.wait(); err != nil {
		return err
	}
	text, given, err := q.single("max")
	if err != nil {
		return err
	}
	if a.batch = given; given {
		if a.max, err = strconv.Atoi(text); err != nil || a.max < 1 || a.max > engine.MaxConsumeBatch {
			return badf("max is not a number from 1 to %d", engine.MaxConsumeBatch)
		}
	}
	text, a.replay, err = q.single("offset")
	if err != nil || !a.replay {
		return err
	}
	return a.parseOffset(text)
}

func (a *consumeArgs) parseOffset(text string) (err error) {
	switch {
	case a.partition == engine.AnyPartition:
		return badf("offset goes with partition")
	case a.batch:
		return badf("offset and max exclude each other")
	}
	if a.offset, err = strconv.ParseInt(text, 10, 64); err != nil || a.offset < 0 {
		return badf("offset is not a number from 0 on")
	}
	return nil
}

// replay reads one stored message again. It leases nothing, and the answer has no receipt handle.
func (s *Server) replay(x *exchange, a *consumeArgs) error {
	d, err := s.engine.Replay(x.topic, a.partition, a.offset)
	switch {
	case errors.Is(err, engine.ErrEmpty):
		return x.noContent()
	case err != nil:
		return err
	}
	_ = x.json(http.StatusOK, appendMessage(x.buffer(messageRoom(d)), d)) // nothing is lost when it does not arrive
	return nil
}

// lease hands out messages.
func (s *Server) lease(x *exchange, a *consumeArgs) error {
	req := &engine.ConsumeRequest{Topic: x.topic, Partition: a.partition, Wait: a.wait}
	if a.wait > s.opts.MaxConsumeWait {
		req.Wait = s.opts.MaxConsumeWait
		x.Header().Set("X-Narad-Wait-Clamped", req.Wait.String())
	}
	var began time.Time
	if s.opts.Observer != nil {
		began = time.Now()
	}
	var c canceller
	if req.Wait > 0 {
		req.Waiting = func() { c.watch(x, req) }
		defer c.end()
	}
	var err error
	if a.batch {
		err = s.leaseBatch(x, req, a.max)
	} else {
		var d *engine.Delivery
		if d, err = s.engine.Consume(req); err == nil {
			s.deliver(x, d)
		}
	}
	if s.opts.Observer != nil {
		s.opts.Observer.Waited(x.topic, waitOutcome(err, req.Wait), time.Since(began))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrCancelled) && x.left():
		x.clientLeft(http.StatusNoContent)
		return nil
	case errors.Is(err, engine.ErrEmpty), errors.Is(err, engine.ErrCancelled): // cancelled: the server stops
		return x.noContent()
	}
	return err
}

// canceller cancels a consume that waits when its client leaves or the server stops.
type canceller struct{ left, stopped func() bool }

func (c *canceller) watch(x *exchange, req *engine.ConsumeRequest) {
	if c.left == nil {
		c.left = context.AfterFunc(x.r.Context(), req.Cancel)
		c.stopped = context.AfterFunc(x.s.stopping, req.Cancel)
	}
}

func (c *canceller) end() {
	if c.left != nil {
		c.left()
		c.stopped()
	}
}

// waitOutcome says how a consume ended, for metrics.
func waitOutcome(err error, wait time.Duration) WaitOutcome {
	switch {
	case err == nil:
		return WaitHit
	case errors.Is(err, engine.ErrEmpty) && wait == 0:
		return WaitNone
	case errors.Is(err, engine.ErrEmpty):
		return WaitTimeout
	}
	return WaitCancelled
}

// deliver sends a message. When the client has left, or cannot be written to, nobody holds the handle: the
// lease is given back, so that the next consumer gets the message at once.
func (s *Server) deliver(x *exchange, d *engine.Delivery) {
	encode := func() []byte {
		body := appendMessage(x.buffer(messageRoom(d)), d)
		letGo(d)
		return body
	}
	if !x.deliverJSON(encode) {
		s.giveBack(d)
	}
}

// letGo forgets the bytes of a message that was encoded: they can be part of much more memory, and the client may be slow.
func letGo(d *engine.Delivery) { d.Key, d.Payload = nil, nil }

// deliverJSON sends an answer and reports whether it went out.
func (x *exchange) deliverJSON(body func() []byte) bool {
	if x.left() {
		x.clientLeft(http.StatusNoContent)
		return false
	}
	err := x.json(http.StatusOK, body())
	if err == nil {
		err = x.flush()
	}
	return err == nil
}

// flush sends what net/http has buffered, and reports an answer that cannot be sent.
func (x *exchange) flush() error {
	if f, ok := x.ResponseWriter.(interface{ FlushError() error }); ok {
		return f.FlushError()
	}
	return nil
}

func (s *Server) giveBack(d *engine.Delivery) {
	err := s.engine.Nack(d.Topic, d.Handle)
	if err != nil && !errors.Is(err, engine.ErrLeaseGone) && !errors.Is(err, engine.ErrTopicNotFound) && !errors.Is(err, engine.ErrClosed) {
		s.opts.Logger.Error("a message whose client had left could not be given back", "topic", d.Topic, "error", err)
	}
}

// batchAnswerMax bounds the encoded answer to a batch consume, in bytes; its first message is exempt (API-11).
const batchAnswerMax = 8 << 20

// batchAnswer is the answer to a batch consume while it is made.
type batchAnswer struct{ body []byte }

const batchAnswerBegin = `{"messages":[`

// fit encodes a message if there is room for it; the first has room in any case.
func (a *batchAnswer) fit(d *engine.Delivery) bool {
	before := len(a.body)
	first := before == len(batchAnswerBegin)
	if !first {
		a.body = append(a.body, ',')
	}
	a.body = appendMessage(a.body, d)
	if !first && len(a.body)+len("]}\n") > batchAnswerMax {
		a.body = a.body[:before]
		return false
	}
	return true
}

// leaseBatch hands out up to count messages. What does not fit into the answer is given back before it is sent (CON-30).
func (s *Server) leaseBatch(x *exchange, req *engine.ConsumeRequest, count int) error {
	buf := x.buffer(bodyFirst)
	a := batchAnswer{body: append(buf, batchAnswerBegin...)}
	req.Fit = a.fit
	items, err := s.engine.ConsumeBatch(req, count)
	if err != nil {
		return err
	}
	for _, d := range items {
		letGo(d)
	}
	if !x.deliverJSON(func() []byte { return append(a.body, "]}"...) }) {
		for _, d := range items {
			s.giveBack(d)
		}
	}
	return nil
}
