package env_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
)

// A wait by yielding ends with a permit or at its deadline, not a timer's tick later.
func TestYieldUntil(t *testing.T) {
	e := env.OS()
	w := e.NewWaiter()
	w.Unpark()
	require.True(t, w.YieldUntil(e.Now()), "a permit is taken even then")
	require.False(t, w.YieldUntil(e.Now()), "and only once")
	const short = 50 * time.Microsecond
	best := time.Hour
	for range 200 {
		start := e.Now()
		require.False(t, w.YieldUntil(start.Add(short)))
		took := e.Now().Sub(start)
		require.GreaterOrEqual(t, took, short)
		best = min(best, took)
	}
	require.Less(t, best, 500*time.Microsecond)
	go w.Unpark()
	require.True(t, w.YieldUntil(e.Now().Add(time.Minute)))
}
