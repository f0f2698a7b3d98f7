package sim

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// busy is a world with a bit of everything in it; it returns the order in which things happened.
func busy(o Options) (*World, string, error) {
	w := New(o)
	var order strings.Builder
	e := w.Env()
	a := w.Machine("a", MachineConfig{RatePPM: 100, WallOffset: time.Hour, Writeback: 100_000})
	b := w.Machine("b", MachineConfig{RatePPM: -250, Personality: disk.Ordered, Faults: FaultPlan{SyncLost: 5000, MetaEIO: 5000}})
	w.Net().Configure(NetConfig{Delay: Range{time.Millisecond, 20 * time.Millisecond}, Loss: 50_000, Duplicate: 50_000, Reorder: 100_000})
	serve := func(to string) func(e *env.Env) {
		return func(e *env.Env) {
			d, err := e.FS().OpenRoot("/data", true)
			if err != nil {
				return
			}
			for i := range 3 {
				e.Go("sender", func() {
					r := e.Stream("jitter")
					for k := range 20 {
						if vfs.ReplaceFile(d, fmt.Sprint(i), fmt.Append(nil, k)) != nil {
							return
						}
						e.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond))))
						e.Send(to, fmt.Appendf(nil, "%d.%d", i, k))
						e.Point("sent")
					}
				})
			}
			for {
				m, ok := e.Receive(env.Forever)
				if ok {
					fmt.Fprintf(&order, "%s<%s:%s ", to, m.From, m.Payload)
				}
			}
		}
	}
	for _, m := range []*Machine{a, b} {
		other := map[string]string{"a": "b", "b": "a"}[m.Name()]
		w.Go("supervise "+m.Name(), func() {
			for {
				m.Boot(serve(other)).Wait()
				e.Sleep(w.Duration(0, time.Millisecond))
			}
		})
	}
	w.Go("nemesis", func() {
		for range 10 {
			e.Sleep(w.Duration(0, 30*time.Millisecond))
			m := []*Machine{a, b}[w.Choose(2)]
			switch w.Choose(4) {
			case 0:
				m.CrashProcess()
			case 1:
				m.PowerLoss()
			case 2:
				m.Pause(w.Duration(0, 50*time.Millisecond))
			case 3:
				m.ArmCrash(ProcessCrash, 1+w.Choose(20))
			}
		}
		e.Sleep(time.Second)
		w.Stop()
	})
	err := w.Run(time.Minute)
	w.mix(a.Disk().Hash() ^ b.Disk().Hash())
	return w, order.String(), err
}

func TestSameSeedSameRun(t *testing.T) {
	for seed := range uint64(20) {
		for _, kind := range []PolicyKind{Uniform, Priority, FIFO, Swarm} {
			o := Options{Seed: seed, Record: true, Policy: Policy{Kind: kind, StarveGap: 200, ChangeGap: 100}}
			first, order, err := busy(o)
			require.NoError(t, err)
			require.NotEmpty(t, order)

			again, orderAgain, err := busy(o)
			require.NoError(t, err)
			require.Equal(t, first.Hash(), again.Hash())
			require.Equal(t, order, orderAgain)
			require.Equal(t, first.Stats(), again.Stats())

			o.Seed, o.Choices = 12345, first.Choices()
			replayed, orderReplayed, err := busy(o)
			require.NoError(t, err)
			require.Equal(t, first.Hash(), replayed.Hash(), "recorded choices are the whole entropy")
			require.Equal(t, order, orderReplayed)
			require.Equal(t, first.Choices(), replayed.Choices())
		}
	}
}

func TestSameRunOnAnyNumberOfThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	hashes := map[int]uint64{}
	for _, procs := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(procs)
		var sum uint64
		for seed := range uint64(10) {
			runtime.GC()
			w, _, err := busy(Options{Seed: seed})
			require.NoError(t, err)
			sum = fold(sum, w.Hash())
		}
		hashes[procs] = sum
	}
	require.Equal(t, hashes[1], hashes[2])
	require.Equal(t, hashes[1], hashes[4])
}

func TestWorldsRunInParallel(t *testing.T) {
	const worlds = 16
	hashes := make([]uint64, worlds)
	RunParallel(worlds, func(i int) {
		w, _, err := busy(Options{Seed: uint64(i % 4)})
		if err == nil {
			hashes[i] = w.Hash()
		}
	})
	for i := range hashes {
		require.NotZero(t, hashes[i])
		require.Equal(t, hashes[i%4], hashes[i])
	}
}

// orders returns how often each order of n tasks that become runnable at one instant was seen.
func orders(t *testing.T, seeds int, policy Policy, tasks func(w *World, say func(string))) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(seeds) {
		w := New(Options{Seed: seed, Policy: policy})
		order := ""
		tasks(w, func(s string) { order += s })
		require.NoError(t, w.Run(time.Hour))
		seen[order]++
	}
	return seen
}

func TestSeedsExploreOrders(t *testing.T) {
	three := func(w *World, say func(string)) {
		for _, name := range []string{"a", "b", "c"} {
			w.Go(name, func() { say(name) })
		}
	}
	require.Len(t, orders(t, 200, Policy{}, three), 6)
	require.Len(t, orders(t, 200, Policy{Kind: Priority}, three), 6)
	require.Len(t, orders(t, 20, Policy{Kind: FIFO}, three), 1)

	sleepers := func(w *World, say func(string)) {
		for _, name := range []string{"a", "b", "c"} {
			w.Go(name, func() { w.Env().Sleep(time.Second); say(name) })
		}
	}
	require.Len(t, orders(t, 200, Policy{}, sleepers), 6, "wake-ups of one instant are ordered by choice")

	points := func(w *World, say func(string)) {
		for _, name := range []string{"a", "b"} {
			w.Go(name, func() {
				for range 3 {
					say(name)
					w.Env().Point("between")
				}
			})
		}
	}
	require.Len(t, orders(t, 2000, Policy{}, points), 20, "all 6!/(3!3!) interleavings")
}

func TestChoiceZeroIsFairAndTame(t *testing.T) {
	w := New(Options{Choices: []uint32{}})
	require.Equal(t, 0, w.Choose(10))
	require.False(t, w.Chance(9, 10))
	require.Equal(t, time.Second, w.Duration(time.Second, time.Hour))
	order := ""
	for _, name := range []string{"a", "b", "c"} {
		w.Go(name, func() {
			for range 3 {
				order += name
				w.Env().Point("p")
			}
		})
	}
	require.NoError(t, w.Run(time.Hour))
	require.Equal(t, "abcabcabc", order)
}

func TestChoose(t *testing.T) {
	w := New(Options{Seed: 7})
	var seen [5]int
	for range 5000 {
		seen[w.Choose(5)]++
	}
	for _, n := range seen {
		require.InDelta(t, 1000, n, 200)
	}
	hits := 0
	for range 10_000 {
		if w.Chance(1, 10) {
			hits++
		}
	}
	require.InDelta(t, 1000, hits, 200)
	for _, r := range []Range{{0, 1}, {5, 9}, {time.Second, time.Hour}, {-time.Hour, 1000 * time.Hour}} {
		low, high := r.Max, r.Min
		for range 2000 {
			d := w.Duration(r.Min, r.Max)
			require.GreaterOrEqual(t, d, r.Min)
			require.LessOrEqual(t, d, r.Max)
			low, high = min(low, d), max(high, d)
		}
		span := r.Max - r.Min
		require.LessOrEqual(t, low, r.Min+span/4)
		require.GreaterOrEqual(t, high, r.Max-span/4)
	}
	require.Panics(t, func() { w.Choose(0) })
	require.Equal(t, []uint32{0x04030201, 0x05}, ChoicesOf([]byte{1, 2, 3, 4, 5}))
}

func TestReplayToleratesEditedChoices(t *testing.T) {
	first, _, err := busy(Options{Seed: 3, Record: true})
	require.NoError(t, err)
	choices := first.Choices()
	for i := range 50 {
		edited := append([]uint32{}, choices...)
		edited[(i*37)%len(edited)] ^= 0xffffffff >> (i % 32)
		_, _, err := busy(Options{Choices: edited[:len(edited)-i]})
		require.NoError(t, err)
	}
	_, _, err = busy(Options{Choices: []uint32{}})
	require.NoError(t, err)
}

func TestPanicCarriesTheStackOfTheTask(t *testing.T) {
	w := New(Options{})
	w.Go("bystander", func() { w.Env().NewWaiter().Park() })
	w.Go("culprit", func() {
		w.Env().Sleep(time.Second)
		explode()
	})
	err := w.Run(time.Hour)
	var p *PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "boom", p.Value)
	require.Contains(t, p.Task, "culprit")
	require.Contains(t, string(p.Stack), "explode")
	require.Equal(t, err, w.Run(time.Hour), "a failed world stays failed")
}

//go:noinline
func explode() { panic("boom") }

func TestDeadlockTellsWhoWaitsWhere(t *testing.T) {
	w := New(Options{})
	m := w.Machine("m", MachineConfig{})
	w.Go("first", func() { waitForGodot(w.Env()) })
	w.Go("second", func() { m.Boot(func(e *env.Env) { e.Receive(env.Forever) }).Wait() })
	err := w.Run(time.Hour)
	var d *DeadlockError
	require.ErrorAs(t, err, &d)
	require.Len(t, d.Tasks, 3)
	require.Contains(t, err.Error(), "world/first#1: park")
	require.Contains(t, err.Error(), "waitForGodot")
	require.Contains(t, err.Error(), "m.1/main#3: receive")
	require.NotContains(t, err.Error(), "suspend", "frames of the kernel are left out")
}

//go:noinline
func waitForGodot(e *env.Env) { e.NewEvent().Wait() }

func TestLimits(t *testing.T) {
	w := New(Options{MaxSteps: 1000})
	w.Go("spin", func() {
		for {
			w.Env().Point("spin")
		}
	})
	require.ErrorIs(t, w.Run(time.Hour), ErrSteps)

	w = New(Options{})
	w.Go("ticker", func() {
		for {
			w.Env().Sleep(time.Second)
		}
	})
	err := w.Run(time.Minute)
	require.ErrorIs(t, err, ErrTime)
	require.Contains(t, err.Error(), "ticker")
	require.Equal(t, env.Instant(time.Minute), w.Now())
}

func TestStopAndFail(t *testing.T) {
	w := New(Options{})
	w.Go("ticker", func() {
		for {
			w.Env().Sleep(time.Second)
		}
	})
	w.Go("stopper", func() {
		w.Env().Sleep(time.Minute)
		w.Stop()
	})
	require.NoError(t, w.Run(time.Hour))
	require.Equal(t, env.Instant(time.Minute), w.Now())

	// A world that did not fail can go on with more tasks.
	ran := false
	w.Go("later", func() { ran = true })
	require.NoError(t, w.Run(time.Hour))
	require.True(t, ran)

	first, second := errors.New("first"), errors.New("second")
	w.Go("checker", func() {
		w.Fail(first)
		w.Fail(second)
		w.Env().Point("the run ends here")
		t.Error("went on after Fail")
	})
	require.Equal(t, first, w.Run(time.Hour))
}

func TestPriorityPolicyIsFairToWhoeverWaits(t *testing.T) {
	for seed := range uint64(20) {
		w := New(Options{Seed: seed, Policy: Policy{Kind: Priority, ChangeGap: 1 << 30}, MaxSteps: 100_000})
		done := false
		w.Go("spinner", func() {
			for !done {
				w.Env().Point("spin")
			}
		})
		w.Go("other", func() { done = true })
		require.NoError(t, w.Run(time.Hour))
	}
}

func TestStarvation(t *testing.T) {
	starved, late := 0, 0
	for seed := range uint64(50) {
		w := New(Options{Seed: seed, Policy: Policy{Starve: true, StarveGap: 20, StarveFor: time.Minute}})
		for range 4 {
			w.Go("task", func() {
				for range 20 {
					w.Env().Point("p")
				}
				if w.Now() > 0 {
					late++
				}
			})
		}
		require.NoError(t, w.Run(time.Hour))
		starved += w.Stats().Starved
	}
	require.Positive(t, starved)
	require.Positive(t, late)
	require.Less(t, late, 50*4)
}

func TestEventLog(t *testing.T) {
	var log bytes.Buffer
	_, _, err := busy(Options{Seed: 1, Log: &log})
	require.NoError(t, err)
	require.Contains(t, log.String(), "a.1: boot")
	require.Contains(t, log.String(), "world/nemesis#")

	w, quiet, err := busy(Options{Seed: 1})
	require.NoError(t, err)
	logged, order, err := busy(Options{Seed: 1, Log: &log})
	require.NoError(t, err)
	require.Equal(t, w.Hash(), logged.Hash(), "logging changes nothing")
	require.Equal(t, quiet, order)
	require.False(t, w.Logging())
	require.True(t, logged.Logging())
}

func TestWatchdogNamesTheTaskThatBlocksForReal(t *testing.T) {
	block := make(chan struct{})
	var report string
	w := New(Options{Seed: 0xabc, Watchdog: 20 * time.Millisecond, Hang: func(r string) {
		report = r
		close(block)
	}})
	w.Go("innocent", func() { w.Env().Sleep(time.Hour) })
	w.Go("blocker", func() {
		w.Env().Sleep(time.Second)
		<-block
	})
	require.NoError(t, w.Run(2*time.Hour))
	require.Contains(t, report, "blocker")
	require.Contains(t, report, "seed 0xabc")
	require.Contains(t, report, "TestWatchdogNamesTheTaskThatBlocksForReal", "the stacks of all goroutines")
}

func TestWatchdogLeavesSlowWorldsAlone(t *testing.T) {
	w := New(Options{Watchdog: 40 * time.Millisecond, Hang: func(r string) { t.Error(r) }})
	w.Go("slow", func() {
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			w.Env().Sleep(time.Second)
		}
	})
	require.NoError(t, w.Run(time.Hour))
}

func TestSeedsOfStreams(t *testing.T) {
	seeds := map[[32]byte]string{}
	collect := func(seed uint64, disturb bool) (list [][32]byte) {
		w := New(Options{Seed: seed})
		a, b := w.Machine("a", MachineConfig{}), w.Machine("b", MachineConfig{})
		take := func(e *env.Env) {
			if disturb {
				e.Seed("another")
				w.Choose(100)
			}
			list = append(list, e.Seed("x"), e.Seed("x"), e.Seed("y"))
		}
		w.Go("boot", func() {
			take(w.Env())
			for _, m := range []*Machine{a, b, a} {
				m.Boot(take).Wait()
			}
		})
		require.NoError(t, w.Run(time.Hour))
		return list
	}
	one := collect(1, false)
	require.Len(t, one, 12)
	require.Equal(t, one, collect(1, true), "a draw in one place shifts no stream")
	for i, s := range append(one, collect(2, false)...) {
		require.Empty(t, seeds[s])
		seeds[s] = fmt.Sprint(i)
	}
}

// A further named random stream, in code that has nothing to do with the rest, changes no world: not a choice, not the hash.
func TestUnrelatedStreamChangesNoHash(t *testing.T) {
	run := func(unrelated bool) uint64 {
		w := New(Options{Seed: 5})
		m := w.Machine("a", MachineConfig{})
		m.Boot(func(e *env.Env) {
			jitter := e.Stream("jitter")
			for range 50 {
				if unrelated {
					e.Stream("something new").Uint64()
				}
				e.Sleep(time.Duration(jitter.Uint64() % 1000))
				e.Go("other", func() { e.Point("here"); w.Choose(7) })
			}
		})
		require.NoError(t, w.Run(time.Hour))
		return w.Hash()
	}
	require.Equal(t, run(false), run(true))
}
