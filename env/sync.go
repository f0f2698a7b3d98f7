package env

import "sync"

// Mutex is a lock that may be held across calls that park, such as file I/O. It is granted in the order of
// the calls to Lock. Lock order: an env.Mutex is taken before any sync.Mutex, never while one is held.
type Mutex struct {
	env   *Env
	mu    sync.Mutex // guards the fields below
	held  bool
	queue []*Waiter
}

// NewMutex returns an unlocked mutex.
func (e *Env) NewMutex() *Mutex { return &Mutex{env: e} }

// Lock takes the lock, waiting in turn.
func (m *Mutex) Lock() {
	m.mu.Lock()
	if !m.held {
		m.held = true
		m.mu.Unlock()
		return
	}
	w := m.env.NewWaiter()
	m.queue = append(m.queue, w)
	m.mu.Unlock()
	w.Park() // the permit is the lock itself, handed over by Unlock
}

// TryLock takes the lock if nobody holds it and reports whether it did.
func (m *Mutex) TryLock() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held {
		return false
	}
	m.held = true
	return true
}

// Unlock hands the lock to the longest-waiting task, or releases it.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held {
		panic("env: unlock of an unlocked Mutex")
	}
	if len(m.queue) == 0 {
		m.held = false
		return
	}
	w := m.queue[0]
	m.queue[0] = nil
	m.queue = m.queue[1:]
	w.Unpark()
}

// Event happens once. Any number of tasks may wait for it.
type Event struct {
	env     *Env
	mu      sync.Mutex // guards the fields below
	set     bool
	waiters []*Waiter
}

// NewEvent returns an event that has not happened.
func (e *Env) NewEvent() *Event { return &Event{env: e} }

// Set makes the event happen and wakes all who wait. Further calls do nothing.
func (v *Event) Set() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set = true
	for _, w := range v.waiters {
		w.Unpark()
	}
	v.waiters = nil
}

// IsSet reports whether the event has happened.
func (v *Event) IsSet() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set
}

// Wait blocks until the event has happened.
func (v *Event) Wait() { v.WaitUntil(Forever) }

// WaitUntil blocks until the event has happened or the clock reaches deadline, and reports whether it has.
func (v *Event) WaitUntil(deadline Instant) bool {
	v.mu.Lock()
	if v.set {
		v.mu.Unlock()
		return true
	}
	w := v.env.NewWaiter()
	v.waiters = append(v.waiters, w)
	v.mu.Unlock()
	if w.ParkUntil(deadline) {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.waiters {
		if v.waiters[i] == w {
			v.waiters = append(v.waiters[:i], v.waiters[i+1:]...)
			break
		}
	}
	return v.set
}

// Group starts tasks and waits for them to end. A task may start further ones in its own group.
type Group struct {
	env     *Env
	mu      sync.Mutex // guards the fields below
	running int
	idle    []*Waiter
}

// NewGroup returns a group without tasks.
func (e *Env) NewGroup() *Group { return &Group{env: e} }

// Go runs fn as a task of the group.
func (g *Group) Go(name string, fn func()) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	g.env.Go(name, func() {
		defer g.done()
		fn()
	})
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running > 0 {
		return
	}
	for _, w := range g.idle {
		w.Unpark()
	}
	g.idle = nil
}

// Wait blocks until no task of the group runs.
func (g *Group) Wait() {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return
	}
	w := g.env.NewWaiter()
	g.idle = append(g.idle, w)
	g.mu.Unlock()
	w.Park()
}

// Queue is an unbounded FIFO between tasks.
type Queue[T any] struct {
	mu     sync.Mutex // guards the fields below
	items  []T
	takers []*Waiter
	closed bool
	env    *Env
}

// NewQueue returns an empty queue.
func NewQueue[T any](e *Env) *Queue[T] { return &Queue[T]{env: e} }

// Put appends an item; it is dropped when the queue is closed.
func (q *Queue[T]) Put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.items = append(q.items, item)
	q.wakeOneLocked()
}

// Take removes the first item, waiting for one until the clock reaches deadline. It reports false when the
// deadline came first or the queue was closed and is empty.
func (q *Queue[T]) Take(deadline Instant) (item T, ok bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			item = q.popLocked()
			if len(q.items) > 0 {
				q.wakeOneLocked() // a wake-up that a departed taker swallowed must not strand an item
			}
			q.mu.Unlock()
			return item, true
		}
		if q.closed {
			q.mu.Unlock()
			return item, false
		}
		w := q.env.NewWaiter()
		q.takers = append(q.takers, w)
		q.mu.Unlock()
		if !w.ParkUntil(deadline) {
			return q.leave(w)
		}
	}
}

// leave removes a taker whose deadline came; an item that arrived at that instant is still taken.
func (q *Queue[T]) leave(w *Waiter) (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.takers {
		if q.takers[i] == w {
			q.takers = append(q.takers[:i], q.takers[i+1:]...)
			return item, false
		}
	}
	if len(q.items) == 0 {
		return item, false
	}
	return q.popLocked(), true
}

// popLocked removes the first item, leaving no reference to it behind.
func (q *Queue[T]) popLocked() T {
	var zero T
	item := q.items[0]
	q.items[0] = zero
	q.items = q.items[1:]
	return item
}

func (q *Queue[T]) wakeOneLocked() {
	if len(q.takers) == 0 {
		return
	}
	w := q.takers[0]
	q.takers = q.takers[1:]
	w.Unpark()
}

// Close wakes all takers; items already put are still handed out.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, w := range q.takers {
		w.Unpark()
	}
	q.takers = nil
}

// Len returns the number of items waiting.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}
