package sim

import (
	"io"
	"sync/atomic"
	"time"

	"narad/env"
)

// Options configure a world. The zero value is the world of seed 0.
type Options struct {
	Seed     uint64                   // of the choices
	Choices  []uint32                 // not nil: replay these instead of drawing from the seed; past their end every choice is 0
	Tail     bool                     // past the end of Choices draw from the seed instead
	Record   bool                     // keep the choices for World.Choices
	Log      io.Writer                // readable event log; nil: none
	Trace    *Trace                   // nil: none
	MaxSteps int64                    // end the run with ErrSteps after as many steps; 0: no limit
	Policy   Policy                   // how tasks are scheduled
	MayFail  func() bool              // whether a fault that was drawn or armed for a file call strikes; nil: it does. Stalls always do
	FileKind func(path string) string // names kinds of files, for the counters; nil: all alike
	// Watchdog is how long (real time) one step may take before the process is aborted with all stacks
	// (default 10 s, negative: never).
	Watchdog time.Duration
	// Hang is what the watchdog calls with its report instead of printing it and exiting.
	Hang func(report string)
}

// epoch is the wall clock, in unix nanoseconds, at true time 0: 2026-01-01 00:00 UTC.
const epoch = 1_767_225_600_000_000_000

// World is one simulated universe. See the package documentation.
type World struct {
	options  Options
	entropy  entropy
	root     uint64 // of all named streams
	sched    scheduler
	now      int64 // true time in nanoseconds
	end      int64 // of the run
	ready    readyQueue
	timers   timerHeap
	current  *task // nil: the driver, or code outside of Run
	idle     []*coroutine
	outer    *Process
	machines []*Machine
	network  Network
	stats    Stats
	points   map[string]*place
	kinds    []*fileKind
	steps    int64
	previous int64 // id of the task that ran last
	hash     uint64
	lastTask int64
	running  bool // in Run
	stopped  bool
	draining bool
	err      error
	beat     atomic.Int64 // steps, for the watchdog
	line     []byte       // of the log
}

// New returns a world at true time 0 without tasks or machines.
func New(o Options) *World {
	w := &World{options: o, points: map[string]*place{}}
	w.entropy = entropy{state: o.Seed, replay: o.Choices, record: o.Record, tail: o.Tail}
	if o.Choices != nil && len(o.Choices) == 0 {
		w.entropy.replay = []uint32{}
	}
	w.root = uint64(w.draw(1<<32))<<32 | uint64(w.draw(1<<32))
	w.setPolicy(o.Policy)
	w.network.init(w)
	w.outer = &Process{w: w, name: "world"}
	w.outer.env = env.Simulated((*backend)(w.outer), noDisk{})
	w.network.join(w.outer)
	return w
}

// Env returns the outer world: true time, no disk. Its tasks survive every crash.
func (w *World) Env() *env.Env { return w.outer.env }

// Go starts a task of the outer world.
func (w *World) Go(name string, fn func()) { w.outer.env.Go(name, fn) }

// Now returns the true time since the start of the world.
func (w *World) Now() env.Instant { return env.Instant(w.now) }

// Steps returns the number of steps so far: how often a task ran or could have been switched.
func (w *World) Steps() int64 { return w.steps }

// Hash sums up every step and choice so far. Equal runs have equal hashes.
func (w *World) Hash() uint64 { return w.hash }

// Choices returns the choices made so far, if Options.Record is set.
func (w *World) Choices() []uint32 { return w.entropy.made }

// Net returns the network between the machines.
func (w *World) Net() *Network { return &w.network }

// Stop ends the run without an error after the current step.
func (w *World) Stop() { w.stopped = true }

// Fail ends the run with err after the current step. The first error wins.
func (w *World) Fail(err error) {
	if w.draining {
		return
	}
	if w.err == nil {
		w.err = err
		if w.Logging() {
			w.Logf("FAIL %v", err)
		}
	}
	w.stopped = true
}

// Run drives the tasks until none is left, until Stop or Fail, or until limit of virtual time has passed. It
// answers the error given to Fail, a [PanicError], a [DeadlockError], ErrSteps or ErrTime (both wrapped). All tasks
// that are left are then unwound and all processes are dead. More tasks may be started afterwards and Run
// called again, unless it answered an error.
func (w *World) Run(limit time.Duration) error {
	if w.running {
		panic("sim: Run inside of Run")
	}
	if w.err != nil {
		return w.err
	}
	w.running, w.stopped = true, false
	dog := w.watch()
	defer func() {
		if tr := w.options.Trace; tr != nil && tr.End != nil {
			tr.End()
		}
		w.drain()
		dog.stop()
		w.running = false
	}()
	w.end = int64(w.Now().Add(limit))
	w.drive()
	return w.err
}

func (w *World) drive() {
	for !w.stopped {
		if w.ready.n == 0 {
			if len(w.timers.items) == 0 {
				if w.tasks() > 0 {
					w.Fail(w.deadlock())
				}
				return
			}
			if at := w.timers.items[0].at; at > w.end {
				w.now = w.end
				w.Fail(w.outOfTime())
				return
			}
			w.advance()
			continue
		}
		if w.options.MaxSteps > 0 && w.steps >= w.options.MaxSteps {
			w.Fail(w.outOfSteps())
			return
		}
		t := w.pick()
		if t == nil {
			continue
		}
		w.steps++
		if t.id != w.previous {
			w.stats.Switches++
			w.previous = t.id
		}
		if w.options.Trace != nil {
			w.traceStep(t)
		}
		w.mix(uint64(w.now)<<16 ^ uint64(t.id))
		w.step(t)
	}
}

// advance jumps to the next timer and fires all that are due then.
func (w *World) advance() {
	w.now = w.timers.items[0].at
	for len(w.timers.items) > 0 && w.timers.items[0].at == w.now {
		t := w.timers.pop()
		switch t.kind {
		case timerWake:
			w.wake(t.task)
		case timerRelease:
			w.enqueue(t.task)
		case timerMessage:
			w.network.deliver(t.msg)
		case timerResume:
			t.m.resume()
		}
	}
}

// tasks counts the tasks that have not ended.
func (w *World) tasks() int {
	n := w.outer.tasks.n
	for _, m := range w.machines {
		if m.process != nil {
			n += m.process.tasks.n
		}
	}
	return n
}

// drain unwinds every task and returns every coroutine.
func (w *World) drain() {
	w.draining, w.current = true, nil
	for _, m := range w.machines {
		if m.process != nil {
			m.process.die()
		}
	}
	w.killTasks(w.outer)
	for _, c := range w.idle {
		c.stop()
	}
	w.idle = nil
	w.draining = false
}
