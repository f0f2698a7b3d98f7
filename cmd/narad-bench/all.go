package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"narad/bench/report"
)

// parts are the benchmarks of the whole report, in the order of their pages.
var parts = []struct {
	name string
	args []string
}{
	{"floor", []string{"floor"}},
	{"load", []string{"load", "--matrix"}},
	{"cadence", []string{"cadence"}},
	{"engine", []string{"engine"}},
	{"growth", []string{"growth"}},
	{"sim", []string{"sim"}},
}

func (a *app) allCommand() *cobra.Command {
	var out, narad string
	var fresh bool
	c := &cobra.Command{
		Use: "all --out DIR", Short: "Everything, into one directory", Args: cobra.NoArgs,
		Long: `Runs every benchmark, each in a process of its own, and writes to DIR: one JSON file for each, report.html with all plots and
report.md with all tables. A run that was interrupted goes on where it stopped: what is in DIR of the same program is kept.
A part that fails is shown as far as it came.
It takes about half an hour, and wants the machine for itself.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(out, 0o777); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
			dir := a.dir
			if !cmd.Flags().Changed("dir") {
				dir = out
			}
			return a.all(cmd.Context(), out, dir, narad, fresh)
		},
	}
	c.Flags().StringVar(&out, "out", "", "directory of the results")
	c.Flags().StringVar(&narad, "narad", "", "narad command to start servers with; default: the one beside this program, or one that is built")
	c.Flags().BoolVar(&fresh, "fresh", false, "keep nothing of an earlier run")
	c.MarkFlagRequired("out")
	return c
}

func (a *app) all(ctx context.Context, out, dir, narad string, fresh bool) error {
	begin := time.Now()
	var reports []*report.Report
	var failed error
	program, err := report.Program()
	if err != nil {
		return err
	}
	for i, p := range parts {
		file := filepath.Join(out, p.name+".json")
		if fresh || !isCurrent(file, program, a.quick) {
			a.progress("%d of %d: %s", i+1, len(parts), p.name)
			if err := a.part(ctx, p.name, p.args, file, dir, narad); err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("stopped; the same command goes on with %s", p.name)
				}
				failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
				a.progress("%s failed: %v", p.name, err)
			}
		} else {
			a.progress("%d of %d: %s is there already", i+1, len(parts), p.name)
		}
		if r := found(file, program, a.quick); r != nil {
			reports = append(reports, r)
		}
	}
	if len(reports) > 0 {
		reports = append([]*report.Report{targets(reports)}, reports...)
	}
	for _, r := range reports[:min(1, len(reports))] {
		r.WriteText(a.stdout)
	}
	page, tables := filepath.Join(out, "report.html"), filepath.Join(out, "report.md")
	err = errors.Join(failed,
		toFile(page, func(w io.Writer) error { return report.WriteHTML(w, reports...) }),
		toFile(tables, func(w io.Writer) error {
			for _, r := range reports {
				r.WriteMarkdown(w)
			}
			return nil
		}))
	a.progress("%s and %s written, %s", page, tables, report.Duration(time.Since(begin)))
	return err
}

// part runs one benchmark in a process of its own. Its JSON takes its name only when it is whole.
func (a *app) part(ctx context.Context, name string, args []string, file, dir, narad string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	os.Remove(file + partial)
	args = append(args[:len(args):len(args)], "--dir", dir, "--json", file+partial)
	if a.quick {
		args = append(args, "--quick")
	}
	if narad != "" && (name == "floor" || name == "load" || name == "growth") {
		args = append(args, "--narad", narad)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes what it made
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, a.stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return os.Rename(file+partial, file)
}

// partial is the suffix of a result that is not whole, or not yet.
const partial = ".part"

// found is the result of a part by this program or, with a note, what it had found before it failed; nil is nothing.
func found(file, program string, quick bool) *report.Report {
	whole := isCurrent(file, program, quick)
	if !whole {
		file += partial
	}
	r, err := readReport(file)
	if err != nil {
		return nil
	}
	if whole {
		return r
	}
	note := report.Section{Title: "Not complete", Notes: []string{"This part failed; here is what it found before. The same command tries it again."}}
	r.Sections = append([]report.Section{note}, r.Sections...)
	return r
}

func readReport(file string) (*report.Report, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.Read(f)
}

// isCurrent reports whether a file holds a result of this program, of the same kind of run.
func isCurrent(file, program string, quick bool) bool {
	r, err := readReport(file)
	return err == nil && r.Program == program && bytes.Contains([]byte(r.Command), []byte("--quick")) == quick
}

// data reads the figures behind a section back.
func data[T any](reports []*report.Report, name, title string) (all []T) {
	for _, r := range reports {
		for _, s := range r.Sections {
			if r.Name != name || s.Title != title {
				continue
			}
			b, err := json.Marshal(s.Data)
			var part []T
			if err == nil && json.Unmarshal(b, &part) == nil {
				all = append(all, part...)
			}
		}
	}
	return all
}
