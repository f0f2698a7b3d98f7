// Package client is a small client of a Narad server's HTTP surface: what the narad command and the project's
// tests need.
//
// # Retries
//
// An operation that failed in a way that may pass — 421, 429, any 5xx, no answer at all — is tried again, up to
// Options.Attempts times in total, after a pause drawn between nothing and a bound that doubles (full jitter); a
// Retry-After raises the pause. Everything else is final. So:
//
//   - A produce that is tried again may be stored twice. That is part of the contract: delivery is at least
//     once, and an error of Produce means that the message may or may not be stored, unless [Error.Unsent] says so.
//   - An ack that is tried again may find that the first try landed: it is then [ErrLeaseLost].
//   - A consume that is tried again may leave a message leased to nobody until its visibility timeout ends.
//
// Files: client.go (Client, transport, retries), errors.go, topics.go, messages.go.
package client
