package sim

// timer is an entry of the world's heap. It is part of the value that waits, so arming one allocates nothing.
type timer struct {
	index int // place in the heap plus one; 0: not armed
	kind  timerKind
	task  *task    // timerWake, timerRelease
	msg   *message // timerMessage
	m     *Machine // timerResume
}

type timerKind uint8

const (
	timerWake    timerKind = iota // the deadline of a parked task
	timerRelease                  // a starved task may run again
	timerMessage                  // a message arrives
	timerResume                   // a paused machine goes on
)

// timerHeap is a binary heap on (instant, sequence): timers of one instant fire in the order of arming.
type timerHeap struct {
	items []timerItem
	seq   uint64
}

type timerItem struct {
	at    int64
	seq   uint64
	timer *timer
}

func (a *timerItem) before(b *timerItem) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *timerHeap) arm(t *timer, at int64) {
	h.seq++
	h.items = append(h.items, timerItem{})
	h.up(len(h.items)-1, timerItem{at, h.seq, t})
}

func (h *timerHeap) disarm(t *timer) {
	if t.index == 0 {
		return
	}
	i := t.index - 1
	t.index = 0
	last := len(h.items) - 1
	item := h.items[last]
	h.items[last] = timerItem{}
	h.items = h.items[:last]
	if i == last {
		return
	}
	if i > 0 && item.before(&h.items[(i-1)/2]) {
		h.up(i, item)
	} else {
		h.down(i, item)
	}
}

// pop removes and returns the first timer.
func (h *timerHeap) pop() *timer {
	t := h.items[0].timer
	h.disarm(t)
	return t
}

// up places item at i or above, moving greater ones down.
func (h *timerHeap) up(i int, item timerItem) {
	for i > 0 {
		parent := (i - 1) / 2
		if !item.before(&h.items[parent]) {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, item)
}

// down places item at i or below, moving smaller ones up.
func (h *timerHeap) down(i int, item timerItem) {
	n := len(h.items)
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && h.items[child+1].before(&h.items[child]) {
			child++
		}
		if !h.items[child].before(&item) {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	h.put(i, item)
}

func (h *timerHeap) put(i int, item timerItem) {
	h.items[i] = item
	item.timer.index = i + 1
}
