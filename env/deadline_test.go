package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
)

// scripted is a world in which something happens at the very instant when a deadline ends a wait: the moment
// that a real clock hits once in a million runs.
type scripted struct {
	env.Backend
	atDeadline func()
	unparked   int
}

func (s *scripted) Park(*env.Waiter, env.Instant) bool {
	s.atDeadline()
	return false
}

func (s *scripted) Unpark(*env.Waiter) { s.unparked++ }

func TestQueueItemAtTheDeadlineIsTaken(t *testing.T) {
	s := &scripted{}
	q := env.NewQueue[int](env.Simulated(s, nil))
	s.atDeadline = func() { q.Put(7) }
	item, ok := q.Take(100)
	require.True(t, ok, "the taker was woken, so nobody else will be")
	require.Equal(t, 7, item)
	require.Zero(t, q.Len())
}

func TestQueueTakerRobbedAtTheDeadline(t *testing.T) {
	s := &scripted{}
	q := env.NewQueue[int](env.Simulated(s, nil))
	s.atDeadline = func() {
		q.Put(7)
		_, ok := q.Take(0) // another task takes the item first
		require.True(t, ok)
	}
	_, ok := q.Take(100)
	require.False(t, ok)
}

func TestQueueClosedAtTheDeadline(t *testing.T) {
	s := &scripted{}
	q := env.NewQueue[int](env.Simulated(s, nil))
	s.atDeadline = q.Close
	_, ok := q.Take(100)
	require.False(t, ok)
}

func TestQueueForgetsWhoLeft(t *testing.T) {
	s := &scripted{atDeadline: func() {}}
	q := env.NewQueue[int](env.Simulated(s, nil))
	_, ok := q.Take(100)
	require.False(t, ok)
	q.Put(7)
	require.Zero(t, s.unparked)
	require.Equal(t, 1, q.Len())
}

func TestEventAtTheDeadlineIsTold(t *testing.T) {
	s := &scripted{}
	v := env.Simulated(s, nil).NewEvent()
	s.atDeadline = v.Set
	require.True(t, v.WaitUntil(100))
}

func TestEventForgetsWhoLeft(t *testing.T) {
	s := &scripted{atDeadline: func() {}}
	v := env.Simulated(s, nil).NewEvent()
	require.False(t, v.WaitUntil(100))
	v.Set()
	require.Zero(t, s.unparked)
}
