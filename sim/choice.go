package sim

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// entropy is the sequence of choices of one world.
type entropy struct {
	state  uint64   // of the generator, when not replaying
	replay []uint32 // nil: draw from the generator
	next   int      // index of the next choice to replay
	made   []uint32 // recorded choices
	record bool
	drawn  int  // how many
	tail   bool // past the end of replay, draw from the generator
}

// Choose returns one choice in [0,n). It is the only source of entropy. A choice among one is not drawn.
// It panics when n is not positive.
func (w *World) Choose(n int) int {
	if n <= 1 {
		if n < 1 {
			panic("sim: Choose among nothing")
		}
		return 0
	}
	return int(w.draw(uint64(n)))
}

// Chance draws true num times in den. What can only come out one way is not drawn; choice 0 is false.
func (w *World) Chance(num, den int) bool {
	if num <= 0 {
		return false
	}
	if num >= den {
		return true
	}
	return w.Choose(den) >= den-num
}

// Duration draws a duration in [min, max]; choice 0 is min.
func (w *World) Duration(min, max time.Duration) time.Duration {
	if max <= min {
		return min
	}
	if span := uint64(max-min) + 1; span <= 1<<32 {
		return min + time.Duration(w.draw(span))
	}
	return Range{min, max}.at(w.draw(1 << 32))
}

// draw makes one choice in [0,n), n at most 2^32.
func (w *World) draw(n uint64) uint32 {
	e := &w.entropy
	var v uint32
	switch {
	case e.replay == nil || e.tail && e.next >= len(e.replay):
		e.state += 0x9e3779b97f4a7c15
		v = uint32((scramble(e.state) >> 32) * n >> 32)
	case e.next < len(e.replay):
		v = e.replay[e.next]
		if uint64(v) >= n {
			v = uint32(uint64(v) % n)
		}
		e.next++
	}
	e.drawn++
	if e.record {
		e.made = append(e.made, v)
	}
	if w.options.Trace != nil {
		w.traceChoice(n, v)
	}
	w.mix(n<<32 ^ uint64(v))
	return v
}

// mix feeds the trace hash.
func (w *World) mix(x uint64) { w.hash = fold(w.hash, x) }

func fold(h, x uint64) uint64 {
	h = (bits.RotateLeft64(h, 23) ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// scramble is the output function of splitmix64.
func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func hashString(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}

// part derives the k-th sub-choice of one choice, so that an operation costs one draw. The choice 0 has
// only parts 0.
func part(choice uint32, k int) uint32 {
	if choice == 0 {
		return 0
	}
	return uint32(scramble(uint64(choice)<<8|uint64(k)) >> 32)
}

// odds tells whether a sub-choice hits with a probability of ppm millionths. 0 never does, unless ppm is a million.
func odds(v uint32, ppm int) bool {
	if ppm <= 0 {
		return false
	}
	return uint64(v) >= (1<<32)-uint64(ppm)*(1<<32)/1_000_000
}

// Range is a range of durations, both ends included.
type Range struct{ Min, Max time.Duration }

// at maps a 32-bit choice onto the range; 0 is Min.
func (r Range) at(v uint32) time.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	hi, _ := bits.Mul64(uint64(r.Max-r.Min)+1, uint64(v)<<32)
	return r.Min + time.Duration(hi)
}

// ChoicesOf turns the bytes of a fuzzer into choices, four bytes each, the last one padded with zeros.
func ChoicesOf(b []byte) []uint32 {
	c := make([]uint32, 0, (len(b)+3)/4)
	for len(b) > 0 {
		var word [4]byte
		b = b[copy(word[:], b):]
		c = append(c, binary.LittleEndian.Uint32(word[:]))
	}
	return c
}
