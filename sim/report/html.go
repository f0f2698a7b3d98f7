package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"narad/env"
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
	Lead      string // of the detail: its first line
	Rest      string // and the others
	Summary   string
	Reproduce string
	Facts     [][2]string
	Story     []row
	Crashes   []crashRow
	Copies    []copyPage
	State     string
	Data      template.JS
	Script    template.JS
}

type row struct {
	At   string
	Raw  float64
	Who  string
	Kind string
	Text string
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
		Failed: r.Result.Err != nil, Focus: f, About: f.String(), State: r.State, Reproduce: r.reproduce(),
		Data: template.JS(data), Script: template.JS(pageJS), Facts: r.facts(), Summary: r.summary(),
	}
	p.Title = "no violation"
	if p.Failed {
		p.Title = f.Invariant
		p.Lead, p.Rest, _ = strings.Cut(f.Detail, "\n")
	}
	p.Story = rows(story)
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

func rows(story []Entry) (list []row) {
	for i, e := range story {
		if n := len(story) - storyMax; n > 0 && i >= storyMax/2 && i < storyMax/2+n {
			if i == storyMax/2 {
				list = append(list, row{At: "…", Kind: "engine", Text: fmt.Sprintf("%d more", n)})
			}
			continue
		}
		list = append(list, row{clock(e.At), seconds(e.At), e.Who, e.Kind, e.Text})
	}
	return list
}

func clock(at env.Instant) string { return fmt.Sprintf("%.6f", seconds(at)) }

func (r *Recording) reproduce() string {
	if r.Case.Choices == nil {
		return fmt.Sprintf("go run ./cmd/narad-sim -seed %d", r.Case.Seed)
	}
	return "go run ./cmd/narad-sim -plan FILE.json"
}

// summary says in a sentence how large the world is.
func (r *Recording) summary() string {
	s := r.Result.Stats
	return fmt.Sprintf("%d client operations on %d messages; %d process crashes, %d power losses, %d pauses; %v of virtual time.",
		r.Result.Operations, r.Result.Tried, s.ProcessCrashes, s.PowerLosses, s.Pauses, r.Result.Simulated.Round(time.Microsecond))
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
