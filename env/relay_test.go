package env_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
)

// In the real world one wakes the next, in the order of Add, and the end is told when all are awake, and before when it is late.
func TestRelay(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const n, slow = 20, 10
			e := env.OS()
			var relay env.Relay
			var mu sync.Mutex
			awake := map[int]bool{}
			end, g := e.NewWaiter(), e.NewGroup()
			for i := range n {
				w := e.NewWaiter()
				relay.Add(w)
				g.Go("park", func() {
					if i == slow {
						e.Sleep(time.Hour) // the relay waits for it
					}
					w.Park()
					mu.Lock()
					defer mu.Unlock()
					awake[i] = true
				})
			}
			deadline := e.Now().Add(time.Minute)
			if late {
				deadline = e.Now()
			}
			relay.Start(end, deadline)
			synctest.Wait()
			require.True(t, relay.UnderWay())
			mu.Lock()
			require.Len(t, awake, slow)
			for i := range slow {
				require.Contains(t, awake, i)
			}
			mu.Unlock()
			require.Equal(t, late, end.ParkUntil(e.Now()), "at the eighth the time is looked at")
			g.Wait()
			require.False(t, relay.UnderWay())
			require.True(t, end.ParkUntil(e.Now()))
			require.Len(t, awake, n)
		})
	}
}
