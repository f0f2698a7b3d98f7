package sim

import (
	"testing"
	"time"

	"narad/env"
)

// BenchmarkPingPong measures a switch between two tasks over waiters.
func BenchmarkPingPong(b *testing.B) {
	w := New(Options{})
	e := w.Env()
	ping, pong := e.NewWaiter(), e.NewWaiter()
	half := b.N/2 + 1
	w.Go("ping", func() {
		for range half {
			pong.Unpark()
			ping.Park()
		}
	})
	w.Go("pong", func() {
		for range half {
			pong.Park()
			ping.Unpark()
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(w.Steps())/b.Elapsed().Seconds()/1e6, "Msteps/s")
}

// BenchmarkSleepers measures timer events with 64 tasks that sleep.
func BenchmarkSleepers(b *testing.B) {
	w := New(Options{})
	e := w.Env()
	for i := range 64 {
		w.Go("sleeper", func() {
			waiter := e.NewWaiter()
			for range b.N/64 + 1 {
				waiter.ParkUntil(e.Now().Add(time.Duration(1000 + i*7)))
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(time.Hour); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(w.Steps())/b.Elapsed().Seconds()/1e6, "Mevents/s")
}

// BenchmarkLeap measures a task that sleeps while nothing else happens.
func BenchmarkLeap(b *testing.B) {
	w := New(Options{})
	e := w.Env()
	w.Go("late", func() { e.Sleep(1_000_000 * time.Hour) })
	w.Go("sleeper", func() {
		waiter := e.NewWaiter()
		for range b.N {
			waiter.ParkUntil(e.Now().Add(time.Microsecond))
		}
		w.Stop()
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(2_000_000 * time.Hour); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReadySet measures a switch among 64 runnable tasks, each step with a draw.
func BenchmarkReadySet(b *testing.B) {
	w := New(Options{})
	e := w.Env()
	for range 64 {
		w.Go("runner", func() {
			for range b.N/64 + 1 {
				e.Point("p")
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(time.Hour); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSpawn measures a task from start to end.
func BenchmarkSpawn(b *testing.B) {
	w := New(Options{})
	e := w.Env()
	w.Go("spawner", func() {
		group := e.NewGroup()
		for i := range b.N {
			w.Go("child", func() {})
			if i%16 == 15 {
				group.Go("last", func() {})
				group.Wait()
			}
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(time.Hour); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWorld measures making and running a small world.
func BenchmarkWorld(b *testing.B) {
	b.ReportAllocs()
	for i := range b.N {
		w := New(Options{Seed: uint64(i)})
		for range 4 {
			w.Go("task", func() { w.Env().Sleep(time.Second) })
		}
		if err := w.Run(time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall measures a call into a process.
func BenchmarkCall(b *testing.B) {
	w := New(Options{})
	m := w.Machine("m", MachineConfig{})
	w.Go("client", func() {
		p := m.Boot(func(e *env.Env) { e.NewWaiter().Park() })
		for range b.N {
			if p.Call("request", env.Forever, func() {}) != Done {
				b.Error("call did not return")
			}
		}
		w.Stop()
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(time.Hour); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWrite measures writes of 4 KiB with their latencies.
func BenchmarkWrite(b *testing.B) {
	w := New(Options{})
	m := w.Machine("m", MachineConfig{})
	m.Boot(func(e *env.Env) {
		d, err := e.FS().OpenRoot("/data", true)
		if err != nil {
			b.Error(err)
			return
		}
		f, err := d.Create("f")
		if err != nil {
			b.Error(err)
			return
		}
		page := make([]byte, 4096)
		for i := range b.N {
			f.WriteAt(page, int64(i%64)*4096)
			if i%64 == 63 {
				f.Sync()
			}
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(10_000 * time.Hour); err != nil {
		b.Fatal(err)
	}
}
