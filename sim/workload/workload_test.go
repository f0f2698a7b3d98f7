package workload

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The default profile holds on a part of the default seeds; narad-sim runs them all.
func TestNodeProfile(t *testing.T) {
	s := Campaign{First: 1, Seeds: 60}.Run(func(r Result) {
		require.NoError(t, r.Err, "seed %d", r.Seed)
		require.True(t, r.Conceded || r.Stats.ProcessCrashes > 0, "seed %d has no process crash", r.Seed)
	})
	x := s.Total
	require.Zero(t, s.WithoutProcessCrash)
	require.Positive(t, x.Stats.PowerLosses)
	require.Positive(t, x.RecoveryCrashes)
	require.Positive(t, x.GracefulStops)
	require.Positive(t, x.Stats.Losses.SectorsLost)
	require.Zero(t, x.UnknownHistories, "a history that was not decided was not checked")
	for _, cause := range []string{"expired", "nacked", "leased at a crash", "ack undone by a crash"} {
		require.Positive(t, x.Causes[cause], "no redelivery was caused by: %s", cause)
	}
}

// A world is a function of its seed: whatever else runs, on however many cores.
func TestSameSeedSameWorld(t *testing.T) {
	s := Campaign{First: 100, Seeds: 10, Twice: true}.Run(func(Result) {})
	require.Empty(t, s.Diverged)
	first := Run(Options{Seed: 100})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	require.Equal(t, first.Hash, Run(Options{Seed: 100}).Hash)
	require.NotEqual(t, first.Hash, Run(Options{Seed: 101}).Hash)
}

// A failed sync of a window took its pages along, and a crash at once hid the failure from INV-08's check.
func TestCrashBehindAFailedSync(t *testing.T) {
	require.NoError(t, Run(Options{Seed: 2078700524}).Err)
}

// The recorded choices of a world are the world.
func TestReplayFromChoices(t *testing.T) {
	first := Run(Options{Seed: 7, Record: true})
	require.NotEmpty(t, first.Choices)
	again := Run(Options{Seed: 7, Choices: first.Choices})
	require.Equal(t, first.Hash, again.Hash)
	require.Equal(t, first.Acked, again.Acked)
}

// The event log of a world is readable and does not change it.
func TestEventLog(t *testing.T) {
	var log strings.Builder
	quiet := Run(Options{Seed: 3})
	loud := Run(Options{Seed: 3, Log: &log})
	require.Equal(t, quiet.Hash, loud.Hash)
	for _, part := range []string{"boot", "process crash", "wal.BatchSynced", "engine.Leased", "committer.WindowWritten"} {
		require.Contains(t, log.String(), part)
	}
}
