package record

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWALFrameGolden(t *testing.T) {
	b := AppendWALFrame(nil, 0x0102030405060708, []byte("hello, log"))
	b = AppendWALFrame(b, 0x0102030405060709, []byte{0})
	golden(t, "wal-frame.hex", b)
}

func TestWALFrameLayout(t *testing.T) {
	b := AppendWALFrame([]byte("before"), 7, []byte("123456789"))
	require.Equal(t, "before", string(b[:6]))
	b = b[6:]
	require.Equal(t, "NWAL", string(b[:4]))
	require.EqualValues(t, 9, binary.BigEndian.Uint32(b[4:]))
	require.EqualValues(t, 7, binary.BigEndian.Uint64(b[8:]))
	require.EqualValues(t, 0xcbf43926, binary.BigEndian.Uint32(b[16:]), "the check value of CRC-32 IEEE")
	require.Equal(t, "123456789", string(b[20:]))
}

func TestWALFrameLimits(t *testing.T) {
	require.Panics(t, func() { AppendWALFrame(nil, 1, nil) })
	require.Panics(t, func() { AppendWALFrame(nil, 1, make([]byte, MaxWALRecord+1)) })
	largest := AppendWALFrame(nil, 1, make([]byte, MaxWALRecord))
	_, n, err := ParseWALFrame(largest, 1)
	require.NoError(t, err)
	require.Equal(t, len(largest), n)

	for _, length := range []uint32{0, MaxWALRecord + 1, 1 << 31, 1<<32 - 1} {
		b := AppendWALFrame(nil, 1, []byte("x"))
		binary.BigEndian.PutUint32(b[4:], length)
		_, _, err := ParseWALFrame(b, 1)
		require.ErrorIs(t, err, ErrLength, "length %d", length)
	}
}

func TestWALFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "before")
		payload := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "payload")
		after := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "after")
		seq := rapid.Uint64().Draw(t, "seq")
		b := AppendWALFrame(bytes.Clone(before), seq, payload)
		require.True(t, bytes.HasPrefix(b, before))
		frame := append(b[len(before):], after...)
		got, n, err := ParseWALFrame(frame, seq)
		require.NoError(t, err)
		require.Equal(t, WALHeaderSize+len(payload), n)
		require.Equal(t, payload, got)
		require.Equal(t, len(got), cap(got), "appending to a payload must not write into its neighbour")
		_, _, err = ParseWALFrame(frame, seq+1)
		require.ErrorIs(t, err, ErrSequence)
	})
}

// Every proper prefix of a frame is short: nothing else may be concluded from it.
func TestWALFrameShort(t *testing.T) {
	b := AppendWALFrame(nil, 5, []byte("some payload"))
	for n := range b {
		_, _, err := ParseWALFrame(b[:n], 5)
		require.ErrorIs(t, err, ErrShort, "%d bytes", n)
	}
}

// WAL-30: no changed bit of a frame, header or payload, goes unnoticed, and the error tells what is wrong.
func TestWALFrameFlips(t *testing.T) {
	good := AppendWALFrame(nil, 0x1122334455667788, []byte("some payload"))
	for i := range good {
		for flip := 1; flip < 256; flip++ {
			b := bytes.Clone(good)
			b[i] ^= byte(flip)
			_, _, err := ParseWALFrame(b, 0x1122334455667788)
			switch {
			case i < 4:
				require.ErrorIs(t, err, ErrMagic, "byte %d ^ %#x", i, flip)
			case i < 8:
				want := ErrShort // longer than what is there
				if length := binary.BigEndian.Uint32(b[4:]); length == 0 || length > MaxWALRecord {
					want = ErrLength
				} else if length < 12 {
					want = ErrChecksum
				}
				require.ErrorIs(t, err, want, "byte %d ^ %#x", i, flip)
			case i < 16:
				require.ErrorIs(t, err, ErrSequence, "byte %d ^ %#x", i, flip)
			default:
				require.ErrorIs(t, err, ErrChecksum, "byte %d ^ %#x", i, flip)
			}
		}
	}
}

// A scanner meets the end of its buffer all the time.
func TestWALFrameErrorsDoNotAllocate(t *testing.T) {
	b := AppendWALFrame(nil, 5, []byte("some payload"))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ParseWALFrame(b, 5)
		ParseWALFrame(b, 6)
		ParseWALFrame(b[:25], 5)
	}))
	room := make([]byte, 0, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() { AppendWALFrame(room, 5, b) }))
}

func FuzzWALFrame(f *testing.F) {
	f.Add([]byte{}, uint64(0))
	f.Add(AppendWALFrame(nil, 1, []byte("a")), uint64(1))
	f.Add(AppendWALFrame(AppendWALFrame(nil, 9, []byte("first")), 10, []byte("second")), uint64(9))
	f.Add([]byte("NWAL\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		payload, n, err := ParseWALFrame(b, seq)
		if err != nil {
			require.Zero(t, n)
			require.Nil(t, payload)
			return
		}
		require.LessOrEqual(t, n, len(b))
		require.Equal(t, b[:n], AppendWALFrame(nil, seq, payload), "what is accepted is what would be written")
	})
}
