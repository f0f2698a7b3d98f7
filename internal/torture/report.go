package torture

import (
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

// Report is what a run came to.
type Report struct {
	Shape                string
	Seed                 uint64
	Took                 time.Duration
	Kills                int // while serving
	KilledStarting       int // before it served
	Pauses               int
	Starts               int
	SlowestStart         time.Duration
	Visibility, Window   time.Duration
	Produced             Outcomes
	Acks, Nacks, Extends Outcomes
	Deliveries           int
	Copies               int // stored copies that were delivered
	Doubles              int // messages delivered from more than one stored copy
	Undone               int // deliveries of a copy whose ack had got 204, all explained by a kill
	OldestUndone         time.Duration
	Linearizable         int      // copies whose history is
	Undecided            int      // copies that porcupine could not decide in time: not passed
	Violations           []string // empty: nothing was wrong
	Drawing              []byte   // porcupine's page of the first copy that is not linearizable
}

// Outcomes counts answers.
type Outcomes struct{ OK, Refused, Unknown int }

func (o *Outcomes) add(what outcome) {
	switch what {
	case ok:
		o.OK++
	case refused:
		o.Refused++
	default:
		o.Unknown++
	}
}

// Passed reports whether nothing was wrong and everything was decided.
func (v *Report) Passed() bool { return len(v.Violations) == 0 && v.Undecided == 0 }

// judge fills in what the history says.
func (v *Report) judge(h *history, drained time.Duration) {
	for _, p := range h.produced {
		v.Produced.add(p.outcome)
	}
	for _, s := range h.settled {
		[...]*Outcomes{ack: &v.Acks, nack: &v.Nacks, extend: &v.Extends}[s.verb].add(s.outcome)
	}
	f := h.check()
	v.Deliveries, v.Copies, v.Doubles, v.Undone, v.OldestUndone, v.Violations = len(h.deliveries), f.copies, f.doubles, f.undone, f.oldest, f.violations
	l := h.linearize(drained)
	v.Linearizable, v.Undecided, v.Drawing = l.checked, l.unknown, l.page
	for _, c := range l.illegal {
		v.Violations = append(v.Violations, fmt.Sprintf("INV-06: %v: the history of this copy is not linearizable", c))
	}
}

// lines are the figures, in the order of reading.
func (v *Report) lines() [][2]string {
	ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
	answers := func(o Outcomes) string {
		return fmt.Sprintf("%d answered 204, %d answered 410, %d unknown", o.OK, o.Refused, o.Unknown)
	}
	return [][2]string{
		{"load", v.Shape},
		{"seed of the clients", fmt.Sprint(v.Seed)},
		{"took", v.Took.Round(time.Second).String()},
		{"kills", fmt.Sprintf("%d while serving, %d while recovering, %d processes stood still for a while", v.Kills, v.KilledStarting, v.Pauses)},
		{"starts", fmt.Sprintf("%d, the slowest took %s", v.Starts, ms(v.SlowestStart))},
		{"produced", fmt.Sprintf("%d answered 202, %d unknown, %d never sent", v.Produced.OK, v.Produced.Unknown, v.Produced.Refused)},
		{"delivered", fmt.Sprintf("%d times, %d stored copies, %d messages from more than one copy", v.Deliveries, v.Copies, v.Doubles)},
		{"acks", answers(v.Acks)}, {"nacks", answers(v.Nacks)}, {"extends", answers(v.Extends)},
		{"acks undone by a kill", fmt.Sprintf("%d, the oldest %s before it (allowed: %s)", v.Undone, ms(v.OldestUndone), ms(v.Window))},
		{"porcupine", fmt.Sprintf("%d copies linearizable, %d not decided in time", v.Linearizable, v.Undecided)},
		{"violations", fmt.Sprint(len(v.Violations))},
	}
}

// violationsShown bounds how many a report lists.
const violationsShown = 50

// Text is the report in plain text.
func (v *Report) Text() string {
	var b strings.Builder
	for _, l := range v.lines() {
		fmt.Fprintf(&b, "%-22s %s\n", l[0], l[1])
	}
	for _, one := range v.Violations[:min(len(v.Violations), violationsShown)] {
		fmt.Fprintf(&b, "  %s\n", one)
	}
	return b.String()
}

var page = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>narad-sim torture</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}td{padding:.1em 1em .1em 0;vertical-align:top}
.passed{color:#00683c}.failed{color:#b00020}li{font-family:monospace}iframe{width:100%;height:40em;border:1px solid #999}</style>
<h1>narad-sim torture: <span class="{{if .Passed}}passed">passed{{else}}failed">FAILED{{end}}</span></h1>
<table>{{range .Lines}}<tr><td>{{index . 0}}</td><td>{{index . 1}}</td></tr>{{end}}</table>
{{with .Violations}}<h2>Violations</h2><ol>{{range .}}<li>{{.}}</li>{{end}}</ol>{{end}}
{{with .Drawing}}<h2>The first history that is not linearizable</h2><iframe srcdoc="{{.}}"></iframe>{{end}}
</html>
`))

// HTML writes the report as one page that needs no network.
func (v *Report) HTML(w io.Writer) error {
	return page.Execute(w, struct {
		Passed     bool
		Lines      [][2]string
		Violations []string
		Drawing    string
	}{v.Passed(), v.lines(), v.Violations[:min(len(v.Violations), violationsShown)], string(v.Drawing)})
}
