package record

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var produceSample = Produce{
	Topic: "orders", Incarnation: "00c0ffee00c0ffee", Key: []byte("customer-42"),
	Partition: 3, CreatedMs: 1_767_225_600_123, Payload: []byte(`{"id":"ord_123"}`),
}

func TestProduceGolden(t *testing.T) {
	golden(t, "produce-2.hex", AppendProduce(nil, produceSample))
	old := produceSample
	old.Incarnation = ""
	golden(t, "produce-1.hex", AppendProduce(nil, old))
}

func drawProduce(t *rapid.T) Produce {
	bytesOf := rapid.SliceOfN(rapid.Byte(), 0, 300)
	return Produce{
		Topic:       rapid.StringN(0, 20, -1).Draw(t, "topic"),
		Incarnation: rapid.StringN(0, 20, -1).Draw(t, "incarnation"),
		Key:         bytesOf.Draw(t, "key"),
		Partition:   rapid.Int32Min(0).Draw(t, "partition"),
		CreatedMs:   rapid.Int64().Draw(t, "created"),
		Payload:     bytesOf.Draw(t, "payload"),
	}
}

func TestProduceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProduce(t)
		b := AppendProduce([]byte("before"), p)[6:]
		require.Len(t, b, ProduceSize(p))
		got, err := ParseProduce(b)
		require.NoError(t, err)
		require.Equal(t, p, got)
		n := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		_, err = ParseProduce(b[:n])
		require.ErrorIs(t, err, ErrShort)
		_, err = ParseProduce(append(b, 0))
		require.ErrorIs(t, err, ErrLength)
	})
}

func TestProduceFormats(t *testing.T) {
	b := AppendProduce(nil, produceSample)
	require.EqualValues(t, 2, b[0])
	for format := range 256 {
		b[0] = byte(format)
		_, err := ParseProduce(b)
		switch format {
		case 1: // the incarnation is taken for the key and so on: whatever it is, it is not a record
			require.Error(t, err)
		case 2:
			require.NoError(t, err)
		default:
			require.ErrorIs(t, err, ErrFormat)
		}
	}
	// Written by a version that knows incarnations for a topic that has none.
	withoutID := append([]byte{2}, 0, 0, 0, 1, 't', 0, 0, 0, 0)
	withoutID = append(withoutID, AppendProduce(nil, Produce{Topic: "t"})[6:]...)
	got, err := ParseProduce(withoutID)
	require.NoError(t, err)
	require.Equal(t, "t", got.Topic)
	require.Empty(t, got.Incarnation)
}

// A partition number must never wrap: neither side lets one through that the other takes for another.
func TestProducePartitionRange(t *testing.T) {
	require.Panics(t, func() { AppendProduce(nil, Produce{Topic: "t", Partition: -1}) })
	b := AppendProduce(nil, Produce{Topic: "t", Partition: 1})
	at := 1 + 4 + 1 + 4
	require.EqualValues(t, 1, binary.BigEndian.Uint32(b[at:]))
	binary.BigEndian.PutUint32(b[at:], 1<<31)
	_, err := ParseProduce(b)
	require.ErrorIs(t, err, ErrFormat)
	binary.BigEndian.PutUint32(b[at:], 1<<31-1)
	got, err := ParseProduce(b)
	require.NoError(t, err)
	require.EqualValues(t, 1<<31-1, got.Partition)
}

func TestProduceAliases(t *testing.T) {
	b := AppendProduce(nil, produceSample)
	p, err := ParseProduce(b)
	require.NoError(t, err)
	clear(b)
	require.Equal(t, make([]byte, len(p.Payload)), p.Payload, "payload and key are the input's bytes")
	require.Equal(t, produceSample.Topic, p.Topic, "strings are copies: they outlive the buffer")
}

// A hostile length must not make the decoder reserve memory for it.
func TestProduceHostileLengths(t *testing.T) {
	good := AppendProduce(nil, produceSample)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 1; i+4 <= len(good); i++ {
		b := bytes.Clone(good)
		binary.BigEndian.PutUint32(b[i:], 1<<32-1)
		ParseProduce(b)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func FuzzProduce(f *testing.F) {
	f.Add([]byte{})
	f.Add(AppendProduce(nil, Produce{}))
	f.Add(AppendProduce(nil, produceSample))
	f.Add([]byte("\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseProduce(b)
		if err != nil {
			require.Equal(t, Produce{}, p)
			return
		}
		again, err := ParseProduce(AppendProduce(nil, p))
		require.NoError(t, err)
		require.Equal(t, p, again)
	})
}

// A run of records for one topic costs no strings, and what is alike is never taken for what is not.
func TestParseProduceLike(t *testing.T) {
	want := Produce{Topic: "orders", Incarnation: "0123456789abcdef", Partition: 3, CreatedMs: 5, Key: []byte("k"), Payload: []byte("x")}
	b := AppendProduce(nil, want)
	for _, like := range []Produce{{}, want, {Topic: "order", Incarnation: "0123456789abcdeF"}, {Topic: "orders2", Incarnation: want.Incarnation}} {
		got, err := ParseProduceLike(b, like)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = ParseProduceLike(b, want) }))
}
