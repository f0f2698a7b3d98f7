package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrEmpty reports that no message came within the wait.
var ErrEmpty = errors.New("nothing to consume")

// Outgoing is a message to produce.
type Outgoing struct {
	Topic     string
	Key       []byte // may be empty
	Partition *int   // an explicit choice, which beats the key; nil leaves it to the server
	Payload   []byte // 1 byte to 1 MiB, stored byte for byte
}

// Produce stores a message; when it returns nil, the message is on the server's disk.
func (c *Client) Produce(ctx context.Context, m Outgoing) error {
	var q params
	if len(m.Key) > 0 {
		q.add("key", string(m.Key))
	}
	q.addInt("partition", m.Partition)
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: topicPath(m.Topic, "/produce"), query: q.String(),
		kind: bytesBody, body: m.Payload, want: http.StatusAccepted,
	})
	return err
}

// Message is a message that is leased to this client until its visibility timeout ends, or one that was replayed.
type Message struct {
	Topic     string
	Partition int
	Offset    int64
	Key       []byte
	// Payload is what was produced, with one exception: a payload that was itself a JSON string arrives as
	// the text of that string, because on the wire the two are the same.
	Payload []byte
	Time    time.Time // of the commit to the partition, in whole seconds
	Handle  string    // names the lease; empty for a replayed message
}

// UnmarshalJSON decodes the wire form.
func (m *Message) UnmarshalJSON(b []byte) error {
	var wire struct {
		Topic           string          `json:"topic"`
		Partition       int             `json:"partition"`
		Offset          int64           `json:"offset"`
		Key             string          `json:"key"`
		KeyEncoding     string          `json:"key_encoding"`
		Payload         json.RawMessage `json:"payload"`
		PayloadEncoding string          `json:"payload_encoding"`
		Timestamp       int64           `json:"timestamp"`
		Handle          string          `json:"receipt_handle"`
	}
	if err := json.Unmarshal(b, &wire); err != nil {
		return err
	}
	*m = Message{
		Topic: wire.Topic, Partition: wire.Partition, Offset: wire.Offset, Time: time.Unix(wire.Timestamp, 0), Handle: wire.Handle,
	}
	var err error
	if m.Key, err = decodeBytes(wire.Key, wire.KeyEncoding); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	m.Payload = wire.Payload
	if len(wire.Payload) > 0 && wire.Payload[0] == '"' {
		var text string
		if err := json.Unmarshal(wire.Payload, &text); err != nil {
			return fmt.Errorf("payload: %w", err)
		}
		if m.Payload, err = decodeBytes(text, wire.PayloadEncoding); err != nil {
			return fmt.Errorf("payload: %w", err)
		}
	}
	return nil
}

func decodeBytes(text, encoding string) ([]byte, error) {
	switch {
	case encoding == "base64":
		return base64.StdEncoding.DecodeString(text)
	case encoding != "":
		return nil, fmt.Errorf("unknown encoding %q", encoding)
	case text == "":
		return nil, nil
	}
	return []byte(text), nil
}

// ConsumeOptions say where to take messages from and how long to wait for one.
type ConsumeOptions struct {
	Wait      time.Duration // of which the server uses at most its own limit, 10 s by default
	Partition *int          // nil takes from all
	Max       int           // for ConsumeBatch: 1 to 100, default 100
}

func (o ConsumeOptions) params() (q params) {
	if o.Wait > 0 {
		q.add("wait", o.Wait.String())
	}
	q.addInt("partition", o.Partition)
	return q
}

// Consume leases one message. It returns [ErrEmpty] when none came within the wait.
func (c *Client) Consume(ctx context.Context, topic string, o ConsumeOptions) (*Message, error) {
	q := o.params()
	return c.consume(ctx, call{path: topicPath(topic, "/consume"), query: q.String(), wait: o.Wait})
}

// Replay reads the record at an offset of a partition without leasing it. It returns [ErrEmpty] when the offset is not
// written yet, and [ErrOffsetGone] when the record is not kept any more.
func (c *Client) Replay(ctx context.Context, topic string, partition int, offset int64) (*Message, error) {
	var q params
	q.addInt("partition", &partition)
	q.add("offset", strconv.FormatInt(offset, 10))
	return c.consume(ctx, call{path: topicPath(topic, "/consume"), query: q.String(), replay: true})
}

func (c *Client) consume(ctx context.Context, op call) (*Message, error) {
	op.method, op.want, op.alsoWant = http.MethodGet, http.StatusOK, http.StatusNoContent
	a, err := c.do(ctx, op)
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusNoContent {
		return nil, ErrEmpty
	}
	m := new(Message)
	return m, a.decode(m)
}

// params is an encoded query string.
type params struct{ text []byte }

func (p *params) add(name, value string) {
	if len(p.text) > 0 {
		p.text = append(p.text, '&')
	}
	p.text = append(append(p.text, name...), '=')
	p.text = append(p.text, url.QueryEscape(value)...)
}

func (p *params) addInt(name string, n *int) {
	if n != nil {
		p.add(name, strconv.Itoa(*n))
	}
}

func (p *params) String() string { return string(p.text) }
