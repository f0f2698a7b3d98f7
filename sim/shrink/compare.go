package shrink

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"narad/sim"
)

// historyKept is how many events before a difference are shown.
const historyKept = 12

// Divergence is the first difference between two runs that should be equal.
type Divergence struct {
	Event int64 // how many steps and choices were equal
	Sides [2]Side
}

// Side is what one of the runs did there.
type Side struct {
	What    string   // the step or choice, "ended" when the run was over
	Stack   string   // of the task
	Before  []string // the events before it, which were equal in step and choice, the newest last
	Skipped int64    // events before these
}

// String describes the divergence with both sides.
func (d *Divergence) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the two runs were equal for %d steps and choices; then\n", d.Event)
	for i, s := range d.Sides {
		fmt.Fprintf(&b, "\nrun %d: %s\n%s\n", i+1, s.What, s.Stack)
	}
	fmt.Fprintf(&b, "\nbefore it\n  … %d more\n", d.Sides[0].Skipped)
	for i, line := range d.Sides[0].Before {
		fmt.Fprintf(&b, "  %s\n", line)
		if other := d.Sides[1].Before; i < len(other) && other[i] != line {
			fmt.Fprintf(&b, "  %s (run 2)\n", other[i])
		}
	}
	return b.String()
}

// Compare runs two worlds in step, each in its own goroutine, and compares every step, choice and trace hash. It returns
// the first difference, nil when there is none. run must give the trace to the world that it runs; it may be stopped by a
// panic of its own goroutine only.
func Compare(run func(*sim.Trace)) *Divergence {
	l := &lockstep{}
	l.turn = sync.NewCond(&l.mu)
	var group sync.WaitGroup
	for side := range l.sides {
		group.Go(func() {
			run(l.trace(side))
			l.meet(side, event{what: "ended"}, nil)
		})
	}
	group.Wait()
	return l.found
}

// event is a step or a choice of one side.
type event struct {
	what string // set when it is kind of an event that is not compared by its numbers
	kind byte
	task int64
	at   int64
	x, y uint64
	hash uint64
	name sim.Task
}

func (e event) equal(o event) bool {
	return e.what == o.what && e.kind == o.kind && e.task == o.task && e.at == o.at && e.x == o.x && e.y == o.y && e.hash == o.hash
}

func (e event) String() string {
	switch e.kind {
	case 's':
		return fmt.Sprintf("%14.9f step %d: %s runs, hash %016x", float64(e.at)/1e9, e.x, e.name, e.hash)
	case 'c':
		return fmt.Sprintf("%14.9f %s draws %d of %d", float64(e.at)/1e9, e.name, e.y, e.x)
	}
	return e.what
}

// lockstep lets two runs meet at each event.
type lockstep struct {
	mu     sync.Mutex
	turn   *sync.Cond
	sides  [2]lockside
	rounds int64 // that both have left
	left   int
	found  *Divergence
}

type lockside struct {
	here   bool
	event  event
	stack  func() string
	ring   [historyKept]event
	events int64
}

func (l *lockstep) trace(side int) *sim.Trace {
	return &sim.Trace{
		Step: func(s sim.Step) {
			e := event{kind: 's', task: s.Task.ID(), at: int64(s.At), x: uint64(s.Number), hash: s.Hash, name: s.Task}
			l.meet(side, e, func() string { return parkedStack(s.Task) })
		},
		Choice: func(c sim.Choice) {
			e := event{kind: 'c', task: c.Task.ID(), at: int64(c.At), x: c.N, y: uint64(c.Value), name: c.Task}
			l.meet(side, e, ownStack)
		},
	}
}

// parkedStack tells where a task goes on that is about to run.
func parkedStack(t sim.Task) string {
	p := t.Parked()
	return fmt.Sprintf("%s: %s\n%s", p.Name, p.For, p.Stack)
}

// ownStack is the stack of the running task, without this package.
func ownStack() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	var kept []string
	for i := 1; i+1 < len(lines); i += 2 {
		if strings.HasPrefix(lines[i], "runtime/debug.") || strings.HasPrefix(lines[i], "narad/sim/shrink.(*lockstep)") ||
			strings.HasPrefix(lines[i], "narad/sim/shrink.ownStack") || strings.HasPrefix(lines[i], "iter.Pull") {
			continue
		}
		kept = append(kept, "    "+lines[i], "    "+lines[i+1])
	}
	return strings.Join(kept, "\n")
}

// meet waits until the other side has an event too, and compares. Once a difference is found nobody waits any more.
func (l *lockstep) meet(side int, e event, stack func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	me, other := &l.sides[side], &l.sides[1-side]
	if l.found != nil {
		return
	}
	me.here, me.event, me.stack = true, e, stack
	round := l.rounds
	if !other.here {
		for l.rounds == round && l.found == nil {
			l.turn.Wait()
		}
		if l.found != nil {
			l.found.Sides[side] = me.tell()
			l.left++
			l.turn.Broadcast()
		}
		return
	}
	if e.equal(other.event) {
		me.pass()
		other.pass()
		l.rounds++
		l.turn.Broadcast()
		return
	}
	l.found = &Divergence{Event: l.rounds}
	l.found.Sides[side] = me.tell()
	l.turn.Broadcast()
	for l.left == 0 { // the other side tells its stack from its own goroutine
		l.turn.Wait()
	}
}

func (s *lockside) pass() {
	s.ring[s.events%historyKept] = s.event
	s.events++
	s.here = false
}

// tell describes where the side is. It is called from its own goroutine.
func (s *lockside) tell() Side {
	t := Side{What: s.event.String(), Skipped: max(0, s.events-historyKept)}
	if s.stack != nil {
		t.Stack = s.stack()
	}
	for i := t.Skipped; i < s.events; i++ {
		t.Before = append(t.Before, s.ring[i%historyKept].String())
	}
	return t
}
