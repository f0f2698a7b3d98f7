package env

import "runtime"

// YieldUntil is ParkUntil for waits that are shorter than what a timer keeps, which may be a millisecond late:
// in the real world the task gives way to others instead of sleeping, and takes the processor when there is none.
func (w *Waiter) YieldUntil(deadline Instant) bool {
	if w.ch == nil {
		return w.env.sim.Park(w, deadline)
	}
	for {
		select {
		case <-w.ch:
			return true
		default:
		}
		if w.env.Now() >= deadline {
			return false
		}
		runtime.Gosched()
	}
}
