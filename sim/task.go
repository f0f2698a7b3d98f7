package sim

import (
	"fmt"
	"iter"
	"runtime/debug"

	"narad/env"
)

type taskState uint8

const (
	stateReady   taskState = iota // in the ready queue
	stateRunning                  // current, or waiting for one that it unwinds
	stateParked                   // until its waiter gets a permit or its timer fires
	stateStalled                  // could run, but its machine is paused
	stateStarved                  // could run, but the policy set it aside
	stateDone
)

// task is one thread of control of a process.
type task struct {
	timer    timer
	id       int64
	name     string
	proc     *Process
	fn       func()
	co       *coroutine  // nil before the first step
	waiter   *env.Waiter // where it is parked, nil while it sleeps
	state    taskState
	granted  bool  // the park ended with a permit
	killed   bool  // unwinding, or to unwind at the next park
	dump     bool  // resumed only to tell its stack
	priority int64 // under the Priority policy
	until    env.Instant
	what     string // what it is parked for, for reports
	op       pendingOp
	at       *place // where it may be cut, nil: nowhere in particular
	call     *call  // who waits for it, nil: nobody
	stack    []byte
	own      env.Waiter // for parks that no waiter of the caller stands for
	prev     *task      // in the process
	next     *task
}

func (t *task) String() string { return fmt.Sprintf("%s/%s#%d", t.proc, t.name, t.id) }

// killSignal unwinds a killed task.
type killSignal struct{}

// coroutine runs tasks, one after the other.
type coroutine struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	task   *task
	w      *World
	gone   bool // ended by runtime.Goexit
}

func (w *World) newCoroutine() *coroutine {
	c := &coroutine{w: w}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			c.run()
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// run executes the task to its end. It is the root of every task: nothing gets past it but runtime.Goexit,
// with which a failed test assertion ends the goroutine that called Run.
func (c *coroutine) run() {
	t := c.task
	returned := false
	defer func() {
		t.state = stateDone
		if returned {
			return
		}
		switch v := recover(); {
		case v == nil:
			c.gone = true
		case t.killed: // the signal, or a deferred function that met a dead world
		default:
			c.w.Fail(&PanicError{Value: v, Task: t.String(), Stack: debug.Stack()})
		}
	}()
	t.fn()
	returned = true
}

// spawn makes a task of p runnable.
func (w *World) spawn(p *Process, name string, fn func()) *task {
	w.lastTask++
	t := &task{id: w.lastTask, name: name, proc: p, fn: fn}
	t.timer.task = t
	if w.sched.Kind == Priority {
		t.priority = 1 + int64(w.draw(1<<32))
	}
	p.tasks.add(t)
	w.stats.Tasks++
	w.mix(uint64(t.id)<<8 | 'g')
	w.enqueue(t)
	return t
}

// enqueue makes t runnable, as soon as its machine is.
func (w *World) enqueue(t *task) {
	if m := t.proc.machine; m != nil && m.pausedUntil > w.now {
		t.state = stateStalled
		m.stalled = append(m.stalled, t)
		return
	}
	t.state = stateReady
	w.ready.push(t)
}

// step runs t until it parks or ends.
func (w *World) step(t *task) {
	c := t.co
	if c == nil {
		c = w.takeCoroutine()
		c.task, t.co = t, c
	}
	caller := w.current
	w.current = t
	t.state = stateRunning
	w.beat.Store(w.steps)
	c.resume()
	w.current = caller
	if t.state == stateDone {
		w.finish(t)
	}
}

func (w *World) takeCoroutine() *coroutine {
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return c
	}
	return w.newCoroutine()
}

// finish takes leave of a task that ended.
func (w *World) finish(t *task) {
	if c := t.co; c != nil {
		c.task, t.co = nil, nil
		if !c.gone {
			w.idle = append(w.idle, c)
		}
	}
	t.fn, t.state = nil, stateDone
	p := t.proc
	p.tasks.remove(t)
	if t.call != nil {
		t.call.end(w, t.killed)
	}
	if p.tasks.n == 0 {
		p.drained()
	}
}

// suspend gives control back to the driver until the task is resumed. A killed task unwinds instead of
// returning.
func (w *World) suspend(t *task) {
	for {
		alive := t.co.yield(struct{}{})
		if !alive || t.killed {
			panic(killSignal{})
		}
		if !t.dump {
			return
		}
		t.dump = false
		t.stack = debug.Stack()
	}
}

// kill unwinds t, which is not running.
func (w *World) kill(t *task) {
	t.killed = true
	w.timers.disarm(&t.timer)
	if t.waiter != nil {
		t.waiter.Sim.Task = nil
		t.waiter = nil
	}
	if t.co == nil {
		w.finish(t)
		return
	}
	w.step(t)
}

// killTasks unwinds the tasks of p, in the order in which they started. Those that are running, which is the caller and whoever
// waits for it, unwind at their next park.
func (w *World) killTasks(p *Process) {
	for t := p.tasks.first; t != nil; {
		next := t.next
		switch t.state {
		case stateRunning:
			t.killed = true
		case stateDone: // by runtime.Goexit
			w.finish(t)
		default:
			w.kill(t)
		}
		t = next
	}
	alive := func(t *task) bool { return t.state != stateDone }
	w.ready.filter(alive)
	if m := p.machine; m != nil {
		kept := m.stalled[:0]
		for _, t := range m.stalled {
			if alive(t) {
				kept = append(kept, t)
			}
		}
		clear(m.stalled[len(kept):])
		m.stalled = kept
	}
}

// taskList links the tasks of a process in the order in which they started.
type taskList struct {
	first, last *task
	n           int
}

func (l *taskList) add(t *task) {
	t.prev = l.last
	if l.last != nil {
		l.last.next = t
	} else {
		l.first = t
	}
	l.last = t
	l.n++
}

func (l *taskList) remove(t *task) {
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		l.last = t.prev
	}
	t.prev, t.next = nil, nil
	l.n--
}
