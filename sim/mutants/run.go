package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Outcome is what became of a mutant.
type Outcome struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Caught     bool     `json:"caught"`
	By         string   `json:"by,omitempty"` // the check of the first failing seed
	Expected   bool     `json:"expected"`     // By is one of the checks that the patch names
	Seed       uint64   `json:"seed,omitempty"`
	Seeds      int      `json:"seeds"` // that were run until it was caught
	CPUSeconds float64  `json:"cpu_seconds"`
	Error      string   `json:"error,omitempty"` // of the first failing seed, or why the mutant could not be run
	Files      []string `json:"files"`
}

// report is the part of narad-sim's JSON summary that is needed here.
type report struct {
	Seeds    int `json:"seeds"`
	Failures []struct {
		Seed  uint64 `json:"seed"`
		Error string `json:"error"`
	} `json:"failures"`
}

// invariant finds the name of the check in an error.
var invariant = regexp.MustCompile(`\b(INV|AVL|API|ORD|COM|CON|INF|LOG|PUMP|REC|WAL|Q)-\d+\b`)

// Run builds the simulator with the mutant and lets it run seeds until one fails. root is the module's root;
// extra are further arguments for the simulator.
func (m Mutant) Run(root string, seeds int, first uint64, extra ...string) (Outcome, error) {
	o := Outcome{Name: m.Name, Title: m.Title, Files: m.Files()}
	dir, err := os.MkdirTemp("", "narad-mutant-")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return o, err
	}
	binary := filepath.Join(dir, "narad-sim")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./cmd/narad-sim")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return o, fmt.Errorf("mutants: %s does not build: %w\n%s", m.Name, err, out)
	}
	args := append([]string{"-json", "-failfast", "-seeds", strconv.Itoa(seeds), "-first", strconv.FormatUint(first, 10)}, extra...)
	if m.Profile != "" {
		args = append(args, "-profile", m.Profile)
	}
	return o, o.simulate(m, exec.Command(binary, args...))
}

func (o *Outcome) simulate(m Mutant, sim *exec.Cmd) error {
	var out, errs bytes.Buffer
	sim.Stdout, sim.Stderr = &out, &errs
	runErr := sim.Run()
	if sim.ProcessState != nil {
		o.CPUSeconds = (sim.ProcessState.UserTime() + sim.ProcessState.SystemTime()).Round(time.Millisecond).Seconds()
	}
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return runErr
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil { // it hung, or ended the process
		o.Caught, o.By, o.Error = true, "crash of the simulator", firstLine(errs.String())
		return nil
	}
	o.Seeds = r.Seeds
	if len(r.Failures) == 0 {
		return nil
	}
	f := r.Failures[0]
	o.Caught, o.Seed, o.Error, o.By = true, f.Seed, firstLine(f.Error), invariant.FindString(f.Error)
	if o.By == "" {
		o.By = "panic or hang"
	}
	o.Expected = slices.Contains(m.Expect, o.By)
	return nil
}

func firstLine(s string) string {
	for i := range s {
		if s[i] == '\n' {
			return s[:i]
		}
	}
	return s
}
