package inflight

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Handle is the receipt that a consumer of one message holds. It carries no topic, so it means something only together with
// one. As text it is
//
//	partition ":" offset ":" nonce
//
// in decimal digits: partition at most 2^31-1, offset and nonce at most 2^63-1, nonce not zero. Signs, spaces and leading
// zeros are refused, so that a lease has exactly one handle.
type Handle struct {
	Partition int32
	Offset    int64
	Nonce     int64
}

// String returns the handle's text.
func (h Handle) String() string { return string(h.Append(nil)) }

// Append appends the handle's text to dst.
func (h Handle) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, int64(h.Partition), 10)
	dst = append(dst, ':')
	dst = strconv.AppendInt(dst, h.Offset, 10)
	dst = append(dst, ':')
	return strconv.AppendInt(dst, h.Nonce, 10)
}

// HandleError reports a text that is no receipt handle.
type HandleError struct {
	Part string // which part is wrong: "handle", "partition", "offset" or "nonce"
	Why  string
}

func (e *HandleError) Error() string { return fmt.Sprintf("receipt handle: %s %s", e.Part, e.Why) }

// ParseHandle reads the text of a handle. Errors are [*HandleError].
func ParseHandle(text string) (Handle, error) {
	partition, rest, ok := strings.Cut(text, ":")
	offset, nonce, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 {
		return Handle{}, &HandleError{"handle", "is not partition:offset:nonce"}
	}
	p, err := parseNumber("partition", partition, math.MaxInt32)
	if err != nil {
		return Handle{}, err
	}
	o, err := parseNumber("offset", offset, math.MaxInt64)
	if err != nil {
		return Handle{}, err
	}
	n, err := parseNumber("nonce", nonce, math.MaxInt64)
	if err != nil {
		return Handle{}, err
	}
	if n == 0 {
		return Handle{}, &HandleError{"nonce", "is zero"}
	}
	return Handle{Partition: int32(p), Offset: o, Nonce: n}, nil
}

// parseNumber reads canonical decimal digits of a number up to limit.
func parseNumber(part, text string, limit int64) (int64, error) {
	if text == "" {
		return 0, &HandleError{part, "is missing"}
	}
	if len(text) > 1 && text[0] == '0' {
		return 0, &HandleError{part, "has a leading zero"}
	}
	var n int64
	for i := range len(text) {
		digit := int64(text[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, &HandleError{part, "is not made of decimal digits"}
		}
		if n > (limit-digit)/10 {
			return 0, &HandleError{part, "is too large"}
		}
		n = n*10 + digit
	}
	return n, nil
}
