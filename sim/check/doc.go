// Package check watches simulated nodes and says what they may not do.
//
// A [Node] listens to the typed events of one machine's engine, across all its restarts, keeps the shadow
// of package model beside them, and fails the world at the first violation, naming the invariant. Clients add
// what they saw; at the end [Node.Histories] is checked with porcupine, one history per stored copy, and
// [Node.Drained] demands that everything accepted was delivered and acked, or says what is pending and why.
//
// What is checked, and where (IDs of docs/requirements.md):
//
//	INV-01  provenance                       messages.go   at each delivery
//	INV-02  no loss                          messages.go   after the drain
//	INV-03  202 gate, checkpoint, compaction wal.go        at each event of the ingress log
//	INV-04  visibility                       node.go       at each commit, recovery and lease
//	INV-05  lease exclusivity, nonces        model         at each lease
//	INV-06  ack, extend, nack                model         at each; at the end porcupine and the interval checker (history.go)
//	INV-07  no resurrection, frontier        model         at each lease and ack
//	INV-08  process-crash window             consumer.go   at each seeding of a shard after a crash
//	INV-09  power-loss window                consumer.go   likewise
//	INV-10  graceful stop                    model         at the first seeding after one
//	INV-11  recovery soundness               model         at each seeding
//	INV-12  anchor, prime before window      consumer.go   at each event of the committer
//	INV-13  slot overflow keeps the lowest   consumer.go   at each window write
//	INV-14  consumer.offset                  consumer.go   at each level
//	INV-15  every redelivery has a cause     model         at each lease; every stored copy after the drain (copies.go)
//	INV-16  caps, lowest unresolved first    model         at each lease
//	INV-17  no lost wake-up                  waiters.go    whenever all is at rest
//	INV-18  no orphan lease, one answer each waiters.go    at each answer, and whenever all is at rest; model at each give-back
//	INV-19  waiters are served in turn       waiters.go    at each service and put-back
//	INV-23  redelivery in time               node.go       at each purge
//	INV-24  quiet window                     quiet.go      at each empty answer; that the hole moves all at once is in the model
//	INV-28  bounds and order of a batch      messages.go   at each batch that a client receives
//	INV-29  retention                        retention.go  at each removal, jump and recovery, and now and then
//	INV-25  directories, incarnations, drops lifecycle.go  at each seeding, drop, forget and start
//	INV-26  a closed log changes nothing     quiet.go      from each reservation that is to be read from one to its give-back
//	ORD-02  no record overtakes another      node.go       at each commit, within a life and a partition
//	INV-31  a produce is accepted            workload      at each produce, as AVL-02: of one node, whose disk works
//	INV-32  deleted topics leave no directory lifecycle.go at the end
//	INV-34  no order is asked for            order.go      each way of reordering is a goal
//
// Promises of single requirement lines are checked where an event shows them:
//
//	COM-05, COM-06, COM-09  writeouts in turn, spread, one at a time     cadence.go
//	COM-34, COM-45          no early eviction; what is gone stays gone   cadence.go
//	COM-52 to COM-56        which warnings come, and how often           cadence.go
//	COM-37, INF-39          a window has the state of the live shard     written.go
//	INF-23                  a nonce tells nothing of the next one        promises.go
//	REC-07                  no start after a crash is a clean one        promises.go
//
// Stored frames that rot cost their records and no others (corruption.go, LOG-12): what is skipped must have been damaged.
//
// A disk that fails for a while excuses this much and no more (faults.go): after a failed prime, window write or writeout the
// windows of INV-08 and INV-09 of that partition are counted from what was written or synced last without an error; and
// after the ingress log has failed, produces may until a restart (WAL-11).
//
// The checkers are themselves checked: see the tests of this package and sim/mutants.
package check
