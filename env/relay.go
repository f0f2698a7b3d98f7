package env

import "sync/atomic"

// Relay wakes many tasks that will soon meet again, such as writers that append in a loop: each of them wakes the next one as soon as
// it is awake itself. So in the real world they run one after the other on one processor, which goes straight to the task that it has just
// woken, and get into each other's way at no lock. On two processors, to wake 64 at once takes nearly twice as long until all of
// them are back (docs/performance.md). In the simulated world all are woken at once, to run in any order: that leaves out nothing that a
// relay can do.
//
//	for … { r.Add(w) }
//	r.Start(end, deadline)
//
// Add and Start belong to one task at a time, and to none while the relay is under way. It is no way to wake tasks that then
// have much to do: as long as processors are idle they had better be woken all at once.
type Relay struct {
	first, last *Waiter
	end         *Waiter
	deadline    Instant
	added       int
	under       atomic.Bool
}

// relayLook is after how many tasks a relay looks at the clock.
const relayLook = 8

// Add appends the task that parks at w. It must do so, sooner or later, by Park, without a deadline: the next one waits for that. In the
// simulated world it gets its permit now.
func (r *Relay) Add(w *Waiter) {
	switch {
	case w.ch == nil:
		w.Unpark()
		return
	case r.first == nil:
		r.first = w
	default:
		r.last.next = w
	}
	r.last = w
	if r.added++; r.added%relayLook == 0 {
		w.relay = r
	}
}

// Start wakes the first one. The last one gives a permit to end when it is awake, and so does one in eight once the deadline has
// passed. In the simulated world, where nobody is left to be woken, end gets none.
func (r *Relay) Start(end *Waiter, deadline Instant) {
	first := r.first
	if first == nil {
		return
	}
	r.last.relay = r
	r.first, r.last, r.added, r.end, r.deadline = nil, nil, 0, end, deadline
	r.under.Store(true)
	first.Unpark()
}

// UnderWay reports whether somebody is still to be woken. Any task may ask.
func (r *Relay) UnderWay() bool { return r.under.Load() }

// pass wakes the next one, for the task of w, which has just woken.
func (w *Waiter) pass() {
	next, r := w.next, w.relay
	w.next, w.relay = nil, nil
	var end *Waiter
	if r != nil { // looked at before the next one is woken: after that it may have ended, and begun anew
		end = r.end
		if next == nil {
			r.under.Store(false)
		} else if w.env.Now() < r.deadline {
			end = nil
		}
	}
	if next != nil {
		next.Unpark()
	}
	if end != nil {
		end.Unpark()
	}
}
