package sim

// readyQueue is a ring of runnable tasks in the order in which they became runnable. Taking the first keeps
// the order; taking another one moves the first into its place.
type readyQueue struct {
	ring []*task // length is a power of two
	head int
	n    int
}

func (q *readyQueue) slot(i int) **task { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *readyQueue) push(t *task) {
	if q.n == len(q.ring) {
		q.grow()
	}
	*q.slot(q.n) = t
	q.n++
}

func (q *readyQueue) grow() {
	ring := make([]*task, max(16, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.slot(i)
	}
	q.ring, q.head = ring, 0
}

// take removes the i-th task.
func (q *readyQueue) take(i int) *task {
	chosen, first := q.slot(i), q.slot(0)
	t := *chosen
	*chosen = *first
	*first = nil
	q.head++
	q.n--
	return t
}

// filter keeps the tasks that keep reports true for, in order.
func (q *readyQueue) filter(keep func(*task) bool) {
	n := 0
	for i := range q.n {
		t := *q.slot(i)
		if keep(t) {
			*q.slot(n) = t
			n++
		}
	}
	for i := n; i < q.n; i++ {
		*q.slot(i) = nil
	}
	q.n = n
}
