package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/term"

	"narad/sim/shrink"
	"narad/sim/workload"
)

// shrinkCase makes the case smaller, and writes it. An interrupt ends the search, not the program.
func shrinkCase(c *workload.Case, a failureFlags) error {
	before := workload.Run(recording(*c))
	if before.Err == nil {
		return errors.New("this world does not fail: there is nothing to shrink")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	small, found, err := workload.Shrink(ctx, *c, shrink.Options{Runs: a.runs, Time: a.budget, Progress: shrinkProgress()})
	if err != nil {
		return err
	}
	small.Commit = commit()
	path := planPath(small, a)
	if err := writeCase(small, path); err != nil {
		return err
	}
	*c = small
	after := workload.Run(recording(small))
	fmt.Print(beforeAfter(before, after, len(found.Input.Choices)))
	end := "nothing that was tried made it smaller"
	if !found.Done {
		end = "the budget ended"
	}
	fmt.Printf("\n%d worlds run in %v, %d of them smaller than the one before; %s\n", found.Runs, found.Elapsed.Round(time.Millisecond), found.Accepted, end)
	fmt.Printf("still fails: %v\nwritten to %s; repeat it with\n  narad-sim -plan %s\n", after.Err, path, path)
	return nil
}

// planPath is the file that the plan is written to.
func planPath(c workload.Case, a failureFlags) string {
	return cmp.Or(a.out, fmt.Sprintf("seed-%d.json", c.Seed))
}

func recording(c workload.Case) workload.Options {
	o := c.Options()
	o.Record = true
	return o
}

// beforeAfter compares a world with the one it was shrunk to; choices counts those that are left of it: behind them all are 0.
func beforeAfter(before, after workload.Result, choices int) string {
	text := fmt.Sprintf("%-20s %12s %12s\n", "", "before", "after")
	row := func(name string, a, b any) { text += fmt.Sprintf("%-20s %12v %12v\n", name, a, b) }
	row("choices", len(before.Choices), choices)
	row("of them not 0", nonZero(before.Choices), nonZero(after.Choices))
	row("steps", before.Stats.Steps, after.Stats.Steps)
	row("simulated time", before.Simulated.Round(time.Millisecond), after.Simulated.Round(time.Millisecond))
	row("client operations", before.Operations, after.Operations)
	row("messages tried", before.Tried, after.Tried)
	row("faults", before.Faults(), after.Faults())
	row("  process crashes", before.Stats.ProcessCrashes, after.Stats.ProcessCrashes)
	row("  power losses", before.Stats.PowerLosses, after.Stats.PowerLosses)
	row("  pauses", before.Stats.Pauses, after.Stats.Pauses)
	row("graceful stops", before.GracefulStops, after.GracefulStops)
	row("boots", before.Stats.Boots, after.Stats.Boots)
	return text
}

func nonZero(choices []uint32) (n int) {
	for _, c := range choices {
		if c != 0 {
			n++
		}
	}
	return n
}

// shrinkProgress shows how far the search is, on one line of a terminal, or now and then.
func shrinkProgress() func(shrink.Progress) {
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	every, last := 5*time.Second, time.Time{}
	if terminal {
		every = 200 * time.Millisecond
	}
	return func(p shrink.Progress) {
		if now := time.Now(); now.Sub(last) < every {
			return
		} else {
			last = now
		}
		line := fmt.Sprintf("%-14s %6d worlds, %4d smaller; %7d choices, %6d not 0; weight %d; %v", p.Pass, p.Runs, p.Accepted, p.Choices, p.NonZero, p.Weight, p.Elapsed.Round(100*time.Millisecond))
		if terminal {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%s", line)
		} else {
			fmt.Fprintln(os.Stderr, line)
		}
	}
}

// neighbours prints which decisions made the world fail.
func neighbours(c workload.Case, count int) error {
	start := time.Now()
	decisions, err := workload.Neighbours(c, shrink.NeighbourOptions{Count: count, Workers: runtime.GOMAXPROCS(0)})
	if errors.Is(err, shrink.ErrPasses) {
		return errors.New("this world does not fail: it has no decisive decisions")
	}
	if err != nil {
		return err
	}
	runs := 0
	var decisive, rest []shrink.Decision
	for _, d := range decisions {
		runs += d.Tried
		if d.Decisive() {
			decisive = append(decisive, d)
		} else {
			rest = append(rest, d)
		}
	}
	fmt.Printf("%d decisions varied one at a time in %d worlds and %v\n", len(decisions), runs, time.Since(start).Round(time.Millisecond))
	fmt.Printf("\ndecisive: whatever else was decided there, this failure did not happen\n")
	printDecisions(decisive)
	fmt.Printf("\nothers\n")
	printDecisions(rest)
	return nil
}

func printDecisions(list []shrink.Decision) {
	if len(list) == 0 {
		fmt.Println("  none")
	}
	for _, d := range list {
		fmt.Printf("  %14.9f  %-26s %-34s %d of %d; gone in %d of %d", d.At.Seconds(), d.Task, d.Site, d.Value, d.N, d.Gone, d.Tried)
		if d.Other > 0 {
			fmt.Printf(", %d with another failure", d.Other)
		}
		if d.Then != "" {
			fmt.Printf("; then: %s", shorten(d.Then, 90))
		}
		fmt.Println()
	}
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
