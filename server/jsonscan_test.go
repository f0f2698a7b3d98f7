package server

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"narad/engine"
)

var jsonTexts = []string{
	``, ` `, `null`, ` true `, `false`, `nul`, `truely`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e3`, `1E+3`, `1e`, `1e-`, `-1.25e-7x`,
	`""`, `"a`, `"\u12aF"`, `"\u12g4"`, `"\u12`, `"\x"`, `"\"\\\/\b\f\n\r\t"`, "\"\x01\"", "\"\xff\"", "\"\t\"", `"é` + "\u2028" + `"`,
	`[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2`, `{}`, `{ }`, `{"a":1}`, `{"a" : 1 , "b":[{}]}`, `{"a"}`, `{a:1}`, `{"a":1,}`, `{"a":1`, `{1:1}`,
	`{"a":{"b":{"c":[1,2,{"d":null}]}}}`, `[[[[]]]]`, `{}{}`, `1 1`, "\ufeff1",
	strings.Repeat("[", 9999) + strings.Repeat("]", 9999), strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
	strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 10001), strings.Repeat("[", 1<<20),
}

func TestIsJSON(t *testing.T) {
	for _, text := range jsonTexts {
		require.Equal(t, json.Valid([]byte(text)), isJSON([]byte(text), depthMax), "%.60q", text)
	}
}

// Eight bytes at a time, a special byte is found wherever it stands, and no other is taken for one.
func TestAnySpecial(t *testing.T) {
	for c := range 256 {
		for _, filler := range []byte{' ', '!', '#', '[', ']', 0x7f, 0x80, 0xa0, 0xff} {
			for at := range 8 {
				b := bytes.Repeat([]byte{filler}, 8)
				b[at] = byte(c)
				require.Equal(t, special[c], anySpecial(binary.LittleEndian.Uint64(b)), "%q", b)
			}
		}
	}
}

// The scanner accepts what encoding/json accepts, and takes strings for what it takes them for.
func FuzzIsJSON(f *testing.F) {
	for _, text := range jsonTexts {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		require.Equal(t, json.Valid(text), isJSON(text, depthMax))
		if end := scanString(append([]byte(`"`), text...), 0); end > 0 {
			quoted := append([]byte(`"`), text...)[:end]
			var want string
			require.NoError(t, json.Unmarshal(quoted, &want))
			require.Equal(t, want, string(unquote(quoted)))
		}
	})
}

// jsonBatch is what encoding/json makes of a batch.
type jsonBatch struct {
	Messages []struct {
		Key             string          `json:"key"`
		KeyEncoding     string          `json:"key_encoding"`
		Payload         json.RawMessage `json:"payload"`
		PayloadEncoding string          `json:"payload_encoding"`
		Partition       *int32          `json:"partition"`
	} `json:"messages"`
}

// expectBatch is parseBatch, written with encoding/json: slow, wasteful, and easy to believe.
func expectBatch(body []byte) ([]engine.Message, bool) {
	var b jsonBatch
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&b) != nil || len(b.Messages) == 0 || len(b.Messages) > engine.MaxProduceBatch {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	var out []engine.Message
	for _, m := range b.Messages {
		e := engine.Message{Partition: engine.AnyPartition, Key: []byte(m.Key), Payload: m.Payload}
		ok := true
		switch m.KeyEncoding {
		case "":
		case "base64":
			var err error
			e.Key, err = base64.StdEncoding.DecodeString(m.Key)
			ok = err == nil
		default:
			ok = false
		}
		switch m.PayloadEncoding {
		case "":
		case "base64":
			var text string
			ok = ok && (m.Payload == nil || json.Unmarshal(m.Payload, &text) == nil)
			var err error
			e.Payload, err = base64.StdEncoding.DecodeString(text)
			ok = ok && err == nil
		default:
			ok = false
		}
		if m.Partition != nil {
			e.Partition = *m.Partition
			ok = ok && e.Partition >= 0
		}
		if !ok || len(e.Payload) == 0 || len(e.Payload) > engine.MaxPayload || len(e.Key) > engine.MaxKey {
			return nil, false
		}
		out = append(out, e)
	}
	return out, true
}

var batchBodies = []string{
	`{"messages":[{"payload":1}]}`,
	` { "messages" : [ { "payload" : {"a": [1, 2.50]} , "key":"k", "partition":2 } , {"payload":"AP8=","payload_encoding":"base64"} ] } `,
	`{"messages":[{"payload":"text"},{"payload":null},{"payload":[],"key":null,"partition":null,"key_encoding":null,"payload_encoding":null}]}`,
	`{"messages":[{"payload":1,"key":"AP8=","key_encoding":"base64"}]}`, `{"messages":[{"payload":1,"key":"A\/8=","key_encoding":"base64"}]}`,
	`{"messages":[{"payload":1,"key":"é\n\u00e9\ud83d"}]}`, "{\"messages\":[{\"payload\":\"\xff\",\"key\":\"\xff\"}]}",
	`{"Messages":[{"PAYLOAD":1,"Key":"x"}]}`, `{"messages":[{"payload":1,"payload":2,"key":"a","key":null}]}`,
	`{"messages":[{"payload":1}],"messages":[{"payload":2}]}`, `{"messages":[{"payload":1}],"messages":null}`,
	`{"mess\u0061ges":[{"p\u0061yload":1}]}`, `{"messages":[{"payload":"","payload_encoding":"base64"}]}`, `{"messages":[{"payload":null,"payload_encoding":"base64"}]}`,
	`{"messages":[{"payload":1,"payload_encoding":"base64"}]}`, `{"messages":[{"payload":"*","payload_encoding":"base64"}]}`, `{"messages":[{"payload":"AA==","payload_encoding":""}]}`,
	`{"messages":[{"payload":null,"payload_encoding":""}]}`, `{"messages":[{"payload":1,"partition":1.0}]}`, `{"messages":[{"payload":1,"partition":1e0}]}`, `{"messages":[{"payload":1,"partition":-1}]}`,
	`{"messages":[{"payload":1,"partition":"1"}]}`, `{"messages":[{"payload":1,"partition":99999999999}]}`, `{"messages":[{"payload":1,"key":1}]}`, `{"messages":[{"payload":1,"x":1}]}`,
	`{"messages":[{}]}`, `{"messages":[null]}`, `{"messages":[1]}`, `{"messages":[]}`, `{"messages":null}`, `{"messages":{}}`, `{"messages":[{"payload":1},]}`, `{"messages":[{"payload":1}`,
	`{"messages":[{"payload":1}]}x`, `{}`, `null`, `[]`, ``, `{"x":1}`, `{"messages":[{"payload":01}]}`, `{"messages":[{"payload":"AAAA\nAAAA","payload_encoding":"base64"}]}`,
	`{"messages":[{"payload":1` + strings.Repeat(`},{"payload":1`, 999) + `}]}`, `{"messages":[{"payload":1` + strings.Repeat(`},{"payload":1`, 1000) + `}]}`,
}

// requireSameBatch holds the parser to what encoding/json makes of a body.
func requireSameBatch(t *testing.T, body []byte) {
	t.Helper()
	want, ok := expectBatch(bytes.Clone(body))
	got, err := parseBatch(bytes.Clone(body), nil)
	require.Equal(t, ok, err == nil, "%.200q: %v", body, err)
	if !ok {
		require.Contains(t, []int{400, 413}, statusOf(err))
		require.True(t, utf8.ValidString(textOf(err)))
		return
	}
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Partition, got[i].Partition, "%.200q", body)
		require.Equal(t, string(want[i].Key), string(got[i].Key), "%.200q", body)
		require.Equal(t, string(want[i].Payload), string(got[i].Payload), "%.200q", body)
	}
}

func TestParseBatch(t *testing.T) {
	for _, body := range batchBodies {
		requireSameBatch(t, []byte(body))
	}
}

func FuzzParseBatch(f *testing.F) {
	for _, body := range batchBodies {
		if len(body) < 1000 {
			f.Add([]byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { requireSameBatch(t, body) })
}

// B197: what a body makes the parser hold does not grow with what it has too much of.
func TestParseBatchStops(t *testing.T) {
	body := []byte(`{"messages":[{"payload":1}` + strings.Repeat(`,{"payload":1}`, 1<<20) + `]}`)
	list := make([]engine.Message, 0, engine.MaxProduceBatch)
	allocs := testing.AllocsPerRun(3, func() {
		_, err := parseBatch(body, list)
		require.Equal(t, 400, statusOf(err))
	})
	require.Less(t, allocs, 30.0)
	p := batchParser{b: body}
	require.Error(t, p.parse())
	require.Less(t, p.i, 20000, "the parser read on after the message that is too many")
}

func BenchmarkParseBatch(b *testing.B) {
	payload := `{"id":123456,"customer":"c-77","items":[{"sku":"abc","n":2},{"sku":"def","n":1}],"note":"` + strings.Repeat("x", 150) + `"}`
	body := []byte(`{"messages":[{"key":"k","payload":` + payload + `}` + strings.Repeat(`,{"key":"k","payload":`+payload+`}`, 99) + `]}`)
	list := make([]engine.Message, 0, 100)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseBatch(body, list[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIsJSON(b *testing.B) {
	payload := []byte(`{"id":123456,"customer":"c-77","items":[{"sku":"abc","n":2},{"sku":"def","n":1}],"note":"` + strings.Repeat("x", 900) + `"}`)
	for name, valid := range map[string]func([]byte) bool{"ours": func(b []byte) bool { return isJSON(b, depthMax) }, "encoding/json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			for b.Loop() {
				valid(payload)
			}
		})
	}
}
