package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWALTrailerGolden(t *testing.T) {
	b := AppendWALTrailer([]byte("before"), 64<<20)
	require.Equal(t, "before", string(b[:6]))
	golden(t, "wal-trailer.hex", b[6:])
}

// Every other byte makes it another file's trailer, or none.
func TestWALTrailerParse(t *testing.T) {
	const limit = 0x0102030405
	b := AppendWALTrailer(nil, limit)
	require.Len(t, b, WALTrailerSize)
	got, err := ParseWALTrailer(b, limit+WALTrailerSize)
	require.NoError(t, err)
	require.EqualValues(t, limit, got)
	for i := range b {
		for flip := 1; flip < 256; flip++ {
			b[i] ^= byte(flip)
			_, err := ParseWALTrailer(b, limit+WALTrailerSize)
			if i < 8 {
				require.ErrorIs(t, err, ErrMagic)
			} else {
				require.ErrorIs(t, err, ErrLength)
			}
			b[i] ^= byte(flip)
		}
	}
	for _, size := range []int64{0, WALTrailerSize, limit, limit + WALTrailerSize - 1, limit + WALTrailerSize + 1} {
		_, err := ParseWALTrailer(b, size)
		require.ErrorIs(t, err, ErrLength)
	}
	for n := range WALTrailerSize {
		_, err := ParseWALTrailer(b[:n], limit+WALTrailerSize)
		require.ErrorIs(t, err, ErrMagic)
	}
}
