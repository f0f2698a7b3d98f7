package env_test

import (
	"testing"
	"time"

	"narad/env"
)

// Two tasks wake each other in turn; the seam must cost nothing against raw channels.
func BenchmarkPingPong(b *testing.B) {
	b.Run("waiter", func(b *testing.B) {
		e := env.OS()
		here, there := e.NewWaiter(), e.NewWaiter()
		pingPong(b, there.Unpark, here.Park, func() { there.Park(); here.Unpark() })
	})
	b.Run("deadline", func(b *testing.B) {
		e := env.OS()
		here, there := e.NewWaiter(), e.NewWaiter()
		wait := func() { here.ParkUntil(e.Now().Add(time.Minute)) }
		pingPong(b, there.Unpark, wait, func() { there.Park(); here.Unpark() })
	})
	b.Run("channel", func(b *testing.B) {
		here, there := make(chan struct{}, 1), make(chan struct{}, 1)
		pingPong(b, func() { there <- struct{}{} }, func() { <-here }, func() { <-there; here <- struct{}{} })
	})
}

func pingPong(b *testing.B, wake, wait, answer func()) {
	b.ReportAllocs()
	n := b.N
	done := make(chan struct{})
	go func() {
		for range n {
			answer()
		}
		close(done)
	}()
	for range n {
		wake()
		wait()
	}
	<-done
}

func BenchmarkNow(b *testing.B) {
	e := env.OS()
	for b.Loop() {
		e.Now()
	}
}

func BenchmarkMutex(b *testing.B) {
	m := env.OS().NewMutex()
	b.ReportAllocs()
	for b.Loop() {
		m.Lock()
		m.Unlock()
	}
}

func BenchmarkQueue(b *testing.B) {
	q := env.NewQueue[int](env.OS())
	b.ReportAllocs()
	for b.Loop() {
		q.Put(1)
		q.Take(0)
	}
}
