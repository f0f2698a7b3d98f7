package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"narad/sim/workload"
)

// table is the closing report of a campaign.
func table(s workload.Summary, c workload.Campaign) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	x := s.Total
	row("seeds", "%d (%d to %d), profile %s", s.Seeds, c.First, c.First+uint64(c.Seeds)-1, c.Profile)
	row("failures", "%d%s", len(s.Failures), seeds(s.Failures))
	if c.Twice {
		row("run twice", "%d with equal trace hashes, %d diverged %v", s.Seeds-len(s.Diverged), len(s.Diverged), s.Diverged)
	}
	row("simulated time", "%v in %v: %.0f times real time; worlds of less than an hour, each on its core: %.0f times", s.Simulated.Round(time.Second), s.Real.Round(time.Millisecond), s.Simulated.Seconds()/s.Real.Seconds(), s.ShortRatio())
	row("speed", "%.0f seeds a minute, %d at a time; half of the worlds are shorter than %v of simulated time", float64(s.Seeds)/s.Real.Minutes(), workers(c), s.Median().Round(100*time.Millisecond))
	row("scheduler", "%d steps, %.2f million a second, %d starvations", x.Stats.Steps, float64(x.Stats.Steps)/s.Real.Seconds()/1e6, x.Stats.Starved)
	row("process crashes", "%d; seeds without one: %d", x.Stats.ProcessCrashes, s.WithoutProcessCrash)
	row("disks that lied", "%d seeds ended early", s.Conceded)
	row("power losses", "%d", x.Stats.PowerLosses)
	row("crashes in recovery", "%d", x.RecoveryCrashes)
	row("graceful stops", "%d", x.GracefulStops)
	row("disk", "%d calls, %d stalls, %d unsynced sectors lost, %d writes torn, %d names lost, %d writes cut by a crash", x.Stats.DiskOps, x.Stats.Stalls, x.Stats.Losses.SectorsLost, x.Stats.Losses.TornWrites, x.Stats.Losses.NamesLost, x.Stats.PartialWrites)
	row("messages", "%d tried, %d accepted, %d acked", x.Tried, x.Accepted, x.Acked)
	row("engine", "%d commits, %d leases, %d deliveries seen by clients; at rest and checked %d times", x.Commits, x.Leases, x.Delivered, x.Quiets)
	row("redeliveries", "%s", counts(x.Causes))
	row("porcupine", "%d histories of stored copies legal, %d not decided", x.Histories, x.UnknownHistories)
	row("rotten records", "%d given up", x.Corrupt)
	t.Flush()
	return b.String()
}

func seeds(failures []workload.Result) string {
	if len(failures) == 0 {
		return ""
	}
	var list []string
	for _, f := range failures {
		list = append(list, fmt.Sprint(f.Seed))
	}
	return ": seeds " + strings.Join(list, " ")
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// workers is how many worlds ran at a time.
func workers(c workload.Campaign) int {
	if c.Workers > 0 {
		return c.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// report is the JSON form of a summary.
type report struct {
	Seeds    int            `json:"seeds"`
	Failures []failureJSON  `json:"failures"`
	Diverged []uint64       `json:"diverged,omitempty"`
	RealS    float64        `json:"real_seconds"`
	SimS     float64        `json:"simulated_seconds"`
	Steps    int64          `json:"steps"`
	Crashes  int            `json:"process_crashes"`
	Power    int            `json:"power_losses"`
	Recovery int            `json:"crashes_in_recovery"`
	Torn     int            `json:"torn_writes"`
	Accepted int            `json:"accepted"`
	Acked    int            `json:"acked"`
	Causes   map[string]int `json:"redeliveries"`
	Goals    map[string]int `json:"goals"`
}

type failureJSON struct {
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

func summaryJSON(s workload.Summary) report {
	x := s.Total
	r := report{
		Seeds: s.Seeds, Failures: []failureJSON{}, Diverged: s.Diverged, RealS: s.Real.Seconds(), SimS: s.Simulated.Seconds(),
		Steps: x.Stats.Steps, Crashes: x.Stats.ProcessCrashes, Power: x.Stats.PowerLosses, Recovery: x.RecoveryCrashes,
		Torn: x.Stats.Losses.TornWrites, Accepted: x.Accepted, Acked: x.Acked, Causes: x.Causes, Goals: x.Goals,
	}
	for _, f := range s.Failures {
		r.Failures = append(r.Failures, failureJSON{f.Seed, f.Err.Error()})
	}
	return r
}
