package metastore

import (
	"fmt"
	"sync"
	"time"

	"narad/env"
)

// Quorum is what the voters of a simulated cluster agree on. It outlives the processes of the nodes and loses nothing; each
// process has a [Memory] of its own that is a replica of it. It lives in memory, so it is for simulations and tests.
type Quorum struct {
	mu       sync.Mutex // guards the fields below
	state    *State
	barriers uint64
}

// NewQuorum returns an empty one.
func NewQuorum() *Quorum { return &Quorum{state: &State{}} }

// newest returns the state now, and the number of the barrier that this is: what was planned before it and is not in the state
// never will be.
func (q *Quorum) newest() (s *State, barrier uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.barriers++
	return q.state, q.barriers
}

// propose makes a change that was planned against a state, unless somebody has asked for the newest state since, and has been
// told that this is it.
func (q *Quorum) propose(planned *State, c Change, barrier uint64) (*State, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != planned || barrier != q.barriers {
		return nil, errOvertaken
	}
	next, err := q.state.Apply(c)
	if err == nil {
		q.state = next
	}
	return next, err
}

var errOvertaken = fmt.Errorf("%w: another change came first", ErrNoLeader)

// Fate is what becomes of one change.
type Fate struct {
	NoLeader bool          // it is refused, and nothing is done
	Lost     bool          // the leader is lost in the middle, so whether it was made stays open; else the next fields mean nothing
	Applied  bool          // it is made all the same
	After    time.Duration // so much later, unless something else is decided before
	Lag      time.Duration // until this replica shows what a lost leader did, or what other nodes do
	Takes    time.Duration // until the answer
}

// Memory is a store for simulations: a replica of a [Quorum] whose leader is lost when the world says so. It uses its
// environment for everything, so a simulated run can be repeated.
//
// A change that is answered nil is in the quorum and in this replica, as with other stores. One that is answered ErrUncertain may be
// made until the next one is planned, by whichever node. Refusals are those of the newest state.
type Memory struct {
	*Replica
	env    *env.Env
	quorum *Quorum
	fate   func() Fate

	change *env.Mutex // held while a change is made; guards closed
	closed bool
}

var _ Store = (*Memory)(nil)

// Open returns a replica that has caught up. fate is asked once for each change; nil means that all goes well.
func (q *Quorum) Open(e *env.Env, fate func() Fate) *Memory {
	m := &Memory{env: e, quorum: q, fate: fate, change: e.NewMutex()}
	if fate == nil {
		m.fate = func() Fate { return Fate{} }
	}
	m.Replica = NewReplica(m.commit)
	m.Follow()
	return m
}

// Follow shows what the quorum has by now, as a replica does after a while when other nodes make changes.
func (m *Memory) Follow() {
	q := m.quorum
	q.mu.Lock()
	defer q.mu.Unlock()
	m.Show(q.state)
}

func (m *Memory) commit(plan Plan) error {
	m.change.Lock()
	defer m.change.Unlock()
	if m.closed {
		return ErrClosed
	}
	f := m.fate()
	if f.NoLeader {
		return ErrNoLeader
	}
	if f.Takes > 0 {
		m.env.Sleep(f.Takes)
	}
	now, barrier := m.quorum.newest()
	m.Follow()
	c, err := plan(now)
	if err != nil || c.IsNone() {
		return err
	}
	if _, err := now.Apply(c); err != nil {
		return err
	}
	if _, err := c.Encode(); err != nil { // no other store takes it
		return err
	}
	m.env.Point("metastore: change planned, not proposed")
	if f.Lost {
		m.lose(f, now, c, barrier)
		return ErrUncertain
	}
	if _, err = m.quorum.propose(now, c, barrier); err == nil {
		m.Follow()
	}
	return err
}

// lose leaves it to fate what becomes of a change. A process that ends takes a change that was to be made later with it.
func (m *Memory) lose(f Fate, planned *State, c Change, barrier uint64) {
	if !f.Applied {
		return
	}
	m.env.Go("metastore: a lost leader's change", func() {
		if f.After > 0 {
			m.env.Sleep(f.After)
		}
		if _, err := m.quorum.propose(planned, c, barrier); err != nil {
			return
		}
		m.env.Point("metastore: change made, not shown")
		if f.Lag > 0 {
			m.env.Sleep(f.Lag)
		}
		m.Follow()
	})
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.change.Lock()
	defer m.change.Unlock()
	m.closed = true
	return nil
}
