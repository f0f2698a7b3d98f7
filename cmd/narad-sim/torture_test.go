package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/internal/torture"
)

func TestTortureFlags(t *testing.T) {
	f, err := parseTorture([]string{"-kills", "3", "-seed", "9", "-topics", "2"})
	require.NoError(t, err)
	require.Equal(t, 3, f.config.Kills)
	require.Equal(t, 64, f.config.Consumers)
	for _, wrong := range [][]string{
		{"-kills", "0"}, {"-visibility", "1ms"}, {"more"}, {"-nothing"}, {"-mutant", "x", "-binary", "y"}, {"-mutant", "there-is-none"}, {"-window", "0s"},
	} {
		require.Equal(t, 2, runTorture(wrong), "%v", wrong)
	}
}

// What was violated is status 1, and in the page.
func TestTortureVerdict(t *testing.T) {
	f := tortureFlags{report: filepath.Join(t.TempDir(), "report.html")}
	require.Equal(t, 0, f.verdict(&torture.Report{}, nil))
	require.Equal(t, 1, f.verdict(&torture.Report{Violations: []string{"INV-02: <lost>"}}, nil))
	page, err := os.ReadFile(f.report)
	require.NoError(t, err)
	require.Contains(t, string(page), "INV-02: &lt;lost&gt;")
	require.Equal(t, 1, f.verdict(nil, os.ErrClosed))
	f.report = filepath.Join(f.report, "x")
	require.Equal(t, 2, f.verdict(&torture.Report{}, nil))
}

// Bugs of the catalogue in the server are found: acks ahead of a gap that a start does not read, and acks by offset alone.
func TestTortureFindsMutants(t *testing.T) {
	if os.Getenv("NARAD_LONG") == "" {
		t.Skip("it kills servers for a minute; NARAD_LONG=1 runs it")
	}
	for _, name := range []string{"bug-135-ahead-ignored", "bug-024-ack-by-offset"} {
		require.Equal(t, 1, runTorture([]string{"-kills", "6", "-seed", "3", "-dir", t.TempDir(), "-mutant", name}), name)
	}
}
