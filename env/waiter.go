package env

import "time"

// Waiter is the one way to block: it holds at most one permit. One task parks on it; any task may unpark it.
//
//	w := e.NewWaiter()
//	… hand w to whoever will make the condition true …
//	for !condition() { w.Park() }
//
// A permit given before Park is kept, so a wake-up is never lost; a Park may also return for a permit that
// an earlier condition left, so callers test their condition again.
type Waiter struct {
	env   *Env
	ch    chan struct{} // real world: capacity 1, a token is the permit
	timer *time.Timer   // real world: made by the first ParkUntil with a deadline, reused
	next  *Waiter       // real world: in a relay, who is woken by the task that parks here
	relay *Relay        // real world: at the last one of a relay, and some

	// Sim belongs to the simulated backend; nothing else may touch it.
	Sim struct {
		Permit bool
		Task   any // the task parked here, nil when none
	}
}

// NewWaiter returns a waiter without a permit.
func (e *Env) NewWaiter() *Waiter {
	w := &Waiter{}
	w.Init(e)
	return w
}

// Init makes w, which may be part of a larger value, a waiter of e without a permit.
func (w *Waiter) Init(e *Env) {
	w.env = e
	if e.sim == nil {
		w.ch = make(chan struct{}, 1)
	}
}

// Park blocks until the waiter holds a permit and takes it.
func (w *Waiter) Park() {
	if w.ch == nil {
		w.env.sim.Park(w, Forever)
		return
	}
	<-w.ch
	if w.next != nil || w.relay != nil {
		w.pass()
	}
}

// ParkUntil blocks until the waiter holds a permit, which it takes, or the clock reaches deadline. It
// reports whether it took a permit. A deadline in the past polls.
func (w *Waiter) ParkUntil(deadline Instant) bool {
	if w.ch == nil {
		return w.env.sim.Park(w, deadline)
	}
	if deadline == Forever {
		<-w.ch
		return true
	}
	select {
	case <-w.ch:
		return true
	default:
	}
	d := deadline.Sub(w.env.Now())
	if d <= 0 {
		return false
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.ch:
		w.timer.Stop()
		return true
	case <-w.timer.C:
		return false
	}
}

// Unpark gives the waiter a permit, unless it already holds one. It never blocks.
func (w *Waiter) Unpark() {
	if w.ch == nil {
		w.env.sim.Unpark(w)
		return
	}
	select {
	case w.ch <- struct{}{}:
	default:
	}
}
