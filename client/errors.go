package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// What an [Error] is, for errors.Is.
var (
	// ErrBadRequest reports a request that the server does not take as it is.
	ErrBadRequest = errors.New("bad request")
	// ErrUnauthorized reports missing or wrong credentials.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden reports a right that is missing.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound reports a topic that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists reports a topic that exists already.
	ErrExists = errors.New("exists")
	// ErrLeaseLost reports a receipt handle that names no live lease: it lapsed, or was settled before.
	ErrLeaseLost = errors.New("lease lost")
	// ErrTooLarge reports a message or a body above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrTooMany reports that the client has too many requests in flight.
	ErrTooMany = errors.New("too many requests")
	// ErrUnavailable reports that the server did nothing and may do it later.
	ErrUnavailable = errors.New("unavailable")
	// ErrServer reports a failure of the server; what was asked for may have been done.
	ErrServer = errors.New("server error")
	// ErrNoAnswer reports that no answer came; what was asked for may have been done, unless Error.Unsent.
	ErrNoAnswer = errors.New("no answer")
)

// Error is an operation that did not succeed. errors.Is tells what kind it is of.
type Error struct {
	Status     int           // of the answer, 0 when there was none
	Text       string        // the server's
	RetryAfter time.Duration // what the server asked for
	Cause      error         // why there was no answer
	Unsent     bool          // the request certainly never reached the server
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("no answer from the server: %v", e.Cause)
	}
	if e.Text == "" {
		return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the server answered %d: %s", e.Status, e.Text)
}

// Unwrap returns the kind of the error, and its cause.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.kind(), e.Cause}
	}
	return []error{e.kind()}
}

func (e *Error) kind() error {
	switch e.Status {
	case 0:
		return ErrNoAnswer
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		return ErrExists
	case http.StatusGone:
		return ErrLeaseLost
	case http.StatusRequestEntityTooLarge:
		return ErrTooLarge
	case http.StatusTooManyRequests:
		return ErrTooMany
	case http.StatusMisdirectedRequest, http.StatusServiceUnavailable:
		return ErrUnavailable
	}
	if e.Status >= 500 {
		return ErrServer
	}
	return ErrBadRequest
}

// retryable reports whether trying again can help.
func retryable(err error) bool {
	for _, kind := range []error{ErrNoAnswer, ErrUnavailable, ErrTooMany, ErrServer} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
