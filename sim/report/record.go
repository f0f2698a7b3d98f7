package report

import (
	"bytes"

	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/sim/workload"
)

// Recording is everything that was seen of a run.
type Recording struct {
	Case     workload.Case
	Result   workload.Result
	Calls    []workload.Call
	Events   []Event
	Disk     []DiskCall
	Crashes  []Crashed
	Lines    []Line  // of the kernel: boots, faults, pauses
	State    string  // at the end, for readers
	PlanFile string  // that the case was read from or written to, "": none
	Needed   *Needed // what the failure hangs on, nil: nobody explored it
	End      env.Instant

	names map[int64]string // of tasks
	view  workload.View
	lost  []string // names what the power loss under way took
	order int
}

// Event is an event of an engine, Order its place among all that was seen.
type Event struct {
	workload.Event
	Order int
}

// Crashed is a crash, and its place among all that was seen.
type Crashed struct {
	workload.Crashed
	Order int
	Files []string // what a power loss did to each file that it changed
}

// DiskCall is a file call with the name of its task.
type DiskCall struct {
	sim.DiskCall
	Who   string
	Order int
}

// Line is a line of the log with the name of its task.
type Line struct {
	At    env.Instant
	Who   string
	Text  string
	Order int
}

// linesMax bounds what is kept of each kind; a run that makes more is too long to look at.
const linesMax = 400_000

// Record runs the case and keeps what happened.
func Record(c workload.Case, o workload.Options) *Recording {
	r := &Recording{Case: c, names: map[int64]string{}}
	w := &workload.Watch{}
	if o.Watch != nil {
		w.Until = o.Watch.Until
	}
	w.Call = func(v workload.Call) { r.Calls = append(r.Calls, v) }
	w.Event = func(v workload.Event) {
		if len(r.Events) < linesMax {
			r.name(v.Task)
			r.Events = append(r.Events, Event{v, r.next()})
		}
	}
	w.Crashed = func(v workload.Crashed) {
		r.Crashes = append(r.Crashes, Crashed{v, r.next(), r.lost})
		r.lost = nil
	}
	w.Trace.Power = func(p sim.Power) {
		r.lost = losses(p.Before, p.After)
		for i, file := range r.lost {
			r.lost[i] = file + r.unsynced(p.Machine, file)
		}
	}
	disk := 0 // lines of file calls that follow, which are kept as calls
	w.Trace.Disk = func(v sim.DiskCall) {
		disk++
		if len(r.Disk) < linesMax {
			r.Disk = append(r.Disk, DiskCall{v, r.name(v.Task), r.next()})
		}
	}
	w.Trace.Line = func(l sim.Line) {
		if disk > 0 {
			disk--
			return
		}
		if kernelLine(l.Text) && len(r.Lines) < linesMax {
			r.Lines = append(r.Lines, Line{l.At, r.name(l.Task), l.Text, r.next()})
		}
	}
	w.End = func(v workload.View) {
		var state bytes.Buffer
		v.Dump(&state)
		r.State = state.String()
		r.view = v
	}
	o.Watch, o.Record = w, true
	r.Result = workload.Run(o)
	r.End = env.Instant(r.Result.Simulated)
	return r
}

func (r *Recording) next() int {
	r.order++
	return r.order
}

func (r *Recording) name(t sim.Task) string {
	id := t.ID()
	n, ok := r.names[id]
	if !ok {
		n = t.String()
		r.names[id] = n
	}
	return n
}

// kernelLine reports whether a line is one that no watch is told otherwise.
func kernelLine(text string) bool {
	for _, word := range []string{": boot", ": exited", ": pause", "starve ", "fault: ", ": armed "} {
		if bytes.Contains([]byte(text), []byte(word)) {
			return true
		}
	}
	return false
}

// copyPage is porcupine's drawing of what happened to one stored copy, nil when nothing did.
func (r *Recording) copyPage(node string, key engine.Key, offset int64) []byte {
	for _, n := range r.view.Nodes() {
		if n.Name() != node {
			continue
		}
		var page bytes.Buffer
		if n.DrawCopy(&page, key, offset) {
			return page.Bytes()
		}
	}
	return nil
}
