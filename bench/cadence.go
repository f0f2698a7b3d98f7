package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"narad/bench/load"
	"narad/bench/report"
	"narad/bench/tap"
	"narad/env"
	"narad/vfs"
)

// Options are common to the benchmarks of this package.
type Options struct {
	Dir      string // on the disk to measure; everything made in it is removed
	Quick    bool   // a smoke test: it runs everything and its figures are worth little
	Progress func(format string, args ...any)
	// Child returns a process that runs Traffic in dir, for one that can be killed.
	Child func(dir string, interval time.Duration) *exec.Cmd
	// Server starts a server with its data in a directory; nil: there is none to start.
	Server func(dir string) (*load.Server, error)
	// Big adds what takes minutes.
	Big bool
	// Only names the part of Growth to run; empty: all.
	Only string

	spoil func(vfs.FS) vfs.FS // a test's: puts a disk that lies above the recorded one
}

// pick returns the value for a quick run or for a full one.
func pick[T any](o Options, quick, full T) T {
	if o.Quick {
		return quick
	}
	return full
}

// Cell is one combination of a sweep and what was measured under it.
type Cell struct {
	Design  Design `json:"design"`
	Dirty   int    `json:"dirty"`   // partitions that acks change all the time
	Payload int    `json:"payload"` // bytes of a produce
	Writers int    `json:"writers"` // producers at a time

	Tick     report.Latency `json:"tick"`
	Writeout report.Latency `json:"writeout"`
	LatePage report.Latency `json:"late_page"` // persisted behind the oldest ack in it: a process crash brings that back
	LateDisk report.Latency `json:"late_disk"` // the same for a power loss
	Produce  report.Latency `json:"produce"`
	Commits  float64        `json:"commits_per_second"`
	Idle     float64        `json:"commits_beside_idle"` // in the same cell, before and after
	Syncs    float64        `json:"syncs_per_second"`
	OwnSyncs float64        `json:"committer_syncs_per_second"`
	First    time.Duration  `json:"first_tick_ns"` // the longest until each partition had its first window
	Close    time.Duration  `json:"close_ns"`      // with every partition changed
	Bytes    float64        `json:"bytes_per_second"`
	OwnBytes float64        `json:"committer_bytes_per_second"`
}

// OfIdle is the produce rate beside the acks, relative to the rate without them.
func (c Cell) OfIdle() float64 { return c.Commits / c.Idle }

// ackEvery is how often each of the dirty partitions is acked.
const ackEvery = 50 * time.Millisecond

func (o Options) measure(c Cell) (Cell, error) {
	o.Progress("%s, T %v, D %v: %d partitions, %d B, %d writers", c.Design.Name, c.Design.T, c.Design.D, c.Dirty, c.Payload, c.Writers)
	path, err := os.MkdirTemp(o.Dir, "cadence-")
	if err != nil {
		return c, err
	}
	defer os.RemoveAll(path)
	files := tap.New(vfs.OS{})
	e := env.OS().WithFS(files)
	root, err := e.FS().OpenRoot(path, false)
	if err != nil {
		return c, err
	}
	defer root.Close()
	if err := makePartitions(root, c.Dirty); err != nil {
		return c, err
	}
	m := newMeter(c.Dirty)
	design, err := c.Design.start(e, root, m)
	if err != nil {
		return c, err
	}
	prod, err := startProducers(e, root, c.Payload, c.Writers)
	if err != nil {
		return c, errors.Join(err, design.Close())
	}
	err = errors.Join(o.fill(&c, m, design, prod, files), prod.close())
	for i := range m.parts {
		m.ack(i)
		design.Dirty(i)
	}
	start := time.Now()
	err = errors.Join(err, design.Close())
	c.Close = time.Since(start)
	return c, err
}

// fill measures a cell: produces alone, produces beside acks, produces alone.
func (o Options) fill(c *Cell, m *meter, design persister, prod *producers, files *tap.FS) error {
	beside := max(pick(o, 300*time.Millisecond, 2*time.Second), c.Design.D+c.Design.D/4)
	alone := pick(o, 100*time.Millisecond, 400*time.Millisecond)
	stop := ackAll(m, design)
	err := primed(m, c.Dirty) // a first window of each, after its prime
	stop()
	if err != nil {
		return err
	}
	c.First = m.longestTick()
	time.Sleep(c.Design.T) // the last acks reach the page cache
	idle, err := prod.run(alone)
	if err != nil {
		return err
	}
	m.reset()
	before := files.Counts()
	stop = ackAll(m, design)
	busy, err := prod.run(beside)
	done := files.Counts().Since(before)
	err = errors.Join(err, ticked(m)) // on a slow disk a tick can outlast the produces
	stop()
	if err != nil {
		return err
	}
	c.fromMeter(m)
	again, err := prod.run(alone)
	if err != nil {
		return err
	}
	idle.add(again)
	c.Produce, c.Commits, c.Idle = busy.distribution(), busy.rate(), idle.rate()
	c.Syncs, c.OwnSyncs = float64(done.Total().Syncs)/busy.seconds, float64(done[tap.Ahead].Syncs)/busy.seconds
	c.Bytes, c.OwnBytes = float64(done.Total().Bytes)/busy.seconds, float64(done[tap.Ahead].Bytes)/busy.seconds
	return nil
}

func (c *Cell) fromMeter(m *meter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Tick, c.Writeout = report.Distribution(m.ticks), report.Distribution(m.outs)
	c.LatePage, c.LateDisk = report.Distribution(m.latePage), report.Distribution(m.lateDisk)
}

// ackAll acks every partition again and again until stop is called.
func ackAll(m *meter, p persister) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			start := time.Now()
			for i := range m.parts {
				m.ack(i)
				p.Dirty(i)
			}
			select {
			case <-quit:
				return
			case <-time.After(ackEvery - time.Since(start)):
			}
		}
	}()
	return func() { close(quit); <-done }
}

// primeLimit bounds the wait for the first windows, and for a tick.
const primeLimit = time.Minute

func primed(m *meter, n int) error {
	for start := time.Now(); m.windowCount() < n; time.Sleep(time.Millisecond) {
		if time.Since(start) > primeLimit {
			return fmt.Errorf("only %d of %d partitions got a first window within %v", m.windowCount(), n, primeLimit)
		}
	}
	return ticked(m)
}

// ticked waits until a tick has ended since the last reset of the meter.
func ticked(m *meter) error {
	for start := time.Now(); m.longestTick() == 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > primeLimit {
			return fmt.Errorf("no tick ended within %v", primeLimit)
		}
	}
	return nil
}

// Cadence answers what a durability cadence costs and what a crash brings back under it.
func Cadence(o Options) ([]report.Section, error) {
	var sections []report.Section
	for _, part := range []func() (report.Section, error){
		o.compareDesigns, o.sweepInterval, o.sweepTick, o.sweepPayload, o.sweepWriters, o.returnedAcks,
	} {
		s, err := part()
		if err != nil {
			return sections, err
		}
		sections = append(sections, s)
	}
	return sections, nil
}

func (o Options) dirtyCounts() []int { return pick(o, []int{12, 64}, []int{12, 64, 256, 1024}) }

// base is the cell around which factors vary.
func base(d Design) Cell { return Cell{Design: d, Dirty: 64, Payload: 1024, Writers: 1} }

// compareDesigns runs the designs one after the other for each number of dirty partitions (PERF-07, PERF-09).
func (o Options) compareDesigns() (report.Section, error) {
	s := cellSection("Designs, by partitions that acks change all the time")
	var cells []Cell
	produce := report.Plot{Title: "Produces beside acks, relative to none", X: "changed partitions", Y: "ratio", LogX: true}
	tick := report.Plot{Title: "Longest tick", X: "changed partitions", Y: "ms", LogX: true, LogY: true}
	tail := report.Plot{Title: "99th percentile of a produce", X: "changed partitions", Y: "ms", LogX: true}
	syncs := report.Plot{Title: "Syncs of consumer state", X: "changed partitions", Y: "a second", LogX: true, LogY: true}
	for _, n := range o.dirtyCounts() {
		for _, d := range []Design{twoCadences, eachTick, parallelTick} {
			c := base(d)
			c.Dirty = n
			c, err := o.measure(c)
			if err != nil {
				return s, err
			}
			cells = append(cells, c)
			addCell(&s.Table, c)
			produce.Add(d.Name, float64(n), c.OfIdle())
			tick.Add(d.Name, float64(n), report.Milliseconds(c.Tick.Max))
			tail.Add(d.Name, float64(n), report.Milliseconds(c.Produce.P99))
			syncs.Add(d.Name, float64(n), c.OwnSyncs)
		}
	}
	s.Data, s.Plots = cells, []report.Plot{produce, tick, tail, syncs}
	s.Notes = append(s.Notes, "“8 syncs at a time” is a model that does the committer's writes and syncs; the other two are the committer itself.")
	return s, nil
}

func (o Options) sweepInterval() (report.Section, error) {
	s := cellSection("Durability interval D (T is the smaller of D and 100 ms)")
	late := report.Plot{Title: "How far persisted offsets trail acks, 99th percentile", X: "D, ms", Y: "ms", LogX: true, LogY: true}
	var designs []Design
	for _, d := range pick(o, []time.Duration{100 * time.Millisecond}, []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 5 * time.Second}) {
		designs = append(designs, Design{Name: "committer", T: min(d, 100*time.Millisecond), D: d, Parallel: 1, Real: true})
	}
	cells, err := o.sweep(&s, designs, func(c *Cell, d Design) { c.Design = d })
	for _, c := range cells {
		late.Add("page cache (process crash)", report.Milliseconds(c.Design.D), report.Milliseconds(c.LatePage.P99))
		late.Add("disk (power loss)", report.Milliseconds(c.Design.D), report.Milliseconds(c.LateDisk.P99))
	}
	s.Plots = []report.Plot{late, ofIdle("D, ms", cells, func(c Cell) float64 { return report.Milliseconds(c.Design.D) })}
	return s, err
}

// sweepTick uses the model, as T is no setting of the committer.
func (o Options) sweepTick() (report.Section, error) {
	s := cellSection("Tick T, with D = 1 s (model)")
	var designs []Design
	for _, t := range pick(o, []time.Duration{100 * time.Millisecond}, []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second}) {
		designs = append(designs, Design{Name: "model", T: t, D: pick(o, 200*time.Millisecond, time.Second), Parallel: 1})
	}
	cells, err := o.sweep(&s, designs, func(c *Cell, d Design) { c.Design = d })
	late := report.Plot{Title: "How far persisted offsets trail acks, 99th percentile", X: "T, ms", Y: "ms", LogX: true, LogY: true}
	for _, c := range cells {
		late.Add("page cache (process crash)", report.Milliseconds(c.Design.T), report.Milliseconds(c.LatePage.P99))
		late.Add("disk (power loss)", report.Milliseconds(c.Design.T), report.Milliseconds(c.LateDisk.P99))
	}
	s.Plots = []report.Plot{late}
	return s, err
}

func (o Options) sweepPayload() (report.Section, error) {
	s := cellSection("Payload of the produces")
	_, err := o.sweep2(&s, pick(o, []int{1024}, []int{100, 1024, 16 << 10}), func(c *Cell, n int) { c.Payload = n })
	return s, err
}

func (o Options) sweepWriters() (report.Section, error) {
	s := cellSection("Producers at a time")
	cells, err := o.sweep2(&s, pick(o, []int{16}, []int{1, 16, 64}), func(c *Cell, n int) { c.Writers = n })
	s.Plots = []report.Plot{ofIdle("producers", cells, func(c Cell) float64 { return float64(c.Writers) })}
	return s, err
}

// sweep2 varies one factor under two designs.
func (o Options) sweep2(s *report.Section, values []int, set func(*Cell, int)) (all []Cell, err error) {
	for _, v := range values {
		cells, err := o.sweep(s, []Design{twoCadences, eachTick}, func(c *Cell, d Design) { set(c, v) })
		if err != nil {
			return all, err
		}
		all = append(all, cells...)
	}
	s.Data = all
	return all, nil
}

func (o Options) sweep(s *report.Section, designs []Design, set func(*Cell, Design)) (cells []Cell, err error) {
	for _, d := range designs {
		c := base(d)
		set(&c, d)
		if c, err = o.measure(c); err != nil {
			return cells, err
		}
		cells = append(cells, c)
		addCell(&s.Table, c)
	}
	s.Data = cells
	return cells, nil
}

func ofIdle(x string, cells []Cell, at func(Cell) float64) report.Plot {
	p := report.Plot{Title: "Produces beside acks, relative to none", X: x, Y: "ratio", LogX: true}
	for _, c := range cells {
		p.Add(c.Design.Name, at(c), c.OfIdle())
	}
	return p
}

func cellSection(title string) report.Section {
	return report.Section{Title: title, Table: report.Table{Columns: []string{
		"design", "T", "D", "changed", "bytes", "writers", "tick p50", "tick max", "writeout p50", "page cache behind acks p99", "disk behind acks p99",
		"produces/s", "of idle", "produce p50", "p99", "syncs/s", "of them state", "written/s", "of it state",
	}}}
}

func addCell(t *report.Table, c Cell) {
	t.Add(c.Design.Name, c.Design.T, c.Design.D, c.Dirty, c.Payload, c.Writers, c.Tick.P50, c.Tick.Max, c.Writeout.P50, c.LatePage.P99, c.LateDisk.P99,
		c.Commits, c.OfIdle(), c.Produce.P50, c.Produce.P99, c.Syncs, c.OwnSyncs, report.Bytes(c.Bytes), report.Bytes(c.OwnBytes))
}
