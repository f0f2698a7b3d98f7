package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTimerHeapAgainstASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entry struct {
			at    int64
			seq   int
			timer *timer
		}
		var h timerHeap
		var model []entry
		seq := 0
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0, 1:
				e := entry{rapid.Int64Range(0, 20).Draw(t, "at"), seq, &timer{}}
				seq++
				h.arm(e.timer, e.at)
				model = append(model, e)
			case 2:
				if len(model) > 0 {
					i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
					h.disarm(model[i].timer)
					h.disarm(model[i].timer) // a second time changes nothing
					model = slices.Delete(model, i, i+1)
				}
			case 3:
				if len(model) > 0 {
					first := slices.MinFunc(model, func(a, b entry) int {
						return int(a.at-b.at)*1000 + a.seq - b.seq
					})
					require.Equal(t, first.at, h.items[0].at)
					require.Same(t, first.timer, h.pop())
					model = slices.DeleteFunc(model, func(e entry) bool { return e.timer == first.timer })
				}
			}
			require.Len(t, h.items, len(model))
			for i, item := range h.items {
				require.Equal(t, i+1, item.timer.index)
			}
		}
	})
}

func TestReadyQueueAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q readyQueue
		var model []*task
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind <= 2:
				task := &task{id: int64(len(model))}
				q.push(task)
				model = append(model, task)
			case kind <= 4 && len(model) > 0:
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				require.Same(t, model[i], q.take(i))
				model[i] = model[0]
				model = model[1:]
			case kind == 5:
				odd := func(t *task) bool { return t.id%2 == 1 }
				q.filter(odd)
				model = slices.DeleteFunc(model, func(t *task) bool { return !odd(t) })
			}
			require.Equal(t, len(model), q.n)
			for i := range model {
				require.Same(t, model[i], *q.slot(i))
			}
		}
	})
}
