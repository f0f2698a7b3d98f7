package inflight

import mathbits "math/bits"

// bits is a set of offsets in a window [base, base+span): a ring of bits indexed by offset modulo span, and above it a summary
// with one bit for each word that is not zero, so that the lowest member is found in a few steps however wide the window
// is. The ring grows with the distance between base and the highest member.
type bits struct {
	base    int64
	words   []uint64 // a power of two of them, or none
	summary []uint64
	count   int
}

const bitsWordsMin = 4

// span is the number of offsets that the window can hold.
func (b *bits) span() int64 { return int64(len(b.words)) * 64 }

// locate returns where the bit of an offset is: word and mask.
func (b *bits) locate(offset int64) (int, uint64) {
	position := uint64(offset) & uint64(b.span()-1)
	return int(position / 64), 1 << (position % 64)
}

func (b *bits) has(offset int64) bool {
	if b.count == 0 || offset < b.base || offset-b.base >= b.span() {
		return false
	}
	word, mask := b.locate(offset)
	return b.words[word]&mask != 0
}

// set adds an offset at or above base; it grows the window if it must.
func (b *bits) set(offset int64) {
	if offset-b.base >= b.span() {
		b.resize(offset - b.base + 1)
	}
	word, mask := b.locate(offset)
	if b.words[word]&mask == 0 {
		b.words[word] |= mask
		b.summary[word/64] |= 1 << (word % 64)
		b.count++
	}
}

// clear removes an offset and reports whether it was a member.
func (b *bits) clear(offset int64) bool {
	if !b.has(offset) {
		return false
	}
	word, mask := b.locate(offset)
	b.words[word] &^= mask
	if b.words[word] == 0 {
		b.summary[word/64] &^= 1 << (word % 64)
	}
	b.count--
	return true
}

// rebase moves the window up to base and drops the members below it.
func (b *bits) rebase(base int64) {
	for b.count > 0 {
		lowest := b.first()
		if lowest >= base {
			break
		}
		b.clear(lowest)
	}
	b.base = base
}

// first returns the lowest member of a set that has one.
func (b *bits) first() int64 { return b.from(b.base) }

// from returns the lowest member at or above offset, which is in the window; there must be one.
func (b *bits) from(offset int64) int64 {
	start := uint64(offset) & uint64(b.span()-1)
	word := int(start / 64)
	if rest := b.words[word] >> (start % 64); rest != 0 {
		return offset + int64(mathbits.TrailingZeros64(rest))
	}
	word = b.wordAfter(word)
	position := uint64(word)*64 + uint64(mathbits.TrailingZeros64(b.words[word]))
	return offset + int64((position-start)&uint64(b.span()-1))
}

// wordAfter returns the first word after the given one, around the ring and back to it, that is not zero.
func (b *bits) wordAfter(word int) int {
	word = (word + 1) & (len(b.words) - 1)
	if rest := b.summary[word/64] >> (word % 64); rest != 0 {
		return word + mathbits.TrailingZeros64(rest)
	}
	for i := 1; i <= len(b.summary); i++ {
		group := (word/64 + i) % len(b.summary)
		if b.summary[group] != 0 {
			return group*64 + mathbits.TrailingZeros64(b.summary[group])
		}
	}
	panic("inflight: the summary of a set of offsets misses a member")
}

// countFrom counts the members in [from, until).
func (b *bits) countFrom(from, until int64) (n int64) {
	if b.count == 0 {
		return 0
	}
	n = int64(b.count)
	offset := b.first()
	for left := b.count; left > 0; left-- {
		if offset < from || offset >= until {
			n--
		}
		if left > 1 {
			offset = b.from(offset + 1)
		}
	}
	return n
}

// appendTo appends the members, ascending.
func (b *bits) appendTo(dst []int64) []int64 {
	offset := b.base
	for range b.count {
		offset = b.from(offset)
		dst = append(dst, offset)
		offset++
	}
	return dst
}

// resize makes room for at least span offsets from base on.
func (b *bits) resize(span int64) {
	words := bitsWordsMin
	for int64(words)*64 < span {
		words *= 2
	}
	grown := bits{base: b.base, words: make([]uint64, words), summary: make([]uint64, (words+63)/64)}
	offset := b.base
	for range b.count {
		offset = b.from(offset)
		grown.set(offset)
		offset++
	}
	*b = grown
}

// trim makes the ring as small as its members allow.
func (b *bits) trim() {
	if b.count == 0 {
		*b = bits{base: b.base}
		return
	}
	last := b.base
	for i := range b.count {
		if last = b.from(last); i < b.count-1 {
			last++
		}
	}
	b.resize(last - b.base + 1)
}
