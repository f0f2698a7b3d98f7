package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"narad/sim/workload"
)

// failureFlags say what to do with one world, beyond running it.
type failureFlags struct {
	plan       string
	shrink     bool
	out        string
	budget     time.Duration
	runs       int
	regression string
	until      time.Duration
	explain    bool
	neighbours int
	report     string
}

func (f *failureFlags) register(set *flag.FlagSet) {
	set.StringVar(&f.plan, "plan", "", "replay the world of this plan file instead of a seed's")
	set.BoolVar(&f.shrink, "shrink", false, "with -seed or -plan: look for a smaller world that fails alike")
	set.StringVar(&f.out, "o", "", "with -shrink: write the plan to this file (default: seed-N.json)")
	set.DurationVar(&f.budget, "budget", 5*time.Minute, "with -shrink: how long to look at most")
	set.IntVar(&f.runs, "runs", 20_000, "with -shrink: how many worlds to run at most")
	set.StringVar(&f.regression, "regression", "", "with -shrink or -plan: write the plan and a test that replays it into this directory of a package")
	set.DurationVar(&f.until, "until", 0, "with -seed or -plan: stop at this virtual time and print the state of every node and task")
	set.BoolVar(&f.explain, "explain", false, "with -seed or -plan: tell the story of what the failing check is about")
	set.IntVar(&f.neighbours, "neighbours", 0, "with -seed or -plan: vary this many decisions one at a time and name those without which nothing fails")
	set.StringVar(&f.report, "report", "", "with -seed or -plan: write an HTML report of the world to this file")
}

// check reports flags that do not fit together.
func (f *failureFlags) check(single bool) error {
	if f.plan != "" {
		if single {
			return errors.New("-plan and -seed exclude each other")
		}
		single = true
	}
	wants := f.shrink || f.regression != "" || f.until != 0 || f.explain || f.neighbours != 0 || f.report != "" || f.out != ""
	switch {
	case wants && !single:
		return errors.New("-shrink, -o, -regression, -until, -explain, -neighbours and -report take one world: add -seed or -plan")
	case f.out != "" && !f.shrink:
		return errors.New("-o is the file that -shrink writes")
	case f.budget <= 0 || f.runs < 1 || f.until < 0 || f.neighbours < 0:
		return errors.New("-budget and -runs must be positive, -until and -neighbours not negative")
	}
	return nil
}

// world returns the case that the flags name.
func (f *flags) world() (workload.Case, error) {
	if f.failure.plan == "" {
		return workload.NewCase(workload.Options{Seed: f.seed, Profile: f.campaign.Profile}, workload.Result{}), nil
	}
	b, err := os.ReadFile(f.failure.plan)
	if err != nil {
		return workload.Case{}, err
	}
	c, err := workload.ReadCase(bytes.NewReader(b))
	if err != nil {
		return c, fmt.Errorf("%s: %w", f.failure.plan, err)
	}
	return c, nil
}

// single does with one world what the flags ask for. It answers the exit code.
func single(f flags) int {
	c, err := f.world()
	if err != nil {
		fmt.Fprintln(os.Stderr, "narad-sim:", err)
		return 2
	}
	a := f.failure
	switch {
	case a.shrink:
		err = shrinkCase(&c, a)
	case a.neighbours > 0:
		err = neighbours(c, a.neighbours)
	case a.report == "" && !a.explain && a.until == 0 && a.regression == "":
		return replay(f, c)
	}
	if err == nil && a.regression != "" {
		err = writeRegression(c, a.regression)
	}
	if err == nil && (a.report != "" || a.explain || a.until != 0) {
		err = show(c, a)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "narad-sim:", err)
		return 2
	}
	return 0
}

func writeCase(c workload.Case, path string) error {
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// commit names the source, if git knows it: a plan repeats on this source.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
