package server

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/engine"
	"narad/inflight"
)

// narad-facts 1.5: how payload and key are coded.
func TestMessageForm(t *testing.T) {
	const head, tail = `{"topic":"t","partition":7,"offset":41`, `,"timestamp":1700000000,"receipt_handle":"7:41:99"}`
	for _, c := range []struct{ key, payload, want string }{
		{"", `{"b": 1,  "a":[ ]}`, `,"payload":{"b": 1,  "a":[ ]}`},
		{"", " 1.50 ", `,"payload": 1.50 `},
		{"", `"quoted"`, `,"payload":"quoted"`},
		{"", "null", `,"payload":null`},
		{"", "", `,"payload":null`},
		{"", "text", `,"payload":"text"`},
		{"", "{", `,"payload":"{"`},
		{"", "<&>\u2028\x01", `,"payload":"\u003c\u0026\u003e\u2028\u0001"`},
		{"", "{} {}", `,"payload":"{} {}"`},
		{"", "\xff\xfe", `,"payload":"//4=","payload_encoding":"base64"`},
		{"", "\"\xff\"", `,"payload":"Iv8i","payload_encoding":"base64"`}, // JSON by its grammar, but not UTF-8
		{"k", "1", `,"key":"k","payload":1`},
		{"<\x00\u2029", "1", `,"key":"\u003c\u0000\u2029","payload":1`},
		{"\xc3\x28", "1", `,"key":"wyg=","key_encoding":"base64","payload":1`},
		{`"`, "1", `,"key":"\"","payload":1`},
	} {
		d := &engine.Delivery{
			Topic: "t", Partition: 7, Offset: 41, Key: []byte(c.key), Payload: []byte(c.payload), TimestampMs: 1700000000999,
			Handle: inflight.Handle{Partition: 7, Offset: 41, Nonce: 99},
		}
		require.Equal(t, head+c.want+tail, string(appendMessage(nil, d)))
	}
}

// A payload that nests as deeply as encoding/json allows is JSON alone, and not inside an answer: there it is a string, so that
// a client can decode the answer and settle the message.
func TestDeepPayload(t *testing.T) {
	for deep, spliced := range map[int]bool{spliceDepthMax: true, spliceDepthMax + 1: false, depthMax: false, depthMax + 1: false} {
		payload := strings.Repeat("[", deep) + strings.Repeat("]", deep)
		a := batchAnswer{body: []byte(batchAnswerBegin)}
		require.True(t, a.fit(&engine.Delivery{Topic: "t", Payload: []byte(payload), Handle: inflight.Handle{Nonce: 1}}))
		var batch struct {
			Messages []struct{ Payload json.RawMessage }
		}
		require.NoError(t, json.Unmarshal(append(a.body, "]}"...), &batch), "%d", deep)
		if spliced {
			require.Equal(t, payload, string(batch.Messages[0].Payload))
		} else {
			require.Equal(t, `"`+payload+`"`, string(batch.Messages[0].Payload))
		}
	}
}

// What a client reads of a body that does not decode names its fields, and nothing of this program.
func TestDecodeProblem(t *testing.T) {
	for body, want := range map[string]string{
		"": "it is empty", `{"name":`: "it ends in the middle of its JSON value", "[]": "it is a JSON array, not an object",
		`{"name":5}`: "name: number does not fit", `{"partitions":3.5}`: "partitions: number 3.5 does not fit",
		`{"x":1}`: `unknown field "x"`, `{"partitions":99999999999999999999}`: "partitions: number 99999999999999999999 does not fit",
	} {
		err := decodeStrict([]byte(body), new(createRequest))
		require.EqualError(t, err, "the request body is not what this route takes: "+want)
	}
}

// DEL-17, at this layer: whatever the bytes, the object is valid JSON in UTF-8 from which key and payload are
// recovered exactly.
func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOrText := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
			rapid.Map(rapid.SampledFrom([]string{`{"a":1}`, `[1, 2]`, "true", ` {"x":"\ud800"} `, `"s"`}), func(s string) []byte { return []byte(s) }),
		)
		key, payload := bytesOrText.Draw(t, "key"), bytesOrText.Draw(t, "payload")
		wire := appendMessage(nil, &engine.Delivery{Topic: "t", Key: key, Payload: payload, Handle: inflight.Handle{Nonce: 1}})
		require.True(t, utf8.Valid(wire))
		m := parseMessage(t, string(wire))
		require.Equal(t, string(key), decoded(t, m.Key, m.KeyEncoding))
		switch {
		case len(payload) == 0:
			require.Equal(t, "null", string(m.Payload))
		case utf8.Valid(payload) && json.Valid(payload):
			require.Contains(t, string(wire), `"payload":`+string(payload)+`,"timestamp"`)
		default:
			var text string
			require.NoError(t, json.Unmarshal(m.Payload, &text))
			require.Equal(t, string(payload), decoded(t, &text, m.PayloadEncoding))
		}
	})
}

func decoded(t require.TestingT, text *string, encoding string) string {
	if text == nil {
		return ""
	}
	if encoding == "" {
		return *text
	}
	require.Equal(t, "base64", encoding)
	b, err := base64.StdEncoding.DecodeString(*text)
	require.NoError(t, err)
	return string(b)
}
