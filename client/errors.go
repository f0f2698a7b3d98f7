package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
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
	// ErrNotFound reports a topic, a user or a route that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists reports something that exists already, or a change that something else stands in the way of.
	ErrExists = errors.New("exists")
	// ErrLeaseLost reports a receipt handle that names no live lease: it lapsed, or was settled before.
	ErrLeaseLost = errors.New("lease lost")
	// ErrOffsetGone reports that a record that was to be replayed is not kept any more, or cannot be read.
	ErrOffsetGone = errors.New("offset gone")
	// ErrTooLarge reports a message or a body above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrTooMany reports too many requests in flight, or too many failed logins.
	ErrTooMany = errors.New("too many requests")
	// ErrUnavailable reports that the server cannot do it now and may do it later.
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
	Body       []byte        // of the answer: some errors have fields beside their text

	replay    bool // of a replay: 410 means another thing
	abandoned bool // the caller gave up
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
		if e.replay {
			return ErrOffsetGone
		}
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

// notDone are the texts of 503 by which a server says that nothing was done; the same status of a proxy says nothing.
var notDone = []string{
	"this node is being decommissioned and takes no new produce; send it to another node",
	"schema: validation capacity busy, retry",
	"batch produce bodies in flight on this node are at their limit; retry",
	"the ack did not reach the partition owner and was not applied; retry",
	"partition owner is down; retry later",
}

// NotDone reports whether the server certainly did not do what was asked for: the request never reached it, or it refused.
// After any other error the operation may have happened.
func (e *Error) NotDone() bool {
	switch {
	case e.Unsent:
		return true
	case e.Status == http.StatusServiceUnavailable:
		for _, text := range notDone {
			if strings.Contains(e.Text, text) {
				return true
			}
		}
		return false
	}
	return e.Status >= 400 && e.Status < 500 && e.Status != 499
}

// mayBeDone reports whether a failed change of metadata may have happened.
func mayBeDone(e *Error) bool { return !e.NotDone() }

// mayBeSettled reports whether a failed ack may have happened. A server answers 503 only when it has not.
func mayBeSettled(e *Error) bool {
	switch e.Status {
	case 0:
		return !e.Unsent
	case 499, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func isGone(e *Error) bool { return e.Status == http.StatusGone }

func isAbsent(e *Error) bool { return e.Status == http.StatusNotFound }

// retryable reports whether trying again can help.
func retryable(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.kind() {
	case ErrNoAnswer, ErrUnavailable, ErrTooMany, ErrServer:
		return true
	}
	return false
}
