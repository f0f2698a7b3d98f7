package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"narad/engine"
)

// produceBatch stores all messages of the body, or none. 202 says that they are on disk.
func (s *Server) produceBatch(x *exchange) error {
	if err := x.mayDo(ActionProduce); err != nil {
		return err
	}
	c, err := x.batchParams()
	if err != nil {
		return err
	}
	if _, err := s.engine.Topic(x.topic); err != nil { // before a body for nobody is read
		return err
	}
	permit := s.produces.enter(x, 1) // for the body
	if permit == nil {
		return errTooManyProduces
	}
	defer permit.leave()
	s.producing.Add(1)
	defer s.producing.Add(-1)
	body, err := x.readBody(bodyMaxBatch, s.batchBodies)
	if err == nil {
		body, err = x.decode(c, body, bodyMaxBatch, s.batchBodies)
	}
	if err != nil {
		return err
	}
	list := messageLists.Get().(*[]engine.Message)
	defer putMessages(list)
	if *list, err = parseBatch(body, (*list)[:0]); err != nil {
		return err
	}
	if !permit.grow(len(*list)) {
		return errTooManyProduces
	}
	if err := s.storeBatch(x, *list); err != nil {
		return err
	}
	return x.json(http.StatusAccepted, acceptedBody(x.buffer(32), len(*list)))
}

func acceptedBody(buf []byte, n int) []byte {
	buf = strconv.AppendInt(append(buf, `{"accepted":`...), int64(n), 10)
	return append(buf, '}')
}

func (x *exchange) batchParams() (coding, error) {
	q, err := x.query()
	if err != nil {
		return 0, err
	}
	if q.has("key") || q.has("partition") {
		return 0, badf("key and partition belong to each message of a batch, not into the query string")
	}
	return x.coding()
}

// storeBatch is the second pass over the messages, which knows the topic, and then stores them in the very incarnation that
// they were checked for.
func (s *Server) storeBatch(x *exchange, messages []engine.Message) error {
	for {
		t, err := s.engine.Topic(x.topic)
		if err != nil {
			return err
		}
		if err := s.checkBatch(x, &t, messages); err != nil {
			return err
		}
		if err := s.engine.ProduceBatch(t.Name, messages); !errors.Is(err, engine.ErrTopicChanged) {
			return err
		}
	}
}

func (s *Server) checkBatch(x *exchange, t *engine.Topic, messages []engine.Message) error {
	for i := range messages {
		m := &messages[i]
		m.Incarnation = t.ID
		if s.opts.Schemas != nil {
			if err := s.checkSchema(x, t, m.Payload); err != nil {
				return atMessage(i, err)
			}
		}
		if m.Partition >= t.Partitions {
			return atMessage(i, badf("partition %d, topic %s has 0 to %d", m.Partition, t.Name, t.Partitions-1))
		}
	}
	return nil
}

// atMessage says which message of a batch is refused; the status stays.
func atMessage(i int, err error) error {
	return &indexedError{fmt.Sprintf("message %d: ", i), err}
}

type indexedError struct {
	prefix string
	err    error
}

func (e *indexedError) Error() string { return e.prefix + e.err.Error() }
func (e *indexedError) Unwrap() error { return e.err }

// messageLists holds the lists of batches.
var messageLists = sync.Pool{New: func() any { return new([]engine.Message) }}

func putMessages(list *[]engine.Message) {
	clear(*list) // keys and payloads are other people's buffers
	messageLists.Put(list)
}

// The body of a batch is
//
//	{"messages":[{"key":"…","key_encoding":"base64","payload":any,"payload_encoding":"base64","partition":0},…]}
//
// with at most engine.MaxProduceBatch messages. As encoding/json would, the parser takes names in any case, and the last of
// several fields of one name. It reads element by element and ends at the first thing that is wrong, so that what it makes
// of a body is a list of at most that many messages whose bytes are the body's (B197).

// parseBatch appends the messages of a body to dst. Their keys and payloads are parts of the body, which it may change.
func parseBatch(body []byte, dst []engine.Message) ([]engine.Message, error) {
	p := batchParser{b: body, messages: dst}
	if err := p.parse(); err != nil {
		return dst, err
	}
	if len(p.messages) == 0 {
		return dst, badf("messages is missing or empty, allowed are 1 to %d", engine.MaxProduceBatch)
	}
	return p.messages, nil
}

var errBatchSyntax = badRequest(`the request body is not {"messages":[…]} in JSON`)

type batchParser struct {
	b        []byte
	i        int
	messages []engine.Message
}

func (p *batchParser) parse() error {
	p.space()
	err := p.object(func(name []byte) error {
		if !bytes.EqualFold(name, []byte("messages")) {
			return unknownField(name)
		}
		p.messages = p.messages[:0]
		return p.array(engine.MaxProduceBatch, p.message)
	})
	if err != nil {
		return err
	}
	return p.end()
}

// end refuses what follows the value, after one look.
func (p *batchParser) end() error {
	if p.space(); p.i != len(p.b) {
		return badf("the request body goes on after its JSON value")
	}
	return nil
}

func unknownField(name []byte) error {
	return badf("unknown field %.64q", name)
}

func (p *batchParser) space()         { p.i = skipSpace(p.b, p.i) }
func (p *batchParser) at(c byte) bool { return p.i < len(p.b) && p.b[p.i] == c }

func (p *batchParser) take(literal string) bool {
	end := scanLiteral(p.b, p.i, literal)
	if end < 0 {
		return false
	}
	p.i = end
	return true
}

// object reads an object and calls field with each name; field reads the value.
func (p *batchParser) object(field func(name []byte) error) error {
	if !p.at('{') {
		return errBatchSyntax
	}
	p.i++
	if p.space(); p.at('}') {
		p.i++
		return nil
	}
	for {
		if !p.at('"') {
			return errBatchSyntax
		}
		name, err := p.value()
		if err != nil {
			return err
		}
		if p.space(); !p.at(':') {
			return errBatchSyntax
		}
		p.i++
		p.space()
		if err := field(unquote(name)); err != nil {
			return err
		}
		if more, err := p.next('}'); !more {
			return err
		}
	}
}

// next reads what follows an element and reports whether another one does.
func (p *batchParser) next(end byte) (more bool, err error) {
	i, more := scanNext(p.b, p.i, end)
	if i < 0 {
		return false, errBatchSyntax
	}
	p.i = i
	return more, nil
}

// value reads any value and returns it as it is written.
func (p *batchParser) value() ([]byte, error) {
	end := scanValue(p.b, p.i, 0)
	if end < 0 {
		return nil, errBatchSyntax
	}
	v := p.b[p.i:end:end]
	p.i = end
	return v, nil
}

// array reads an array of at most most elements, or null, and calls element at each.
func (p *batchParser) array(most int, element func() error) error {
	if p.at('n') && p.take("null") {
		return nil
	}
	if !p.at('[') {
		return errBatchSyntax
	}
	p.i++
	if p.space(); p.at(']') {
		p.i++
		return nil
	}
	for n := 0; ; n++ {
		if n == most {
			return badf("more than %d elements", most)
		}
		if err := element(); err != nil {
			return err
		}
		if more, err := p.next(']'); !more {
			return err
		}
	}
}

// rawMessage is a message as it is written. A field that is absent or null is nil.
type rawMessage struct {
	key, keyEncoding, payload, payloadEncoding, partition []byte
}

// message reads one message and appends it.
func (p *batchParser) message() error {
	var raw rawMessage
	if !p.at('n') || !p.take("null") {
		if err := p.fields(&raw); err != nil {
			return err
		}
	}
	m, err := raw.decode(len(p.messages))
	if err != nil {
		return err
	}
	p.messages = append(p.messages, m)
	return nil
}

func (p *batchParser) fields(raw *rawMessage) error {
	return p.object(func(name []byte) error {
		field := raw.field(name)
		if field == nil {
			return unknownField(name)
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		if string(v) != "null" || field == &raw.payload {
			*field = v
		}
		return nil
	})
}

func (m *rawMessage) field(name []byte) *[]byte {
	switch string(name) {
	case "payload":
		return &m.payload
	case "key":
		return &m.key
	case "partition":
		return &m.partition
	case "payload_encoding":
		return &m.payloadEncoding
	case "key_encoding":
		return &m.keyEncoding
	}
	for _, known := range []string{"payload", "key", "partition", "payload_encoding", "key_encoding"} {
		if bytes.EqualFold(name, []byte(known)) {
			return m.field([]byte(known))
		}
	}
	return nil
}

// decode is the first pass over a message: what can be said without knowing the topic.
func (m *rawMessage) decode(index int) (engine.Message, error) {
	var out engine.Message
	var err error
	if out.Key, err = decodeText("key", m.key, m.keyEncoding); err != nil {
		return out, atMessage(index, err)
	}
	out.Payload, err = m.decodePayload()
	if err == nil {
		out.Partition, err = decodePartition(m.partition)
	}
	switch {
	case err != nil:
	case len(out.Payload) == 0:
		err = badf("the payload is empty")
	case len(out.Payload) > engine.MaxPayload || len(out.Key) > engine.MaxKey:
		err = errMessageTooLarge
	}
	if err != nil {
		return out, atMessage(index, err)
	}
	return out, nil
}

var errMessageTooLarge = &Error{Status: http.StatusRequestEntityTooLarge, Text: "message too large"}

// decodePayload returns the payload: any JSON value as it is written, or the bytes of a string in base64.
func (m *rawMessage) decodePayload() ([]byte, error) {
	kind, err := encodingOf("payload", m.payloadEncoding)
	if err != nil || kind == "" {
		return m.payload, err
	}
	if string(m.payload) == "null" {
		return nil, nil
	}
	return decodeText("payload", m.payload, m.payloadEncoding)
}

// encodingOf returns the value of key_encoding or payload_encoding.
func encodingOf(what string, encoding []byte) (string, error) {
	if encoding == nil {
		return "", nil
	}
	if encoding[0] == '"' {
		switch text := unquote(encoding); string(text) {
		case "":
			return "", nil
		case "base64":
			return "base64", nil
		}
	}
	return "", badf(`%s_encoding is not "base64"`, what)
}

// decodeText returns the bytes that a string stands for.
func decodeText(what string, quoted, encoding []byte) ([]byte, error) {
	kind, err := encodingOf(what, encoding)
	if err != nil || quoted == nil {
		return nil, err
	}
	if quoted[0] != '"' {
		return nil, badf("%s is not a string", what)
	}
	text := unquote(quoted)
	if kind == "" {
		return text, nil
	}
	n, err := base64.StdEncoding.Decode(text, text) // in place: it never writes beyond what it has read
	if err != nil {
		return nil, badf("%s is not base64", what)
	}
	return text[:n], nil
}

func decodePartition(raw []byte) (int32, error) {
	if raw == nil {
		return engine.AnyPartition, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || n < 0 {
		return 0, badf("partition is not a number from 0 on")
	}
	return int32(n), nil
}
