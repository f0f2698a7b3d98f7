// Package env is the rest of the world beside the disk: clocks, tasks, blocking, randomness and messages
// between nodes. Code that must run in the simulator reaches all of them through an [Env] and nothing else.
//
// An Env is a struct whose nil backend means the real world, so that production pays a predicted branch and
// no interface call. The simulator (package sim) provides the other [Backend].
//
//   - Clocks: [Env.Now] is monotonic and for leases and time-outs; [Env.Wall] is the wall clock, only ever
//     stamped into records and compared for retention. Leases never look at it.
//   - Tasks: [Env.Go] starts one. There is one blocking primitive, [Waiter], a binary permit; [Mutex],
//     [Event], [Group] and [Queue] are plain code over it, so both worlds run the same code.
//   - Locks: plain sync.Mutex is fine for memory as long as it is never held across a call that can park (file I/O,
//     Park, messages). Where a lock must span I/O, use [Mutex].
//   - Randomness: [Env.Seed] and [Env.Stream] fork named streams, so that a draw added in one place shifts
//     no other.
//   - Messages: [Env.Send] and [Env.Receive] carry bytes between nodes; real transport lives above.
//
// Files: env.go (Env, Backend), time.go (Instant, Wall), waiter.go, relay.go (waking many), yield.go, sync.go (Mutex, Event, Group, Queue),
// stream.go. The suite in package envtest holds both worlds to the same behaviour.
package env
