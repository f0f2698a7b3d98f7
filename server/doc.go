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
// # A request
//
// guard.go takes an exchange from a pool, has Options.Auth say whose it is, applies the content guard, and finds the route
// (routes.go). The exchange (exchange.go) is the one wrapper around the ResponseWriter of net/http; a handler gets it, and
// returns an error for every answer that is not a success, which errors.go turns into a status and a text. Buffers of
// bodies and answers belong to the exchange and end with it (body.go).
//
// Serve reads and answers the plainest of the hot requests itself (direct.go, plain.go, answer.go), since net/http takes more time for
// them than all that is behind it. A connection that sends anything else is handed to net/http with what it has sent.
//
// Options.Auth, Schemas, Observer, Ready, Metrics and StatusPage are other parts of the node (seams.go); nil turns each off.
//
// Files: server.go (Options, New, Serve), limit.go (the bound on connections), direct.go, plain.go
// and answer.go (plain requests), seams.go, guard.go, routes.go, exchange.go,
// errors.go (statuses), params.go (query strings), body.go (bodies, buffers, the budget of batches), coding.go (zstd, gzip),
// caps.go (429), jsonscan.go (JSON without decoding it), produce.go, batch.go, consume.go (and replay), message.go (the
// wire form of a message), ack.go, topics.go, describe.go, patch.go, children.go, cluster.go (and remotes), health.go (and
// metrics, the status page), auth.go, users.go, schema.go.
package server
