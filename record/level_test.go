package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each level compresses, a higher one at least as well on text that repeats itself far away, and all are read the same way.
func TestLevels(t *testing.T) {
	var text []byte
	for i := range 4000 {
		text = append(text, bytes.Repeat([]byte{byte('a' + i*i%23), byte('k' + i%7)}, 1+i%5)...)
	}
	size := map[Level]int{}
	for l := LevelFastest; l <= LevelBest; l++ {
		w := FrameWriter{Level: l}
		w.Reset(nil, 7, CodecZstd)
		w.AddRecord(nil, 1, text)
		frame, err := w.Finish()
		require.NoError(t, err)
		size[l] = len(frame)
		f, n, err := ParseFrame(frame)
		require.NoError(t, err)
		require.Equal(t, len(frame), n)
		require.Equal(t, CodecZstd, f.Codec)
		require.Contains(t, string(f.Body), string(text))
	}
	require.Less(t, size[LevelFastest], len(text)/2)
	require.Less(t, size[LevelBest], size[LevelFastest])
	require.Equal(t, "best", LevelBest.String())
	require.Equal(t, "level 9", Level(9).String())
}
