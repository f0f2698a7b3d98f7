package record

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Level says how hard zstd tries. It is no part of the format: whatever the level was, the frame is read the same way.
type Level uint8

// The levels, from quick to small.
const (
	LevelFastest Level = iota
	LevelDefault
	LevelBetter
	LevelBest
)

// String returns the name of the level.
func (l Level) String() string {
	if l > LevelBest {
		return fmt.Sprintf("level %d", uint8(l))
	}
	return [...]string{LevelFastest: "fastest", LevelDefault: "default", LevelBetter: "better", LevelBest: "best"}[l]
}

// encoders are made at their first use. They keep no state between calls and may be shared.
var encoders = [...]func() *zstd.Encoder{
	LevelFastest: newEncoder(zstd.SpeedFastest),
	LevelDefault: newEncoder(zstd.SpeedDefault),
	LevelBetter:  newEncoder(zstd.SpeedBetterCompression),
	LevelBest:    newEncoder(zstd.SpeedBestCompression),
}

func newEncoder(level zstd.EncoderLevel) func() *zstd.Encoder {
	return sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(level), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("record: zstd: " + err.Error()) // the options are constants
		}
		return e
	})
}

// encoder returns what compresses at this level.
func (l Level) encoder() *zstd.Encoder { return encoders[l]() }
