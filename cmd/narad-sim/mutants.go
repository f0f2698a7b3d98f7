package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"narad/sim/mutants"
)

// mutantSeeds is the budget of a mutant in seeds: about a minute of a core, more than any known bug that a world shows takes.
const mutantSeeds = 1000

// runMutants plants each bug of the catalogue, one at a time, and reports which check caught it.
func runMutants(args []string) int {
	set := flag.NewFlagSet("narad-sim mutants", flag.ContinueOnError)
	seeds := set.Int("seeds", mutantSeeds, "the budget: how many seeds to run at most for each")
	first := set.Uint64("first", 1, "the first seed")
	only := set.String("only", "", "run the mutants whose name contains this")
	part := set.String("part", "", "run every n-th mutant, beginning with the k-th: k/n")
	list := set.Bool("list", false, "list the catalogue and run nothing")
	asJSON := set.Bool("json", false, "print the outcomes as JSON")
	asMarkdown := set.Bool("markdown", false, "print the outcomes as a table in Markdown")
	if err := set.Parse(args); err != nil {
		return 2
	}
	all, err := chosen(*only, *part)
	if err != nil {
		return usageError(err)
	}
	if *list {
		for _, m := range all {
			fmt.Printf("%-40s %s (%s)\n", m.Name, m.Title, m.Rule)
		}
		return 0
	}
	root, err := moduleRoot()
	if err != nil {
		return usageError(err)
	}
	outcomes, survivors := runAll(all, root, *seeds, *first)
	switch {
	case *asJSON:
		json.NewEncoder(os.Stdout).Encode(outcomes)
	case *asMarkdown:
		fmt.Print(mutantMarkdown(all, outcomes))
	default:
		fmt.Print(mutantTable(outcomes))
	}
	if survivors > 0 {
		fmt.Fprintf(os.Stderr, "%d of %d mutants were not caught\n", survivors, len(all))
		return 1
	}
	return 0
}

func usageError(err error) int {
	fmt.Fprintln(os.Stderr, "narad-sim mutants:", err)
	return 2
}

// chosen returns the mutants whose name contains only, and of those the part that is asked for.
func chosen(only, part string) (picked []mutants.Mutant, err error) {
	all, err := mutants.Load()
	if err != nil {
		return nil, err
	}
	k, n := 0, 1
	if part != "" {
		if _, err := fmt.Sscanf(part, "%d/%d", &k, &n); err != nil || k < 0 || k >= n {
			return nil, fmt.Errorf("-part is %q, it takes k/n with 0 ≤ k < n", part)
		}
	}
	for i, m := range all {
		if strings.Contains(m.Name, only) && i%n == k {
			picked = append(picked, m)
		}
	}
	if len(picked) == 0 {
		return nil, fmt.Errorf("no mutant's name contains %q", only)
	}
	return picked, nil
}

// moduleRoot finds the source: the patches apply to it.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "narad").Output()
	if err != nil {
		return "", fmt.Errorf("run it inside of the module, with the go command: %w", err)
	}
	return filepath.Clean(strings.TrimSpace(string(out))), nil
}

func runAll(all []mutants.Mutant, root string, seeds int, first uint64) (outcomes []mutants.Outcome, survivors int) {
	for i, m := range all {
		fmt.Fprintf(os.Stderr, "%d/%d %s … ", i+1, len(all), m.Name)
		o, err := m.Hunt(root, seeds, first)
		if err != nil {
			o.Error = err.Error()
		}
		outcomes = append(outcomes, o)
		switch {
		case o.Caught && o.Seeds == 0 && len(m.Tests) > 0:
			fmt.Fprintf(os.Stderr, "caught by %s, %.1f CPU seconds\n", o.By, o.CPUSeconds)
		case o.Caught:
			fmt.Fprintf(os.Stderr, "caught by %s at seed %d, %.1f CPU seconds\n", o.By, o.Seed, o.CPUSeconds)
		case err != nil:
			survivors++
			fmt.Fprintf(os.Stderr, "NOT RUN: %v\n", err)
		default:
			survivors++
			fmt.Fprintf(os.Stderr, "SURVIVED %d seeds, %.1f CPU seconds\n", o.Seeds, o.CPUSeconds)
		}
	}
	return outcomes, survivors
}

func mutantTable(outcomes []mutants.Outcome) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mutant\tcaught by\tseeds\tCPU s\twhat it does")
	for _, o := range outcomes {
		by := "SURVIVED"
		if o.Caught {
			by = o.By
			if !o.Expected {
				by += " (unexpected)"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%s\n", o.Name, by, o.Seeds, o.CPUSeconds, o.Title)
	}
	t.Flush()
	return b.String()
}

// mutantMarkdown is the table of sim/mutants/README.md.
func mutantMarkdown(all []mutants.Mutant, outcomes []mutants.Outcome) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| mutant | what it does | breaks | caught by | at seed | seeds | CPU s |")
	fmt.Fprintln(&b, "|---|---|---|---|---:|---:|---:|")
	for i, o := range outcomes {
		by, seed, seeds := "**survived**", "", fmt.Sprint(o.Seeds)
		switch {
		case o.Error != "" && !o.Caught:
			by = "**not run**"
		case o.Caught && len(all[i].Tests) > 0:
			by, seeds = "`"+all[i].Package+"` "+o.By, ""
		case o.Caught:
			by, seed = o.By, fmt.Sprint(o.Seed)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.1f |\n", o.Name, o.Title, all[i].Rule, by, seed, seeds, o.CPUSeconds)
	}
	return b.String()
}
