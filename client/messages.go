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
	query := url.Values{}
	if len(m.Key) > 0 {
		query.Set("key", string(m.Key))
	}
	setPartition(query, m.Partition)
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: topicPath(m.Topic, "/produce"), query: query,
		kind: "application/octet-stream", body: m.Payload, want: http.StatusAccepted,
	})
	return err
}

// Message is a message that is leased to this client until its visibility timeout ends.
type Message struct {
	Topic     string
	Partition int
	Offset    int64
	Key       []byte
	// Payload is what was produced, with one exception: a payload that was itself a JSON string arrives as
	// the text of that string, because on the wire the two are the same.
	Payload []byte
	Time    time.Time // of the commit to the partition, in whole seconds
	Handle  string    // names the lease
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

// ConsumeOptions say where to take a message from and how long to wait for one.
type ConsumeOptions struct {
	Wait      time.Duration // of which the server uses at most its own limit, 10 s by default
	Partition *int          // nil takes from all
}

// Consume leases one message. It returns [ErrEmpty] when none came within the wait.
func (c *Client) Consume(ctx context.Context, topic string, o ConsumeOptions) (*Message, error) {
	query := url.Values{}
	if o.Wait > 0 {
		query.Set("wait", o.Wait.String())
	}
	setPartition(query, o.Partition)
	a, err := c.do(ctx, call{
		method: http.MethodGet, path: topicPath(topic, "/consume"), query: query,
		want: http.StatusOK, alsoWant: http.StatusNoContent,
	})
	if err != nil {
		return nil, err
	}
	if a.status == http.StatusNoContent {
		return nil, ErrEmpty
	}
	m := new(Message)
	return m, a.decode(m)
}

// Ack settles the message that the handle was given for: it is not delivered again.
func (c *Client) Ack(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, "")
}

// Extend renews the lease to one visibility timeout from now.
func (c *Client) Extend(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, "true")
}

// Nack ends the lease: the message is delivered again at once.
func (c *Client) Nack(ctx context.Context, topic, handle string) error {
	return c.settle(ctx, topic, handle, "0")
}

func (c *Client) settle(ctx context.Context, topic, handle, extend string) error {
	query := url.Values{"receipt_handle": {handle}}
	if extend != "" {
		query.Set("extend", extend)
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: topicPath(topic, "/ack"), query: query, want: http.StatusNoContent,
	})
	return err
}

func setPartition(query url.Values, partition *int) {
	if partition != nil {
		query.Set("partition", strconv.Itoa(*partition))
	}
}
