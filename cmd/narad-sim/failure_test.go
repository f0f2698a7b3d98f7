package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/workload"
)

func TestFailureFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"-shrink"}, {"-report", "x"}, {"-explain"}, {"-until", "3s"}, {"-neighbours", "3"}, {"-o", "x"}, {"-regression", "x"},
		{"-seed", "1", "-plan", "x"}, {"-seed", "1", "-o", "x"}, {"-seed", "1", "-until", "-1s"}, {"-seed", "1", "-shrink", "-runs", "0"},
	} {
		_, err := parse(bad)
		require.Error(t, err, "%v", bad)
	}
	f, err := parse([]string{"-plan", "x.json", "-explain"})
	require.NoError(t, err)
	require.True(t, f.single)
}

// A plan replays the world it was written from.
func TestPlanReplays(t *testing.T) {
	r := workload.Run(workload.Options{Seed: 7, Profile: workload.NodeProfile, Record: true})
	path := filepath.Join(t.TempDir(), "plan.json")
	require.NoError(t, writeCase(workload.NewCase(workload.Options{Seed: 7, Profile: workload.NodeProfile}, r), path))
	c, err := (&flags{failure: failureFlags{plan: path}}).world()
	require.NoError(t, err)
	require.NotEmpty(t, c.Choices)
	require.Equal(t, r.Hash, workload.Run(c.Options()).Hash)
}

// What cannot be shrunk or turned into a regression says so, and the exit code is that of wrong use.
func TestGoodWorldHasNothingToShrink(t *testing.T) {
	for _, a := range []failureFlags{
		{shrink: true, budget: time.Second, runs: 10}, {regression: t.TempDir()}, {neighbours: 3},
	} {
		require.Equal(t, 2, single(flags{seed: 7, campaign: workload.Campaign{Profile: workload.NodeProfile}, failure: a}))
	}
}

// A regression comes as a plan and a test that compiles.
func TestRegressionIsReady(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fresh")
	c := workload.NewCase(workload.Options{Seed: 7, Profile: workload.NodeProfile}, workload.Run(workload.Options{Seed: 7, Profile: workload.NodeProfile, Record: true}))
	c.Fingerprint, c.Error = "INV-07: offset N leased after it was settled", "INV-07: offset 3 leased after it was settled"
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, writeRegression(c, dir))
	plans, err := filepath.Glob(filepath.Join(dir, "testdata", "regressions", "inv-07-offset-n-leased-*.json"))
	require.NoError(t, err)
	require.Len(t, plans, 1)
	test := filepath.Join(dir, "regressions_test.go")
	text, err := os.ReadFile(test)
	require.NoError(t, err)
	require.Contains(t, string(text), "package fresh_test")
	out, err := exec.Command("gofmt", "-l", test).CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out), "it is formatted")
	require.NoError(t, writeRegression(c, dir), "a second one finds the test there")
}

func TestReportIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "world.html")
	require.Equal(t, 0, single(flags{seed: 7, campaign: workload.Campaign{Profile: workload.NodeProfile}, failure: failureFlags{report: path}}))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Positive(t, info.Size())
	require.Less(t, info.Size(), int64(5<<20))
}

func TestNoDivergence(t *testing.T) {
	require.Equal(t, "seed 7: two further runs were equal\n", divergence(7, workload.NodeProfile))
}
