package envtest

import (
	"math"
	"time"

	"github.com/stretchr/testify/assert"

	"narad/env"
)

var waiters = []test{
	{"Waiter/a permit given before is kept", func(t *T) {
		w := t.NewWaiter()
		w.Unpark()
		w.Park()
		w.Unpark()
		assert.True(t, w.ParkUntil(env.Forever))
		w.Unpark()
		assert.True(t, w.ParkUntil(t.later()))
	}},
	{"Waiter/holds one permit at most", func(t *T) {
		w := t.NewWaiter()
		for range 5 {
			w.Unpark()
		}
		w.Park()
		assert.False(t, w.ParkUntil(t.Now()), "a second permit was kept")
	}},
	{"Waiter/starts without a permit", func(t *T) {
		assert.False(t, t.NewWaiter().ParkUntil(t.Now()))
		var part struct {
			before int
			w      env.Waiter
		}
		part.w.Init(t.Env)
		assert.False(t, part.w.ParkUntil(t.Now()))
		part.w.Unpark()
		assert.True(t, part.w.ParkUntil(t.Now()))
	}},
	{"Waiter/a deadline in the past polls", func(t *T) {
		w := t.NewWaiter()
		t.moment()
		for _, deadline := range []env.Instant{t.Now(), t.Now() - 1, 0, -1, math.MinInt64} {
			assert.False(t, w.ParkUntil(deadline))
			w.Unpark()
			assert.True(t, w.ParkUntil(deadline), "a permit is taken even then")
			assert.False(t, w.ParkUntil(deadline), "and only once")
		}
	}},
	{"Waiter/the deadline ends a wait, never early", func(t *T) {
		w := t.NewWaiter()
		for _, d := range []time.Duration{1, time.Microsecond, time.Millisecond, 3 * time.Millisecond} {
			deadline := t.Now().Add(d)
			assert.False(t, w.ParkUntil(deadline))
			assert.GreaterOrEqual(t, t.Now(), deadline)
		}
		w.Unpark()
		assert.True(t, w.ParkUntil(t.Now()), "a wait that ended leaves the waiter usable")
	}},
	{"Waiter/a permit ends a wait before its deadline", func(t *T) {
		for _, deadline := range []env.Instant{t.later(), env.Forever - 1, env.Forever} {
			w := t.NewWaiter()
			t.Go("unpark", func() {
				t.moment()
				w.Unpark()
			})
			assert.True(t, w.ParkUntil(deadline))
			assert.Less(t, t.Now(), deadline)
		}
	}},
	{"Waiter/an earlier deadline does not cut a later wait short", func(t *T) {
		w := t.NewWaiter()
		for range 5 {
			w.Unpark()
			assert.True(t, w.ParkUntil(t.Now().Add(time.Millisecond)))
			t.Go("unpark", w.Unpark)
			assert.True(t, w.ParkUntil(t.later()))
			deadline := t.Now().Add(4 * time.Millisecond)
			assert.False(t, w.ParkUntil(deadline))
			assert.GreaterOrEqual(t, t.Now(), deadline)
		}
	}},
	{"Waiter/a permit at the deadline is taken or kept", func(t *T) {
		g := t.NewGroup()
		for range 30 {
			w := t.NewWaiter()
			deadline := t.Now().Add(200 * time.Microsecond)
			g.Go("unpark", func() {
				t.Sleep(deadline.Sub(t.Now()))
				w.Unpark()
			})
			took := w.ParkUntil(deadline)
			g.Wait()
			assert.Equal(t, !took, w.ParkUntil(t.Now()), "taken %v", took)
		}
	}},
	{"Waiter/two tasks take turns", func(t *T) {
		const rounds = 1000
		here, there := t.NewWaiter(), t.NewWaiter()
		var turns []int // both tasks write it, each in its turn
		g := t.NewGroup()
		g.Go("there", func() {
			for range rounds {
				there.Park()
				turns = append(turns, 1)
				here.Unpark()
			}
		})
		for range rounds {
			turns = append(turns, 0)
			there.Unpark()
			here.Park()
		}
		g.Wait()
		assert.Len(t, turns, 2*rounds)
		for i, turn := range turns {
			if turn != i%2 {
				assert.Equal(t, i%2, turn, "turn %d", i)
				break
			}
		}
	}},
	{"Waiter/each of many gets its own wake-up", func(t *T) {
		const n = 50
		g := t.NewGroup()
		ws := make([]*env.Waiter, n)
		woken := make([]bool, n)
		for i := range ws {
			ws[i] = t.NewWaiter()
			g.Go("park", func() { woken[i] = ws[i].ParkUntil(t.later()) })
		}
		t.moment()
		for i := n - 1; i >= 0; i -= 2 {
			ws[i].Unpark()
		}
		t.moment()
		for i := 0; i < n; i += 2 {
			ws[i].Unpark()
		}
		g.Wait()
		assert.NotContains(t, woken, false)
	}},
	{"Waiter/a relay wakes everybody, parked already or not", func(t *T) {
		const n = 40
		var relay env.Relay
		end := t.NewWaiter()
		ws := make([]*env.Waiter, n)
		for i := range ws {
			ws[i] = t.NewWaiter()
		}
		for round := range 3 {
			woken := make([]bool, n)
			g := t.NewGroup()
			park := func(i int) { g.Go("park", func() { ws[i].Park(); woken[i] = true }) }
			for i := range n {
				if i%3 != round {
					park(i)
				}
			}
			t.moment()
			for _, w := range ws {
				relay.Add(w)
			}
			relay.Start(end, t.later())
			t.moment()
			for i := round; i < n; i += 3 {
				park(i)
			}
			g.Wait()
			assert.NotContains(t, woken, false)
			assert.False(t, relay.UnderWay())
			assert.Equal(t, t.Real(), end.ParkUntil(t.Now()))
			for _, w := range ws {
				assert.False(t, w.ParkUntil(t.Now()), "one permit each")
			}
		}
		relay.Start(end, t.Now()) // of nobody
		assert.False(t, relay.UnderWay())
	}},
	{"Waiter/deadlines end in their order", func(t *T) {
		const n = 20
		g, m := t.NewGroup(), t.NewMutex()
		start := t.Now()
		var ended []int
		for i := range n {
			g.Go("sleep", func() {
				deadline := start.Add(time.Duration(1+(i*7)%n) * 2 * time.Millisecond)
				assert.False(t, t.NewWaiter().ParkUntil(deadline))
				assert.GreaterOrEqual(t, t.Now(), deadline)
				m.Lock()
				ended = append(ended, (i*7)%n)
				m.Unlock()
			})
		}
		g.Wait()
		assert.Len(t, ended, n)
		if t.ordered {
			assert.IsNonDecreasing(t, ended)
		}
	}},
}
