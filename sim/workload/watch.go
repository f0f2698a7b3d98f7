package workload

import (
	"slices"
	"time"

	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/sim/disk"
)

// Watch sees what happens in a run, for reports. Each function may be nil; none may change anything. Times are true
// time.
type Watch struct {
	Trace sim.Trace     // what the kernel sees
	Until time.Duration // not 0: end the run at this instant, with [sim.ErrTime]

	Began   func(plan string, nodes int, traffic time.Duration)
	Call    func(Call)    // a client's request ended
	Event   func(Event)   // an engine told something
	Crashed func(Crashed) // a machine went down
	End     func(View)    // the run is over, its tasks are still there
	Done    func(Result)

	open     []*seenCall     // calls under way
	messages map[int64][]int // about to be produced, by the task of the client
}

// Call is a request of a client.
type Call struct {
	Client     string // task of the client
	Node, Name string
	Number     int   // by which Limits.Without leaves it out, -1: it cannot be
	Task       int64 // number of the task that served it, 0: none did
	Start, End env.Instant
	Outcome    sim.Outcome
	Draining   bool
	Pending    bool  // it had no answer when the run ended
	Messages   []int // that it produces, by their number among all of the world
}

// Event is an event of a node's engine.
type Event struct {
	At    env.Instant
	Clock env.Instant // what the clock of the process shows
	Node  string
	Life  int
	Task  sim.Task // that told it
	Event engine.Event
}

// Crashed is the end of a life by force.
type Crashed struct {
	At   env.Instant
	Node string
	Life int
	Kind sim.CrashKind
	Lost disk.Report
	Task sim.Task // who did it; the zero Task: a timer
}

// trace returns what the kernel is to call, nil when nobody watches.
func (w *Watch) trace() *sim.Trace {
	if w == nil {
		return nil
	}
	return &w.Trace
}

func (w *Watch) begin(r *run) {
	if w == nil {
		return
	}
	if w.Began != nil {
		w.Began(r.plan.String(), r.plan.Machines, r.plan.Traffic)
	}
	if w.End != nil {
		inner := w.Trace.End
		w.Trace.End = func() {
			if inner != nil {
				inner()
			}
			w.End(View{r})
		}
	}
}

func (w *Watch) done(r Result) {
	if w == nil {
		return
	}
	for _, s := range w.open {
		s.call.End, s.call.Pending = s.run.w.Now(), true
		w.Call(s.call)
	}
	if w.Done != nil {
		w.Done(r)
	}
}

func (w *Watch) limit(d time.Duration) time.Duration {
	if w != nil && w.Until > 0 {
		return min(d, w.Until)
	}
	return d
}

func (w *Watch) listen(n *node, next func(engine.Event)) func(engine.Event) {
	if w == nil || w.Event == nil {
		return next
	}
	life := n.boots
	return func(v engine.Event) {
		e := Event{At: n.run.w.Now(), Node: n.name, Life: life, Task: n.run.w.Current(), Event: v}
		if p := n.m.Process(); p != nil {
			e.Clock = p.Env().Now()
		}
		w.Event(e)
		next(v)
	}
}

func (w *Watch) crashed(n *node, kind sim.CrashKind, lost disk.Report) {
	if w != nil && w.Crashed != nil {
		w.Crashed(Crashed{n.run.w.Now(), n.name, n.boots, kind, lost, n.run.w.Current()})
	}
}

// seenCall is a call under way that somebody watches.
type seenCall struct {
	watch *Watch
	run   *run
	call  Call
}

// noNumber is the Number of a call that cannot be left out.
const noNumber = -1

func (w *Watch) call(n *node, name string, number int) *seenCall {
	if w == nil || w.Call == nil {
		return nil
	}
	r := n.run
	client := r.w.Current()
	c := Call{Client: client.String(), Node: n.name, Name: name, Number: number, Start: r.w.Now(), Draining: r.draining, Messages: w.messages[client.ID()]}
	delete(w.messages, client.ID())
	s := &seenCall{w, r, c}
	w.open = append(w.open, s)
	return s
}

// produces notes which messages the next call of the running client produces.
func (w *Watch) produces(r *run, ids []int) {
	if w == nil || w.Call == nil {
		return
	}
	if w.messages == nil {
		w.messages = map[int64][]int{}
	}
	w.messages[r.w.Current().ID()] = ids
}

// runs notes the task that serves the call.
func (s *seenCall) runs() {
	if s != nil {
		s.call.Task = s.run.w.Current().ID()
	}
}

func (s *seenCall) ended(o sim.Outcome) {
	if s == nil {
		return
	}
	w := s.watch
	if i := slices.Index(w.open, s); i >= 0 {
		w.open = slices.Delete(w.open, i, i+1)
	}
	s.call.End, s.call.Outcome = s.run.w.Now(), o
	w.Call(s.call)
}
