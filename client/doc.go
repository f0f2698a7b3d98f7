// Package client talks to a Narad server.
//
//	c, err := client.New("http://127.0.0.1:7942", client.Options{})
//	err = c.Produce(ctx, client.Outgoing{Topic: "orders", Payload: []byte("hello")})
//	err = c.Work(ctx, "orders", client.WorkOptions{Workers: 16}, handle)
//
// [Client] has a method for each route. On top of them are [Client.Work], which keeps a number of handlers busy and renews
// their leases, and [Batcher], which puts messages of many callers into few requests. All of them may be used by any number
// of goroutines at once.
//
// # Retries
//
// An operation that failed in a way that may pass — 421, 429, any 5xx, no answer at all — is tried again, up to
// Options.Attempts times in total, after a pause drawn between nothing and a bound that doubles (full jitter); a
// Retry-After raises the pause. With several nodes the next try goes to another one; a node that failed five times in a row
// is left alone for two seconds while there is a better one. Everything else is final, success above all. So:
//
//   - A produce that is tried again may be stored twice. That is part of the contract: delivery is at least
//     once, and an error of Produce means that the message may or may not be stored, unless [Error.NotDone] says so.
//   - An ack that found no lease (410) on a second try counts as done when the outcome of an earlier try is unknown: it has
//     most likely landed. After a 503, which says that nothing was done, it is [ErrLeaseLost]. The same holds of a nack, and
//     of a deletion that finds nothing to delete.
//   - A consume that is tried again may leave a message leased to nobody until its visibility timeout ends.
//
// Files: client.go (Client, Options), call.go (one operation with its retries), node.go (nodes and their breakers), errors.go,
// messages.go (produce, consume, replay), settle.go (ack, extend, nack), batch.go (their batch forms), batcher.go, work.go,
// topics.go, users.go.
package client
