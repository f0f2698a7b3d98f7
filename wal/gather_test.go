package wal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim"
)

// sameGather demands one answer of gather.waits.
func sameGather(t *testing.T, g *gather, staged int, full bool, now env.Instant, wait bool) {
	t.Helper()
	_, got := g.waits(staged, full, false, now)
	require.Equal(t, wait, got)
}

func TestGatherWaitsForThoseWhoWereWoken(t *testing.T) {
	const took = 400 * time.Microsecond
	g := &gather{}
	sameGather(t, g, 1, false, 0, false)
	g.synced(took, 3, 2)
	require.False(t, g.isLast(4))
	require.False(t, g.isAlone(1), "others are waited for")
	require.True(t, g.isLast(5))
	until, wait := g.waits(2, false, false, 1000)
	require.True(t, wait)
	require.Equal(t, env.Instant(1000).Add(took/gatherShare), until)
	sameGather(t, g, 4, false, 2000, true)
	sameGather(t, g, 5, false, 3000, false)
	require.True(t, g.isAlone(1))
	require.False(t, g.isAlone(2))

	g.synced(took, 5, 0)
	sameGather(t, g, 1, true, 5001, false) // no room for more
	g.synced(took, 1, 0)
	sameGather(t, g, 0, false, 6000, false) // alone
}

// Whoever has still to be woken is waited for, up to a limit, and has a moment from then on. When all came back, the next ones are
// woken by a relay.
func TestGatherWaitsForARelay(t *testing.T) {
	const took, window = 400 * time.Microsecond, 400 * time.Microsecond / gatherShare
	g := &gather{}
	start := env.Instant(1000)
	limit := start.Add(gatherMost * took)
	synced := func(relays bool) {
		g.synced(took, 10, 0)
		until, ok := g.relays(start)
		require.Equal(t, limit, until)
		require.Equal(t, relays, ok)
	}
	synced(false)
	sameGather(t, g, 10, false, start, false)
	synced(true)
	for _, now := range []env.Instant{start, start.Add(window), limit - 1} {
		until, wait := g.waits(1, false, true, now)
		require.True(t, wait)
		require.Equal(t, limit, until)
	}
	_, wait := g.waits(1, false, true, limit)
	require.False(t, wait, "as late as that nobody is waited for")
	g.resting = 0
	synced(false) // as they did not all come

	sameGather(t, g, 10, false, start, false)
	synced(true)
	_, wait = g.waits(2, false, true, start)
	require.True(t, wait)
	awake := start.Add(window / 2)
	until, wait := g.waits(5, false, false, awake)
	require.True(t, wait)
	require.Equal(t, awake.Add(window), until)
	sameGather(t, g, 5, false, awake.Add(window), false)
	g.synced(took, 1, 0)
	_, ok := g.relays(start)
	require.False(t, ok, "a writer that is alone is not waited for")
}

// As long as writers come faster than syncs can take them, the batch waits on, but not for ever.
func TestGatherWaitsForAStream(t *testing.T) {
	const took, window = 400 * time.Microsecond, 400 * time.Microsecond / gatherShare
	g := &gather{}
	now := env.Instant(0)
	g.synced(took, 256, 0)
	staged := 0
	for sameGather(t, g, 0, false, now, true); staged < 250; staged += 50 {
		now = now.Add(window)
		sameGather(t, g, staged+50, false, now, true)
	}
	sameGather(t, g, 250, false, now.Add(window), false) // nobody came in the last window

	g.synced(took, 100, 0)
	sameGather(t, g, 0, false, now, true)
	sameGather(t, g, 40, false, now.Add(window), true)
	sameGather(t, g, 41, false, now.Add(2*window), false) // they come slower than a sync takes the others

	g = &gather{}
	g.synced(took, 1<<20, 0)
	waits := 0
	for staged = 0; waits < 100; waits++ {
		if _, wait := g.waits(staged, false, false, now); !wait {
			break
		}
		now, staged = now.Add(window), staged+1000
	}
	require.Equal(t, gatherMost*gatherShare, waits)
}

// Close waits for a writer that commits.
func TestCloseWaitsForTheWriterThatCommits(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	m := w.Machine("m", sim.MachineConfig{Latency: sim.Latency{Sync: sim.Range{Min: time.Millisecond, Max: time.Millisecond}}})
	m.Boot(func(e *env.Env) {
		dir, err := e.FS().OpenRoot("wal", true)
		require.NoError(t, err)
		l, err := Open(e, dir, Options{})
		require.NoError(t, err)
		durable := false
		tasks := e.NewGroup()
		tasks.Go("writer", func() {
			_, err := l.Append([]byte("payload"))
			require.NoError(t, err)
			durable = true
		})
		e.Sleep(500 * time.Microsecond)
		require.EqualValues(t, 1, l.Next(), "the sync is under way")
		require.NoError(t, l.Close())
		require.EqualValues(t, 2, l.Next())
		tasks.Wait()
		require.True(t, durable)
	})
	require.NoError(t, w.Run(time.Hour))
}

// When writers do not come back, the waits become rare; when most of them do, they go on.
func TestGatherRests(t *testing.T) {
	const took = 400 * time.Microsecond
	g := &gather{}
	now := env.Instant(0)
	waited := 0
	for range 1000 {
		g.synced(took, 2, 2)
		if until, wait := g.waits(2, false, false, now); wait {
			waited++
			now = until
			sameGather(t, g, 2, false, now, false)
		}
	}
	require.Equal(t, 21, waited, "seven waits with rests of 1, 2, 4 … 64 batches, then one in 65")
	for waited := 0; waited < 20; { // they come back, but for one
		g.synced(took, 3, 2)
		if until, wait := g.waits(2, false, false, now); wait {
			waited++
			now = until
			sameGather(t, g, 4, false, now, true) // most are back: once more as long
			sameGather(t, g, 4, false, now.Add(took/gatherShare), false)
			require.Zero(t, g.rest)
		}
	}
}

// group runs writers, which append again so long after they were woken, on a disk whose every sync takes a
// millisecond, and returns how long the appends took and how many syncs there were.
func group(t *testing.T, writers, appends int, again func(i int) time.Duration) (took []time.Duration, syncs int) {
	w := sim.New(sim.Options{Seed: 1})
	sync := sim.Range{Min: time.Millisecond, Max: time.Millisecond}
	m := w.Machine("m", sim.MachineConfig{Latency: sim.Latency{Sync: sync}})
	m.Boot(func(e *env.Env) {
		dir, err := e.FS().OpenRoot("wal", true)
		require.NoError(t, err)
		l, err := Open(e, dir, Options{OnDurable: func() { syncs++ }, Event: func(v Event) {
			if v, ok := v.(BatchSynced); ok {
				require.Equal(t, time.Millisecond, v.Took)
			}
		}})
		require.NoError(t, err)
		tasks := e.NewGroup()
		for i := range writers {
			tasks.Go("writer", func() {
				for range appends {
					start := e.Now()
					_, err := l.Append([]byte("payload"))
					require.NoError(t, err)
					took = append(took, e.Now().Sub(start))
					e.Sleep(again(i))
				}
			})
		}
		tasks.Wait()
		require.NoError(t, l.Close())
	})
	require.NoError(t, w.Run(time.Hour))
	require.Len(t, took, writers*appends)
	return took, syncs
}

// Writers that come back soon are all in every batch, whoever was first.
func TestGroupsMerge(t *testing.T) {
	for _, writers := range []int{2, 16, 64} {
		_, syncs := group(t, writers, 100, func(i int) time.Duration { return time.Duration(i) * time.Microsecond })
		require.LessOrEqual(t, syncs, 104, "%d writers, 100 appends of each", writers)
	}
}

// Nobody waits who is alone, and one of two who take turns waits no more than a share of a sync beyond what is
// under way.
func TestLoneWriterIsNotDelayed(t *testing.T) {
	for _, pause := range []time.Duration{0, 100 * time.Microsecond, 10 * time.Millisecond} {
		took, syncs := group(t, 1, 100, func(int) time.Duration { return pause })
		require.Equal(t, 100, syncs)
		for _, d := range took {
			require.Equal(t, time.Millisecond, d)
		}
	}
	took, _ := group(t, 2, 100, func(int) time.Duration { return 700 * time.Microsecond })
	for _, d := range took {
		require.LessOrEqual(t, d, 2*time.Millisecond+time.Millisecond/gatherShare)
	}
}
