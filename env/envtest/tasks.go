package envtest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"narad/env"
	"narad/vfs"
)

var tasks = []test{
	{"Now/never goes back", func(t *T) {
		last := t.Now()
		for i := range 1000 {
			if i%100 == 0 {
				t.moment()
			}
			now := t.Now()
			if now < last {
				assert.GreaterOrEqual(t, now, last)
				return
			}
			last = now
		}
	}},
	{"Now/is one clock for all tasks", func(t *T) {
		last := t.Now()
		for range 50 {
			g := t.NewGroup()
			g.Go("read", func() {
				now := t.Now()
				assert.GreaterOrEqual(t, now, last)
				last = now
			})
			g.Wait()
			now := t.Now()
			assert.GreaterOrEqual(t, now, last)
			last = now
		}
	}},
	{"Now/is before Forever", func(t *T) {
		assert.Less(t, t.Now(), env.Forever)
		assert.Less(t, t.Now().Add(100*365*24*time.Hour), env.Forever)
	}},
	{"Wall/reads a date", func(t *T) {
		assert.Positive(t, t.Wall())
		assert.Equal(t, int64(1_700_000_000_123), env.Wall(1_700_000_000_123_456_789).UnixMilli())
	}},
	{"Sleep/lasts as long as it is told", func(t *T) {
		for _, d := range []time.Duration{-time.Hour, 0, time.Microsecond, 2 * time.Millisecond} {
			before := t.Now()
			t.Sleep(d)
			assert.GreaterOrEqual(t, t.Now().Sub(before), d)
		}
	}},
	{"Point/is only a mark", func(t *T) { t.Point("envtest: nothing happens here") }},
	{"WithFS/keeps the clock and the tasks", func(t *T) {
		files := struct{ vfs.FS }{t.FS()}
		other := t.WithFS(files)
		assert.Equal(t, vfs.FS(files), other.FS())
		before := t.Now()
		assert.GreaterOrEqual(t, other.Now(), before)
		w := t.NewWaiter()
		other.Go("unpark", w.Unpark)
		assert.True(t, w.ParkUntil(other.Now().Add(long)))
		assert.Equal(t, t.Real(), other.Real())
	}},

	{"Go/does not wait for the task", func(t *T) {
		proceed, done := t.NewEvent(), t.NewEvent()
		t.Go("task", func() {
			proceed.Wait()
			done.Set()
		})
		assert.False(t, done.IsSet())
		proceed.Set()
		assert.True(t, done.WaitUntil(t.later()))
	}},
	{"Go/tasks run beside each other", func(t *T) {
		const n = 10 // each waits until all the others have come
		g, arrived, all := t.NewGroup(), env.NewQueue[int](t.Env), t.NewEvent()
		for i := range n {
			g.Go("meet", func() {
				arrived.Put(i)
				assert.True(t, all.WaitUntil(t.later()))
			})
		}
		for range n {
			_, ok := arrived.Take(t.later())
			assert.True(t, ok)
		}
		all.Set()
		g.Wait()
	}},

	{"Group/an empty one is done", func(t *T) {
		g := t.NewGroup()
		g.Wait()
		g.Wait()
	}},
	{"Group/waits for every task", func(t *T) {
		g := t.NewGroup()
		ended := make([]bool, 30)
		for i := range ended {
			g.Go("task", func() {
				t.Sleep(time.Duration(i%4) * time.Millisecond)
				ended[i] = true
			})
		}
		g.Wait()
		assert.NotContains(t, ended, false)
	}},
	{"Group/tasks start tasks", func(t *T) {
		g, m := t.NewGroup(), t.NewMutex()
		ended := 0
		var spawn func(depth int)
		spawn = func(depth int) {
			if depth > 0 {
				g.Go("left", func() { spawn(depth - 1) })
				g.Go("right", func() { spawn(depth - 1) })
			}
			t.Sleep(time.Microsecond)
			m.Lock()
			ended++
			m.Unlock()
		}
		g.Go("root", func() { spawn(6) })
		g.Wait()
		assert.Equal(t, 1<<7-1, ended)
	}},
	{"Group/several wait, and again", func(t *T) {
		g, waiting := t.NewGroup(), t.NewGroup()
		for round := range 5 {
			done := false
			g.Go("task", func() {
				t.moment()
				done = true
			})
			for range 4 {
				waiting.Go("wait", func() {
					g.Wait()
					assert.True(t, done, "round %d", round)
				})
			}
			waiting.Wait()
		}
	}},
}
