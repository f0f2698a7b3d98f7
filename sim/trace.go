package sim

import (
	"time"

	"narad/env"
	"narad/sim/disk"
)

// Trace watches a world as it runs, for reports and for comparing runs. Each function may be nil. They are called in
// the order of what happens, by whoever runs then; they must neither park nor draw choices nor start anything, so that a
// traced world is the same world.
type Trace struct {
	Step   func(Step)     // a task is about to run
	Choice func(Choice)   // a choice was drawn
	Line   func(Line)     // what the event log would hold
	Disk   func(DiskCall) // a call on a file or directory of a machine returned
	Power  func(Power)    // a machine lost power
	End    func()         // the run is over; what is left of its tasks is unwound next, and can be seen by World.Parked
}

// Step is one turn of a task.
type Step struct {
	Number int64
	At     env.Instant // true time
	Task   Task
	Hash   uint64 // of the world before the step
}

// Choice is one draw in [0,N).
type Choice struct {
	Index int // from 0
	N     uint64
	Value uint32
	At    env.Instant
	Task  Task // who ran, the zero Task: the driver
}

// Line is one line of the event log.
type Line struct {
	At   env.Instant
	Task Task
	Text string
}

// DiskCall is a file call that returned. Calls cut by a crash do not.
type DiskCall struct {
	Start, End env.Instant
	Task       Task
	Machine    string
	Op         Op
	Path       string
	Text       string // range and outcome
}

// Power is a power loss: the disk as the process saw it, and what was left of it; both are copies.
type Power struct {
	At            env.Instant
	Machine       string
	Before, After *disk.Disk
}

// Task names a task of a world.
type Task struct{ t *task }

// String returns process, name and number of the task, "-" for the driver.
func (t Task) String() string {
	if t.t == nil {
		return "-"
	}
	return t.t.String()
}

// ID returns the number of the task, 0 for the driver.
func (t Task) ID() int64 {
	if t.t == nil {
		return 0
	}
	return t.t.id
}

// Name returns the name that the task was started with.
func (t Task) Name() string {
	if t.t == nil {
		return ""
	}
	return t.t.name
}

// Parked describes where the task waits, with its stack unless it is the one that runs.
func (t Task) Parked() ParkedTask {
	if t.t == nil {
		return ParkedTask{Name: "-"}
	}
	w := t.t.proc.w
	return w.inspect(t.t, t.t != w.current && t.t.state != stateDone)
}

// Current names the task that runs.
func (w *World) Current() Task { return Task{w.current} }

// Drawn returns how many choices were made.
func (w *World) Drawn() int { return w.entropy.drawn }

// Parked describes all tasks that have not ended. It may be called by a task, too, which is then "running" and
// tells its own stack; a task that waits for the caller because it unwinds it has none.
func (w *World) Parked() []ParkedTask { return w.parked() }

func (w *World) traceStep(t *task) {
	if tr := w.options.Trace; tr != nil && tr.Step != nil {
		tr.Step(Step{w.steps, env.Instant(w.now), Task{t}, w.hash})
	}
}

func (w *World) traceChoice(n uint64, v uint32) {
	if tr := w.options.Trace; tr != nil && tr.Choice != nil {
		tr.Choice(Choice{w.entropy.drawn - 1, n, v, env.Instant(w.now), Task{w.current}})
	}
}

func (a *fsAccess) trace(text string) {
	w := a.p.w
	if tr := w.options.Trace; tr != nil && tr.Disk != nil {
		tr.Disk(DiskCall{env.Instant(a.start), env.Instant(w.now), Task{a.t}, a.p.name, a.op, a.path, text})
	}
}

// Span returns how long the call took.
func (c DiskCall) Span() time.Duration { return c.End.Sub(c.Start) }
