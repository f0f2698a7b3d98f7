package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"narad/sim"
	"narad/sim/check"
	"narad/sim/workload"
)

// Ways to treat goals that were not reached.
const (
	goalsAuto    = "auto"    // required of the default set
	goalsRequire = "require" // required of any
	goalsIgnore  = "ignore"
)

// goalsRequired reports whether a campaign has to reach all goals.
func goalsRequired(how string, c workload.Campaign) bool {
	return how == goalsRequire || how == goalsAuto && c.Profile == workload.NodeProfile && c.First == 1 && c.Seeds >= defaultSeeds
}

// goalTable lists the goals and how often each was reached.
func goalTable(reached map[string]int) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	var cluster []string
	for _, g := range check.Goals() {
		if g.Scope == check.Cluster {
			cluster = append(cluster, g.ID)
			continue
		}
		count := fmt.Sprint(reached[g.ID])
		if reached[g.ID] == 0 {
			count = "NEVER"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", g.ID, count, g.What)
	}
	t.Flush()
	var others []string
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		if !check.IsGoal(name) {
			others = append(others, fmt.Sprintf("%s %d", name, reached[name]))
		}
	}
	return fmt.Sprintf("\ngoals (docs/requirements.md) and how often each was reached\n%s  need more than one node: %s\nother situations: %s\n",
		b.String(), strings.Join(cluster, ", "), strings.Join(others, ", "))
}

// column is a way in which a call can be hit.
type column struct {
	name  string
	count func(at sim.CallPlace) int64
	can   func(op sim.Op) bool
}

func columns(s sim.Stats) []column {
	crash := func(kind sim.CrashKind) func(sim.CallPlace) int64 {
		return func(at sim.CallPlace) int64 { return s.Calls[at].Crashed[kind] }
	}
	list := []column{
		{"crash", crash(sim.ProcessCrash), func(sim.Op) bool { return true }},
		{"power", crash(sim.PowerFailure), func(sim.Op) bool { return true }},
	}
	for _, f := range sim.Faults() {
		list = append(list, column{f.String(), func(at sim.CallPlace) int64 { return int64(s.Faults[sim.FaultCount{Fault: f, CallPlace: at}]) }, f.Strikes})
	}
	return list
}

// faultTable shows how often each kind of fault hit each kind of call on each kind of file.
func faultTable(s sim.Stats) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	cols := columns(s)
	fmt.Fprint(t, "file\tcall\tcalls\t")
	for _, c := range cols {
		fmt.Fprintf(t, "%s\t", c.name)
	}
	fmt.Fprintln(t)
	places := slices.SortedFunc(maps.Keys(s.Calls), func(a, b sim.CallPlace) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return int(a.Op) - int(b.Op)
	})
	never, cells := 0, 0
	for _, at := range places {
		fmt.Fprintf(t, "%s\t%v\t%d\t", at.File, at.Op, s.Calls[at].Passed)
		for _, c := range cols {
			n := c.count(at)
			switch {
			case n > 0:
				fmt.Fprintf(t, "%d\t", n)
			case !c.can(at.Op):
				fmt.Fprint(t, "\t")
				continue
			default:
				fmt.Fprint(t, "never\t")
				never++
			}
			cells++
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	return fmt.Sprintf("\nfaults by kind of file and call: how often each hit, blank where it cannot (%d of %d never)\n%s", never, cells, b.String())
}

// pointTable shows what happened at each named point.
func pointTable(s sim.Stats) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "passed\tothers ran\tlingered\tcrash\tpower\t")
	names := workload.Points()
	for name := range s.Points { // order-free: sorted below
		if !slices.Contains(names, name) {
			names = append(names[:len(names):len(names)], name)
		}
	}
	slices.Sort(names)
	never, beyond, uncut := 0, 0, 0
	for _, name := range names {
		p := s.Points[name]
		if why := workload.Beyond(name); why != "" && p.Passed == 0 {
			beyond++
			fmt.Fprintf(t, "–\t\t\t\t\t  %s (%s)\n", name, why)
			continue
		}
		if p.Passed == 0 {
			never++
		} else if p.Switched == 0 || p.Crashed[sim.ProcessCrash]+p.Crashed[sim.PowerFailure] == 0 {
			uncut++
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t  %s\n", p.Passed, p.Switched, p.Lingered, p.Crashed[sim.ProcessCrash], p.Crashed[sim.PowerFailure], name)
	}
	t.Flush()
	return fmt.Sprintf("\nnamed points: where others ran, tasks stayed and crashes struck (%d of %d never passed, %d more cannot be here, %d never cut in one of these ways)\n%s", never, len(names), beyond, uncut, b.String())
}

// missing says which goals a campaign had to reach and did not.
func missing(left []check.Goal) string {
	var ids []string
	for _, g := range left {
		ids = append(ids, g.ID)
	}
	return fmt.Sprintf("%d goals were never reached: %s\n", len(left), strings.Join(ids, ", "))
}
