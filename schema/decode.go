package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Bounds of JSON texts.
const (
	DocumentBytesMax   = 256 << 10 // of a document
	documentNestingMax = 64        // arrays and objects within each other, in a document
	payloadNestingMax  = 256       // in a message
	exponentMax        = 1000      // of a number, either way; with it a number of n digits takes n + 1000 of them
	digitsMax          = 32 << 10  // of one number: exact arithmetic takes time in the square of it
)

// decode decodes exactly one JSON text in UTF-8. Numbers are json.Number, so that none is rounded, and the last
// of duplicate keys counts.
func decode(text []byte, nestingMax int, what string) (any, *Error) {
	if !utf8.Valid(text) {
		return nil, refuse(ReasonMalformed, "the %s is not UTF-8", what)
	}
	if err := scan(text, nestingMax, what); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, refuse(ReasonMalformed, "the %s is not JSON: %v", what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse(ReasonMalformed, "the %s goes on after its JSON value", what)
	}
	return v, nil
}

// scan bounds nesting and numbers before anything is allocated for them. It need not know all of the grammar: what it
// lets pass is decoded, and what is no JSON is refused there.
func scan(text []byte, nestingMax int, what string) *Error {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i = skipString(text, i)
		case c == '[' || c == '{':
			if depth++; depth > nestingMax {
				return refuse(ReasonDepth, "the %s is nested deeper than %d", what, nestingMax)
			}
		case c == ']' || c == '}':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(text) && isNumberByte(text[end]) {
				end++
			}
			if err := checkNumber(text[i:end], what); err != nil {
				return err
			}
			i = end - 1
		}
	}
	return nil
}

// skipString returns the index of the quote that ends the string that starts at i, or the end of the text.
func skipString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// checkNumber bounds what a number takes when it is written out: 1e1000000000 is short.
func checkNumber(number []byte, what string) *Error {
	mantissa, exponent := number, []byte(nil)
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		mantissa, exponent = number[:at], number[at+1:]
	}
	if len(mantissa) > digitsMax {
		return refuse(ReasonMalformed, "the %s has a number of more than %d digits", what, digitsMax)
	}
	exponent = bytes.TrimLeft(exponent, "+-")
	exponent = bytes.TrimLeft(exponent, "0")
	n := 0
	for i, c := range exponent {
		if i == 5 || c < '0' || c > '9' {
			n = exponentMax + 1
			break
		}
		n = n*10 + int(c-'0')
	}
	if n > exponentMax {
		return refuse(ReasonMalformed, "the %s has a number with an exponent beyond ±%d", what, exponentMax)
	}
	return nil
}
