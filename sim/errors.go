package sim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"narad/env"
)

var (
	// ErrDead reports a call on a file, directory or lock of a process that is dead.
	ErrDead = errors.New("sim: the process is dead")
	// ErrSteps reports that a run took more steps than Options.MaxSteps.
	ErrSteps = errors.New("sim: step limit reached")
	// ErrTime reports that a run took more virtual time than it was given.
	ErrTime = errors.New("sim: time limit reached")
	// ErrNoDisk reports that a task of the outer world wanted a file.
	ErrNoDisk = errors.New("sim: the outer world has no disk")
)

// PanicError reports that a task panicked.
type PanicError struct {
	Value any
	Task  string
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("sim: task %s panicked: %v\n\n%s", e.Task, e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// DeadlockError reports that every task waits for something that no other will do.
type DeadlockError struct{ Tasks []ParkedTask }

// ParkedTask is a task that has not ended and where it is.
type ParkedTask struct {
	Name  string
	For   string      // park, receive, sync, …
	Until env.Instant // on the clock of its process
	Stack string
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("sim: deadlock: %d tasks wait for ever\n%s", len(e.Tasks), describe(e.Tasks))
}

func describe(tasks []ParkedTask) string {
	var b strings.Builder
	for _, t := range tasks {
		fmt.Fprintf(&b, "\n%s", t)
	}
	return b.String()
}

// String says what the task waits for, until when, and where.
func (t ParkedTask) String() string {
	until := ""
	if t.Until != env.Forever {
		until = fmt.Sprintf(" until %v", t.Until.Sub(0))
	}
	return fmt.Sprintf("%s: %s%s\n%s", t.Name, t.For, until, t.Stack)
}

func (w *World) deadlock() error { return &DeadlockError{w.parked()} }

func (w *World) outOfTime() error {
	return fmt.Errorf("%w at %v; the tasks are\n%s", ErrTime, w.Now().Sub(0), describe(w.parked()))
}

func (w *World) outOfSteps() error {
	return fmt.Errorf("%w: %d at %v; the tasks are\n%s", ErrSteps, w.steps, w.Now().Sub(0), describe(w.parked()))
}

// stacksMax bounds how many stacks a report holds.
const stacksMax = 32

// parked describes all tasks; the first ones with their stacks, for which each is resumed for a moment.
func (w *World) parked() []ParkedTask {
	var list []ParkedTask
	add := func(p *Process) {
		for t := p.tasks.first; t != nil; t = t.next {
			list = append(list, w.inspect(t, len(list) < stacksMax))
		}
	}
	add(w.outer)
	for _, m := range w.machines {
		if m.process != nil {
			add(m.process)
		}
	}
	return list
}

func (w *World) inspect(t *task, withStack bool) ParkedTask {
	parked := ParkedTask{Name: t.String(), For: t.what, Until: t.until}
	switch {
	case t.co == nil:
		parked.For, parked.Until = "not started", env.Forever
		return parked
	case t.state == stateRunning: // it calls this, or waits for one that does and that it unwinds: it cannot be resumed to tell
		parked.For, parked.Until = "running", env.Forever
		if withStack && t == w.current {
			parked.Stack = trimStack(string(debug.Stack()))
		}
		return parked
	case t.state == stateReady:
		parked.For, parked.Until = "runnable", env.Forever
	case t.state == stateStalled:
		parked.For, parked.Until = "stalled: its machine is paused", env.Forever
	case t.state == stateStarved:
		parked.For, parked.Until = "starved", env.Forever
	}
	if withStack {
		state := t.state
		t.dump = true
		t.co.resume()
		t.state = state
		parked.Stack = trimStack(string(t.stack))
		t.stack = nil
	}
	return parked
}

// trimStack drops the frames of the kernel from both ends of a parked task's stack.
func trimStack(s string) string {
	lines := strings.Split(s, "\n")
	var kept []string
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "narad/sim.(*") || strings.HasPrefix(lines[i], "iter.Pull") ||
			strings.HasPrefix(lines[i], "runtime/debug.") || strings.HasPrefix(lines[i], "created by ") {
			continue
		}
		kept = append(kept, "    "+lines[i], "    "+lines[i+1])
	}
	return strings.Join(kept, "\n")
}
