package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"narad/engine"
	"narad/env"
	"narad/sim/workload"
)

//go:embed page.html
var pageHTML string

//go:embed page.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page is what the template shows.
type page struct {
	Title     string
	Failed    bool
	Focus     Focus
	About     string
	Topic     string // what its topic is set to
	Lead      string // of the detail: its first line
	Rest      string // and the others
	Expected  string
	Missing   string
	Summary   string
	Decisive  string
	Needed    *Needed
	NeedText  string
	Reproduce string
	PlanName  string // of the file that Reproduce reads, "" when it needs none
	PlanData  template.URL
	Facts     [][2]string
	Steps     []step
	Sequence  sequence
	Decisions []step
	EndAt     string
	Crashes   []crashRow
	Copies    []copyPage
	State     string
	Data      template.JS
	Script    template.JS
}

type crashRow struct {
	At, Node, Kind, Text string
	Life                 int
}

type copyPage struct {
	Name string
	Page string // a document of its own
}

// copiesMax bounds how many histories are drawn.
const copiesMax = 3

// storyMax bounds how many lines of the story the page shows: of more, the first and the last.
const storyMax = 300

// HTML writes the report as one file that needs nothing else.
func (r *Recording) HTML(w io.Writer) error {
	f := r.Focus()
	story := r.Story()
	data, err := json.Marshal(r.draw(f, story))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	p := page{
		Failed: r.Result.Err != nil, Focus: f, About: f.String(), State: r.State, Decisive: r.decisive(), Needed: r.Needed,
		Data: template.JS(data), Script: template.JS(pageJS), Facts: r.facts(), Summary: r.summary(),
	}
	p.Title = "no violation"
	if p.Failed {
		p.Expected, p.Missing = r.expected(f), r.missing(f)
		p.Title = f.Invariant
		p.Lead, p.Rest, _ = strings.Cut(f.Detail, "\n")
		p.Rest, p.Topic = inSeconds(p.Rest), r.topicWords(f)
	}
	p.Reproduce, p.PlanName = r.reproduce()
	if p.PlanName != "" {
		plan, err := r.planFile()
		if err != nil {
			return err
		}
		p.PlanData = template.URL("data:application/json;base64," + base64.StdEncoding.EncodeToString(plan))
	}
	steps := r.sequencer(f)
	p.Steps, p.Sequence, p.NeedText = steps.steps(story), r.sequence(f, story), r.neededWords()
	p.EndAt = clock(r.End)
	if r.Needed != nil {
		for _, d := range r.Needed.Others {
			p.Decisions = append(p.Decisions, step{At: clock(env.Instant(d.At)), Raw: d.At.Seconds(), Text: decisionWords(d)})
		}
	}
	for _, c := range r.Crashes {
		p.Crashes = append(p.Crashes, crashRow{clock(c.At), c.Node, c.Kind.String(), crashWords(c), c.Life})
	}
	for _, o := range f.Offsets[:min(len(f.Offsets), copiesMax)] {
		if doc := r.copyPage(f.Node, f.Key, o); doc != nil {
			p.Copies = append(p.Copies, copyPage{fmt.Sprintf("%s %s offset %d", f.Node, part(f.Key), o), string(doc)})
		}
	}
	return pageTemplate.Execute(w, p)
}

var nanoseconds = regexp.MustCompile(`\b(\d+) … (\d+)\b`)

// inSeconds rewrites the spans of a history, which are in nanoseconds.
func inSeconds(text string) string {
	return nanoseconds.ReplaceAllStringFunc(text, func(span string) string {
		m := nanoseconds.FindStringSubmatch(span)
		return fmt.Sprintf("%12s … %12s s", clock(env.Instant(number(m[1]))), clock(env.Instant(number(m[2]))))
	})
}

func clock(at env.Instant) string { return fmt.Sprintf("%.6f", seconds(at)) }

// reproduce returns the line that repeats the world, and the name of the plan file that it reads: "" when the seed is enough.
func (r *Recording) reproduce() (line, plan string) {
	if r.Case.Choices == nil {
		line = fmt.Sprintf("go run ./cmd/narad-sim -seed %d", r.Case.Seed)
		if r.Case.Profile != workload.NodeProfile {
			line += " -profile " + string(r.Case.Profile)
		}
		return line, ""
	}
	plan = fmt.Sprintf("seed-%d.json", r.Case.Seed)
	if r.PlanFile != "" {
		plan = r.PlanFile
	}
	return "go run ./cmd/narad-sim -plan " + plan, filepath.Base(plan)
}

// planFile returns the plan as narad-sim writes it.
func (r *Recording) planFile() ([]byte, error) {
	var b bytes.Buffer
	err := r.Case.Write(&b)
	return b.Bytes(), err
}

// neededWords says which calls the failure needs.
func (r *Recording) neededWords() string {
	n := r.Needed
	if n == nil || len(n.Calls) == 0 {
		return ""
	}
	all := "client call"
	switch needed := n.neededCalls(); {
	case needed == len(n.Calls) && needed == 1:
		return "The one " + all + " of the traffic is needed: the world was run again without it."
	case needed == len(n.Calls):
		return fmt.Sprintf("Each of the %d %ss of the traffic is needed: the world was run again without each.", needed, all)
	default:
		return fmt.Sprintf("Of %s of the traffic %d are needed: the world was run again without each.", plural(len(n.Calls), all), needed)
	}
}

// topicWords says what the topic of the failure is set to, as it was created.
func (r *Recording) topicWords(f Focus) string {
	for _, e := range r.Events {
		v, ok := e.Event.Event.(engine.TopicCreated)
		if !ok || v.Topic.Name != f.Key.Topic || f.Node != "" && e.Node != f.Node {
			continue
		}
		t := v.Topic
		return fmt.Sprintf("Topic %s: %s, a lease lasts %v; of a partition at most %d are leased at a time and %d acked ahead.",
			t.Name, plural(int(t.Partitions), "partition"), time.Duration(t.VisibilityMs)*time.Millisecond, t.MaxInFlight, t.MaxAckedAhead)
	}
	return ""
}

// summary says in a sentence how large the world is.
func (r *Recording) summary() string {
	s := r.Result.Stats
	return fmt.Sprintf("%s on %s; %s, %s, %s; %v of virtual time.",
		plural(r.Result.Operations, "client operation"), plural(r.Result.Tried, "message"), plural(s.ProcessCrashes, "process crash"),
		plural(s.PowerLosses, "power loss"), plural(s.Pauses, "pause"), r.Result.Simulated.Round(time.Microsecond))
}

func (r *Recording) facts() [][2]string {
	x, s := r.Result, r.Result.Stats
	facts := [][2]string{
		{"seed", fmt.Sprint(r.Case.Seed)},
		{"choices", fmt.Sprintf("%d kept, zeros behind them", len(r.Case.Choices))},
		{"trace hash", fmt.Sprintf("%016x", x.Hash)},
		{"plan", x.Plan},
		{"steps", fmt.Sprint(s.Steps)},
		{"messages", fmt.Sprintf("%d tried, %d accepted, %d acked, %d deliveries", x.Tried, x.Accepted, x.Acked, x.Delivered)},
		{"file calls", fmt.Sprint(s.DiskOps)},
	}
	if r.Case.Choices == nil {
		facts[1][1] = "those of the seed"
	}
	if r.Case.Commit != "" {
		facts = append(facts, [2]string{"source", r.Case.Commit})
	}
	return facts
}
