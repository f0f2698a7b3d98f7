package sim

import (
	"fmt"

	"narad/env"
)

// Process is one run of a program on a machine, from Boot to its end. The outer world is a process without a machine.
type Process struct {
	w       *World
	machine *Machine // nil: the outer world
	name    string   // of the machine
	boot    int      // counts the processes of the machine
	mono    *clock   // of the machine; once the process is dead a copy that goes on; nil: true time
	origin  int64    // what its clock shows when the machine's shows 0
	env     *env.Env
	tasks   taskList
	dead    bool // crashed or exited: nothing it does has an effect
	exited  bool
	waiters []*env.Waiter // of those who wait for its end
	seeds   map[string]uint64
	inbox   inbox
}

func (p *Process) String() string {
	if p.machine == nil {
		return p.name
	}
	return fmt.Sprintf("%s.%d", p.name, p.boot)
}

// Env returns the world as the process sees it.
func (p *Process) Env() *env.Env { return p.env }

// Machine returns the machine that the process runs on.
func (p *Process) Machine() *Machine { return p.machine }

// Boots returns which process of its machine this is, counting from 1.
func (p *Process) Boots() int { return p.boot }

// Alive reports whether the process has neither crashed nor exited.
func (p *Process) Alive() bool { return !p.dead }

// Exited reports whether all tasks of the process ended by themselves.
func (p *Process) Exited() bool { return p.exited }

// Wait waits until the process has crashed or exited.
func (p *Process) Wait() { p.WaitUntil(env.Forever) }

// WaitUntil waits until the process has crashed or exited, or true time reaches deadline, and reports whether it has.
func (p *Process) WaitUntil(deadline env.Instant) bool {
	t := p.w.self("Wait")
	if t.proc == p {
		panic("sim: a task waits for the end of its own process")
	}
	for !p.dead {
		waiter := p.w.outer.env.NewWaiter()
		p.waiters = append(p.waiters, waiter)
		if !p.w.park(p.w.outer, waiter, deadline, "process end") {
			break
		}
	}
	return p.dead
}

// die fences the process and unwinds its tasks.
func (p *Process) die() {
	if !p.dead {
		p.end()
	}
	p.w.killTasks(p)
}

// drained takes note that the last task ended.
func (p *Process) drained() {
	if p.machine == nil || p.dead {
		return
	}
	p.exited = true
	if p.w.Logging() {
		p.w.Logf("%s: exited", p)
	}
	p.end()
}

func (p *Process) end() {
	p.dead = true
	last := *p.mono // a power loss restarts the machine's, but what the process said keeps its meaning
	p.mono = &last
	p.machine.disk.ProcessCrash() // closes its files and releases its locks
	p.inbox = inbox{}
	for _, waiter := range p.waiters {
		p.w.unpark(waiter)
	}
	p.waiters = nil
}

// Outcome is how a call into a process ended.
type Outcome uint8

const (
	Done     Outcome = iota // the function returned
	Died                    // the process died before it returned, or was dead already
	TimedOut                // it goes on alone
)

func (o Outcome) String() string { return [...]string{"done", "died", "timed out"}[o] }

// call is what the caller and the callee of Process.Call share.
type call struct {
	waiter env.Waiter
	ended  bool
	died   bool
}

func (c *call) end(w *World, died bool) {
	c.ended, c.died = true, died
	w.unpark(&c.waiter)
}

// Call runs fn as a task of the process and waits for it until true time reaches deadline. This is how
// simulated clients make requests. After TimedOut fn may still run: what it writes must not be shared with a later
// call.
func (p *Process) Call(name string, deadline env.Instant, fn func()) Outcome {
	w := p.w
	w.self("Call")
	if p.dead {
		return Died
	}
	c := &call{}
	c.waiter.Init(w.outer.env)
	t := w.spawn(p, name, fn)
	t.call = c
	for !c.ended {
		if !w.park(w.outer, &c.waiter, deadline, "call") {
			break
		}
	}
	switch {
	case !c.ended:
		return TimedOut
	case c.died:
		return Died
	}
	return Done
}
