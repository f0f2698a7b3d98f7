package env

import (
	crand "crypto/rand"
	"errors"
	"time"

	"narad/vfs"
)

// Env is the world as seen by one process of one machine.
// The zero value is not usable: call [OS], or let a simulator call [Simulated].
type Env struct {
	sim Backend // nil: the real world
	fs  vfs.FS
}

// Backend is a simulated world. Its methods are called by tasks of that world only.
type Backend interface {
	Now() Instant
	Wall() Wall
	// Go starts a task; it runs when the scheduler picks it, never inside Go.
	Go(name string, fn func())
	// Park blocks the calling task until w holds a permit, which it takes, or the clock reaches until.
	// It reports whether it took a permit.
	Park(w *Waiter, until Instant) bool
	// Unpark gives w a permit unless it holds one.
	Unpark(w *Waiter)
	// Point is a named place where the scheduler may switch tasks or a crash may strike.
	Point(name string)
	// Seed returns the seed of a new random stream.
	Seed(name string) [32]byte
	// Send hands a message to the network; it may be lost, doubled, delayed or reordered.
	Send(to string, payload []byte)
	// Receive returns the next message for this process, waiting until the given instant at most.
	Receive(until Instant) (Message, bool)
}

// Message is what one node received from another.
type Message struct {
	From    string
	Payload []byte
}

// ErrNoNetwork reports that this world carries no messages: the real one does not, its transport is above.
var ErrNoNetwork = errors.New("env: no message transport in this world")

// OS returns the real world: the operating system's clocks, goroutines and file systems.
func OS() *Env { return &Env{fs: vfs.OS{}} }

// WithFS returns a world with the same clocks and tasks whose files are those of fs.
func (e *Env) WithFS(fs vfs.FS) *Env { return &Env{sim: e.sim, fs: fs} }

// Simulated returns the world that b and fs provide.
func Simulated(b Backend, fs vfs.FS) *Env { return &Env{sim: b, fs: fs} }

// origin is where the real monotonic clock starts counting.
var origin = time.Now()

// Now reads the monotonic clock.
func (e *Env) Now() Instant {
	if e.sim == nil {
		return Instant(time.Since(origin))
	}
	return e.sim.Now()
}

// Wall reads the wall clock.
func (e *Env) Wall() Wall {
	if e.sim == nil {
		return Wall(time.Now().UnixNano())
	}
	return e.sim.Wall()
}

// FS returns the file systems of this world.
func (e *Env) FS() vfs.FS { return e.fs }

// Go runs fn as a task of its own. The name appears in traces and stacks of the simulator.
func (e *Env) Go(name string, fn func()) {
	if e.sim == nil {
		go fn()
		return
	}
	e.sim.Go(name, fn)
}

// Point marks a place inside a critical window, by a name like "wal: written, not synced". It does nothing
// in the real world; a simulator may switch tasks or crash the machine there.
func (e *Env) Point(name string) {
	if e.sim != nil {
		e.sim.Point(name)
	}
}

// Sleep blocks the task for d.
func (e *Env) Sleep(d time.Duration) {
	e.NewWaiter().ParkUntil(e.Now().Add(d))
}

// Seed returns 32 bytes for a new random stream: from the operating system in the real world, forked by
// name from the run's entropy in a simulated one. Two calls never return the same seed within a world.
func (e *Env) Seed(name string) (seed [32]byte) {
	if e.sim == nil {
		crand.Read(seed[:]) // never fails: crypto/rand crashes the process instead
		return seed
	}
	return e.sim.Seed(name)
}

// Stream returns a new random stream; see [Env.Seed].
func (e *Env) Stream(name string) *Stream { return NewStream(e.Seed(name)) }

// Send hands a message for the node called to over to the network. Delivery is not promised.
func (e *Env) Send(to string, payload []byte) error {
	if e.sim == nil {
		return ErrNoNetwork
	}
	e.sim.Send(to, payload)
	return nil
}

// Receive waits for the next message to this process until the given instant and reports whether one came.
// The real world carries none and answers false at once.
func (e *Env) Receive(until Instant) (Message, bool) {
	if e.sim == nil {
		return Message{}, false
	}
	return e.sim.Receive(until)
}

// Real reports whether this is the real world. Only edges may ask, for example to choose a log format.
func (e *Env) Real() bool { return e.sim == nil }
