package envtest

import (
	"testing"
	"time"

	"narad/env"
)

// Option says what a world cannot promise.
type Option int

// Loose is a world where a sleeping task may oversleep past another that sleeps longer: the real one, on a
// busy machine. Tests that order tasks by sleeping check less there.
const Loose Option = 1

// Run tests the worlds that world makes. It is called once per subtest, runs body as a task of a fresh
// world and returns when that world is finished. Body has waited for the tasks that it started.
func Run(t *testing.T, world func(t *testing.T, body func(e *env.Env)), options ...Option) {
	ordered := true
	for _, o := range options {
		ordered = ordered && o != Loose
	}
	for _, group := range [][]test{waiters, tasks, locks, queues, streams} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				ended := false
				world(t, func(e *env.Env) {
					c.run(&T{T: t, Env: e, ordered: ordered})
					ended = true
				})
				if !ended {
					t.Error("the world is finished before the test is: a task waits for what never comes")
				}
			})
		}
	}
}

type test struct {
	name string
	run  func(t *T)
}

// T is one test in one world. Tests report with assert, never with FailNow: they are not on the goroutine of
// the testing.T.
type T struct {
	*testing.T
	*env.Env
	ordered bool // sleeping orders tasks
}

// long is further away than any test lasts; a wait that reaches it has failed.
const long = 30 * time.Second

// later returns an instant that a test never reaches.
func (t *T) later() env.Instant { return t.Now().Add(long) }

// moment lets the other tasks get on with it. No test is wrong when they do not.
func (t *T) moment() { t.Sleep(time.Millisecond) }
