package envtest

import (
	"time"

	"github.com/stretchr/testify/assert"

	"narad/env"
)

var queues = []test{
	{"Queue/first in, first out", func(t *T) {
		q := env.NewQueue[int](t.Env)
		for i := range 100 {
			q.Put(i)
		}
		assert.Equal(t, 100, q.Len())
		for i := range 100 {
			item, ok := q.Take(0)
			assert.True(t, ok)
			assert.Equal(t, i, item)
		}
		assert.Zero(t, q.Len())
		_, ok := q.Take(t.Now())
		assert.False(t, ok)
	}},
	{"Queue/keeps the order between two tasks", func(t *T) {
		q, g := env.NewQueue[int](t.Env), t.NewGroup()
		g.Go("put", func() {
			for i := range 500 {
				q.Put(i)
				if i%50 == 0 {
					t.moment()
				}
			}
			q.Close()
		})
		next := 0
		for item, ok := q.Take(t.later()); ok; item, ok = q.Take(t.later()) {
			assert.Equal(t, next, item)
			next++
		}
		g.Wait()
		assert.Equal(t, 500, next)
	}},
	{"Queue/the deadline ends a wait, never early", func(t *T) {
		q := env.NewQueue[string](t.Env)
		for range 3 {
			deadline := t.Now().Add(time.Millisecond)
			_, ok := q.Take(deadline)
			assert.False(t, ok)
			assert.GreaterOrEqual(t, t.Now(), deadline)
		}
		q.Put("late")
		item, ok := q.Take(0)
		assert.True(t, ok, "those who left take nothing with them")
		assert.Equal(t, "late", item)
	}},
	{"Queue/an item wakes one who still waits, not one who left", func(t *T) {
		q, g := env.NewQueue[string](t.Env), t.NewGroup()
		_, ok := q.Take(t.Now().Add(time.Millisecond))
		assert.False(t, ok)
		g.Go("take", func() {
			item, ok := q.Take(t.later())
			assert.True(t, ok)
			assert.Equal(t, "x", item)
		})
		t.moment()
		q.Put("x")
		g.Wait()
	}},
	{"Queue/an item ends a wait", func(t *T) {
		for _, deadline := range []env.Instant{t.later(), env.Forever} {
			q := env.NewQueue[string](t.Env)
			t.Go("put", func() {
				t.moment()
				q.Put("x")
			})
			item, ok := q.Take(deadline)
			assert.True(t, ok)
			assert.Equal(t, "x", item)
		}
	}},
	{"Queue/Close lets the rest be taken and no more in", func(t *T) {
		q := env.NewQueue[int](t.Env)
		q.Put(1)
		q.Put(2)
		q.Close()
		q.Close()
		q.Put(3)
		for want := 1; want <= 2; want++ {
			item, ok := q.Take(env.Forever)
			assert.True(t, ok)
			assert.Equal(t, want, item)
		}
		_, ok := q.Take(env.Forever)
		assert.False(t, ok)
	}},
	{"Queue/Close wakes all takers", func(t *T) {
		q, g := env.NewQueue[int](t.Env), t.NewGroup()
		for range 10 {
			g.Go("take", func() {
				_, ok := q.Take(env.Forever)
				assert.False(t, ok)
			})
		}
		t.moment()
		q.Close()
		g.Wait()
	}},
	{"Queue/several put and take: each item once", func(t *T) {
		const putters, takers, each = 4, 5, 60
		q, putting, taking := env.NewQueue[[2]int](t.Env), t.NewGroup(), t.NewGroup()
		taken := make([][][2]int, takers)
		for i := range takers {
			taking.Go("take", func() {
				for item, ok := q.Take(t.later()); ok; item, ok = q.Take(t.later()) {
					taken[i] = append(taken[i], item)
				}
			})
		}
		for i := range putters {
			putting.Go("put", func() {
				for j := range each {
					q.Put([2]int{i, j})
					if j%16 == 0 {
						t.moment()
					}
				}
			})
		}
		putting.Wait()
		q.Close()
		taking.Wait()
		seen := map[[2]int]int{}
		for _, items := range taken {
			last := map[int]int{}
			for _, item := range items {
				seen[item]++
				before, found := last[item[0]]
				assert.False(t, found && before > item[1], "one taker sees one putter's items in their order")
				last[item[0]] = item[1]
			}
		}
		assert.Len(t, seen, putters*each)
		for item, times := range seen {
			assert.Equal(t, 1, times, "item %v", item)
		}
	}},
	{"Queue/no item is stranded by takers that leave", func(t *T) {
		const items, impatient = 200, 6
		q, g := env.NewQueue[int](t.Env), t.NewGroup()
		stop, taken := t.NewEvent(), env.NewQueue[int](t.Env)
		for i := range impatient {
			g.Go("impatient", func() {
				for !stop.IsSet() {
					if item, ok := q.Take(t.Now().Add(time.Duration(20+30*i) * time.Microsecond)); ok {
						taken.Put(item)
					}
				}
			})
		}
		g.Go("patient", func() {
			for item, ok := q.Take(env.Forever); ok; item, ok = q.Take(env.Forever) {
				taken.Put(item)
			}
		})
		for i := range items {
			q.Put(i)
			t.Sleep(time.Duration(i%7) * 10 * time.Microsecond)
		}
		stop.Set()
		seen := map[int]bool{}
		for range items {
			item, ok := taken.Take(t.later())
			if !assert.True(t, ok, "%d of %d items were taken, %d lie in the queue", len(seen), items, q.Len()) {
				break
			}
			seen[item] = true
		}
		assert.Len(t, seen, items)
		q.Close()
		g.Wait()
	}},
	{"Queue/an item at the deadline is taken or stays", func(t *T) {
		g := t.NewGroup()
		for range 30 {
			q := env.NewQueue[int](t.Env)
			deadline := t.Now().Add(200 * time.Microsecond)
			g.Go("put", func() {
				t.Sleep(deadline.Sub(t.Now()))
				q.Put(7)
			})
			item, ok := q.Take(deadline)
			g.Wait()
			if !ok {
				item, ok = q.Take(0)
			}
			assert.True(t, ok)
			assert.Equal(t, 7, item)
			assert.Zero(t, q.Len())
		}
	}},
}
