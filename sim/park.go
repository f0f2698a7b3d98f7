package sim

import (
	"crypto/sha256"
	"encoding/binary"

	"narad/env"
)

// backend is the world as one process sees it.
type backend Process

var _ env.Backend = (*backend)(nil)

// fenced reports whether what the running code asks for must have no effect: it is unwinding, or its
// process is dead.
func (w *World) fenced() bool {
	return w.draining || w.current != nil && w.current.killed
}

// self returns the running task for an operation that may park. A killed task unwinds here.
func (w *World) self(what string) *task {
	t := w.current
	if t == nil {
		panic("sim: " + what + " outside of a task: run it in World.Go and World.Run")
	}
	if t.killed {
		panic(killSignal{})
	}
	return t
}

// Now reads the monotonic clock of the process.
func (b *backend) Now() env.Instant {
	p := (*Process)(b)
	return p.instant(p.w.now)
}

// Wall reads the wall clock of the machine.
func (b *backend) Wall() env.Wall {
	p := (*Process)(b)
	if p.machine == nil {
		return env.Wall(epoch + p.w.now)
	}
	return p.machine.Wall()
}

// Go starts a task of the process.
func (b *backend) Go(name string, fn func()) {
	p := (*Process)(b)
	if p.dead || p.w.fenced() {
		return
	}
	t := p.w.spawn(p, name, fn)
	if p.w.Logging() {
		p.w.Logf("go %s", t)
	}
}

// Park waits for a permit of waiter until the clock of the process shows until.
func (b *backend) Park(waiter *env.Waiter, until env.Instant) bool {
	p := (*Process)(b)
	return p.w.park(p, waiter, until, "park")
}

func (w *World) park(p *Process, waiter *env.Waiter, until env.Instant, what string) bool {
	t := w.self("Park")
	if waiter.Sim.Permit {
		waiter.Sim.Permit = false
		w.reschedule(t)
		return true
	}
	if waiter.Sim.Task != nil {
		panic("sim: two tasks parked on one waiter: " + waiter.Sim.Task.(*task).String() + " and " + t.String())
	}
	if until != env.Forever {
		if until <= p.instant(w.now) {
			w.reschedule(t)
			return w.takePermit(waiter)
		}
		at := p.trueTime(until)
		if w.leap(t, at) {
			return false
		}
		t.timer.kind = timerWake
		w.timers.arm(&t.timer, at)
	}
	waiter.Sim.Task = t
	t.waiter, t.granted, t.until, t.what = waiter, false, until, what
	t.state = stateParked
	w.suspend(t)
	return t.granted || w.takePermit(waiter)
}

// takePermit decides about a permit that came at the instant of the deadline: like a select with both
// cases ready it is taken or left.
func (w *World) takePermit(waiter *env.Waiter) bool {
	if !waiter.Sim.Permit || w.Choose(2) == 1 {
		return false
	}
	waiter.Sim.Permit = false
	return true
}

// Unpark gives the waiter a permit.
func (b *backend) Unpark(waiter *env.Waiter) {
	w := (*Process)(b).w
	if w.fenced() {
		return
	}
	w.unpark(waiter)
}

func (w *World) unpark(waiter *env.Waiter) {
	parked := waiter.Sim.Task
	if parked == nil {
		waiter.Sim.Permit = true
		return
	}
	t := parked.(*task)
	waiter.Sim.Task = nil
	t.waiter, t.granted = nil, true
	w.timers.disarm(&t.timer)
	w.enqueue(t)
}

// wake ends the park of a task whose deadline came.
func (w *World) wake(t *task) {
	if t.waiter != nil {
		t.waiter.Sim.Task = nil
		t.waiter = nil
	}
	w.enqueue(t)
}

// sleep parks the running task for a span of true time.
func (w *World) sleep(t *task, d int64, what string) {
	if d <= 0 {
		w.reschedule(t)
		return
	}
	if w.leap(t, w.now+d) {
		return
	}
	t.timer.kind = timerWake
	w.timers.arm(&t.timer, w.now+d)
	t.until, t.what = env.Forever, what
	t.state = stateParked
	w.suspend(t)
}

// reschedule lets other runnable tasks go first, if the policy says so.
func (w *World) reschedule(t *task) {
	if w.alone(t) {
		w.stepInPlace(t)
		return
	}
	w.enqueue(t)
	w.suspend(t)
}

// leap lets true time jump to an instant that the running task waits for, if nothing else can happen
// before. It saves the way through the driver, and two switches.
func (w *World) leap(t *task, at int64) bool {
	if !w.alone(t) || at > w.end || len(w.timers.items) > 0 && w.timers.items[0].at <= at {
		return false
	}
	w.now = at
	w.stepInPlace(t)
	return true
}

// alone reports whether the running task is the only one that can run, and the run may go on.
func (w *World) alone(t *task) bool {
	if w.ready.n > 0 || w.stopped || w.options.MaxSteps > 0 && w.steps >= w.options.MaxSteps {
		return false
	}
	if w.sched.Starve && w.sched.Alone && w.steps >= w.sched.nextStarve {
		return false // it is to be set aside
	}
	m := t.proc.machine
	return m == nil || m.pausedUntil <= w.now
}

// stepInPlace counts a step of the running task that needs no switch.
func (w *World) stepInPlace(t *task) {
	w.steps++
	w.beat.Store(w.steps)
	if w.options.Trace != nil {
		w.traceStep(t)
	}
	w.mix(uint64(w.now)<<16 ^ uint64(t.id))
}

// Point is a named place where others may run or an armed crash may strike.
func (b *backend) Point(name string) {
	p := (*Process)(b)
	w := p.w
	if w.current == nil {
		return
	}
	t := w.self("Point")
	at := w.point(name)
	w.mix(at.hash)
	at.Passed++
	if p.machine != nil {
		t.at = at
		struck := p.strike("point", name)
		t.at = nil
		if struck {
			w.self("Point") // unwinds, if it was the own process that crashed
			return
		}
		if name == w.sched.Linger {
			w.linger(t, at)
			return
		}
	}
	w.reschedulePoint(t, at)
}

// Seed forks a stream: from the entropy of the run, the machine, how often it booted, the name, and how
// often that process asked for this name. Asking shifts no other stream and no choice.
func (b *backend) Seed(name string) [32]byte {
	p := (*Process)(b)
	if p.seeds == nil {
		p.seeds = map[string]uint64{}
	}
	p.seeds[name]++
	key := binary.LittleEndian.AppendUint64(nil, p.w.root)
	key = binary.LittleEndian.AppendUint64(key, uint64(p.boot))
	key = binary.LittleEndian.AppendUint64(key, p.seeds[name])
	key = binary.LittleEndian.AppendUint64(key, uint64(len(p.name)))
	key = append(key, p.name...)
	return sha256.Sum256(append(key, name...))
}

// Send hands a message to the network.
func (b *backend) Send(to string, payload []byte) {
	p := (*Process)(b)
	if p.dead || p.w.fenced() {
		return
	}
	p.w.network.send(p.name, to, payload)
}

// Receive waits for the next message to the machine.
func (b *backend) Receive(until env.Instant) (env.Message, bool) {
	p := (*Process)(b)
	return p.w.network.receive(p, until)
}
