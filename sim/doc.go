// Package sim is the kernel of the deterministic simulator: a seeded scheduler, virtual clocks, machines
// with a disk that crashes, and a network that loses messages. It provides the world behind [env.Env] and
// knows nothing of what runs in it.
//
// # Entropy
//
// Every choice of a [World] is a number in [0,n) drawn by [World.Choose] and nothing else: who runs next, how long an I/O
// takes, what breaks, what a client does. Choices come from a seed, or from a recorded sequence. So a run is
// a pure function of its seed, is replayed from its choices, and is shrunk or fuzzed by editing them: 0 is
// always the tamest choice, and past the end of a sequence every choice is 0. [World.Hash] sums up every
// step; two runs that differ anywhere differ in it.
//
// # Tasks
//
// A task is a coroutine (iter.Pull). One runs at a time; the driver, the goroutine that called [World.Run],
// resumes them one after the other. Tasks switch where they park, at file and network calls and at
// [env.Env.Point]; between two of these nothing else runs. When no task can run, virtual time jumps to the
// next timer. A task that blocks for real (a sync.Mutex held across a call that parks, a channel) stops the
// world; the watchdog names it and aborts.
//
// The outer world, [World.Env], has true time and no disk: clients, nemeses, supervisors and checkers run there and
// survive every crash. A [Process] runs on a [Machine] and sees that machine's clocks, disk and network.
//
// # Death
//
//	K1  A crash unwinds every task of the process where it parks, before the crashing call returns: a private panic,
//	    recovered at the root of the task. Deferred functions run; whatever they try has no effect.
//	K2  A dead process changes nothing: its file calls answer [ErrDead], Go, Unpark and Send do nothing, and to park
//	    unwinds again. The fence is the process, not the machine: handles of a dead process stay dead after a reboot.
//	K3  Calls that were under way at a crash may have happened, not happened, or, for a write, happened for a prefix.
//	K4  At the end of Run every task that is left is unwound in the same way; no goroutine stays behind.
//
// # Clocks
//
// True time starts at 0 and is what the outer world sees. The monotonic clock of a process runs at the rate
// of its machine and starts at a different instant in every process. The wall clock has an offset and jumps. A task that
// parks until an instant never wakes before its own clock shows it.
//
// # Files
//
// world.go (World, Run), choice.go (entropy, hash), task.go (coroutines, kill), ready.go and policy.go (who runs next),
// timer.go (heap), park.go (the backend of env), clock.go, machine.go, process.go, crash.go, fs.go (vfs over
// sim/disk), faults.go, network.go, stats.go, errors.go, watchdog.go, log.go, trace.go (being watched).
//
// A World belongs to one goroutine at a time. Worlds share nothing and run in parallel.
package sim
