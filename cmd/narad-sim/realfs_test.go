package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRealfs(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, 0, runRealfs([]string{"-rounds", "1", "-lives", "1", "-run", "50ms", "-cuts", "2", "-draws", "2", "-dir", dir}))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	for _, wrong := range [][]string{{"-rounds", "0"}, {"-disk", "soft"}, {"more"}, {"-nothing"}} {
		require.Equal(t, 2, runRealfs(wrong), "%v", wrong)
	}
	require.Equal(t, 1, runRealfs([]string{"-image", dir}), "nothing was kept there")
}

func TestWithout(t *testing.T) {
	require.Equal(t, []string{"-a", "b", "-c=d"}, without([]string{"-a", "b", "-x", "y", "-c=d", "--x=z", "-x=1"}, "x"))
}

// A bug of the catalogue that only a loss of power shows is found on real files, in a build of its own.
func TestRealfsFindsAMutant(t *testing.T) {
	if os.Getenv("NARAD_LONG") == "" {
		t.Skip("it builds the program again; NARAD_LONG=1 runs it")
	}
	require.Equal(t, 1, runRealfs([]string{"-mutant", "b001-roll-without-directory-sync", "-rounds", "30", "-dir", t.TempDir()}))
}
