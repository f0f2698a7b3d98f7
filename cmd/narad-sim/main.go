// Command narad-sim runs real engines in simulated worlds that crash, lose power, stall and restart, and checks
// everything they do.
//
//	narad-sim                 the node profile over many seeds, on all cores
//	narad-sim -seed 42        replays one world with its event log
//	narad-sim -twice          runs every seed twice and compares the trace hashes; where they differ, finds the first difference
//	narad-sim -seed 42 -shrink -o plan.json
//	                          looks for a smaller world that fails alike
//	narad-sim -plan plan.json replays it; with -explain, -report FILE, -neighbours N, -until T and -regression DIR it shows
//	                          and keeps the failure (docs/simulator.md)
//	narad-sim mutants         plants known bugs, one at a time, and reports which check catches each
//	narad-sim realfs          crashes real engines on the real file system
//	narad-sim torture         kills a real server under the load of real clients
//
// It exits with 0 when nothing was violated, with 1 when something was, and with 2 when it was used wrongly.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"narad/sim/check"
	"narad/sim/workload"
)

// defaultSeeds is how many seeds a plain run takes; the README promises at least 200 within two minutes on
// two cores.
const defaultSeeds = 300

func main() {
	commands := map[string]func([]string) int{"mutants": runMutants, "realfs": runRealfs, "torture": runTorture}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		os.Exit(commands[os.Args[1]](os.Args[2:]))
	}
	os.Exit(runSeeds(os.Args[1:]))
}

type flags struct {
	campaign workload.Campaign
	seed     uint64
	single   bool
	quiet    bool
	json     bool
	hashes   bool
	cpu      string
	goals    string
	failure  failureFlags
}

func parse(args []string) (f flags, err error) {
	set := flag.NewFlagSet("narad-sim", flag.ContinueOnError)
	set.IntVar(&f.campaign.Seeds, "seeds", defaultSeeds, "how many seeds to run")
	set.Uint64Var(&f.campaign.First, "first", 1, "the first seed")
	set.IntVar(&f.campaign.Workers, "workers", 0, "worlds at a time (default: all cores)")
	set.BoolVar(&f.campaign.Twice, "twice", false, "run every seed twice and compare the trace hashes")
	set.BoolVar(&f.campaign.FailFast, "failfast", false, "start no further seed after a failure")
	set.BoolVar(&f.quiet, "quiet", false, "with -seed: no event log")
	set.BoolVar(&f.hashes, "hashes", false, "print only each seed and its trace hash")
	set.BoolVar(&f.json, "json", false, "print the summary as JSON")
	set.StringVar(&f.goals, "goals", goalsAuto, "when a goal that one node can reach never was: fail the default set (auto) or any (require), or "+goalsIgnore)
	set.StringVar(&f.cpu, "cpuprofile", "", "write a CPU profile of the campaign to this file")
	profile := set.String("profile", string(workload.NodeProfile), "kind of world: "+profiles())
	set.Uint64Var(&f.seed, "seed", 0, "replay this one world with its event log")
	f.failure.register(set)
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: narad-sim [flags]\n       narad-sim mutants [flags]\n       narad-sim realfs [flags]\n       narad-sim torture [flags]\n\n")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	set.Visit(func(v *flag.Flag) { f.single = f.single || v.Name == "seed" })
	if err := f.failure.check(f.single); err != nil {
		return f, err
	}
	f.single = f.single || f.failure.plan != ""
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.campaign.Seeds < 1 || f.campaign.Workers < 0 {
		return f, fmt.Errorf("-seeds must be at least 1 and -workers not negative")
	}
	if f.goals != goalsAuto && f.goals != goalsRequire && f.goals != goalsIgnore {
		return f, fmt.Errorf("-goals is %s, %s or %s, not %q", goalsAuto, goalsRequire, goalsIgnore, f.goals)
	}
	f.campaign.Profile = workload.Profile(*profile)
	for _, p := range workload.Profiles() {
		if p == f.campaign.Profile {
			return f, nil
		}
	}
	return f, fmt.Errorf("no profile %q; there are %s", *profile, profiles())
}

func profiles() string {
	var names []string
	for _, p := range workload.Profiles() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

func runSeeds(args []string) int {
	f, err := parse(args)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(os.Stderr, "narad-sim:", err)
		}
		return 2
	}
	if f.single {
		return single(f)
	}
	return campaign(f)
}

// replay runs one world with its event log on standard output.
func replay(f flags, c workload.Case) int {
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	o := c.Options()
	if !f.quiet {
		o.Log = out
	}
	start := time.Now()
	r := workload.Run(o)
	r.Real = time.Since(start)
	fmt.Fprintf(out, "\nseed %d, hash %016x, %v simulated in %v, %d steps\n", r.Seed, r.Hash, r.Simulated.Round(time.Millisecond), r.Real.Round(time.Millisecond), r.Stats.Steps)
	if r.Err != nil {
		fmt.Fprintf(out, "FAILED: %v\n", r.Err)
	}
	out.Flush()
	if r.Err != nil {
		return 1
	}
	return 0
}

// memoryPerWorld is the memory beyond which speed is given up for it, for each world at a time. Without a limit 100,000 seeds on two cores took
// 18 GB.
const memoryPerWorld = 2 << 30

// memoryForSpeed has garbage collected seldom, since most worlds are small and leave much behind, as long as there is room for it. The
// runtime's own variables win.
func memoryForSpeed(workers int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(workers) * memoryPerWorld)
	}
}

func campaign(f flags) int {
	memoryForSpeed(workers(f.campaign))
	if f.cpu != "" {
		stop, err := profileCPU(f.cpu)
		if err != nil {
			fmt.Fprintln(os.Stderr, "narad-sim:", err)
			return 2
		}
		defer stop()
	}
	p := newProgress(f.campaign.Seeds, !f.json && !f.hashes)
	var hashes []string
	s := f.campaign.Run(func(r workload.Result) {
		p.done(r)
		hashes = append(hashes, fmt.Sprintf("%8d %016x", r.Seed, r.Hash))
		if r.Err != nil {
			p.say(failure(r, f.campaign.Profile))
		}
	})
	p.end()
	switch {
	case f.json:
		json.NewEncoder(os.Stdout).Encode(summaryJSON(s))
	case f.hashes:
		slices.Sort(hashes) // worlds end in any order
		fmt.Println(strings.Join(hashes, "\n"))
	default:
		fmt.Print(table(s, f.campaign), goalTable(s.Total.Goals), faultTable(s.Total.Stats), pointTable(s.Total.Stats))
	}
	code := 0
	if left := check.Unreached(s.Total.Goals, check.OneNode); len(left) > 0 && goalsRequired(f.goals, f.campaign) {
		fmt.Fprint(os.Stderr, missing(left))
		code = 1
	}
	for _, seed := range s.Diverged[:min(len(s.Diverged), 3)] {
		fmt.Fprint(os.Stderr, divergence(seed, f.campaign.Profile))
	}
	if len(s.Undecided) > 0 {
		fmt.Fprintf(os.Stderr, "not passed: %d histories were not decided in time, in seeds %v\n", s.Total.UnknownHistories, s.Undecided)
	}
	if len(s.Failures) > 0 || len(s.Diverged) > 0 || len(s.Undecided) > 0 {
		return 1
	}
	return code
}

// profileCPU writes a CPU profile to a file until stop is called.
func profileCPU(path string) (stop func(), err error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := out.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "narad-sim:", err)
		}
	}, nil
}

// failure says what a seed violated and how to see it again.
func failure(r workload.Result, p workload.Profile) string {
	return fmt.Sprintf("seed %d FAILED: %v\nreproduce: %s\n", r.Seed, r.Err, reproduce(r.Seed, p))
}

func reproduce(seed uint64, p workload.Profile) string {
	line := fmt.Sprintf("go run ./cmd/narad-sim -seed %d", seed)
	if p != workload.NodeProfile {
		line += " -profile " + string(p)
	}
	return line
}
