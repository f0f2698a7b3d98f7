// Package envtest holds every world that an [env.Env] can be to the same behaviour: the real one and the
// simulated one run one suite, [Run].
//
// The suite speaks of what code may rely on in both worlds, so it assumes neither fast clocks nor any order
// between tasks that nothing orders. Messages between nodes belong to the simulator's own tests.
//
// Files: envtest.go (Run), waiter.go, tasks.go (clocks, tasks, groups), locks.go (Mutex, Event), queue.go,
// stream.go.
package envtest
