// Package load puts messages through a server or an engine and checks every one of them. Runs are closed loops, in which each
// client sends when it has its answer, or open loops at a constant rate, in which the latency of a message counts from when it
// was due and not from when a late client got to it (no coordinated omission).
//
// # Why an HTTP client of its own
//
// Client and server share the cores of one machine, so what the client burns is missing at the server. With net/http's client
// it would burn more than the server does. The one here knows only what it needs: HTTP/1.1, connections that are kept,
// requests that are cut from a template, answers with a length or in chunks. On Linux one thread drives all connections over
// epoll: about two system calls a request and no goroutine switch (loop_linux.go); elsewhere a goroutine for each connection
// does (loop.go). Both feed on the same sessions (session.go), which are also what is timed.
//
// Files: load.go (Spec, Result, Run), book.go (every message accounted for), session.go (clients as state machines), wire.go
// (requests and answers), loop*.go, embedded.go (the same against an engine in this process), server.go and cpu*.go (a server
// process and what it burns), matrix.go (the runs of a report).
package load
