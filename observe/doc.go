// Package observe shows what a node does: metrics for Prometheus, log lines, a status page and, if asked for, traces. It hears
// the typed events of the engine, is told of requests by the server, and asks the engine for its state; nothing asks it. A
// node works the same without it.
//
// # From event to series
//
// Events arrive under locks of the engine, so hearing one is a look-up of its topic and additions to atomic counters:
// no allocation, no system call, no lock that is held for long (see BenchmarkListen). The counters of a topic live in one
// struct, which is made when the topic is and dropped when it is deleted. What is scraped is made from these structs, so the
// series of a deleted topic end with it and no late event brings them back. Labels have values from fixed lists, and names of
// topics that exist: a client cannot make series (B202).
//
// # Two loops
//
// State that is not an event is read by two loops, every five seconds each. "vitals" reads what is in memory, and the free
// space of the disk. "inventory" does what takes I/O: it walks the data directory, and looks up closed partitions, a few a
// round. Every source has two seconds; one that takes longer is counted as an error, its last value stays, and it is not
// asked again before it has answered.
//
// Files: observe.go (New, Start, Close), topics.go and listen.go (events), http.go (requests), lateness.go (how far the disk
// is behind acks), node.go and collect.go (series), poll.go and sources.go (loops), raft.go, log.go and repeat.go (log lines),
// trace.go and otlp.go (traces), status.go, rates.go and web/ (the page). docs/observability.md lists every metric; a test holds the list
// to the code.
package observe
