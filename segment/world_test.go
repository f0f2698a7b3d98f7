package segment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim"
	"narad/sim/disk"
)

// seen is what the outer world knows about one log, across crashes.
type seen struct {
	hw        int64            // highest watermark ever shown
	at        map[int64]string // what an offset held when it was read or confirmed
	attempts  map[string]bool  // every payload ever committed, confirmed or not
	confirmed int
	failed    int
	poisoned  int
	next      int
}

// runWorld lets committers and readers work on a machine that crashes and whose disk fails, and checks the log
// at every step of every life.
func runWorld(seed uint64) (*seen, uint64, error) {
	w := sim.New(sim.Options{Seed: seed, MaxSteps: 2_000_000})
	known := &seen{at: map[int64]string{}, attempts: map[string]bool{}}
	m := w.Machine("m", sim.MachineConfig{
		Personality: disk.Personality(seed % 2),
		Writeback:   100_000,
		Evict:       50_000,
		Faults: sim.FaultPlan{
			ReadEIO: 3000, WriteEIO: 8000, ShortWrite: 8000, NoSpace: 3000,
			SyncLost: 4000, SyncVisible: 8000, SyncDirEIO: 10000, MetaEIO: 10000,
		},
	})
	o := Options{SegmentBytes: 1500, FrameBytes: 700}
	w.Go("driver", func() {
		for life := range 12 {
			if life < 11 {
				m.ArmCrash(sim.CrashKind(w.Choose(2)), 1+w.Choose(120))
			} else {
				m.ClearFaults()
			}
			var quiet bool
			p := m.Boot(func(e *env.Env) { quiet = live(w, e, o, known, life == 11) })
			p.WaitUntil(w.Now().Add(time.Minute))
			if life == 11 && !quiet {
				w.Fail(fmt.Errorf("the last life did not come to its end"))
			}
			m.Disarm()
			if p.Alive() {
				m.CrashProcess()
			}
		}
	})
	err := w.Run(time.Hour)
	return known, w.Hash(), err
}

// live is one life of the process: open, work in several tasks, reopen when poisoned.
func live(w *sim.World, e *env.Env, o Options, known *seen, last bool) bool {
	dir, err := e.FS().OpenRoot("p", true)
	if err != nil {
		return false
	}
	for round := range 3 {
		l, err := Open(e, dir, o)
		if err != nil {
			continue
		}
		if l.HighWatermark() < known.hw {
			w.Fail(fmt.Errorf("watermark %d after an open, was %d", l.HighWatermark(), known.hw))
		}
		known.hw = l.HighWatermark()
		g := e.NewGroup()
		for c := range 3 {
			g.Go("committer", func() { known.committer(w, l, c) })
		}
		g.Go("reader", func() { known.reader(w, l) })
		if round == 0 {
			g.Go("closer", func() {
				e.Sleep(time.Duration(w.Choose(40)) * time.Millisecond)
				l.Close()
				if _, err := l.Read(0); err != ErrClosed {
					w.Fail(fmt.Errorf("a closed log answers %v", err))
				}
			})
		}
		g.Wait()
		if l.Err() != nil {
			known.poisoned++
		}
		l.Close()
	}
	if !last {
		return true
	}
	l, err := Open(e, dir, o)
	if err != nil {
		w.Fail(err)
		return false
	}
	for off := range l.HighWatermark() {
		known.read(w, l, off)
	}
	return true
}

func (k *seen) committer(w *sim.World, l *Log, c int) {
	for range 8 {
		var r []Record
		for range 1 + w.Choose(4) {
			x := rec(k.next, 20+w.Choose(300))
			k.next++
			k.attempts[string(x.Payload)] = true
			r = append(r, x)
		}
		base, err := l.Commit(r)
		if hw := l.HighWatermark(); hw > k.hw {
			k.hw = hw
		}
		if err != nil {
			k.failed++
			continue
		}
		k.confirmed += len(r)
		for i, x := range r {
			k.holds(w, base+int64(i), string(x.Payload))
		}
	}
}

func (k *seen) reader(w *sim.World, l *Log) {
	for range 30 {
		if hw := l.HighWatermark(); hw > 0 {
			k.hw = max(k.hw, hw)
			k.read(w, l, int64(w.Choose(int(hw))))
		}
	}
}

func (k *seen) read(w *sim.World, l *Log, off int64) {
	r, err := l.Read(off)
	if err == nil {
		k.holds(w, off, string(r.Payload))
	} else if isCorrupt(err) || err == ErrAboveHW {
		w.Fail(fmt.Errorf("offset %d of %d: %w", off, l.HighWatermark(), err)) // no fault here damages anything
	}
}

// holds notes what an offset holds, which never changes, and that somebody committed it.
func (k *seen) holds(w *sim.World, off int64, payload string) {
	if was, ok := k.at[off]; ok && was != payload {
		w.Fail(fmt.Errorf("offset %d holds %.12q, was %.12q", off, payload, was))
	}
	if !k.attempts[payload] {
		w.Fail(fmt.Errorf("offset %d holds %.12q, which nobody committed", off, payload))
	}
	k.at[off] = payload
}

// Committers, readers, closes, crashes of both kinds, failing calls and pages that vanish after a failed sync:
// offsets never change what they hold, and no watermark ever falls.
func TestInTheSimulator(t *testing.T) { // LOG-02, LOG-07, LOG-08, LOG-09, LOG-14, LOG-24, LOG-25, INV-04
	seeds := uint64(150)
	if long() {
		seeds = 20_000
	}
	var sum seen
	for seed := range seeds {
		known, _, err := runWorld(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sum.confirmed += known.confirmed
		sum.failed += known.failed
		sum.poisoned += known.poisoned
	}
	t.Logf("confirmed %d, failed %d commits, poisoned %d times", sum.confirmed, sum.failed, sum.poisoned)
	if sum.confirmed < int(seeds)*50 || sum.failed < int(seeds) || sum.poisoned < int(seeds)/10 {
		t.Fatal("the worlds were too quiet to prove anything")
	}
}

// The same seed is the same run.
func TestSimulatedRunsRepeat(t *testing.T) {
	for seed := range uint64(5) {
		_, a, _ := runWorld(seed)
		_, b, _ := runWorld(seed)
		if a != b {
			t.Fatalf("seed %d: %x and %x", seed, a, b)
		}
	}
}

// rollsBesideRetention rolls and removes segments at the same time on a disk that now and then loses names for good when the sync of a
// directory fails; then the power goes. It returns how many records were confirmed.
func rollsBesideRetention(seed uint64) (confirmed int, err error) {
	w := sim.New(sim.Options{Seed: seed, MaxSteps: 2_000_000})
	m := w.Machine("m", sim.MachineConfig{Personality: disk.Personality(seed % 2), Faults: sim.FaultPlan{SyncDirLost: 150_000}})
	o := Options{SegmentBytes: 600, FrameBytes: 500}
	kept := map[int64]string{}
	var oldest int64
	w.Go("driver", func() {
		m.Boot(func(e *env.Env) {
			dir, err := e.FS().OpenRoot("p", true)
			if err != nil {
				return
			}
			l, err := Open(e, dir, o)
			if err != nil {
				return
			}
			g := e.NewGroup()
			g.Go("committer", func() {
				for n := range 40 {
					r := rec(n, 300)
					if base, err := l.Commit([]Record{r}); err == nil {
						kept[base] = string(r.Payload)
					}
				}
			})
			g.Go("retention", func() {
				for range 40 {
					l.Retain(e.Wall().UnixMilli() - int64(w.Choose(10)))
					e.Sleep(w.Duration(0, 5*time.Millisecond))
				}
			})
			g.Wait()
			oldest = l.Oldest()
		}).Wait()
		m.PowerLoss()
		m.ClearFaults()
		m.Boot(func(e *env.Env) {
			dir, err := e.FS().OpenRoot("p", true)
			if err != nil {
				w.Fail(err)
				return
			}
			l, err := Open(e, dir, o)
			if err != nil {
				w.Fail(err)
				return
			}
			for off, want := range kept { // order-free: each on its own
				if off < oldest {
					continue
				}
				if got, err := l.Read(off); err != nil || string(got.Payload) != want {
					w.Fail(fmt.Errorf("confirmed record %d is gone (%v); oldest %d, watermark %d", off, err, l.Oldest(), l.HighWatermark()))
				}
			}
			l.Close()
		}).Wait()
		w.Stop()
	})
	err = w.Run(time.Hour)
	return len(kept), err
}

// LOG-02, RET-04, INV-04: a sync of the directory that fails for a removal does not take the name of a segment that is just beginning.
func TestRollBesideAFailedRemoval(t *testing.T) {
	total := 0
	for seed := range uint64(1200) {
		n, err := rollsBesideRetention(seed)
		require.NoError(t, err, "seed %d", seed)
		total += n
	}
	require.Greater(t, total, 10_000)
}
