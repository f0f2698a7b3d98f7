package report

import (
	"fmt"
	"slices"
	"strings"

	"narad/sim"
	"narad/sim/shrink"
	"narad/sim/workload"
)

// Needed says what a failure hangs on, found out by running the world again, each time without one thing.
type Needed struct {
	Runs   int
	Calls  []Call             // client calls that were left out, one at a time
	Fault  string             // the decisive one, in words
	Varied int                // further decisions that were changed, one at a time
	Others []shrink.Decision  // of these: those after whose change the failure never came
	Spared map[string]Outcome // what became of the world without a kind of fault, by kind
}

// Outcome is what a world did in which something was left out.
type Outcome string

// Outcomes.
const (
	Same  Outcome = "fails alike"
	Gone  Outcome = "passes"
	Other Outcome = "fails otherwise"
)

// Call is a call that was left out.
type Call struct {
	workload.Call
	Without Outcome
}

// Bounds of what is explored: of a larger world nearly everything is needed, because every change shifts what follows.
const (
	exploreCalls = 60
	exploreSteps = 20_000
	exploreOther = 40 // decisions
	longerBy     = 3  // how many times longer than the world one of its neighbours may get
)

// Explore runs the failing world again without each of its client calls and faults, if it is small enough for that to mean something. What it
// finds is told by the story and the page. A world that passes, and one that does not repeat, are left alone.
func (r *Recording) Explore() error {
	if r.Result.Err == nil || r.Result.Operations > exploreCalls || r.Result.Stats.Steps > exploreSteps {
		return nil
	}
	return r.explore(workload.Run, workload.Neighbours)
}

func (r *Recording) explore(world func(workload.Options) workload.Result, neighbours func(workload.Case, shrink.NeighbourOptions) ([]shrink.Decision, error)) error {
	x := explorer{r: r, limits: r.Result.Used, want: workload.Fingerprint(r.Result.Err), found: &Needed{Spared: map[string]Outcome{}}, world: world}
	if r.Case.Limits != nil {
		x.limits = *r.Case.Limits
	}
	if x.run(x.limits, nil) != Same {
		return nil
	}
	x.calls()
	x.faults()
	c := r.Case
	c.Limits, c.Choices = &x.limits, r.Result.Choices
	list, err := neighbours(c, shrink.NeighbourOptions{Count: exploreOther, Workers: 1})
	if err != nil {
		return err
	}
	x.decisions(list)
	r.Needed = x.found
	return nil
}

type explorer struct {
	r      *Recording
	limits workload.Limits
	want   string
	found  *Needed
	world  func(workload.Options) workload.Result
}

// run runs the world within other limits.
func (x *explorer) run(l workload.Limits, watch *workload.Watch) Outcome {
	o := x.r.Case.Options()
	o.Choices, o.Limits, o.Watch = x.r.Result.Choices, &l, watch
	o.MaxSteps = longerBy*x.r.Result.Stats.Steps + 1000
	x.found.Runs++
	switch workload.Fingerprint(x.world(o).Err) {
	case x.want:
		return Same
	case "":
		return Gone
	}
	return Other
}

// calls leaves out one call at a time.
func (x *explorer) calls() {
	for _, c := range x.r.Calls {
		if c.Number < 0 {
			continue
		}
		l := x.limits
		l.Without = append(slices.Clone(l.Without), c.Number)
		slices.Sort(l.Without)
		x.found.Calls = append(x.found.Calls, Call{c, x.run(l, nil)})
	}
	slices.SortStableFunc(x.found.Calls, func(a, b Call) int { return int(a.Start - b.Start) })
}

// faults looks for the first strike, and the first file call that fails, with which the world fails alike: without it, and with
// all that came before it, it does not.
func (x *explorer) faults() {
	if x.r.Result.Faults() == 0 && x.r.Result.Used.Strikes == 0 {
		return
	}
	none := x.limits
	none.Strikes, none.FaultsBelow = 0, 1
	if x.found.Spared["fault"] = x.run(none, nil); x.found.Spared["fault"] == Same {
		return
	}
	for strikes := range x.limits.Strikes + 1 {
		l, last := x.limits, ""
		l.Strikes = strikes
		if x.run(l, lastFault(&last)) != Same {
			continue
		}
		if strikes > 0 {
			x.found.Fault = last
		}
		break
	}
	if x.limits.FaultsBelow < 2 {
		return
	}
	for below := range x.limits.FaultsBelow {
		l, last := x.limits, ""
		l.FaultsBelow = below + 1
		if x.run(l, lastFault(&last)) != Same {
			continue
		}
		if below > 0 {
			x.found.Fault = strings.TrimPrefix(x.found.Fault+"; and "+fmt.Sprintf("failing file call %d: %s", below, last), "; and ")
		}
		break
	}
}

// lastFault keeps in words the newest fault of a run.
func lastFault(last *string) *workload.Watch {
	return &workload.Watch{
		Crashed: func(c workload.Crashed) {
			what := "process crash"
			if c.Kind == sim.PowerFailure {
				what = "power loss"
			}
			*last = fmt.Sprintf("the %s of %s at %s s", what, c.Node, clock(c.At))
		},
		Trace: sim.Trace{Line: func(l sim.Line) {
			switch {
			case strings.Contains(l.Text, ": pause"), strings.HasPrefix(l.Text, "fault: "):
				*last = fmt.Sprintf("%s at %s s", strings.TrimPrefix(l.Text, "fault: "), clock(l.At))
			}
		}},
	}
}

// decisions keeps those after whose change the failure never came, of clients, the nemesis, disks and crashes.
func (x *explorer) decisions(list []shrink.Decision) {
	for _, d := range list {
		if !shrink.Telling(d.Drawn) {
			continue
		}
		x.found.Varied++
		x.found.Runs += d.Tried
		if d.Decisive() && d.Tried > 0 && d.At > 0 { // at the start the plan is drawn, and with another one nothing is the same
			x.found.Others = append(x.found.Others, d)
		}
	}
}

// decisive says in words which fault the failure hangs on.
func (r *Recording) decisive() string {
	faults := r.Result.Faults()
	switch {
	case faults == 0 && r.claimed():
		return "No fault happens in this world, and none is needed. The check asks the simulated disk what a loss of power at this very instant could take of what the engine has just said to be safe."
	case faults == 0:
		return "No fault happens in this world, and none is needed: no crash, no loss of power, no file call that fails. The calls below, in this order, are enough."
	case r.Needed == nil:
		return fmt.Sprintf("%s. Which of them matters is found out for worlds of up to %d calls: shrink this one first (-shrink).", plural(faults, "fault"), exploreCalls)
	case r.Needed.Spared["fault"] == Same:
		return fmt.Sprintf("%s, and none is needed: without any the world fails alike.", plural(faults, "fault"))
	case r.Needed.Fault != "":
		return "Decisive is " + r.Needed.Fault + ": without it, and with all that came before it, this failure does not come."
	}
	return fmt.Sprintf("%s. Without any of them this failure does not come.", plural(faults, "fault"))
}

// claimed reports whether the check asked the disk what it could lose.
func (r *Recording) claimed() bool {
	return r.Result.Err != nil && strings.Contains(r.Result.Err.Error(), "a power loss now could")
}

// neededCalls counts the calls without which the failure does not come.
func (n *Needed) neededCalls() (count int) {
	for _, c := range n.Calls {
		if c.Without != Same {
			count++
		}
	}
	return count
}

// decisionWords says what was decided.
func decisionWords(d shrink.Decision) string {
	text := fmt.Sprintf("%s: %s draws %d of %d; %s led elsewhere", d.Task, d.Site, d.Value, d.N, plural(d.Tried, "other value"))
	if d.Then != "" {
		text += "; then: " + firstLine(d.Then)
	}
	return text
}
