package server

import (
	"errors"
	"io"
	"net/http"
)

// Limits of bodies, in bytes (narad-facts 1.2).
const (
	bodyMax   = 1 << 20
	bodyExact = 64 << 10 // a declared length up to here is one exact buffer
	bodyFirst = 64 << 10 // otherwise the buffer starts here
	bodyGrow  = 4        // and grows by this factor as data arrives
)

// errBodyTooLarge reports a body above its limit. (413)
var errBodyTooLarge = errors.New("the request body is larger than 1 MiB")

// body returns the request's body of at most limit bytes. What it allocates follows what has arrived, so
// that a client cannot make the server hold memory by declaring much and sending little.
func (x *exchange) body(limit int64) ([]byte, error) {
	r := x.r
	declared := r.ContentLength
	if declared > limit {
		return nil, errBodyTooLarge
	}
	body := http.MaxBytesReader(x.ResponseWriter, r.Body, limit)
	if declared >= 0 && declared <= bodyExact {
		buf := make([]byte, declared)
		_, err := io.ReadFull(body, buf)
		return buf, bodyError(err)
	}
	end := limit + 1 // one more shows that there is more
	if declared > 0 {
		end = declared
	}
	buf := make([]byte, 0, min(bodyFirst, end))
	for {
		if len(buf) == cap(buf) {
			if int64(len(buf)) == end {
				return buf, nil
			}
			buf = append(make([]byte, 0, min(bodyGrow*int64(cap(buf)), end)), buf...)
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, bodyError(err)
		}
	}
}

// bodyError tells a body that is too large from one that did not come: the client left, was too slow, or
// sent less than it had declared.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return errBodyTooLarge
	default:
		return badf("the request body could not be read")
	}
}
