// Command narad-bench measures Narad on the machine that it runs on.
//
//	narad-bench cadence   what a durability cadence costs, and what a crash brings back
//	narad-bench load      produce, drain and full flow, over HTTP or embedded
//	narad-bench floor     produces over HTTP against the smallest server that keeps the same promise
//	narad-bench engine    the figures that the specification claims, each as a ratio of one run
//	narad-bench growth    how costs grow with topics, partitions, consumers and data
//	narad-bench sim       the speed of the simulator
//	narad-bench all       everything, into one directory
//
// Each prints a table and can write JSON and a page with plots.
//
// Files: main.go (commands common to all), cadence.go, load.go, floor.go, growth.go (engine, too), sim.go, all.go, targets.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"narad/bench"
	"narad/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	if err := a.root().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "narad-bench: %v\n", err)
		os.Exit(1)
	}
}

// app is what the commands share.
type app struct {
	stdout, stderr io.Writer
	dir            string
	quick          bool
	json, html     string
	profile        string
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "narad-bench", Short: "Measure Narad on this machine", SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&a.dir, "dir", ".", "measure on the disk that this directory is on; what is made in it is removed")
	f.BoolVar(&a.quick, "quick", false, "a smoke test: all of it runs, briefly; the figures are worth little")
	f.StringVar(&a.json, "json", "", "write the figures and the facts of the machine to this file")
	f.StringVar(&a.html, "html", "", "write a page with plots to this file")
	f.StringVar(&a.profile, "cpuprofile", "", "write a CPU profile of this process to this file, for go tool pprof")
	root.AddCommand(a.cadenceCommand(), a.trafficCommand(), a.loadCommand(), a.floorCommand(), a.floorServeCommand(),
		a.engineCommand(), a.growthCommand(), a.simCommand(), a.allCommand())
	return root
}

// options are those of package bench.
func (a *app) options(dir string) bench.Options {
	return bench.Options{Dir: dir, Quick: a.quick, Progress: a.progress, Child: trafficProcess}
}

func (a *app) progress(format string, args ...any) {
	fmt.Fprintf(a.stderr, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// report describes the machine, lets run measure in a directory of its own, and shows what it found. What was found
// before a failure is shown too.
func (a *app) report(ctx context.Context, name string, run func(dir string) ([]report.Section, error)) error {
	dir, err := filepath.Abs(a.dir)
	if err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "narad-bench-"); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	defer removeAll(dir)
	r := &report.Report{Name: name, Command: commandLine(), Started: time.Now()}
	if r.Program, err = report.Program(); err != nil {
		return err
	}
	if r.Machine, err = report.Describe(dir); err != nil {
		return err
	}
	stop, err := startProfile(a.profile)
	if err != nil {
		return err
	}
	r.Sections, err = untilDone(ctx, func() ([]report.Section, error) { return run(dir) })
	err = errors.Join(err, stop())
	r.Seconds = time.Since(r.Started).Seconds()
	if !slices.ContainsFunc(r.Sections, func(s report.Section) bool { return len(s.Table.Rows) > 0 }) {
		return err
	}
	r.WriteText(a.stdout)
	return errors.Join(err, toFile(a.json, r.WriteJSON), toFile(a.html, func(w io.Writer) error { return report.WriteHTML(w, r) }))
}

var errStopped = errors.New("stopped")

// untilDone runs what measures, and leaves it alone when the command is to end: this process ends then, and its servers with it.
func untilDone(ctx context.Context, run func() ([]report.Section, error)) ([]report.Section, error) {
	ended := make(chan struct{})
	var sections []report.Section
	var err error
	go func() {
		sections, err = run()
		close(ended)
	}()
	select {
	case <-ended:
		return sections, err
	case <-ctx.Done():
		return nil, errStopped
	}
}

// removeAll removes a directory in which somebody may still make files.
func removeAll(dir string) {
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startProfile profiles this process until stop is called; without a name it does nothing.
func startProfile(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// commandLine is how to repeat the run; where files are is left out.
func commandLine() string {
	words := []string{"narad-bench"}
	for i := 1; i < len(os.Args); i++ {
		name, _, inOne := strings.Cut(os.Args[i], "=")
		switch name {
		case "--dir", "--json", "--html", "--out", "--narad", "--cpuprofile":
			if !inOne {
				i++
			}
		default:
			words = append(words, os.Args[i])
		}
	}
	return strings.Join(words, " ")
}

// toFile lets write fill a file; without a name it does nothing.
func toFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
