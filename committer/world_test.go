package committer

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/env"
	"narad/sim"
	"narad/vfs"
)

// ledger is what the world outside knows of one partition: who was told what when.
type ledger struct {
	key     Key
	live    *shard
	acked   map[int64]env.Instant // true time of each ack, or of the start of the committer whose life found it settled
	ever    map[int64]bool
	taken   map[int64]bool // settled in the snapshot that State gave last
	window  map[int64]bool // written into the window last
	cached  map[int64]bool // what a process crash must not lose
	durable map[int64]bool // what a power loss must not lose
	asked   int            // calls to State
	forgot  int            // value of asked when the last Forget returned
	exact   bool           // Close returned nil and nothing was acked since
	busy    bool           // an ack is not reported yet, or a forget is under way

	seeded     bool          // in this life, and since it was forgotten last
	died       env.Instant   // when that ended
	bound      time.Duration // how old an ack may have been then that is gone now
	powerBound time.Duration // and if the power goes before it is seeded again
}

// found says that the committer has what is settled in hand from now on.
func (l *ledger) found(now env.Instant) {
	for o := range l.acked { // order-free: each is set to the same
		l.acked[o] = now
	}
	l.seeded = true
}

func settledIn(s State) map[int64]bool {
	m := map[int64]bool{}
	for o := int64(0); o <= s.Committed; o++ {
		m[o] = true
	}
	for _, o := range s.Ahead {
		m[o] = true
	}
	return m
}

func covers(have, want map[int64]bool) error {
	for o := range want { // order-free: any one will do
		if !have[o] {
			return fmt.Errorf("offset %d is missing", o)
		}
	}
	return nil
}

// universe is one machine whose committer lives, crashes and is started again.
type universe struct {
	t        *testing.T
	w        *sim.World
	m        *sim.Machine
	parts    []*ledger
	options  Options
	faulty   bool
	starved  bool // tasks are set aside now and then, for longer than any bound of time allows
	c        *Committer
	slowest  time.Duration // tick of this life
	tickAt   env.Instant   // when the last one began
	tickEnd  env.Instant   // and ended
	crashes  [3]int
	lostAcks int
	forgets  int
	seen     map[string]int
	failures []string
}

func (u *universe) failf(format string, args ...any) {
	u.failures = append(u.failures, fmt.Sprintf(format, args...))
}

const worldPartitions = 5

func newUniverse(t *testing.T, seed uint64, faulty bool) *universe {
	u := &universe{t: t, faulty: faulty, seen: map[string]int{}, starved: seed%4 >= 2}
	kind := []sim.PolicyKind{sim.Uniform, sim.Priority}[seed%2]
	u.w = sim.New(sim.Options{Seed: seed, Policy: sim.Policy{Kind: kind, Starve: u.starved, StarveGap: 3000}})
	latency := sim.DefaultLatency()
	latency.Stalls = 0
	u.m = u.w.Machine("m", sim.MachineConfig{Latency: latency, Writeback: 20_000})
	for i := range worldPartitions {
		u.parts = append(u.parts, &ledger{key: part0(i), acked: map[int64]env.Instant{}, ever: map[int64]bool{}})
	}
	intervals := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, time.Second}
	u.options = Options{Interval: intervals[u.w.Choose(len(intervals))], MaxOpen: 1 + u.w.Choose(worldPartitions+1)}
	return u
}

func (u *universe) path(k Key) string { return fmt.Sprintf("t/p%d", k.Partition) }

// run is the story of the machine: lives that end in a crash, a loss of power or a close.
func (u *universe) run() error {
	u.w.Go("story", func() {
		unclean := false
		for range 3 + u.w.Choose(5) {
			life := u.m.Boot(func(e *env.Env) { u.live(e, unclean) })
			u.w.Env().Sleep(u.w.Duration(0, 4*u.options.Interval) + 50*time.Millisecond)
			unclean = u.end(life)
		}
		u.w.Stop()
	})
	return u.w.Run(time.Hour)
}

// end ends a life and reports whether it ended uncleanly.
func (u *universe) end(life *sim.Process) bool {
	kind := u.w.Choose(3)
	if kind == 2 && u.c == nil {
		kind = 0 // it is starting still
	}
	u.crashes[kind]++
	for _, l := range u.parts {
		u.bury(l)
		if kind != 0 {
			l.bound = l.powerBound
		}
	}
	switch kind {
	case 0:
		u.m.CrashProcess()
	case 1:
		u.m.PowerLoss()
		u.powerLost()
	case 2:
		quiet := true // nobody acks while the committer closes
		for _, l := range u.parts {
			l.exact = l.live != nil
			l.live = frozen(l.live)
			quiet = quiet && l.exact && !l.busy
		}
		var err error
		if life.Call("close", env.Forever, func() { err = u.c.Close() }) != sim.Done {
			u.failf("close did not end")
		}
		if err != nil && !u.faulty && quiet {
			u.failf("close: %v", err)
		}
		for _, l := range u.parts {
			if err != nil {
				l.exact = false
			}
			if l.exact {
				l.durable = settledIn(l.live.State)
				l.cached = l.durable
			}
		}
		if u.w.Choose(2) == 0 {
			u.m.PowerLoss()
			u.powerLost()
		} else {
			u.m.CrashProcess()
		}
		return err != nil
	}
	return true
}

// bury says from when on, and back to when, acks of l may be missing: its process ended, or it was forgotten.
func (u *universe) bury(l *ledger) {
	if !l.seeded {
		return
	}
	tick := min(u.options.Interval, maxTick)
	slowest := max(u.slowest, u.w.Now().Sub(u.tickAt)-tick) // the tick that the end cut short counts too
	l.seeded, l.died = false, u.w.Now()
	l.bound = max(tick, slowest) + slowest               // INV-08
	l.powerBound = u.options.Interval + tick + 2*slowest // INV-09
}

// frozen takes no more acks.
func frozen(s *shard) *shard {
	if s == nil {
		return nil
	}
	c := *s
	return &c
}

// powerLost leaves only what is durable to expect.
func (u *universe) powerLost() {
	for _, l := range u.parts {
		l.cached = l.durable
	}
}

// live is a process: it opens its partitions, checks what it finds, and acks until it dies.
func (u *universe) live(e *env.Env, unclean bool) {
	u.c = nil
	u.m.ClearFaults()
	root, err := e.FS().OpenRoot("/data", true)
	require.NoError(u.t, err)
	u.mkdirs(root)
	for _, l := range u.parts {
		u.seed(root, l, !unclean)
		l.exact = false
	}
	u.tickAt, u.slowest = u.w.Now(), 0
	o := u.options
	o.Root, o.Path, o.State, o.Event = root, u.path, u.state, u.onEvent
	c, err := Start(e, o)
	require.NoError(u.t, err)
	u.c, u.tickAt = c, u.w.Now()
	for _, l := range u.parts {
		l.found(u.w.Now()) // before, nothing could become durable
	}
	if unclean {
		for _, l := range u.parts {
			c.Touch(l.key)
		}
	}
	if u.faulty {
		u.m.SetFaults(sim.FaultPlan{WriteEIO: 20_000, ShortWrite: 20_000, SyncLost: 40_000, SyncVisible: 40_000, SyncDirEIO: 50_000, MetaEIO: 20_000,
			Only: func(path string) bool { return u.m.Process().Alive() }})
	}
	for _, l := range u.parts {
		e.Go("acker", func() { u.ackForEver(e, c, root, l) })
	}
}

// mkdirs makes what is missing: the process can die here, too, and leave names that the next one must make durable.
func (u *universe) mkdirs(root vfs.Dir) {
	paths := []string{"t"}
	for _, l := range u.parts {
		paths = append(paths, u.path(l.key))
	}
	for _, path := range paths {
		if _, err := root.Stat(path); err != nil {
			require.NoError(u.t, root.Mkdir(path))
		}
	}
	t, err := root.OpenDir("t")
	require.NoError(u.t, err)
	require.NoError(u.t, t.Sync())
	require.NoError(u.t, root.Sync())
}

// seed makes the shard of a partition from its files and checks what they hold.
func (u *universe) seed(root vfs.Dir, l *ledger, clean bool) {
	dir, err := root.OpenDir(u.path(l.key))
	require.NoError(u.t, err)
	defer dir.Close()
	s, _, err := Recover(dir, 1, 1<<40)
	require.NoError(u.t, err)
	got := settledIn(s)
	if err := covers(l.ever, got); err != nil {
		u.failf("INV-11: %v, never acked: recovered %v", err, s)
	}
	if err := covers(got, l.cached); err != nil {
		u.failf("INV-08, INV-11: %v: recovered frontier %d", err, s.Committed)
	}
	if clean && l.exact && !maps.Equal(got, settledIn(l.live.State)) {
		u.failf("INV-10: closed with frontier %d, found %d", l.live.Committed, s.Committed)
	}
	u.checkAges(l, got)
	l.acked = map[int64]env.Instant{}
	for o := range got { // order-free: fills a map
		l.acked[o] = u.w.Now()
	}
	l.cached = got
	l.live = &shard{State: s, identity: 1}
}

// checkAges checks the time bounds of INV-08 and INV-09 on what was acked and is gone.
func (u *universe) checkAges(l *ledger, got map[int64]bool) {
	for o, at := range l.acked { // order-free: every one is judged alone
		if got[o] {
			continue
		}
		u.lostAcks++
		if age := l.died.Sub(at); !u.faulty && !u.starved && !l.seeded && age > l.bound {
			u.failf("INV-08, INV-09: offset %d was acked %v before the end, the window is %v", o, age, l.bound)
		}
	}
}

func (u *universe) state(k Key, dst []int64) (State, uint64, bool) {
	l := u.parts[k.Partition]
	l.asked++
	if l.live == nil {
		return State{}, 1, false
	}
	s := l.live.State
	l.taken = settledIn(s)
	s.Ahead = append(dst, s.Ahead...)
	return s, 1, true
}

// ackForEver acks, mostly in order, and sometimes drops and recreates the shard.
func (u *universe) ackForEver(e *env.Env, c *Committer, root vfs.Dir, l *ledger) {
	for {
		e.Sleep(u.w.Duration(time.Millisecond, 300*time.Millisecond))
		if l.exact { // it is being closed
			e.NewWaiter().Park()
		}
		l.busy = true
		if u.w.Choose(40) == 39 && !u.faulty {
			l.live = nil
			u.bury(l)
			c.Forget(l.key)
			l.forgot = l.asked
			u.forgets++
			before := l.acked
			u.seed(root, l, false)
			for o, at := range before { // order-free: fills a map
				if _, ok := l.acked[o]; ok {
					l.acked[o] = at
				}
			}
			l.seeded, l.busy = true, false
			continue
		}
		for range 1 + u.w.Choose(4) {
			o := l.live.Committed + 1 + int64(u.w.Choose(6)*u.w.Choose(2))
			l.live.ack(o)
			l.ever[o] = true
			if _, ok := l.acked[o]; !ok {
				l.acked[o] = u.w.Now()
			}
		}
		e.Point("acked, not reported")
		c.Dirty(l.key)
		l.busy = false
	}
}

// onEvent follows the shadow of the disk.
func (u *universe) onEvent(v Event) {
	u.seen[fmt.Sprintf("%T", v)]++
	switch v := v.(type) {
	case Primed:
		if l := u.parts[v.Key.Partition]; v.Err == nil {
			l.durable = l.cached
		} else {
			l.cached = l.durable
		}
	case WindowWritten:
		l := u.parts[v.Key.Partition]
		if l.asked == l.forgot {
			u.failf("COM-39: a snapshot from before the forget was written")
		}
		if v.Err == nil {
			l.window, l.cached = l.taken, l.taken
		} else {
			l.cached = l.durable
		}
	case WrittenOut:
		if l := u.parts[v.Key.Partition]; v.Err == nil {
			l.durable = l.window
		} else {
			l.cached = l.durable
		}
	case Evicted:
		u.seen["evicted"]++
	case Reopened:
		if v.OneOff {
			u.seen["one-off"]++
		}
	case Stranded:
		u.failf("stranded: %v", v.Key)
	case TickDone:
		start := u.w.Now().Add(-v.Took)
		due := u.tickAt.Add(min(u.options.Interval, 100*time.Millisecond))
		if late := start.Sub(max(due, u.tickEnd)); late > time.Millisecond && !u.starved {
			u.failf("COM-02, COM-54: a tick began %v after it was due", late)
		}
		u.slowest, u.tickAt, u.tickEnd = max(u.slowest, v.Took), start, u.w.Now()
	}
}

// INV-08, INV-09, INV-10, INV-11, COM-39, COM-57, Q-08: the committer's task in simulated worlds, with acks,
// forgets, crashes anywhere, losses of power and closes; then the same with failing writes and syncs.
func TestWorlds(t *testing.T) {
	seeds := 150
	if os.Getenv("NARAD_LONG") == "1" {
		seeds = 5000
	}
	for _, faulty := range []bool{false, true} {
		var crashes [3]int
		lost, forgets, seen := 0, 0, map[string]int{}
		for seed := range uint64(seeds) {
			u := newUniverse(t, seed, faulty)
			require.NoError(t, u.run(), "seed %d", seed)
			for i, n := range u.crashes {
				crashes[i] += n
			}
			lost, forgets = lost+u.lostAcks, forgets+u.forgets
			for name, n := range u.seen { // order-free: sums
				seen[name] += n
			}
			require.Empty(t, u.failures, "seed %d, faulty %v", seed, faulty)
		}
		t.Logf("faulty %v: %d process crashes, %d losses of power, %d closes, %d forgets, %d acks came back, events %v",
			faulty, crashes[0], crashes[1], crashes[2], forgets, lost, seen)
		require.Positive(t, lost, "crashes that lose nothing prove nothing")
		require.Positive(t, seen["one-off"])
		require.Positive(t, seen["evicted"])
	}
}

// INV-08, INV-09, INV-10, REC-05, REC-06, REC-07, REC-17, COM-02..COM-05, COM-31, COM-54: whatever the interval, the number of
// descriptors, the speed of the disk and the instants of the crashes: after a process crash nothing comes back that was acked longer
// ago than a tick and its duration, after a loss of power nothing older than D + T + the writeout, after a graceful stop nothing.
func TestWindows(t *testing.T) {
	var crashes [3]int
	lost := 0
	rapid.Check(t, func(rt *rapid.T) {
		u := newUniverse(t, rapid.Uint64().Draw(rt, "seed"), false)
		d := rapid.OneOf(
			rapid.SampledFrom([]time.Duration{MinInterval, 99 * time.Millisecond, maxTick, 101 * time.Millisecond, 250 * time.Millisecond, DefaultInterval}),
			rapid.Custom(func(rt *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(10, 4000).Draw(rt, "ms")) * time.Millisecond
			}),
		).Draw(rt, "D")
		u.options.Interval = d
		u.options.MaxOpen = rapid.IntRange(1, worldPartitions+1).Draw(rt, "descriptors")
		latency := sim.DefaultLatency()
		latency.Stalls = rapid.SampledFrom([]int{0, 0, 2000}).Draw(rt, "stalls")
		latency.Stall = sim.Range{Min: 50 * time.Millisecond, Max: 900 * time.Millisecond}
		latency.Sync.Max = time.Duration(rapid.IntRange(1, 200).Draw(rt, "sync ms")) * time.Millisecond
		latency.Write.Max = time.Duration(rapid.IntRange(1, 30).Draw(rt, "write ms")) * time.Millisecond
		latency.Waits = rapid.SampledFrom([]int{0, 250_000, 1_000_000}).Draw(rt, "waits")
		u.m.SetLatency(latency)
		require.NoError(rt, u.run())
		require.Empty(rt, u.failures)
		if u.starved {
			return // not judged by time
		}
		for i, n := range u.crashes {
			crashes[i] += n
		}
		lost += u.lostAcks
	})
	t.Logf("%d process crashes, %d losses of power, %d closes, %d acks came back", crashes[0], crashes[1], crashes[2], lost)
	require.Positive(t, lost, "crashes that lose nothing prove nothing")
	for _, n := range crashes {
		require.Greater(t, n, 20)
	}
}

// The committer is a pure function of its world.
func TestWorldsAreDeterministic(t *testing.T) {
	for seed := range uint64(5) {
		a, b := newUniverse(t, seed, true), newUniverse(t, seed, true)
		require.NoError(t, a.run())
		require.NoError(t, b.run())
		require.Equal(t, a.w.Hash(), b.w.Hash())
	}
}

// COM-39, Q-58: a forget that comes while the partition's window, prime or writeout is under way returns
// when that has ended, and nothing of it comes later.
func TestForgetWaits(t *testing.T) {
	waited := 0
	for seed := range uint64(60) {
		w := sim.New(sim.Options{Seed: seed})
		slow := sim.Range{Min: 30 * time.Millisecond, Max: 60 * time.Millisecond}
		m := w.Machine("m", sim.MachineConfig{Latency: sim.Latency{Write: slow, Sync: slow, Meta: slow, Waits: 1_000_000}})
		under := &counter{} // operations on the partition that are under way
		m.Boot(func(e *env.Env) {
			root, err := e.FS().OpenRoot("/data", true)
			require.NoError(t, err)
			require.NoError(t, root.Mkdir("p0"))
			snapshots, forgot := 0, 0
			live := &shard{State: State{Committed: -1}, identity: 1}
			c, err := Start(e, Options{
				Interval: 200 * time.Millisecond, Root: watch{root, under}, MaxOpen: 1, Path: func(Key) string { return "p0" },
				State: func(Key, []int64) (State, uint64, bool) {
					snapshots++
					return live.State, 1, true
				},
				Event: func(v Event) {
					if v, ok := v.(WindowWritten); ok {
						require.Greater(t, snapshots, forgot, "a snapshot from before the forget, %+v", v)
					}
				},
			})
			require.NoError(t, err)
			for range 12 {
				live.ack(live.Committed + 1)
				c.Dirty(part0(0))
				e.Sleep(w.Duration(0, 400*time.Millisecond))
				if under.now > 0 {
					waited++
				}
				c.Forget(part0(0))
				require.Zero(t, under.now, "an operation is still under way")
				forgot = snapshots
			}
			require.NoError(t, c.Close())
		})
		require.NoError(t, w.Run(time.Hour), "seed %d", seed)
	}
	require.Greater(t, waited, 50)
}

// COM-01, COM-09, BUG-109: one task does all writes, so that no two syncs are under way at a time, however slow they are and
// however many partitions are due.
func TestOneWriteoutAtATime(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	slow := sim.Range{Min: time.Millisecond, Max: 5 * time.Millisecond}
	m := w.Machine("m", sim.MachineConfig{Latency: sim.Latency{Write: slow, Sync: slow, Meta: slow, Waits: 1_000_000}})
	under := &counter{}
	written := 0
	m.Boot(func(e *env.Env) {
		root, err := e.FS().OpenRoot("/data", true)
		require.NoError(t, err)
		live := map[Key]*shard{}
		for i := range 20 {
			require.NoError(t, root.Mkdir(fmt.Sprintf("p%d", i)))
			live[part0(i)] = &shard{State: State{Committed: -1}, identity: 1}
		}
		c, err := Start(e, Options{
			Interval: 100 * time.Millisecond, Root: watch{root, under}, MaxOpen: 3, Path: func(k Key) string { return fmt.Sprintf("p%d", k.Partition) },
			State: func(k Key, _ []int64) (State, uint64, bool) { return live[k].State, 1, true },
			Event: func(v Event) {
				if v, ok := v.(WrittenOut); ok && v.Err == nil {
					written++
				}
			},
		})
		require.NoError(t, err)
		for range 10 {
			for i := range 20 {
				live[part0(i)].ack(live[part0(i)].Committed + 1)
				c.Dirty(part0(i))
			}
			e.Sleep(w.Duration(0, 400*time.Millisecond))
		}
		require.NoError(t, c.Close())
	})
	require.NoError(t, w.Run(time.Hour))
	require.Greater(t, written, 60)
	require.Equal(t, 1, under.most)
}

// counter counts operations under way, and the most at a time.
type counter struct{ now, most, all int }

func (c *counter) begin() {
	c.now++
	c.all++
	c.most = max(c.most, c.now)
}

func (c *counter) end() { c.now-- }

// watch counts the operations under way on files below a directory.
type watch struct {
	vfs.Dir
	under *counter
}

type watchedFile struct {
	vfs.File
	under *counter
}

func (d watch) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return watch{sub, d.under}, err
}

func (d watch) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, d.under}, nil
}

func (d watch) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, d.under}, nil
}

func (f watchedFile) WriteAt(p []byte, off int64) (int, error) {
	f.under.begin()
	defer f.under.end()
	return f.File.WriteAt(p, off)
}

func (f watchedFile) Sync() error {
	f.under.begin()
	defer f.under.end()
	return f.File.Sync()
}
