package sim

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// run runs body as the outer task of a fresh world and fails the test when the run does.
func run(t *testing.T, o Options, body func(w *World)) *World {
	t.Helper()
	w := New(o)
	w.Go("test", func() {
		body(w)
		w.Stop()
	})
	require.NoError(t, w.Run(24*time.Hour))
	return w
}

// forever is a main that never returns.
func forever(e *env.Env) { e.NewWaiter().Park() }

func TestKillRunsDefersAndFencesTheirEffects(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		other := w.Machine("other", MachineConfig{})
		received := 0
		other.Boot(func(e *env.Env) {
			for {
				if _, ok := e.Receive(env.Forever); ok {
					received++
				}
			}
		})
		outside := w.Env().NewWaiter()
		var log []string
		say := func(s string) { log = append(log, s) }
		p := m.Boot(func(e *env.Env) {
			d, err := e.FS().OpenRoot("/data", true)
			require.NoError(t, err)
			f, err := d.Create("f")
			require.NoError(t, err)
			_, err = f.WriteAt([]byte("alive"), 0)
			require.NoError(t, err)
			e.Go("victim", func() {
				defer say("last defer")
				defer func() {
					say("parks again")
					e.NewWaiter().Park()
					say("came back from the dead")
				}()
				defer func() {
					_, err := f.WriteAt([]byte("dead!"), 0)
					require.ErrorIs(t, err, ErrDead)
					require.ErrorIs(t, f.Sync(), ErrDead)
					require.ErrorIs(t, f.Truncate(0), ErrDead)
					require.ErrorIs(t, d.Remove("f"), ErrDead)
					require.ErrorIs(t, d.Mkdir("g"), ErrDead)
					_, err = f.ReadAt(make([]byte, 1), 0)
					require.ErrorIs(t, err, ErrDead)
					_, err = f.Size()
					require.ErrorIs(t, err, ErrDead)
					_, err = e.FS().OpenRoot("/data", false)
					require.ErrorIs(t, err, ErrDead)
					require.Error(t, f.Close())
					e.Go("zombie", func() { say("zombie") })
					outside.Unpark()
					e.Send("other", []byte("from the grave"))
					say("defer with effects")
				}()
				e.NewWaiter().Park()
				say("went on")
			})
			forever(e)
		})
		w.Env().Sleep(time.Second)
		require.True(t, p.Alive())
		m.CrashProcess()
		require.Equal(t, []string{"defer with effects", "parks again", "last defer"}, log, "before CrashProcess returns")
		require.False(t, p.Alive())
		require.False(t, p.Exited())
		require.False(t, outside.Sim.Permit)
		w.Env().Sleep(time.Second)
		require.Zero(t, received)

		m.Boot(func(e *env.Env) {
			d, err := e.FS().OpenRoot("/data", false)
			require.NoError(t, err)
			b, err := vfs.ReadFile(d, "f", 100)
			require.NoError(t, err)
			require.Equal(t, "alive", string(b))
			say("rebooted")
		}).Wait()
		require.Equal(t, "rebooted", log[len(log)-1])
	})
}

func TestHandlesOfADeadProcessStayDeadAfterReboot(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		var old vfs.Dir
		var oldEnv *env.Env
		boot := func(e *env.Env) {
			d, err := e.FS().OpenRoot("/", true)
			require.NoError(t, err)
			_, err = d.Lock("lock")
			require.NoError(t, err, "the death of the process released it")
			_, err = d.Lock("lock")
			require.ErrorIs(t, err, vfs.ErrLocked)
			if old == nil {
				old, oldEnv = d, e
			}
			forever(e)
		}
		m.Boot(boot)
		w.Env().Sleep(time.Second)
		m.CrashProcess()
		m.Boot(boot)
		w.Env().Sleep(time.Second)
		_, err := old.Create("ghost")
		require.ErrorIs(t, err, ErrDead)
		_, err = old.Lock("lock2")
		require.ErrorIs(t, err, ErrDead)
		ran := false
		oldEnv.Go("ghost", func() { ran = true })
		w.Env().Sleep(time.Second)
		require.False(t, ran)
	})
}

func TestATaskMayCrashItsOwnMachine(t *testing.T) {
	for _, crash := range []func(m *Machine){
		(*Machine).CrashProcess,
		func(m *Machine) { m.PowerLoss() },
	} {
		w := run(t, Options{}, func(w *World) {
			m := w.Machine("m", MachineConfig{})
			unwound := 0
			p := m.Boot(func(e *env.Env) {
				e.Go("other", func() {
					defer func() { unwound++ }()
					forever(e)
				})
				e.Sleep(time.Second)
				defer func() { unwound++ }()
				crash(m)
				t.Error("returned to a dead task")
			})
			p.Wait()
			w.Env().Sleep(0)
			require.Equal(t, 2, unwound)
			require.False(t, p.Exited())
			require.True(t, m.Boot(forever).Alive())
		})
		require.EqualValues(t, 1, w.Stats().ProcessCrashes+w.Stats().PowerLosses)
	}
}

func TestCrashWithRunnableTasks(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		waiter := m.Boot(forever).Env().NewWaiter()
		e := m.Process().Env()
		e.Go("woken", func() {
			waiter.Park()
			t.Error("ran after the crash")
		})
		w.Env().Sleep(1)
		waiter.Unpark()
		e.Go("not started", func() { t.Error("ran after the crash") })
		require.Equal(t, 2, w.ready.n)
		m.CrashProcess()
		require.Zero(t, w.ready.n)
		w.Env().Sleep(1)
	})
}

func TestNothingLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	const tasks = 10_000
	unwound := 0
	w := run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		for range 2 {
			p := m.Boot(func(e *env.Env) {
				for i := range tasks {
					e.Go("task", func() {
						defer func() { unwound++ }()
						if i%3 == 0 {
							e.Sleep(time.Hour)
						}
						e.NewWaiter().Park()
					})
				}
				forever(e)
			})
			w.Env().Sleep(time.Second)
			m.CrashProcess()
			require.Zero(t, p.tasks.n)
			require.Zero(t, w.ready.n)
			require.Empty(t, w.timers.items)
		}
		require.Equal(t, 2*tasks, unwound)
		// These are left to the end of the run; some never get to run at all.
		m.Boot(func(e *env.Env) {
			for range tasks {
				e.Go("parked", func() { forever(e) })
			}
			e.Sleep(time.Second)
			for range tasks {
				e.Go("never started", func() {})
			}
		})
		for range tasks {
			w.Go("outer", func() { w.Env().NewWaiter().Park() })
		}
		w.Env().Sleep(2 * time.Second)
	})
	require.Zero(t, w.tasks())
	for range 100 { // goroutines that ended may be counted a moment longer
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestNothingLeaksWhenATaskGivesUpItsTest(t *testing.T) {
	before := runtime.NumGoroutine()
	unwound := false
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- returned }()
		w := New(Options{})
		w.Go("bystander", func() {
			defer func() { unwound = true }()
			w.Env().NewWaiter().Park()
		})
		w.Go("asserting", func() {
			w.Env().Sleep(time.Second)
			runtime.Goexit() // what FailNow does
		})
		w.Run(time.Hour)
		returned = true
	}()
	require.False(t, <-ended, "Goexit reaches the goroutine that called Run")
	require.True(t, unwound)
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

func TestExit(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		p := m.Boot(func(e *env.Env) {
			e.Go("child", func() { e.Sleep(time.Second) })
		})
		require.False(t, p.WaitUntil(w.Now().Add(time.Millisecond)))
		require.True(t, p.Alive())
		p.Wait()
		require.True(t, p.Exited())
		require.False(t, p.Alive())
		require.Equal(t, Died, p.Call("late", env.Forever, func() { t.Error("ran in an exited process") }))
		require.Equal(t, 2, m.Boot(forever).Boots())
		require.Panics(t, func() { m.Boot(forever) })
	})
}

func TestCallOutcomes(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{RatePPM: 100_000})
		p := m.Boot(forever)
		e := p.Env()

		result := 0
		require.Equal(t, Done, p.Call("quick", env.Forever, func() { e.Sleep(time.Second); result = 7 }))
		require.Equal(t, 7, result)

		late := false
		start := w.Now()
		require.Equal(t, TimedOut, p.Call("slow", w.Now().Add(time.Second), func() { e.Sleep(5 * time.Second); late = true }))
		require.Equal(t, start.Add(time.Second), w.Now())
		require.False(t, late)
		w.Env().Sleep(5 * time.Second)
		require.True(t, late, "it goes on alone")

		w.Go("killer", func() { w.Env().Sleep(time.Second); m.CrashProcess() })
		start = w.Now()
		require.Equal(t, Died, p.Call("cut", w.Now().Add(time.Hour), func() { forever(e) }))
		require.Equal(t, start.Add(time.Second), w.Now())
		require.Equal(t, Died, p.Call("too late", env.Forever, func() {}))

		p = m.Boot(forever)
		w.Go("killer", func() { m.CrashProcess() })
		outcome := p.Call("race", env.Forever, func() {})
		require.Contains(t, []Outcome{Done, Died}, outcome)
	})
}

func TestACallThatDiesBeforeItStartsIsDied(t *testing.T) {
	seen := map[Outcome]int{}
	for seed := range uint64(60) {
		run(t, Options{Seed: seed}, func(w *World) {
			m := w.Machine("m", MachineConfig{})
			p := m.Boot(forever)
			w.Env().Sleep(1)
			ran := false
			w.Go("killer", func() { m.CrashProcess() })
			o := p.Call("race", env.Forever, func() { ran = true })
			require.Equal(t, o == Done, ran)
			seen[o]++
		})
	}
	require.Positive(t, seen[Done])
	require.Positive(t, seen[Died])
}

func TestClockDrift(t *testing.T) {
	for _, ppm := range []int{0, 1, -1, 37, -500, 100_000, -100_000} {
		t.Run(fmt.Sprint(ppm), func(t *testing.T) {
			run(t, Options{}, func(w *World) {
				w.Env().Sleep(123456789 * time.Nanosecond)
				m := w.Machine("m", MachineConfig{RatePPM: ppm})
				done := false
				p := m.Boot(func(e *env.Env) {
					for _, d := range []time.Duration{1, 3, 999, time.Microsecond, 33 * time.Millisecond, time.Second, time.Hour} {
						until := e.Now().Add(d)
						start := w.Now()
						require.False(t, e.NewWaiter().ParkUntil(until))
						require.GreaterOrEqual(t, e.Now(), until, "never awake before the own clock shows the deadline")
						require.Less(t, e.Now().Sub(until), 3*time.Nanosecond, "nor later than needed")
						want := float64(d) / (1 + float64(ppm)/1e6)
						require.InDelta(t, want, float64(w.Now().Sub(start)), 3)
					}
					done = true
				})
				p.Wait()
				require.True(t, done)
				i := p.Instant(w.Now())
				require.LessOrEqual(t, p.TrueTime(i), w.Now())
				require.Equal(t, i, p.Instant(p.TrueTime(i)))
			})
		})
	}
}

func TestClocksOfAMachine(t *testing.T) {
	run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{WallOffset: -time.Hour, WallShift: time.Minute})
		e := m.Boot(forever).Env()
		require.Equal(t, env.Wall(epoch), w.Env().Wall())
		require.Equal(t, env.Wall(epoch)-env.Wall(time.Hour), e.Wall())
		mono := e.Now()
		w.Env().Sleep(time.Minute)
		require.Equal(t, mono.Add(time.Minute), e.Now())
		m.JumpWall(-30 * time.Minute)
		require.Equal(t, env.Wall(epoch)-env.Wall(89*time.Minute), e.Wall())
		require.Equal(t, mono.Add(time.Minute), e.Now(), "the monotonic clock does not jump")

		m.CrashProcess()
		second := m.Boot(forever).Env()
		require.NotEqual(t, e.Now(), second.Now(), "every process has an origin of its own")
		require.Equal(t, env.Wall(epoch)-env.Wall(89*time.Minute), second.Wall())

		p := m.Process()
		up := p.Instant(w.Now())
		m.PowerLoss()
		require.Zero(t, m.mono.read(w.now))
		require.Equal(t, up, p.Instant(w.Now()), "instants of a dead process keep their meaning")
		third := m.Boot(forever).Env()
		require.NotEqual(t, env.Wall(epoch)-env.Wall(89*time.Minute), third.Wall())
		require.InDelta(t, float64(env.Wall(epoch)-env.Wall(89*time.Minute)), float64(third.Wall()), float64(time.Minute))

		start, began := w.Now(), third.Now()
		w.Go("ntp", func() { w.Env().Sleep(time.Second); m.SetRate(1_000_000 / 2) })
		m.Process().Call("sleep", env.Forever, func() { third.Sleep(4 * time.Second) })
		require.Equal(t, began.Add(4*time.Second), third.Now())
		require.Equal(t, start.Add(3*time.Second), w.Now(), "one second at the old rate, two at the new")
	})
}

func TestPause(t *testing.T) {
	w := run(t, Options{}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		ticks := 0
		p := m.Boot(func(e *env.Env) {
			for {
				e.Sleep(time.Second)
				ticks++
			}
		})
		w.Env().Sleep(10*time.Second + 1)
		require.Equal(t, 10, ticks)
		m.Pause(time.Minute)
		m.Pause(time.Second) // the longer one counts
		require.Equal(t, TimedOut, p.Call("stalled", w.Now().Add(30*time.Second), func() { ticks += 1000 }))
		require.Equal(t, 10, ticks)
		w.Env().Sleep(30*time.Second + 1)
		require.Equal(t, 1011, ticks, "what was due runs at the end of the pause")
		w.Env().Sleep(time.Second)
		require.Equal(t, 1012, ticks)

		m.Pause(time.Hour)
		m.CrashProcess()
		booted := false
		p = m.Boot(func(e *env.Env) { booted = true })
		w.Env().Sleep(time.Minute)
		require.False(t, booted, "a crash of the process does not end a pause of the machine")
		m.PowerLoss()
		at := w.Now()
		m.Boot(func(e *env.Env) { booted = true }).Wait()
		require.True(t, booted)
		require.Equal(t, at, w.Now(), "a power loss does")

		p = m.Boot(forever)
		for range 3 {
			p.Env().Go("runnable", func() {
				require.Equal(t, at.Add(time.Second), w.Now())
				booted = false
			})
		}
		m.Pause(time.Second)
		w.Env().Sleep(time.Second - 1)
		require.True(t, booted, "what was runnable before the pause stalls, too")
		w.Env().Sleep(2)
		require.False(t, booted)
		m.CrashProcess()

		p = m.Boot(func(e *env.Env) {
			start := w.Now()
			m.Pause(time.Second)
			require.Equal(t, start.Add(time.Second), w.Now(), "a task may pause its own machine")
		})
		p.Wait()
		require.True(t, p.Exited())
	})
	require.Equal(t, 5, w.Stats().Pauses)
}

func TestArmedCrashStrikesEveryPlaceInTurn(t *testing.T) {
	// The program makes 2 calls at the root and then a write, a point and a sync three times.
	program := func(e *env.Env) {
		d, err := e.FS().OpenRoot("/data", true)
		require.NoError(t, err)
		f, err := d.Create("f")
		require.NoError(t, err)
		for i := range 3 {
			f.WriteAt([]byte{byte(i)}, int64(i))
			e.Point("written")
			f.Sync()
		}
	}
	places := map[string]int{}
	for n := 1; ; n++ {
		crashed := false
		w := run(t, Options{Seed: uint64(n)}, func(w *World) {
			m := w.Machine("m", MachineConfig{})
			m.Mark("writing")
			m.ArmCrash(ProcessCrash, n)
			p := m.Boot(program)
			p.Wait()
			crashed = !p.Exited()
			m.Disarm()
		})
		if !crashed {
			require.Equal(t, 12, n)
			break
		}
		require.Equal(t, map[string]int{"writing": 1}, w.Stats().CrashPhases)
		for place := range w.Stats().CrashPlaces { // order-free: counts into a map
			places[place]++
		}
	}
	require.Equal(t, map[string]int{
		"create /data": 1, "create /data/f": 1, "write /data/f": 3, "point written": 3, "sync /data/f": 3,
	}, places)
}

func TestCrashInTheRecoveryOfARecovery(t *testing.T) {
	w := run(t, Options{Seed: 5}, func(w *World) {
		m := w.Machine("m", MachineConfig{})
		for range 3 {
			m.ArmCrash(PowerFailure, 4)
		}
		m.ArmCrash(PowerFailure, 6) // counts from now as well: two calls after the first
		recovered := false
		for !recovered {
			m.Mark("recovery")
			m.Boot(func(e *env.Env) {
				d, err := e.FS().OpenRoot("/data", true)
				require.NoError(t, err)
				for i := range 5 {
					d.Mkdir(fmt.Sprint(i))
				}
				recovered = true
			}).Wait()
		}
	})
	require.Equal(t, map[string]int{"recovery": 4}, w.Stats().CrashPhases)
	require.Equal(t, 4, w.Stats().ArmedCrashes)
}

func TestOuterWorldHasNoDisk(t *testing.T) {
	_, err := New(Options{}).Env().FS().OpenRoot("/", true)
	require.ErrorIs(t, err, ErrNoDisk)
}

func TestTwoTasksOnOneWaiterIsAnError(t *testing.T) {
	w := New(Options{})
	waiter := w.Env().NewWaiter()
	w.Go("a", waiter.Park)
	w.Go("b", waiter.Park)
	var p *PanicError
	require.ErrorAs(t, w.Run(time.Hour), &p)
	require.Contains(t, p.Value, "two tasks parked")
}

func TestADeadlineAndAPermitAtOneInstant(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(100) {
		run(t, Options{Seed: seed}, func(w *World) {
			e := w.Env()
			waiter := e.NewWaiter()
			given := false
			w.Go("giver", func() {
				e.Sleep(time.Second)
				given = true
				waiter.Unpark()
			})
			e.Sleep(1) // the giver sleeps first in half of the runs only
			got := waiter.ParkUntil(env.Instant(time.Second))
			seen[fmt.Sprintf("permit %v given %v", got, given)]++
			if got {
				require.True(t, given)
			}
		})
	}
	require.Len(t, seen, 3, "%v", seen)
}

func TestPanicOfAnErrorIsThatError(t *testing.T) {
	cause := errors.New("cause")
	w := New(Options{})
	w.Go("task", func() { panic(cause) })
	require.ErrorIs(t, w.Run(time.Hour), cause)
}

func TestPowerLossReports(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		w := run(t, Options{Seed: seed}, func(w *World) {
			m := w.Machine("m", MachineConfig{Personality: disk.Adversarial})
			m.Boot(func(e *env.Env) {
				d, err := e.FS().OpenRoot("/data", true)
				require.NoError(t, err)
				f, err := d.Create("f")
				require.NoError(t, err)
				require.NoError(t, d.Sync())
				_, err = f.WriteAt(make([]byte, 8*512), 0)
				require.NoError(t, err)
				m.PowerLoss()
			}).Wait()
		})
		lost += w.Stats().Losses.SectorsLost
		require.Equal(t, 8, w.Stats().Losses.SectorsLost+w.Stats().Losses.SectorsKept)
	}
	require.Positive(t, lost)
}
