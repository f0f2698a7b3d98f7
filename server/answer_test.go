package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/inflight"
)

// reserve returns messages as a batch scan reserves them: up to 100, and none after the one that reaches the bound of keys and
// payloads.
func reserve(payload []byte) (all []*engine.Delivery) {
	for bytes := 0; bytes < engine.MaxConsumeBytes && len(all) < engine.MaxConsumeBatch; {
		d := &engine.Delivery{Topic: "t", Key: []byte("key"), Payload: payload, Offset: int64(len(all)), Handle: inflight.Handle{Nonce: 1 << 62}}
		all = append(all, d)
		bytes += d.Size()
	}
	return all
}

// CON-31: all that a batch scan reserves fits into the answer when it is JSON or bytes, in messages of any size; text is cut only when
// much of it must be escaped.
func TestFullReservesFit(t *testing.T) {
	object := func(size int) []byte { return fmt.Appendf(nil, `{"x":"%s"}`, bytes.Repeat([]byte("<"), size-8)) }
	for name, c := range map[string]struct {
		payload func(size int) []byte
		fits    bool
	}{
		"JSON":               {object, true},
		"bytes":              {func(size int) []byte { return bytes.Repeat([]byte{0xff}, size) }, true},
		"text":               {func(size int) []byte { return bytes.Repeat([]byte("x "), size/2) }, true},
		"text with newlines": {func(size int) []byte { return bytes.Repeat([]byte("xxxx\n"), size/5) }, true},
		"control bytes":      {func(size int) []byte { return bytes.Repeat([]byte{1}, size) }, false},
		"markup":             {func(size int) []byte { return bytes.Repeat([]byte("<"), size) }, false},
		"ampersands":         {func(size int) []byte { return bytes.Repeat([]byte("&"), size) }, false},
	} {
		for _, size := range []int{10, 42_000, 60_000, engine.MaxPayload} {
			all := reserve(c.payload(size))
			a := batchAnswer{body: []byte(batchAnswerBegin)}
			fitted := 0
			for fitted < len(all) && a.fit(all[fitted]) {
				fitted++
			}
			require.Positive(t, fitted, "the first always fits")
			if fitted > 1 {
				require.LessOrEqual(t, len(a.body)+len("]}\n"), batchAnswerMax, "API-11")
			}
			if c.fits || size == 10 {
				require.Len(t, all, fitted, "%s of %d bytes", name, size)
			} else if len(all) > 1 {
				require.Less(t, fitted, len(all), "%s of %d bytes", name, size)
			}
		}
	}
}

// API-11, CON-30, CON-32, INV-28: an answer to a batch consume is one object of messages, of 8 MiB at most; what did not fit can be
// had by the next request, at once and in the order of its offsets.
func TestBatchAnswerIsBounded(t *testing.T) {
	n := newNode(t, Options{})
	n.topic(`"name":"orders","visibility_timeout_ms":60000`)
	const count = 6
	for range count {
		n.produceTo("orders", "?partition=0", string(bytes.Repeat([]byte("<"), 600_000))) // 3.6 MB each on the wire
	}
	n.awaitStored("orders", count)
	next := int64(0)
	for answers := 1; next < count; answers++ {
		r := n.do("GET", "/v1/topics/orders/consume?max=100", nil, asClient)
		require.Equal(t, 200, r.status)
		require.LessOrEqual(t, len(r.body), 8<<20)
		var body map[string][]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(r.body), &body))
		require.Len(t, body, 1)
		require.Len(t, body["messages"], 2)
		for _, m := range body["messages"] {
			require.Equal(t, next, parseMessage(t, string(m)).Offset)
			next++
		}
	}
}

// awaitStored waits until partition 0 of a topic holds that many messages.
func (n *node) awaitStored(topic string, count int64) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		s, err := n.engine.Stats(topic)
		return err == nil && s[0].HighWatermark == count
	}, patience, time.Millisecond)
}
