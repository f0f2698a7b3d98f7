package bench

import (
	"fmt"
	"time"

	"narad/bench/report"
)

// Claim is a figure that the specification gives, and what this run says to it.
type Claim struct {
	ID       string       `json:"id"`
	Says     string       `json:"says"`
	Measured string       `json:"measured"`
	Wanted   float64      `json:"wanted_ratio"`
	Ratio    report.Ratio `json:"ratio"`
	Verdict  string       `json:"verdict"`
	Why      string       `json:"why,omitempty"`
}

// The verdicts.
const (
	reproduced = "reproduced"
	direction  = "direction only"
	refuted    = "not on this machine"
)

// judge compares a ratio with the claimed one. Both are above 1 when the claim is that something is better.
func judge(ratio, wanted float64) string {
	switch {
	case ratio >= 0.8*wanted:
		return reproduced
	case ratio > 1.05:
		return direction
	}
	return refuted
}

// judgeFlat is for what must not grow.
func judgeFlat(ratio, most float64) string {
	if ratio <= most {
		return reproduced
	}
	return refuted
}

// Claims measures PERF-02 to PERF-09, PERF-13 and PERF-14. The other lines are about clusters.
func Claims(o Options) ([]report.Section, error) {
	s := report.Section{Title: "Figures that the specification claims, as ratios of this run", Table: report.Table{
		Columns: []string{"line", "the specification", "here", "claimed ratio", "measured", "verdict"},
	}}
	claims, err := o.codeClaims()
	if err != nil {
		return nil, err
	}
	disk, err := o.diskClaims()
	if err != nil {
		return nil, err
	}
	claims = append(claims, disk...)
	for _, c := range claims {
		s.Table.Add(c.ID, c.Says, c.Measured, c.Wanted, c.Ratio, c.Verdict)
		if c.Why != "" {
			s.Notes = append(s.Notes, c.ID+": "+c.Why)
		}
	}
	s.Data = claims
	s.Notes = append(s.Notes,
		"reproduced: at least 0.8 of the claimed ratio, or flat within 1.2; direction only: better, but by less.",
		"PERF-01, PERF-10, PERF-11, PERF-12 and PERF-15 are about several nodes, which this stage does not have.")
	return []report.Section{s}, nil
}

// codeClaims are about code, without a disk.
func (o Options) codeClaims() ([]Claim, error) {
	o.Progress("Go benchmarks of packages engine and inflight")
	ns, allocs, err := goBench(o, "narad/engine", "narad/inflight")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"02/scan", "02/mark", "03/8-single", "03/8-many", "03/12-single", "03/12-many", "04/shift", "04/table", "13/1", "13/100", "13/10000", "14"} {
		if ns[name] == 0 && name != "14" {
			return nil, fmt.Errorf("benchmark PERF%s gave no figure", name)
		}
	}
	text := func(name string) string { return report.Duration(time.Duration(ns[name])) }
	versus := func(id, says, old, now string, wanted float64, why string) Claim {
		r := ns[old] / ns[now]
		return Claim{id, says, text(old) + " → " + text(now), wanted, report.Ratio(r), judge(r, wanted), why}
	}
	flat := ns["13/10000"] / ns["13/1"]
	none := judgeFlat(allocs["14"], 0)
	return []Claim{
		versus("PERF-02", "leaving a queue of 1,000: 550 → 100 ns", "02/scan", "02/mark", 5.5, "the ring in which leavers are marked, against a slice that is searched and closed up."),
		versus("PERF-03", "empty consume over 8 partitions 18% cheaper with one look-up for all", "03/8-single", "03/8-many", 1/(1-0.18), ""),
		versus("PERF-03", "over 12 partitions 22% cheaper", "03/12-single", "03/12-many", 1/(1-0.22), ""),
		versus("PERF-04", "expiry among 50,000 deliveries: 60 µs → 141 ns", "04/shift", "04/table", 60000.0/141, "forwarded deliveries come with the cluster; here it is the lease table, which has the same work to do."),
		{"PERF-13", "cost of a commit is flat in the number of parked consumers", text("13/1") + " / " + text("13/100") + " / " + text("13/10000") + " at 1 / 100 / 10,000", 1.2, report.Ratio(flat), judgeFlat(flat, 1.2),
			"produce, dispatch, wake and deliver on a disk that takes no time. In the run with one consumer that one acks before it waits again; with more the next stands ready."},
		{"PERF-14", "no allocation for a commit nobody waits for", fmt.Sprintf("%g allocations, %s", allocs["14"], text("14")), 0, report.Ratio(allocs["14"]), none, ""},
	}, nil
}

// diskClaims are about the committer on this disk.
func (o Options) diskClaims() ([]Claim, error) {
	cells := map[string]Cell{}
	for _, want := range []struct {
		name  string
		d     Design
		dirty int
	}{{"tick/12", eachTick, 12}, {"tick/64", eachTick, 64}, {"tick/256", eachTick, pick(o, 64, 256)}, {"two/64", twoCadences, 64}, {"two/256", twoCadences, pick(o, 64, 256)}, {"parallel/12", parallelTick, 12}} {
		c := base(want.d)
		c.Dirty = want.dirty
		c, err := o.measure(c)
		if err != nil {
			return nil, err
		}
		if c.First == 0 || c.Tick.Count == 0 {
			return nil, fmt.Errorf("%s: no tick was seen", want.name)
		}
		cells[want.name] = c
	}
	t12, t64, t256 := cells["tick/12"], cells["tick/64"], cells["tick/256"]
	two64, two256, par12 := cells["two/64"], cells["two/256"], cells["parallel/12"]
	over := func(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }
	ratio := func(id, says, here string, wanted, r float64, why string) Claim {
		return Claim{id, says, here, wanted, report.Ratio(r), judge(r, wanted), why}
	}
	three := func(a, b, c time.Duration) string {
		return report.Duration(a) + " / " + report.Duration(b) + " / " + report.Duration(c)
	}
	return []Claim{
		ratio("PERF-05", "first tick after an upgrade, 256 partitions: 0.55 s, old flush 1.5 s", report.Duration(two256.First)+" against "+report.Duration(t256.Tick.P50),
			1.5/0.55, over(t256.Tick.P50, two256.First), "macOS flushes the device once for all files. On Linux each prime syncs a file and a directory, so the first tick costs more than a flush."),
		ratio("PERF-06", "one sync for each changed partition: 67 / 366 / 1,500 ms at 12 / 64 / 256", three(t12.Tick.P50, t64.Tick.P50, t256.Tick.P50),
			1500.0/67, over(t256.Tick.P50, t12.Tick.P50), "the ratio is 256 partitions to 12: a flush grows with what changed."),
		ratio("PERF-07", "produces beside 64 changed partitions: 168.4/s with two cadences, 82.9/s with one", fmt.Sprintf("%s against %s of idle", report.Number(two64.OfIdle()), report.Number(t64.OfIdle())),
			168.4/82.9, two64.OfIdle()/t64.OfIdle(), "each relative to the idle rate of its own cell. A sync takes a fraction of a millisecond here and 5.6 ms there, so there is less to win."),
		ratio("PERF-08", "writing out all 256 partitions at Close: 21 ms, old flush 1.5 s", report.Duration(two256.Close)+" against "+report.Duration(t256.Tick.P50),
			1500.0/21, over(t256.Tick.P50, two256.Close), "macOS again: one device flush. On Linux Close syncs each file, consumer.offset too."),
		ratio("PERF-09", "8 syncs at a time: flush 2.4 to 3.7 times quicker at 12 partitions", report.Duration(t12.Tick.P50)+" → "+report.Duration(par12.Tick.P50),
			2.4, over(t12.Tick.P50, par12.Tick.P50), ""),
		ratio("PERF-09", "and the 99th percentile of a produce 10 → 22 ms", report.Duration(t12.Produce.P99)+" → "+report.Duration(par12.Produce.P99),
			2.2, over(par12.Produce.P99, t12.Produce.P99), "the price of syncs in parallel; the reason why there is one at a time."),
	}, nil
}
