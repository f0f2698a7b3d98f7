package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"narad/bench/load"
	"narad/bench/report"
)

// serverFlags say which server to measure.
type serverFlags struct {
	url, narad string
	args       []string
}

func (s *serverFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&s.narad, "narad", "", "narad command to start servers with; default: the one beside this program, or one that is built")
	c.Flags().StringArrayVar(&s.args, "server-arg", nil, "further argument of the server; may be repeated")
}

func (a *app) loadCommand() *cobra.Command {
	var server serverFlags
	var embedded, matrix bool
	var s load.Spec
	var mode string
	c := &cobra.Command{
		Use: "load", Short: "Produce, drain and full flow, over HTTP or embedded", Args: cobra.NoArgs,
		Long: `Runs one load against a server, or with --embedded against an engine in this process, and checks every message. Without
--url it starts a narad server of its own in another process. With --rate the loop is open: latency counts from when a message
was due. With --matrix it runs those of the benchmark report.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.Mode = load.Mode(mode)
			if err := s.Validate(); err != nil {
				return err
			}
			if a.quick {
				s.Duration = min(s.Duration, 300*time.Millisecond)
			}
			return a.report(cmd.Context(), "load", func(dir string) ([]report.Section, error) {
				if matrix {
					return a.loadMatrix(dir, server)
				}
				section, err := a.loadOnce(dir, s, server, embedded)
				return []report.Section{section}, err
			})
		},
	}
	server.add(c)
	f := c.Flags()
	f.StringVar(&server.url, "url", "", "server that runs already, like http://127.0.0.1:7942")
	f.BoolVar(&embedded, "embedded", false, "an engine in this process instead of a server")
	f.BoolVar(&matrix, "matrix", false, "all runs of the report")
	f.StringVar(&mode, "mode", "full", "produce, drain, full or idle")
	f.IntVar(&s.Clients, "clients", 64, "connections; in mode full half of them produce")
	f.IntVar(&s.Batch, "batch", 1, "messages of a call")
	f.IntVar(&s.Size, "size", 1024, "bytes of a payload")
	f.IntVar(&s.Partitions, "partitions", 12, "of the topic")
	f.IntVar(&s.Parked, "parked", 0, "mode full: more consumers of the same topic, which wait their turn")
	f.IntVar(&s.Elsewhere, "elsewhere", 0, "consumers parked at other topics")
	f.Float64Var(&s.Rate, "rate", 0, "messages a second, an open loop; 0 is a closed one")
	f.DurationVar(&s.Duration, "duration", 3*time.Second, "measured time")
	f.IntVar(&s.Messages, "messages", 0, "mode drain: how many; 0 chooses")
	f.BoolVar(&s.Prepared, "prepared", false, "embedded: files of the ingress log are prepared ahead")
	return c
}

func (a *app) loadOnce(dir string, s load.Spec, f serverFlags, embedded bool) (report.Section, error) {
	section := load.NewSection("Load")
	if embedded {
		r, err := load.RunEmbedded(s, filepath.Join(dir, "data"))
		return shown(section, r), err
	}
	server, err := a.server(dir, f)
	if err != nil {
		return section, err
	}
	r, err := load.RunServer(s, server)
	return shown(section, r), errors.Join(err, server.Stop())
}

// shown adds what was measured; a run that failed before has nothing to show.
func shown(s report.Section, r load.Result) report.Section {
	if r.Measured > 0 {
		load.AddRow(&s, r)
	}
	return s
}

// server is the one that runs already, or one that is started.
func (a *app) server(dir string, f serverFlags) (*load.Server, error) {
	if f.url != "" {
		return load.Remote(f.url)
	}
	path, err := load.FindServer(f.narad, dir)
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "server-")
	if err != nil {
		return nil, err
	}
	return load.StartNarad(path, data, f.args...)
}

func (a *app) loadMatrix(dir string, f serverFlags) ([]report.Section, error) {
	return load.Matrix(load.MatrixOptions{
		Dir: dir, Quick: a.quick, Progress: a.progress,
		Server: func() (*load.Server, error) { return a.server(dir, f) },
	})
}
