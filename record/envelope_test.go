package record

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func requireIs(err, target error) bool { return errors.Is(err, target) }

func TestEnvelopeGolden(t *testing.T) {
	golden(t, "envelope.hex", AppendRecord(nil, []byte("key"), 1_700_000_000_123, []byte("payload")))
	golden(t, "envelope-long-key.hex", AppendRecord(nil, bytes.Repeat([]byte("k"), 130), -1, nil))
}

func TestEnvelopeLayout(t *testing.T) {
	require.Equal(t,
		[]byte{2, 3, 'k', 'e', 'y', 1, 2, 3, 4, 5, 6, 7, 8, 'p'},
		AppendRecord(nil, []byte("key"), 0x0102030405060708, []byte("p")))
}

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "key")
		payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
		ms := rapid.Int64().Draw(t, "ms")
		b := AppendRecord(nil, key, ms, payload)
		require.Equal(t, RecordSize(len(key), len(payload)), len(b))
		r, err := ParseRecord(b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(key, r.Key))
		require.True(t, bytes.Equal(payload, r.Payload))
		require.Equal(t, ms, r.CommittedMs)
	})
}

func TestEnvelopeFormats(t *testing.T) {
	b := AppendRecord(nil, []byte("key"), 1, []byte("p"))
	for format := range 256 {
		b[0] = byte(format)
		_, err := ParseRecord(b)
		if format == 2 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrFormat, "format %#x", format) // 0x01 is retired and never decodes
	}
}

func TestEnvelopeErrors(t *testing.T) {
	head := AppendRecord(nil, []byte("key"), 1, nil)
	for n := range head {
		_, err := ParseRecord(head[:n:n])
		require.Error(t, err, "%d bytes", n)
		require.True(t, errors.Is(err, ErrShort) || errors.Is(err, ErrLength), "%v", err)
	}
	for _, c := range []struct {
		b    []byte
		want error
	}{
		{[]byte{2, 0x80}, ErrShort},
		{append([]byte{2, 0x80, 0x00}, make([]byte, 20)...), ErrFormat}, // zero in two bytes
		{append([]byte{2}, bytes.Repeat([]byte{0xFF}, 20)...), ErrFormat},
		{append([]byte{2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}, make([]byte, 20)...), ErrLength},
		{append([]byte{2, 13}, make([]byte, 20)...), ErrLength},
	} {
		_, err := ParseRecord(c.b)
		require.ErrorIs(t, err, c.want, "%x", c.b)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(AppendRecord(nil, nil, 0, nil))
	f.Add(AppendRecord(nil, []byte("key"), 1_700_000_000_123, []byte("payload")))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			requireOneOf(t, err, []error{ErrShort, ErrFormat, ErrLength}, "")
			return
		}
		if !bytes.Equal(AppendRecord(nil, r.Key, r.CommittedMs, r.Payload), b) {
			t.Fatal("an envelope has more than one encoding")
		}
	})
}
