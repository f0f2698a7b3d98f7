package env

import "math/rand/v2"

// Stream is a ChaCha8 random stream: cryptographically strong, so that nobody can predict its next value
// from those seen, and reproducible from its seed. It is not safe for concurrent use.
type Stream struct {
	src rand.ChaCha8
	rng *rand.Rand
}

// NewStream returns the stream of a seed.
func NewStream(seed [32]byte) *Stream {
	s := &Stream{}
	s.src.Seed(seed)
	s.rng = rand.New(&s.src)
	return s
}

// Uint64 returns 64 random bits.
func (s *Stream) Uint64() uint64 { return s.src.Uint64() }

// IntN returns a number in [0, n); it panics when n is not positive.
func (s *Stream) IntN(n int) int { return s.rng.IntN(n) }
