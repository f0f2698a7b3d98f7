package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"narad/engine"
	"narad/env"
	"narad/sim/workload"
)

// sequence is the story on lanes: one row for each entry, one column for each who acts.
type sequence struct {
	Lanes []seqLane
	Rows  []seqRow
	State bool // rows have a frontier and a high watermark
}

type seqLane struct{ Name, Kind string }

type seqRow struct {
	At, Gap         string // absolute, and since the row above
	Raw             float64
	Kind, Who       string
	Text            string
	Cells           []seqCell
	HW, Frontier    string // of the partition of the failure, once the row has happened
	HWNew, FrontNew bool
	Needed          string // what becomes of the world without this call; "" for what was not left out
}

// seqCell is one lane in one row.
type seqCell struct {
	On   string // what goes on through the row, "" nothing
	Dot  string // the kind of what happens here, "" nothing
	Span bool   // the line from a call to the task that serves it passes here
}

// laneMax bounds how many lanes there are: of more, those of the engine, then those of clients, become one.
const laneMax = 14

// leaseLanes bounds how many offsets have a lane for their leases.
const leaseLanes = 4

// laneOf names the lane of an entry.
func (r *Recording) laneOf(e Entry, served map[int64]bool) (name, kind string) {
	switch e.Kind {
	case "client":
		return clientName(e.Who), "client"
	case "disk":
		return "disk", "disk"
	case "fault", "life":
		return "node", "node"
	case "failure":
		return "check", "check"
	}
	if served[e.task] {
		return "requests", "engine"
	}
	return role(e.Who), "engine"
}

var taskNumber = regexp.MustCompile(`#(\d+)$`)

// clientName says who a client is, without what all have in common.
func clientName(task string) string {
	name := task[strings.LastIndexByte(task, '/')+1:]
	if _, short, ok := strings.Cut(name, " "); ok {
		name = short // without its node
	}
	if strings.HasPrefix(name, "story#") {
		return "last scene"
	}
	return taskNumber.ReplaceAllString(name, " $1")
}

// sequence puts the story on lanes.
func (r *Recording) sequence(f Focus, story []Entry) sequence {
	s := r.sequencer(f)
	s.setLanes(story)
	q := sequence{Lanes: s.lanes}
	s.changes = r.stateOf(f)
	q.State = len(s.changes) > 0
	for i, e := range shorten(story) {
		row := s.row(e)
		if i > 0 {
			row.Gap = gap(e.At - s.before)
		}
		s.before = e.At
		s.state(&row, e)
		q.Rows = append(q.Rows, row)
	}
	return q
}

func (r *Recording) sequencer(f Focus) sequencer {
	s := sequencer{r: r, f: f, served: map[int64]bool{}, names: map[string]string{}, calls: map[string][]workload.Call{}}
	for _, c := range r.Calls {
		if c.Task != 0 {
			s.served[c.Task] = true
		}
		if s.names[c.Client] == "" {
			s.names[c.Client] = clientName(c.Client)
		}
		name := s.names[c.Client]
		s.calls[name] = append(s.calls[name], c)
	}
	return s
}

type sequencer struct {
	r      *Recording
	f      Focus
	served map[int64]bool
	names  map[string]string          // of clients, by their tasks
	calls  map[string][]workload.Call // by the name of the client
	lanes  []seqLane
	merged map[string]string // lanes that became part of another
	spans  []held            // leases of the offsets of the failure
	before env.Instant

	changes      []change // of the partition, still to come
	hw, frontier string
}

// setLanes lists clients, the engine's tasks, the disk, the node, each in the order in which they come.
func (s *sequencer) setLanes(story []Entry) {
	order := []string{"client", "lease", "engine", "disk", "node"}
	seen := map[string]bool{}
	for _, e := range story {
		name, kind := s.r.laneOf(e, s.served)
		if kind != "check" && !seen[name] {
			seen[name] = true
			s.lanes = append(s.lanes, seqLane{name, kind})
		}
	}
	s.merged = map[string]string{}
	for _, kind := range []string{"engine", "client"} {
		if len(s.lanes) > laneMax {
			s.merge(kind)
		}
	}
	if s.f.Key.Topic != "" {
		s.leases()
	}
	slices.SortStableFunc(s.lanes, func(a, b seqLane) int {
		return cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind))
	})
}

func (s *sequencer) merge(kind string) {
	kept := s.lanes[:0]
	for _, l := range s.lanes {
		if l.Kind == kind {
			s.merged[l.Name] = kind
		} else {
			kept = append(kept, l)
		}
	}
	s.lanes = append(kept, seqLane{kind, kind})
}

// leases makes a lane for the leases of each offset of the failure.
func (s *sequencer) leases() {
	for _, p := range s.r.partitions(s.f) {
		if !p.Focus {
			continue
		}
		for _, o := range s.f.Offsets[:min(len(s.f.Offsets), leaseLanes)] {
			name := fmt.Sprintf("lease of offset %d", o)
			s.lanes = append(s.lanes, seqLane{name, "lease"})
			for _, l := range p.Leases {
				if l.Offset == o {
					s.spans = append(s.spans, l)
				}
			}
		}
	}
}

func (s *sequencer) row(e Entry) seqRow {
	row := seqRow{At: clock(e.At), Raw: seconds(e.At), Kind: e.Kind, Who: e.Who, Text: e.Text}
	if e.Kind == "client" {
		row.Who = clientName(e.Who)
		row.Needed = s.needed(e)
	}
	name, _ := s.r.laneOf(e, s.served)
	name = cmp.Or(s.merged[name], name)
	from, to := -1, -1
	for i, l := range s.lanes {
		c := seqCell{On: s.goesOn(l, e)}
		if l.Name == name {
			c.Dot, from = e.Kind, i
		}
		if e.Kind == "client" && e.task != 0 && (l.Name == "requests" || s.merged["requests"] == l.Name && l.Name != "") {
			c.Dot, to = "served", i
		}
		row.Cells = append(row.Cells, c)
	}
	if from >= 0 && to >= 0 {
		for i := min(from, to); i <= max(from, to); i++ {
			row.Cells[i].Span = true
		}
	}
	return row
}

// goesOn tells what goes on in a lane while an entry happens: a call that waits for its answer, a process that lives, a lease.
func (s *sequencer) goesOn(l seqLane, e Entry) string {
	switch l.Kind {
	case "client":
		waits := func(c workload.Call) bool { return c.Start <= e.At && e.At <= c.End && c.Start < c.End }
		if slices.ContainsFunc(s.calls[l.Name], waits) {
			return "call"
		}
		for name, part := range s.merged { // order-free: any of them
			if part == l.Name && slices.ContainsFunc(s.calls[name], waits) {
				return "call"
			}
		}
	case "lease":
		at := seconds(e.At)
		for _, h := range s.spans {
			if fmt.Sprintf("lease of offset %d", h.Offset) == l.Name && h.From <= at && at <= h.To {
				if at >= h.Due {
					return "overdue"
				}
				return "leased"
			}
		}
	default:
		if s.down(e) {
			return "down"
		}
		return "alive"
	}
	return ""
}

// down reports whether the node has no process when an entry happens.
func (s *sequencer) down(e Entry) bool {
	down := false
	for _, c := range s.r.Crashes {
		if (c.Node == s.f.Node || s.f.Node == "") && (c.At < e.At || c.At == e.At && c.Order < e.order) {
			down = !slices.ContainsFunc(s.r.Lines, func(l Line) bool {
				return strings.HasSuffix(l.Text, ": boot") && strings.HasPrefix(l.Text, c.Node) && l.Order > c.Order && l.At <= e.At
			})
		}
	}
	return down
}

// needed tells what becomes of the world without a call.
func (s *sequencer) needed(e Entry) string {
	if s.r.Needed == nil {
		return ""
	}
	for _, c := range s.r.Needed.Calls {
		if c.Start == e.At && c.Client == e.Who && c.Task == e.task {
			return string(c.Without)
		}
	}
	return ""
}

// gap says how much later a row is than the one above it.
func gap(d env.Instant) string {
	switch {
	case d <= 0:
		return ""
	case d < 1_000:
		return fmt.Sprintf("+%d ns", d)
	case d < 1_000_000:
		return fmt.Sprintf("+%.0f µs", float64(d)/1e3)
	case d < 1_000_000_000:
		return fmt.Sprintf("+%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("+%.2f s", float64(d)/1e9)
}

// change is a step of the frontier or the high watermark.
type change struct {
	order    int
	frontier bool
	value    int64
}

// stateOf lists the changes of the partition of the failure, in their order.
func (r *Recording) stateOf(f Focus) (list []change) {
	if f.Key.Topic == "" {
		return nil
	}
	for _, e := range r.Events {
		if f.Node != "" && e.Node != f.Node {
			continue
		}
		if v, ok := e.Event.Event.(engine.ShardOpened); ok && v.Key == f.Key {
			list = append(list, change{e.Order, false, v.HW}, change{e.Order, true, v.State.Committed})
		}
		if v, ok := e.Event.Event.(engine.Settled); ok && v.Key == f.Key {
			list = append(list, change{e.Order, true, v.Committed})
		}
		if v, ok := e.Event.Event.(engine.Log); ok && v.Key == f.Key {
			if hw, ok := highWatermark(v); ok {
				list = append(list, change{e.Order, false, hw})
			}
		}
	}
	return list
}

// state notes how the partition stands once the entry has happened; a call has no place of its own among the events.
func (s *sequencer) state(row *seqRow, e Entry) {
	was := [2]string{s.hw, s.frontier}
	for len(s.changes) > 0 && (s.changes[0].order <= e.order || e.Kind == "failure") {
		text := fmt.Sprint(s.changes[0].value)
		if s.changes[0].frontier {
			s.frontier = text
		} else {
			s.hw = text
		}
		s.changes = s.changes[1:]
	}
	row.HW, row.HWNew = s.hw, s.hw != was[0]
	row.Frontier, row.FrontNew = s.frontier, s.frontier != was[1]
}

// shorten leaves out the middle of a long story.
func shorten(story []Entry) []Entry {
	n := len(story) - storyMax
	if n <= 0 {
		return story
	}
	half := storyMax / 2
	gone := story[half]
	gone.Text, gone.Kind, gone.Who, gone.task = fmt.Sprintf("… %d more", n), "engine", "", 0
	return slices.Concat(story[:half], []Entry{gone}, story[half+n:])
}

// step is something that led to the failure, in words.
type step struct {
	At, Who, Text, Kind string
	Raw                 float64
	Needed              string

	task int64
	core bool
	last env.Instant // of what was added to it
}

// together is how close to each other things of one task are told as one step.
const together = env.Instant(time.Millisecond)

// stepsMax bounds how many steps the summary has.
const stepsMax = 14

// steps tells the story in few sentences: a call with what came of it, a task with what it did, a fault.
func (s *sequencer) steps(story []Entry) (list []step) {
	byCall := map[int64]int{} // the step of the call that a task serves
	for _, e := range story {
		if e.minor && e.Kind != "fault" || e.Kind == "failure" {
			continue
		}
		if at, ok := byCall[e.task]; ok && (e.Kind == "engine" || e.Kind == "disk") {
			list[at].add(e)
			continue
		}
		if n := len(list) - 1; n >= 0 && e.Kind != "client" && e.task != 0 && list[n].task == e.task && list[n].Kind == e.Kind && e.At-list[n].last < together {
			list[n].add(e)
			continue
		}
		st := step{At: clock(e.At), Raw: seconds(e.At), Kind: e.Kind, Who: e.Who, Text: e.Text, task: e.task, last: e.At, core: e.core || e.Kind == "fault"}
		switch e.Kind {
		case "client":
			st.Who, st.Needed = clientName(e.Who), s.needed(e)
			if e.task != 0 {
				byCall[e.task] = len(list)
			}
		case "engine", "disk":
			st.Who = role(e.Who)
		}
		list = append(list, st)
	}
	return fewSteps(list)
}

// add tells one more thing of the same task.
func (s *step) add(e Entry) {
	if strings.Count(s.Text, ";") < 4 {
		s.Text += "; " + e.Text
	}
	s.core, s.last = s.core || e.core, e.At
}

// fewSteps leaves out what came before anything about the failure itself, of a long list all that is not about it, and then the middle.
func fewSteps(list []step) []step {
	list = list[max(0, slices.IndexFunc(list, func(s step) bool { return s.core })):]
	if len(list) > stepsMax {
		core := slices.DeleteFunc(slices.Clone(list), func(s step) bool { return !s.core })
		if len(core) >= 3 {
			list = core
		}
	}
	if n := len(list) - stepsMax; n > 0 {
		const head = stepsMax / 4
		gone := step{Text: fmt.Sprintf("… %s, see below", plural(n+1, "more step")), Kind: "more"}
		list = slices.Concat(list[:head], []step{gone}, list[head+n+1:])
	}
	return list
}
