package main

import (
	"bytes"
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/bench"
	"narad/bench/load"
	"narad/bench/report"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.Execute()
	return out.String(), err
}

// A run prints a table and writes JSON and a page; nothing else of it stays.
func TestOutputs(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	text, err := execute(t, "load", "--embedded", "--mode", "full", "--clients", "4", "--duration", "50ms", "--dir", dir,
		"--json", filepath.Join(out, "r.json"), "--html", filepath.Join(out, "r.html"))
	require.NoError(t, err)
	require.Contains(t, text, "embedded: full, 4 clients")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	r, err := readReport(filepath.Join(out, "r.json"))
	require.NoError(t, err)
	require.Equal(t, "load", r.Name)
	require.Len(t, data[load.Result]([]*report.Report{r}, "load", "Load"), 1)
	page, err := os.ReadFile(filepath.Join(out, "r.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "embedded: full")
}

func TestSim(t *testing.T) {
	text, err := execute(t, "sim", "--quick", "--dir", t.TempDir())
	require.NoError(t, err)
	require.Contains(t, text, "seeds/min")
}

func TestRefusals(t *testing.T) {
	for _, args := range [][]string{
		{"load", "--mode", "sideways"}, {"load", "--clients", "-1"}, {"load", "--url", "ftp://x"}, {"load", "extra"}, {"all"}, {"nothing"},
		{"growth", "--dir", filepath.Join(t.TempDir(), "missing")},
	} {
		_, err := execute(t, args...)
		require.Error(t, err, args)
	}
}

// The floor answers when told where, and ends when told so.
func TestServeFloor(t *testing.T) {
	host, err := load.FreePort()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveFloor(ctx, host, filepath.Join(t.TempDir(), "f")) }()
	var stats load.RawStats
	require.Eventually(t, func() bool {
		server, err := load.Remote("http://" + host)
		require.NoError(t, err)
		stats, err = load.Raw(server, 2, 100, 20*time.Millisecond)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	require.Positive(t, stats.Rate)
	stop()
	require.NoError(t, <-ended)
}

// What is there of the same program and the same kind of run is kept; anything else is not.
func TestIsCurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	require.False(t, isCurrent(file, "mine", false))
	write := func(command, program string) {
		r := &report.Report{Name: "x", Command: command, Program: program}
		require.NoError(t, toFile(file, r.WriteJSON))
	}
	write("narad-bench x", "mine")
	require.True(t, isCurrent(file, "mine", false))
	require.False(t, isCurrent(file, "mine", true))
	write("narad-bench x --quick", "mine")
	require.True(t, isCurrent(file, "mine", true))
	write("narad-bench x", "another")
	require.False(t, isCurrent(file, "mine", false))
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	require.False(t, isCurrent(file, "mine", false))
}

// What a part found before it failed is shown, and said not to be all.
func TestFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	require.Nil(t, found(file, "mine", false))
	write := func(file, title, program string) {
		r := &report.Report{Name: "x", Program: program, Sections: []report.Section{{Title: title}}}
		require.NoError(t, toFile(file, r.WriteJSON))
	}
	write(file, "all of another program", "another")
	require.Nil(t, found(file, "mine", false))
	write(file+partial, "some", "mine")
	r := found(file, "mine", false)
	require.Len(t, r.Sections, 2)
	require.Equal(t, "Not complete", r.Sections[0].Title)
	require.Equal(t, "some", r.Sections[1].Title)
	write(file, "all", "mine")
	require.Len(t, found(file, "mine", false).Sections, 1)
}

// A command that is told to end does so at once, and leaves nothing.
func TestStopped(t *testing.T) {
	a := &app{stdout: io.Discard, stderr: io.Discard, dir: t.TempDir()}
	ctx, stop := context.WithCancel(t.Context())
	err := a.report(ctx, "x", func(dir string) ([]report.Section, error) {
		stop()
		for t.Context().Err() == nil {
			if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
				break
			}
		}
		return nil, nil
	})
	require.ErrorIs(t, err, errStopped)
	left, err := os.ReadDir(a.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Targets are judged by the figures of the parts, and one without a figure is left out.
func TestTargets(t *testing.T) {
	full := func(clients int, rate float64) load.Result {
		return load.Result{Spec: load.Spec{Mode: load.Full, Clients: clients, Batch: 1}, Acked: rate}
	}
	rs := []*report.Report{
		{Name: "floor", Sections: []report.Section{{Title: floorTitle, Data: []contest{{Clients: 1, Ratio: 0.95}, {Clients: 64, Ratio: 0.5}}}}},
		{Name: "load", Sections: []report.Section{{Title: load.HTTPTitle, Data: []load.Result{full(2, 1), full(64, 20_000), full(256, 12_000)}}}},
		{Name: "growth", Sections: []report.Section{{Title: bench.FlatTitles[0], Data: []bench.Point{{Series: "s", N: 10, Of10: 1}, {Series: "s", N: 100, Of10: 1.5}, {Series: "unseen", N: 100, Of10: report.Ratio(math.NaN())}}}}},
	}
	table := targets(rs).Sections[0].Table
	var got []string
	for _, row := range table.Rows {
		got = append(got, row[2]+" "+row[3])
	}
	require.Equal(t, []string{"0.950 yes", "0.500 no", "20,000 yes", "12,000 no", "1.50 no", "– no"}, got)
	require.True(t, strings.HasPrefix(table.Rows[4][1], "≤"))
}
