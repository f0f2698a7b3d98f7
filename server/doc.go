// Package server is the HTTP edge of one node: it parses a request, calls the engine and encodes the answer.
// It holds no queue state; everything that must survive, or that two requests must agree on, is the
// engine's. It lives in the real world only and is not simulated.
//
// # Rules
//
//	H1  202 of a produce is written after the engine returned nil, that is after the fsync (API-08).
//	H2  A receipt handle that cannot be decoded is refused before the engine is asked (API-15).
//	H3  A message that is leased for a client that has gone is given back at once (INF-37).
//	H4  A body is never read beyond its limit, and its buffer grows with what arrives, not with what is
//	    declared.
//	H5  An error of the engine has one status, in statusOf; the text of an internal one is logged, not sent.
//	H6  A panic ends the process: it is a broken invariant and locks may be held. net/http would go on.
//
// # Stopping
//
// When the context of [Server.Serve] ends, /healthz answers 503, no further connection is taken, parked consumes
// are answered 204 (nothing was handed to them; their clients poll again, elsewhere or later) and new ones
// 503 with Retry-After. Everything else that is in flight or still arrives on an open connection, acks above
// all, is served until it is done or Options.Grace has passed; then connections are cut. The engine is closed by
// whoever opened it, after Serve has returned.
//
// Files: server.go (Options, New, Serve), limit.go (the bound on connections), guard.go (what every request
// passes), params.go, body.go, errors.go (statuses), topics.go, produce.go, consume.go, message.go (the wire form
// of a message), ack.go.
package server
