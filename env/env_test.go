package env_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/env/envtest"
	"narad/vfs"
)

// The real world as production sees it, where a busy machine may delay any task.
func TestReal(t *testing.T) {
	envtest.Run(t, func(t *testing.T, body func(e *env.Env)) { body(env.OS()) }, envtest.Loose)
}

// The real world on a clock that moves only when every goroutine waits, so that sleeping orders tasks and a
// task that waits for ever is an error.
func TestRealInBubble(t *testing.T) {
	envtest.Run(t, func(t *testing.T, body func(e *env.Env)) {
		synctest.Test(t, func(*testing.T) { body(env.OS()) })
	})
}

func TestRealFiles(t *testing.T) {
	require.Equal(t, vfs.OS{}, env.OS().FS())
	require.True(t, env.OS().Real())
}

func TestRealClocks(t *testing.T) {
	e := env.OS()
	before := time.Now()
	wall := time.Unix(0, int64(e.Wall()))
	require.WithinRange(t, wall, before.Round(0), time.Now().Round(0))
	now := e.Now()
	require.GreaterOrEqual(t, now, env.Instant(0))
}

func TestRealCarriesNoMessages(t *testing.T) {
	e := env.OS()
	require.ErrorIs(t, e.Send("n2", []byte("x")), env.ErrNoNetwork)
	_, ok := e.Receive(env.Forever)
	require.False(t, ok)
}

// A long wait must not be cut short or overflow.
func TestRealWaitsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := env.OS()
		before := e.Now()
		e.Sleep(20 * 365 * 24 * time.Hour)
		require.Equal(t, 20*365*24*time.Hour, e.Now().Sub(before))
	})
}
