package server

import (
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"
)

// The scanner finds JSON values in a body without making anything of them: payloads are kept as they are written. It
// accepts exactly what encoding/json does (a fuzz target compares the two), at several times its speed and without
// allocation, and it is what most of the time of a batch produce goes into. That is why it is here.

// depthMax is how deep values may nest; encoding/json has the same bound.
const depthMax = 10000

// spliceDepthMax is how deep a payload may nest that is spliced into an answer: around it are a message, and in a batch an
// array and an object. Beyond, encoding/json, which many clients have, would refuse the answer, and nobody could settle
// the message.
const spliceDepthMax = depthMax - 3

// isJSON reports whether b is one JSON value, with white space around it, that nests at most that deep.
func isJSON(b []byte, deep int) bool {
	i := scanValue(b, skipSpace(b, 0), depthMax-deep)
	return i >= 0 && skipSpace(b, i) == len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// scanValue returns where the value that begins at i ends, -1 when none does.
func scanValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return scanString(b, i)
	case c == '{' && depth < depthMax:
		return scanObject(b, i, depth+1)
	case c == '[' && depth < depthMax:
		return scanArray(b, i, depth+1)
	case c == '-' || isDigit(c):
		return scanNumber(b, i)
	case c == 't':
		return scanLiteral(b, i, "true")
	case c == 'f':
		return scanLiteral(b, i, "false")
	case c == 'n':
		return scanLiteral(b, i, "null")
	}
	return -1
}

func scanLiteral(b []byte, i int, literal string) int {
	if end := i + len(literal); end <= len(b) && string(b[i:end]) == literal {
		return end
	}
	return -1
}

func scanObject(b []byte, i, depth int) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		if i = scanString(b, i); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = scanValue(b, skipSpace(b, i+1), depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = scanNext(b, i, '}'); !more {
			return i
		}
	}
}

func scanArray(b []byte, i, depth int) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = scanValue(b, i, depth); i < 0 {
			return -1
		}
		var more bool
		if i, more = scanNext(b, i, ']'); !more {
			return i
		}
	}
}

// scanNext reads what follows an element: a comma, then more is true and i is at the next element; or the end of
// the container, then i is behind it; or neither, then it is -1.
func scanNext(b []byte, i int, end byte) (next int, more bool) {
	if i = skipSpace(b, i); i >= len(b) {
		return -1, false
	}
	switch b[i] {
	case ',':
		return skipSpace(b, i+1), true
	case end:
		return i + 1, false
	}
	return -1, false
}

// special marks the bytes at which a string needs a closer look.
var special = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// anySpecial reports whether one of eight bytes is special. A byte of x ^ c is zero where x has c; the subtractions set the high bit
// of the lowest byte that is less than 0x20, or zero, and of no byte below it.
func anySpecial(x uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, back := x^'"'*ones, x^'\\'*ones
	return ((x-0x20*ones)&^x|(quote-ones)&^quote|(back-ones)&^back)&high != 0
}

// scanString returns where the string ends that begins with the quote at i.
func scanString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		for i+8 <= len(b) && !anySpecial(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i == len(b) {
			break
		}
		c := b[i]
		if !special[c] {
			continue
		}
		switch c {
		case '"':
			return i + 1
		case '\\':
			if i = scanEscape(b, i); i < 0 {
				return -1
			}
		default:
			return -1 // a control character
		}
	}
	return -1
}

// scanEscape returns the last byte of the escape sequence at i.
func scanEscape(b []byte, i int) int {
	if i++; i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(b) {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if !isDigit(c) && !('a' <= c|0x20 && c|0x20 <= 'f') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func scanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || !isDigit(b[i]):
		return -1
	case b[i] == '0':
		i++
	default:
		i = scanDigits(b, i)
	}
	if i < len(b) && b[i] == '.' {
		if i++; i >= len(b) || !isDigit(b[i]) {
			return -1
		}
		i = scanDigits(b, i)
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i >= len(b) || !isDigit(b[i]) {
			return -1
		}
		i = scanDigits(b, i)
	}
	return i
}

func scanDigits(b []byte, i int) int {
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}

// unquote returns the text of a string that was scanned, quotes included. It shares its bytes when it has no escapes.
func unquote(quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1]
	for _, c := range text {
		if c == '\\' {
			return unquoteSlow(quoted)
		}
	}
	if !utf8.Valid(text) {
		return unquoteSlow(quoted)
	}
	return text
}

// unquoteSlow does as encoding/json does: also what is not UTF-8 becomes U+FFFD.
func unquoteSlow(quoted []byte) []byte {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		panic(err) // it was scanned
	}
	return []byte(text)
}
