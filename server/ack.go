package server

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"

	"narad/engine"
	"narad/inflight"
)

// acksMax is how many handles one request may name.
const acksMax = 100

var errNoHandle = badRequest("receipt_handle is missing")

// ack settles, extends or gives back one lease, or those of a body. 204 says that it was done, 410 that the handle
// names no live lease and nothing changed.
func (s *Server) ack(x *exchange) error {
	if err := x.mayDo(ActionConsume); err != nil {
		return err
	}
	q, err := x.query()
	if err != nil {
		return err
	}
	op, err := ackMode(q)
	if err != nil {
		return err
	}
	text, given := q.first("receipt_handle") // the first of a repeated parameter counts
	if !given && x.r.ContentLength != 0 {
		return s.ackBatch(x, op)
	}
	if text == "" {
		return errNoHandle
	}
	h, err := inflight.ParseHandle(text)
	if err != nil {
		return badf("%s", err)
	}
	if err := s.settle(op, x.topic, h); err != nil {
		return err
	}
	return x.noContent()
}

func (s *Server) settle(op engine.SettleOp, topic string, h inflight.Handle) error {
	switch op {
	case engine.OpExtend:
		return s.engine.Extend(topic, h)
	case engine.OpNack:
		return s.engine.Nack(topic, h)
	}
	return s.engine.Ack(topic, h)
}

func ackMode(q params) (engine.SettleOp, error) {
	switch mode, _ := q.first("extend"); mode {
	case "", "false":
		return engine.OpAck, nil
	case "true", "1":
		return engine.OpExtend, nil
	case "0":
		return engine.OpNack, nil
	}
	return 0, badf("extend is none of true, 1 (extend), 0 (give back), false (acknowledge)")
}

// ackBatch does to each handle of the body what a request of its own would, and answers for each (API-16).
func (s *Server) ackBatch(x *exchange, op engine.SettleOp) error {
	if _, err := s.engine.Topic(x.topic); err != nil {
		return err
	}
	body, err := x.body(bodyMaxAcks)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return errNoHandle
	}
	texts, err := parseHandles(body)
	if err != nil {
		return err
	}
	results := s.settleAll(x.topic, texts, op)
	out := append(x.buffer(int64(64*len(results))), `{"results":[`...)
	for i, err := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = s.appendResult(x, out, err)
	}
	_ = x.json(http.StatusOK, append(out, "]}"...)) // what was done is done, whether the client reads of it or not
	return nil
}

// settleAll returns the answer for each handle, in their order.
func (s *Server) settleAll(topic string, texts [][]byte, op engine.SettleOp) []error {
	results := make([]error, len(texts))
	handles := make([]inflight.Handle, 0, len(texts))
	places := make([]int, 0, len(texts))
	for i, text := range texts {
		h, err := inflight.ParseHandle(string(text))
		if err != nil {
			results[i] = badf("%s", err)
			continue
		}
		handles = append(handles, h)
		places = append(places, i)
	}
	for i, err := range s.engine.AckBatch(topic, handles, op) {
		results[places[i]] = err
	}
	return results
}

func (s *Server) appendResult(x *exchange, out []byte, err error) []byte {
	if err == nil {
		return append(out, `{"status":204}`...)
	}
	x.logInternal(err)
	out = append(out, `{"status":`...)
	out = strconv.AppendInt(out, int64(statusOf(err)), 10)
	out = append(out, `,"error":`...)
	out = appendString(out, textOf(err))
	return append(out, '}')
}

var errAckSyntax = badRequest(`the request body is not {"receipt_handles":["…"]} in JSON`)

// parseHandles returns the texts of the handles of a body, which it reads no further than it must.
func parseHandles(body []byte) ([][]byte, error) {
	p := batchParser{b: body}
	var texts [][]byte
	p.space()
	err := p.object(func(name []byte) error {
		if !bytes.EqualFold(name, []byte("receipt_handles")) {
			return unknownField(name)
		}
		texts = texts[:0]
		return p.array(acksMax, func() error {
			v, err := p.value()
			if err != nil {
				return err
			}
			if v[0] != '"' {
				return errAckSyntax
			}
			texts = append(texts, unquote(v))
			return nil
		})
	})
	if errors.Is(err, errBatchSyntax) {
		err = errAckSyntax
	}
	if err == nil {
		err = p.end()
	}
	if err == nil && len(texts) == 0 {
		err = badf("receipt_handles is missing or empty, allowed are 1 to %d", acksMax)
	}
	return texts, err
}
