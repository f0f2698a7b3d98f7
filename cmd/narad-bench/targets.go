package main

import (
	"fmt"
	"slices"
	"time"

	"narad/bench"
	"narad/bench/load"
	"narad/bench/report"
)

// targetTable compares figures with what they are meant to be.
type targetTable struct{ report.Section }

// atLeast and atMost add a row; a figure that was not measured is left out.
func (t *targetTable) atLeast(what string, want, got float64) {
	t.row(what, "≥ ", want, got, got >= want)
}

func (t *targetTable) atMost(what string, want, got float64) {
	t.row(what, "≤ ", want, got, got <= want)
}

func (t *targetTable) row(what, sign string, want, got float64, met bool) {
	t.Table.Add(what, sign+report.Number(want), got, map[bool]string{true: "yes", false: "no"}[met])
}

// targets sums up what the benchmarks found against the aims of the project, for a machine of two cores with the client on it.
func targets(reports []*report.Report) *report.Report {
	t := &targetTable{report.Section{Title: "Targets", Table: report.Table{Columns: []string{"", "target", "measured", "met"}}}}
	t.produce(reports)
	t.flow(reports)
	t.wait(reports)
	t.growth(reports)
	r := &report.Report{Name: "targets", Command: commandLine(), Started: reports[0].Started, Machine: reports[0].Machine, Sections: []report.Section{t.Section}}
	for _, part := range reports {
		r.Seconds += part.Seconds
	}
	return r
}

func (t *targetTable) produce(reports []*report.Report) {
	for _, c := range data[contest](reports, "floor", floorTitle) {
		t.atLeast(fmt.Sprintf("produce over HTTP ÷ floor, %d clients", c.Clients), 0.9, float64(c.Ratio))
	}
	for _, r := range data[bench.RawTurns](reports, "floor", bench.RawLoopTitle) {
		t.atLeast("embedded produce ÷ bare loop of append and sync, one writer, files "+map[bool]string{false: "growing", true: "prepared"}[r.Prepared], 0.85, float64(r.OfAppends))
	}
	for _, r := range data[bench.RawBatchTurns](reports, "floor", bench.RawBatchTitle) {
		rate := report.Median(r.Produces)
		const what, most = "batches of 100 × 256 B produced embedded", 1_000_000
		if rate >= most {
			t.atLeast(what+", messages a second", most, rate)
		} else { // where the disk cannot do that
			t.atLeast(what+" ÷ what the disk can write twice", 0.5, float64(r.Ratio))
		}
	}
}

func (t *targetTable) flow(reports []*report.Report) {
	for _, r := range data[load.Result](reports, "load", load.HTTPTitle) {
		switch s := r.Spec; {
		case s.Mode == load.Produce && s.Batch == 100:
			t.atLeast("batches of 100 × 256 B produced over HTTP, messages a second", 300_000, r.Produced)
		case s.Mode == load.Full && s.Batch == 1 && s.Clients == 64:
			t.atLeast("full flow over HTTP, 64 clients", 10_000, r.Acked)
		case s.Mode == load.Full && s.Batch == 1 && s.Clients == 256:
			t.atLeast("full flow over HTTP, 256 clients", 13_000, r.Acked)
		case s.Mode == load.Full && s.Batch == 32:
			t.atLeast("full flow over HTTP, batches of 32, 16 clients", 40_000, r.Acked)
		case s.Mode == load.Full && s.Batch == 100:
			t.atLeast("full flow over HTTP, batches of 100 × 256 B", 150_000, r.Acked)
		}
	}
}

func (t *targetTable) wait(reports []*report.Report) {
	for _, r := range data[load.Result](reports, "load", load.LatencyTitle) {
		if r.Spec.Rate != 100 || r.Through.Count == 0 {
			continue
		}
		what := fmt.Sprintf("end to end at 100/s, %d parked at the topic, %d elsewhere: ", r.Spec.Parked, r.Spec.Elsewhere)
		t.atMost(what+"p50, ms", 1.5, ms(r.Through.P50))
		t.atMost(what+"p99, ms", 5, ms(r.Through.P99))
	}
	for _, r := range data[load.Result](reports, "load", load.IdleTitle) {
		if r.Spec.Elsewhere > 0 {
			t.atMost(fmt.Sprintf("cores used while %d consumers are parked", r.Spec.Elsewhere), 0.01, r.CoresUsed)
		}
	}
}

func ms(d time.Duration) float64 { return report.Milliseconds(d) }

// growth takes the largest size of each series.
func (t *targetTable) growth(reports []*report.Report) {
	for _, title := range append(slices.Clone(bench.FlatTitles), bench.HTTPTitle, bench.DiskTitle) {
		last := map[string]bench.Point{}
		var order []string
		for _, p := range data[bench.Point](reports, "growth", title) {
			if p.Series == bench.DiskCalls {
				continue // a bound
			}
			if _, ok := last[p.Series]; !ok {
				order = append(order, p.Series)
			}
			last[p.Series] = p
		}
		for _, name := range order {
			p := last[name]
			t.atMost(fmt.Sprintf("cost of a message, %s: %s, %d against ten", title, name, p.N), 1.2, float64(p.Of10))
		}
	}
}
