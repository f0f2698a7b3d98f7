package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"narad/internal/torture"
	"narad/sim/mutants"
)

type tortureFlags struct {
	config torture.Config
	report string
	mutant string
}

func parseTorture(args []string) (f tortureFlags, err error) {
	c := &f.config
	set := flag.NewFlagSet("narad-sim torture", flag.ContinueOnError)
	set.IntVar(&c.Kills, "kills", 200, "how often the server is killed while it serves; some recoveries are killed too")
	set.IntVar(&c.Topics, "topics", 3, "how many topics")
	set.IntVar(&c.Partitions, "partitions", 6, "of each topic")
	set.IntVar(&c.Producers, "producers", 64, "clients that produce")
	set.IntVar(&c.Consumers, "consumers", 64, "clients that consume")
	set.IntVar(&c.Rate, "rate", 800, "messages a second that producers try to send")
	set.DurationVar(&c.Visibility, "visibility", 1500*time.Millisecond, "how long a lease lasts")
	set.DurationVar(&c.Window, "window", 2100*time.Millisecond, "how old an ack may be at the kill that undoes it: a tick of 100ms, and time for a machine that is busy")
	set.BoolVar(&c.Pauses, "pauses", true, "let the process stand still now and then (SIGSTOP)")
	set.Uint64Var(&c.Seed, "seed", uint64(time.Now().UnixNano()), "of what clients and the killer do; processes, networks and disks do as they like")
	set.StringVar(&c.Binary, "binary", "", "the narad command to torture (default: one that is built now)")
	set.StringVar(&c.Dir, "dir", "", "directory of the server, on the file system to be tried (default: a temporary one)")
	set.StringVar(&f.report, "report", "", "write a page of HTML to this file")
	set.StringVar(&f.mutant, "mutant", "", "plant this bug of the catalogue in the server; then a violation is what is wanted")
	set.Usage = func() {
		fmt.Fprintf(set.Output(), "usage: narad-sim torture [flags]\n\n")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	switch {
	case set.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	case min(c.Kills, c.Topics, c.Partitions, c.Producers, c.Consumers, c.Rate) < 1 || c.Window <= 0:
		return f, errors.New("-kills, -topics, -partitions, -producers, -consumers, -rate and -window must be at least 1")
	case c.Visibility < 100*time.Millisecond || c.Visibility > time.Minute:
		return f, fmt.Errorf("-visibility is 100ms to 1m, not %v", c.Visibility)
	case c.Binary != "" && f.mutant != "":
		return f, errors.New("-mutant builds the server itself: leave -binary away")
	}
	return f, nil
}

// runTorture kills a real server. See package torture.
func runTorture(args []string) int {
	f, err := parseTorture(args)
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "narad-sim torture:", err)
		}
		return 2
	}
	work, err := os.MkdirTemp("", "narad-torture-")
	if err == nil {
		err = f.prepare(work)
	}
	if err != nil {
		os.RemoveAll(work)
		fmt.Fprintln(os.Stderr, "narad-sim torture:", err)
		return 2
	}
	f.config.Progress = func(p torture.Progress) {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%d/%d kills and %d of recoveries, %d accepted, %d acked, %v, %s ", p.Kills, p.Of, p.Starting, p.Accepted, p.Acked, p.Took.Round(time.Second), p.Phase)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	v, err := torture.Run(ctx, f.config)
	fmt.Fprintln(os.Stderr)
	code := f.verdict(v, err)
	if code == 0 {
		os.RemoveAll(work)
	} else {
		fmt.Fprintf(os.Stderr, "the data is in %s\ntry again: go run ./cmd/narad-sim torture -seed %d -kills %d\n", f.config.Dir, f.config.Seed, f.config.Kills)
	}
	return code
}

// prepare builds what there is not yet.
func (f *tortureFlags) prepare(work string) (err error) {
	if f.config.Dir == "" {
		f.config.Dir = filepath.Join(work, "server")
	}
	if err := os.MkdirAll(f.config.Dir, 0o700); err != nil {
		return err
	}
	if f.config.Binary != "" {
		f.config.Binary, err = filepath.Abs(f.config.Binary)
		return err
	}
	f.config.Binary = filepath.Join(work, "narad")
	return build(f.mutant, "./cmd/narad", f.config.Binary, work)
}

func (f *tortureFlags) verdict(v *torture.Report, err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		return 1
	}
	fmt.Print(v.Text())
	if f.report != "" {
		if err := writeReport(f.report, v); err != nil {
			fmt.Fprintln(os.Stderr, "narad-sim torture:", err)
			return 2
		}
	}
	if !v.Passed() {
		return 1
	}
	return 0
}

func writeReport(path string, v *torture.Report) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(v.HTML(out), out.Close())
}

// build builds a command of the module, with a mutant planted unless its name is empty. work is for what that needs.
func build(mutant, command, binary, work string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", binary}
	if mutant != "" {
		m, err := mutantCalled(mutant)
		if err != nil {
			return err
		}
		overlay, err := m.Overlay(root, work)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	compile := exec.Command("go", append(args, command)...)
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not build: %w\n%s", command, err, out)
	}
	return nil
}

func mutantCalled(name string) (mutants.Mutant, error) {
	all, err := mutants.Load()
	if err != nil {
		return mutants.Mutant{}, err
	}
	for _, m := range all {
		if m.Name == name {
			return m, nil
		}
	}
	return mutants.Mutant{}, fmt.Errorf("no mutant is called %q; narad-sim mutants -list names them", name)
}
