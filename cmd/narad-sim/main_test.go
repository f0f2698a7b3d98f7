package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim/workload"
)

func TestParse(t *testing.T) {
	f, err := parse([]string{"-seed", "0"})
	require.NoError(t, err)
	require.True(t, f.single, "seed 0 is a seed, too")
	f, err = parse(nil)
	require.NoError(t, err)
	require.False(t, f.single)
	require.GreaterOrEqual(t, f.campaign.Seeds, 200)
	for _, bad := range [][]string{{"-seeds", "0"}, {"-seed", "x"}, {"-seed", "-1"}, {"-profile", "none"}, {"surplus"}, {"-workers", "-1"}} {
		_, err := parse(bad)
		require.Error(t, err, "%v", bad)
	}
}

// A failure ends with one line that reproduces it.
func TestFailureReproduces(t *testing.T) {
	r := workload.Result{Seed: 42, Err: errors.New("INV-02: message 7 was lost")}
	require.Equal(t, "seed 42 FAILED: INV-02: message 7 was lost\nreproduce: go run ./cmd/narad-sim -seed 42\n", failure(r, workload.NodeProfile))
	require.Contains(t, failure(r, workload.LongProfile), "-seed 42 -profile long")
}

func TestTable(t *testing.T) {
	c := workload.Campaign{First: 1, Seeds: 3, Profile: workload.NodeProfile, Twice: true}
	s := c.Run(func(workload.Result) {})
	text := table(s, c)
	for _, part := range []string{"seeds", "failures             0", "3 with equal trace hashes", "times real time", "process crashes", "redeliveries"} {
		require.Contains(t, text, part)
	}
}

func TestMutantChoice(t *testing.T) {
	all, err := chosen("", "")
	require.NoError(t, err)
	var parts int
	for _, p := range []string{"0/3", "1/3", "2/3"} {
		some, err := chosen("", p)
		require.NoError(t, err)
		parts += len(some)
	}
	require.Equal(t, len(all), parts)
	_, err = chosen("no such mutant", "")
	require.Error(t, err)
}
