package workload_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim/workload"
)

// Every world that once failed must not fail any more.
func TestRegressions(t *testing.T) {
	plans, err := filepath.Glob("testdata/regressions/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, plans)
	for _, path := range plans {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			c, err := workload.ReadCase(f)
			require.NoError(t, err)
			require.NoError(t, workload.Run(c.Options()).Err, "it once failed with: %s", c.Error)
		})
	}
}
