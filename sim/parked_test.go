package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A task of the world may ask what all tasks do, itself among them.
func TestParkedByATask(t *testing.T) {
	w := New(Options{})
	w.Go("sleeper", func() { w.Env().Sleep(time.Hour) })
	var seen []ParkedTask
	w.Go("asker", func() {
		w.Env().Sleep(time.Second)
		seen = w.Parked()
		w.Stop()
	})
	require.NoError(t, w.Run(time.Minute))
	require.Len(t, seen, 2)
	require.Contains(t, seen[0].Stack, "Sleep")
	require.Equal(t, "running", seen[1].For)
	require.Contains(t, seen[1].Stack, "TestParkedByATask")
}
