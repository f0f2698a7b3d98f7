package bench

import (
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/bench/load"
	"narad/bench/report"
	"narad/engine"
	"narad/env"
	"narad/vfs"
)

// The meter charges a write with the oldest ack that is in it, and with no ack that came after its snapshot.
func TestMeter(t *testing.T) {
	m := newMeter(1)
	m.ack(0)
	time.Sleep(2 * time.Millisecond)
	require.EqualValues(t, 1, m.snapshot(0))
	m.ack(0) // too late for this window
	m.windowWritten(0)
	require.Len(t, m.latePage, 1)
	require.GreaterOrEqual(t, m.latePage[0], int64(2*time.Millisecond))
	m.writtenOut(0, time.Millisecond)
	require.GreaterOrEqual(t, m.lateDisk[0], m.latePage[0])
	m.writtenOut(0, time.Millisecond)
	require.Len(t, m.lateDisk, 1, "nothing was on its way")
	require.EqualValues(t, 2, m.snapshot(0))
	m.windowWritten(0)
	require.Len(t, m.latePage, 2)
	require.Less(t, m.latePage[1], m.latePage[0])
}

// Every design brings every ack to the disk.
func TestDesigns(t *testing.T) {
	for _, d := range []Design{twoCadences, eachTick, parallelTick} {
		t.Run(d.Name, func(t *testing.T) {
			e := env.OS()
			root, err := e.FS().OpenRoot(t.TempDir(), false)
			require.NoError(t, err)
			defer root.Close()
			d.T, d.D = 10*time.Millisecond, 20*time.Millisecond
			m := newMeter(3)
			require.NoError(t, makePartitions(root, 3))
			p, err := d.start(e, root, m)
			require.NoError(t, err)
			for i := range 3 {
				m.ack(i)
				p.Dirty(i)
			}
			require.NoError(t, primed(m, 3))
			require.Eventually(t, func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				return len(m.lateDisk) == 3
			}, time.Minute, time.Millisecond)
			require.NoError(t, p.Close())
		})
	}
}

func TestMeasure(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true, Progress: t.Logf}
	c := base(eachTick)
	c.Dirty = 4
	c, err := o.measure(c)
	require.NoError(t, err)
	require.Positive(t, c.Commits)
	require.Positive(t, c.Idle)
	require.Positive(t, c.OwnSyncs)
	require.Greater(t, c.Syncs, c.OwnSyncs)
	require.Positive(t, c.Tick.Count)
	require.Positive(t, c.First)
	require.Positive(t, c.Close)
}

// A message that comes back is found, with its age, and the promise is seen broken.
func TestReturnedJudge(t *testing.T) {
	r := Returned{Promised: 100}
	acks := map[place]int64{{0, 1}: 1000, {0, 2}: 1900, {1, 1}: 1950}
	r.judge(acks, 2000, map[place]bool{{0, 2}: true, {1, 1}: true, {1, 2}: true})
	require.Equal(t, 2, r.Back)
	require.Equal(t, 3, r.Acks)
	require.EqualValues(t, 100, r.Oldest)
	require.True(t, r.Kept())
	r.judge(acks, 2000, map[place]bool{{0, 1}: true})
	require.EqualValues(t, 1000, r.Oldest)
	require.False(t, r.Kept())
	require.Equal(t, 1.5, r.Mean)
	require.Equal(t, 2, r.Images)
}

// lyingFS says that consumer state is on the disk and does not sync it.
type lyingFS struct{ vfs.FS }

type lyingDir struct{ vfs.Dir }

type lyingFile struct{ vfs.File }

func (f lyingFS) OpenRoot(path string, create bool) (vfs.Dir, error) {
	d, err := f.FS.OpenRoot(path, create)
	return lyingDir{d}, err
}

func (d lyingDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return lyingDir{sub}, err
}

func (d lyingDir) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	if err == nil && isState(name) {
		f = lyingFile{f}
	}
	return f, err
}

func (d lyingDir) Create(name string) (vfs.File, error) {
	f, err := d.Dir.Create(name)
	if err == nil && isState(name) {
		f = lyingFile{f}
	}
	return f, err
}

func isState(name string) bool { return len(name) > 9 && name[len(name)-9:] == "mer.ahead" }

func (lyingFile) Sync() error { return nil }

// A power loss brings back what is promised on a disk that keeps its word, and more on one that does not.
func TestPowerCut(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true, Progress: t.Logf}
	r, err := o.powerCut(50 * time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, r.Acks)
	require.True(t, r.Kept(), "%+v", r)
	require.Less(t, r.Back, r.Acks)
	o.spoil = func(below vfs.FS) vfs.FS { return lyingFS{below} }
	r, err = o.powerCut(50 * time.Millisecond)
	require.NoError(t, err)
	require.False(t, r.Kept(), "%+v", r)
}

func TestParseBench(t *testing.T) {
	name, ns, allocs, ok := parseBench("BenchmarkPERF02/scan-2   \t 100\t 550.1 ns/op\t 8 B/op\t 3 allocs/op")
	require.True(t, ok)
	require.Equal(t, "02/scan", name)
	require.Equal(t, 550.1, ns)
	require.Equal(t, 3.0, allocs)
	name, _, _, ok = parseBench("BenchmarkPERF13/10000 5 1 ns/op") // one processor
	require.True(t, ok)
	require.Equal(t, "13/10000", name)
	for _, bad := range []string{"", "ok narad/engine 1s", "BenchmarkOther-2 1 1 ns/op", "BenchmarkPERF02-2 1 x ns/op"} {
		_, _, _, ok := parseBench(bad)
		require.False(t, ok, bad)
	}
}

func TestJudge(t *testing.T) {
	require.Equal(t, reproduced, judge(4.5, 5.5))
	require.Equal(t, direction, judge(2, 5.5))
	require.Equal(t, refuted, judge(1, 5.5))
	require.Equal(t, reproduced, judgeFlat(1.1, 1.2))
	require.Equal(t, refuted, judgeFlat(1.3, 1.2))
}

// A round counts against those of ten before and after it, so that a machine that gets slower all the time changes no ratio; and a round
// in which no work was seen is no reason to fail.
func TestCompare(t *testing.T) {
	r := compare(costs{{cpu: 10}, {cpu: 20}, {cpu: 30}, {cpu: 40}}, costs{{cpu: 15}, {cpu: 50}, {cpu: 70}}, false)
	require.Equal(t, beside{cost{cpu: 25}, cost{cpu: 50}, 2, []report.Ratio{1, 2, 2}}, r)
	require.Equal(t, "2.00 (1.00–2.00)", Point{Of10: r.ratio, Rounds: r.ratios}.relative())
	require.Equal(t, "2.00 (1.25–3.00)", Point{Of10: 2, Rounds: []report.Ratio{1, 1.25, 2, 3, 9}}.relative())
	require.Equal(t, "1.50", Point{Of10: 1.5}.relative())

	r = compare(costs{{cpu: 10, wall: 2}, {cpu: 30, wall: 4}, {cpu: 10, wall: 2}}, costs{{cpu: 20, wall: 3}, {cpu: 60, wall: 5}}, true)
	require.Equal(t, beside{cost{20, 3}, cost{40, 4}, 2, []report.Ratio{1, 3}}, r)

	r = compare(costs{{}, {}}, costs{{cpu: 1}}, false)
	require.Equal(t, "– (–––)", Point{Of10: r.ratio, Rounds: r.ratios}.relative())
	_, err := json.Marshal(Point{Of10: r.ratio, Rounds: r.ratios})
	require.NoError(t, err)
}

// A part that fails takes neither the others with it nor what it had found.
func TestGrowthParts(t *testing.T) {
	part := func(name string, rows int, err error) growthPart {
		return growthPart{name, func() (report.Section, error) {
			s := report.Section{Title: name}
			for range rows {
				s.Table.Add("x")
			}
			return s, err
		}}
	}
	parts := []growthPart{part("a", 1, nil), part("b", 1, io.EOF), part("c", 0, io.EOF), part("d", 0, nil)}
	titles := func(sections []report.Section) (all string) {
		for _, s := range sections {
			all += s.Title
		}
		return all
	}
	o := Options{Progress: t.Logf}
	sections, err := o.inParts(parts)
	require.Equal(t, "abd", titles(sections))
	require.EqualError(t, err, "growth: b: EOF\ngrowth: c: EOF")
	o.Only = "d"
	sections, err = o.inParts(parts)
	require.NoError(t, err)
	require.Equal(t, "d", titles(sections))
	o.Only = "e"
	_, err = o.inParts(parts)
	require.EqualError(t, err, `there is no part "e": a, b, c, d`)
}

// The sizes of a growth run are small here; what is checked is that every section has its figures.
func TestGrowthSections(t *testing.T) {
	o := Options{Dir: t.TempDir(), Quick: true, Progress: t.Logf}
	narad, err := load.FindServer("", t.TempDir())
	require.NoError(t, err)
	o.Server = func(dir string) (*load.Server, error) { return load.StartNarad(narad, dir) }
	for _, part := range []func() error{
		func() error {
			_, err := o.besideTen(5, o.brief(), func(n int) (*subject, error) { return manyParked(n, true) })
			return err
		},
		func() error { _, err := o.aheadCost(3); return err },
		func() error { s, err := o.growPartitions(); require.Len(t, s.Table.Rows, 4); return err },
		func() error { s, err := o.growDisk(); require.Len(t, s.Table.Rows, 3); return err },
		func() error {
			s, err := o.growHTTP()
			require.NoError(t, err)
			require.Len(t, s.Table.Rows, 2)
			return nil
		},
		func() error { s, err := o.memory(); require.Len(t, s.Table.Rows, 3); return err },
	} {
		require.NoError(t, part())
	}
	_, err = delivered(t.TempDir(), engine.Options{})
	require.True(t, errors.Is(err, engine.ErrTopicNotFound))
}
