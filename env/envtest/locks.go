package envtest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"narad/env"
)

var locks = []test{
	{"Mutex/excludes, also across waits", func(t *T) {
		m, g := t.NewMutex(), t.NewGroup()
		inside, entered := 0, 0
		for i := range 8 {
			g.Go("enter", func() {
				for j := range 20 {
					m.Lock()
					inside++
					assert.Equal(t, 1, inside)
					if (i+j)%5 == 0 {
						t.Sleep(time.Microsecond)
					}
					entered++
					inside--
					m.Unlock()
				}
			})
		}
		g.Wait()
		assert.Equal(t, 160, entered)
	}},
	{"Mutex/is granted in the order of Lock", func(t *T) {
		const n = 10
		m, g := t.NewMutex(), t.NewGroup()
		var order []int
		m.Lock()
		for i := range n {
			g.Go("queue", func() {
				m.Lock()
				defer m.Unlock()
				order = append(order, i)
				t.Sleep(time.Duration(n-i) * time.Microsecond)
			})
			t.moment()
		}
		m.Unlock()
		g.Wait()
		assert.Len(t, order, n)
		if t.ordered {
			assert.IsIncreasing(t, order)
		}
	}},
	{"Mutex/is handed over, not up for grabs", func(t *T) {
		m, g := t.NewMutex(), t.NewGroup()
		m.Lock()
		g.Go("next", func() {
			m.Lock()
			t.moment()
			m.Unlock()
		})
		t.moment()
		m.Unlock()
		if t.ordered {
			assert.False(t, m.TryLock(), "the task that waited was passed over")
		}
		g.Wait()
		assert.True(t, m.TryLock())
	}},
	{"Mutex/TryLock", func(t *T) {
		m := t.NewMutex()
		assert.True(t, m.TryLock())
		assert.False(t, m.TryLock())
		g := t.NewGroup()
		g.Go("try", func() { assert.False(t, m.TryLock()) })
		g.Wait()
		m.Unlock()
		m.Lock()
		assert.False(t, m.TryLock())
		m.Unlock()
		assert.True(t, m.TryLock())
		m.Unlock()
	}},
	{"Mutex/another task may unlock", func(t *T) {
		m := t.NewMutex()
		m.Lock()
		t.Go("unlock", m.Unlock)
		m.Lock()
		m.Unlock()
	}},
	{"Mutex/unlocking an unlocked one panics", func(t *T) {
		m := t.NewMutex()
		assert.Panics(t, m.Unlock)
		m.Lock()
		m.Unlock()
		assert.Panics(t, m.Unlock)
		assert.True(t, m.TryLock(), "the mutex stays usable")
	}},

	{"Event/happens once", func(t *T) {
		v := t.NewEvent()
		assert.False(t, v.IsSet())
		assert.False(t, v.WaitUntil(t.Now()))
		v.Set()
		v.Set()
		assert.True(t, v.IsSet())
		v.Wait()
		assert.True(t, v.WaitUntil(env.Forever))
		assert.True(t, v.WaitUntil(0), "what has happened needs no waiting")
	}},
	{"Event/wakes all who wait", func(t *T) {
		v, g := t.NewEvent(), t.NewGroup()
		told := make([]bool, 20)
		ready := false
		for i := range told {
			g.Go("wait", func() {
				if i%2 == 0 {
					v.Wait()
					told[i] = ready
					return
				}
				told[i] = v.WaitUntil(t.later()) && ready
			})
		}
		t.moment()
		ready = true
		v.Set()
		g.Wait()
		assert.NotContains(t, told, false)
	}},
	{"Event/a deadline ends one wait and leaves the others", func(t *T) {
		v, g := t.NewEvent(), t.NewGroup()
		g.Go("patient", v.Wait)
		for range 3 {
			deadline := t.Now().Add(time.Millisecond)
			assert.False(t, v.WaitUntil(deadline))
			assert.GreaterOrEqual(t, t.Now(), deadline)
		}
		v.Set()
		g.Wait()
	}},
	{"Event/set at the deadline is told", func(t *T) {
		g := t.NewGroup()
		for range 30 {
			v := t.NewEvent()
			deadline := t.Now().Add(200 * time.Microsecond)
			g.Go("set", func() {
				t.Sleep(deadline.Sub(t.Now()))
				v.Set()
			})
			if v.WaitUntil(deadline) {
				assert.True(t, v.IsSet())
			}
			g.Wait()
			assert.True(t, v.WaitUntil(t.Now()))
		}
	}},
}
