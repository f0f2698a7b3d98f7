package load

import (
	"errors"
	"fmt"
	"os"
	"time"

	"narad/bench/report"
	"narad/bench/tap"
)

// MatrixOptions say how to run the runs of the report.
type MatrixOptions struct {
	Dir      string
	Quick    bool
	Progress func(format string, args ...any)
	Server   func() (*Server, error) // starts one
}

// Titles of what Matrix returns; the data of each is a list of Result.
const (
	EmbeddedTitle = "Embedded engine, closed loop"
	HTTPTitle     = "Over HTTP, closed loop"
	LatencyTitle  = "End to end to a parked consumer, open loop over HTTP"
	IdleTitle     = "Idle, with parked consumers"
)

// Matrix makes the runs of the benchmark report.
func Matrix(o MatrixOptions) ([]report.Section, error) {
	var all []report.Section
	for _, part := range []func() (report.Section, error){o.embedded, o.overHTTP, o.latency, o.idle} {
		s, err := part()
		if len(s.Table.Rows) > 0 {
			all = append(all, s)
		}
		if s.Title == EmbeddedTitle {
			all = append(all, syncSection(s.Data.([]Result)))
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (o MatrixOptions) duration() time.Duration {
	if o.Quick {
		return 200 * time.Millisecond
	}
	return 2 * time.Second
}

// scaled cuts the numbers of a quick run down.
func (o MatrixOptions) scaled(specs []Spec) []Spec {
	for i := range specs {
		s := &specs[i]
		if s.Duration == 0 {
			s.Duration = o.duration()
		}
		if o.Quick {
			s.Clients, s.Elsewhere, s.Messages, s.Parked = min(s.Clients, 16), min(s.Elsewhere, 50), 1000, min(s.Parked, 50)
			s.Duration = min(s.Duration, o.duration())
		}
	}
	return specs
}

func (o MatrixOptions) embedded() (report.Section, error) {
	s := NewSection(EmbeddedTitle)
	var specs []Spec
	for _, n := range []int{1, 16, 64, 256} {
		specs = append(specs, Spec{Mode: Produce, Clients: n})
	}
	specs = append(specs,
		Spec{Mode: Produce, Clients: 16, Batch: 100, Size: 256}, Spec{Mode: Drain, Clients: 64}, Spec{Mode: Drain, Clients: 16, Batch: 100, Size: 256, Messages: 500_000},
		Spec{Mode: Full, Clients: 64}, Spec{Mode: Full, Clients: 256}, Spec{Mode: Full, Clients: 16, Batch: 32}, Spec{Mode: Full, Clients: 16, Batch: 100, Size: 256})
	err := o.runs(&s, o.scaled(specs), func(spec Spec) (Result, error) {
		dir, err := os.MkdirTemp(o.Dir, "embedded-")
		if err != nil {
			return Result{}, err
		}
		defer os.RemoveAll(dir)
		return RunEmbedded(spec, dir)
	})
	s.Notes = append(s.Notes, "CPU is of everything, clients included. Syncs are of all files together.")
	return s, err
}

// overHTTP starts a server for each group of runs, so that none inherits another's data.
func (o MatrixOptions) overHTTP() (report.Section, error) {
	s := NewSection(HTTPTitle)
	for _, specs := range [][]Spec{
		{{Mode: Produce, Clients: 1}, {Mode: Produce, Clients: 16}, {Mode: Produce, Clients: 64}, {Mode: Produce, Clients: 256}},
		{{Mode: Produce, Clients: 16, Batch: 100, Size: 256}, {Mode: Drain, Clients: 16, Batch: 100, Size: 256, Messages: 300_000}, {Mode: Drain, Clients: 64}, {Mode: Drain, Clients: 256}},
		{{Mode: Full, Clients: 2}, {Mode: Full, Clients: 16}, {Mode: Full, Clients: 64}, {Mode: Full, Clients: 256}},
		{{Mode: Full, Clients: 16, Batch: 32}, {Mode: Full, Clients: 16, Batch: 100, Size: 256}},
	} {
		if err := o.served(&s, specs); err != nil {
			return s, err
		}
	}
	s.Notes = append(s.Notes, "CPU is the server's alone, from the first measured message until the work it had put off is done.")
	s.Plots = ratePlots(s.Data.([]Result))
	return s, nil
}

// latency is an open loop.
func (o MatrixOptions) latency() (report.Section, error) {
	s := NewSection(LatencyTitle)
	wait := 3 * o.duration()
	specs := []Spec{
		{Mode: Full, Clients: 8, Rate: 100, Duration: wait}, {Mode: Full, Clients: 8, Rate: 100, Duration: wait, Elsewhere: 600},
		{Mode: Full, Clients: 8, Rate: 100, Duration: wait, Parked: 600}, {Mode: Full, Clients: 64, Rate: 1000, Duration: wait}, {Mode: Full, Clients: 128, Rate: 4000, Duration: wait},
	}
	raw, err := report.PacedSync(o.Dir, 100, wait/600)
	if err == nil {
		err = o.served(&s, specs)
	}
	plot := report.Plot{Title: "From due to delivered, by percentile", X: "1 / (1 − percentile)", Y: "ms", LogX: true, LogY: true}
	if all, ok := s.Data.([]Result); ok {
		for _, r := range all {
			for _, p := range r.Through.Curve {
				plot.Add(describe(r.Spec), p[0], p[1]/1e6)
			}
		}
	}
	s.Plots = []report.Plot{plot}
	s.Notes = append(s.Notes, "Latency counts from when a message was due: a server that stalls is charged for all that it held up. “client late” is how late the load generator itself was.",
		fmt.Sprintf("A message waits for two syncs, one of the ingress log and one of its partition. A bare write of 1 KiB and its sync in a prewritten file, after a rest of %s each, "+
			"took p50 %s p99 %s just before.", report.Duration(wait/600), report.Duration(raw.P50), report.Duration(raw.P99)))
	return s, err
}

func (o MatrixOptions) idle() (report.Section, error) {
	s := NewSection(IdleTitle)
	idle := 5 * o.duration() // CPU is told in steps of 10 ms
	err := o.served(&s, []Spec{{Mode: Idle, Clients: 1, Duration: idle}, {Mode: Idle, Clients: 1, Elsewhere: 600, Duration: idle}})
	s.Table = report.Table{Columns: []string{"parked", "cores used"}}
	if all, ok := s.Data.([]Result); ok {
		for _, r := range all {
			s.Table.Add(r.Spec.Elsewhere, r.CoresUsed)
		}
	}
	return s, err
}

// served runs against one server.
func (o MatrixOptions) served(s *report.Section, specs []Spec) (err error) {
	server, err := o.Server()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	return o.runs(s, o.scaled(specs), func(spec Spec) (Result, error) {
		if spec.Batch > 1 && !(&remote{server: server}).batches() {
			s.Notes = append(s.Notes, "This server takes no batches: "+describe(spec)+" was left out.")
			return Result{}, errSkip
		}
		return RunServer(spec, server)
	})
}

var errSkip = errors.New("load: left out")

func (o MatrixOptions) runs(s *report.Section, specs []Spec, one func(Spec) (Result, error)) error {
	all, _ := s.Data.([]Result)
	defer func() { s.Data = all }()
	for _, spec := range specs {
		o.Progress("%s: %s", s.Title, describe(spec))
		r, err := one(spec)
		if errors.Is(err, errSkip) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", describe(spec), err)
		}
		all = append(all, r)
		AddRow(s, r)
	}
	return nil
}

func describe(s Spec) string {
	s = s.withDefaults()
	text := fmt.Sprintf("%s, %d clients, %d B", s.Mode, s.Clients, s.Size)
	if s.Batch > 1 {
		text += fmt.Sprintf(", batches of %d", s.Batch)
	}
	if s.Rate > 0 {
		text += fmt.Sprintf(", %s/s", report.Number(s.Rate))
	}
	if s.Parked > 0 {
		text += fmt.Sprintf(", %d parked", s.Parked)
	}
	if s.Elsewhere > 0 {
		text += fmt.Sprintf(", %d parked elsewhere", s.Elsewhere)
	}
	return text
}

// NewSection returns an empty section for results.
func NewSection(title string) report.Section {
	return report.Section{Title: title, Table: report.Table{Columns: []string{
		"run", "messages/s", "produce p50", "p99", "consume p50", "p99", "ack p50", "p99", "end to end p50", "p99", "client late p99",
		"CPU µs/message", "client's", "cores", "syncs/message", "lost", "twice",
	}}}
}

// AddRow adds a result to a section made by NewSection.
func AddRow(s *report.Section, r Result) {
	name := describe(r.Spec)
	if r.Embedded {
		name = "embedded: " + name
	}
	syncs := any("–") // nobody counts those of a server
	if r.Embedded {
		syncs = r.Syncs
	}
	s.Table.Add(name, r.Messages(), r.Produce.P50, r.Produce.P99, r.Consume.P50, r.Consume.P99, r.Ack.P50, r.Ack.P99, r.Through.P50, r.Through.P99, r.Late.P99,
		r.CPU, r.ClientCPU, r.CoresUsed, syncs, r.Account.Lost, r.Account.Duplicates)
	if s.Data == nil {
		s.Data = []Result{r}
	}
}

// syncSection says which files the syncs of embedded runs are of.
func syncSection(all []Result) report.Section {
	s := report.Section{Title: "Syncs per message, by kind of file (embedded)", Table: report.Table{Columns: []string{"run", "all"}}}
	for k := range tap.Kinds {
		s.Table.Columns = append(s.Table.Columns, k.String())
	}
	s.Table.Columns = append(s.Table.Columns, "written bytes per message")
	for _, r := range all {
		if r.Spec.Mode == Drain {
			continue
		}
		// What was counted are the syncs until the work that was put off is done, as are the messages.
		messages := float64(r.SyncCount.Total().Syncs) / r.Syncs
		cells := []any{describe(r.Spec), r.Syncs}
		for _, c := range r.SyncCount {
			cells = append(cells, float64(c.Syncs)/messages)
		}
		s.Table.Add(append(cells, float64(r.SyncCount.Total().Bytes)/messages)...)
	}
	return s
}

func ratePlots(all []Result) []report.Plot {
	rate := report.Plot{Title: "Single messages of 1 KiB", X: "clients", Y: "messages a second", LogX: true}
	cpu := report.Plot{Title: "Server CPU", X: "clients", Y: "µs a message", LogX: true}
	for _, r := range all {
		if r.Spec.Batch == 1 && r.Spec.Rate == 0 {
			rate.Add(string(r.Spec.Mode), float64(r.Spec.Clients), r.Messages())
			cpu.Add(string(r.Spec.Mode), float64(r.Spec.Clients), r.CPU)
		}
	}
	return []report.Plot{rate, cpu}
}
