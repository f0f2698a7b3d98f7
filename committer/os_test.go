package committer

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/vfs"
)

// COM-01, COM-31, COM-39: the real task on the real file system, with acks and forgets from many goroutines.
func TestRealWorld(t *testing.T) {
	const partitions = 6
	e := env.OS()
	root, err := vfs.OS{}.OpenRoot(t.TempDir(), true)
	require.NoError(t, err)
	defer root.Close()
	path := func(k Key) string { return fmt.Sprintf("p%d", k.Partition) }

	var mu sync.Mutex // guards shards and dropped
	shards := map[Key]*shard{}
	seed := func(k Key) {
		dir, err := root.OpenDir(path(k))
		require.NoError(t, err)
		defer dir.Close()
		s, _, err := Recover(dir, 1, 1<<40)
		require.NoError(t, err)
		mu.Lock()
		shards[k] = &shard{State: s, identity: 1}
		mu.Unlock()
	}
	for i := range partitions {
		require.NoError(t, root.Mkdir(path(part0(i))))
		seed(part0(i))
	}
	var failed, dropped atomic.Int64
	c, err := Start(e, Options{
		Interval: 20 * time.Millisecond, Root: root, Path: path, MaxOpen: 3,
		State: func(k Key, dst []int64) (State, uint64, bool) {
			mu.Lock()
			defer mu.Unlock()
			s := shards[k]
			if s == nil {
				return State{}, 1, false
			}
			st := s.State
			st.Ahead = append(dst, st.Ahead...)
			return st, 1, true
		},
		Event: func(v Event) {
			switch v := v.(type) {
			case Stranded:
				failed.Add(1)
			case TickDone:
				failed.Add(int64(v.Failed))
			}
		},
	})
	require.NoError(t, err)
	var group sync.WaitGroup
	stop := time.Now().Add(400 * time.Millisecond)
	for i := range partitions {
		group.Add(1)
		go func() {
			defer group.Done()
			k := part0(i)
			for n := 0; time.Now().Before(stop); n++ {
				if n%100 == 99 {
					mu.Lock()
					delete(shards, k)
					mu.Unlock()
					c.Forget(k)
					dropped.Add(1)
					seed(k)
				}
				mu.Lock()
				shards[k].ack(shards[k].Committed + 1 + int64(n%3))
				mu.Unlock()
				c.Dirty(k)
				time.Sleep(time.Millisecond)
			}
		}()
	}
	group.Wait()
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "again")
	require.Zero(t, failed.Load())
	require.Positive(t, dropped.Load())
	for i := range partitions {
		k := part0(i)
		want := shards[k].State
		seed(k)
		require.Equal(t, want.Committed, shards[k].Committed)
		require.Len(t, shards[k].Ahead, len(want.Ahead))
		require.Greater(t, want.Committed, int64(10))
	}
}

// COM-28, COM-29, COM-41, COM-45: on the real file system consumer.offset is made once and overwritten in place from then on; a wrong
// size is replaced, and neither a directory in the place of the primed one nor a link is written to.
func TestLevelOnTheSystem(t *testing.T) {
	path := t.TempDir()
	root, err := vfs.OS{}.OpenRoot(path, false)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, root.Mkdir("t"))
	require.NoError(t, root.Mkdir("t/p0"))
	k, now := part0(0), &still{now: env.Instant(time.Hour)}
	live := shard{State: State{Committed: -1}, identity: 1}
	var levelled []Levelled
	var stranded int
	c, err := newCommitter(env.Simulated(now, nil), Options{
		Interval: time.Second, Root: root, MaxOpen: 1, Path: func(Key) string { return "t/p0" },
		State: func(Key, []int64) (State, uint64, bool) { return live.State, 1, true },
		Event: func(v Event) {
			switch v := v.(type) {
			case Levelled:
				levelled = append(levelled, v)
			case Stranded:
				stranded++
			}
		},
	})
	require.NoError(t, err)
	level := func() {
		live.ack(live.Committed + 1)
		c.Dirty(k)
		for range 2 * c.roster.turns {
			now.now = now.now.Add(LevelEvery)
			c.tick()
		}
	}
	file := func() vfs.Info {
		info, err := root.Stat("t/p0/" + OffsetFile)
		require.NoError(t, err)
		b, err := vfs.ReadFile(root, "t/p0/"+OffsetFile, 100)
		require.NoError(t, err)
		require.Equal(t, encodeOffset(live.Committed), b)
		return info
	}
	level()
	made := file()
	level()
	require.Equal(t, made.ID, file().ID, "overwritten")
	require.Equal(t, []bool{true, false}, []bool{levelled[0].Created, levelled[1].Created})
	_, quick := root.(vfs.Walker)
	done, err := c.levelQuickly(c.roster.parts[k], false)
	require.NoError(t, err)
	require.Equal(t, quick, done)

	system := filepath.Join(path, "t", "p0", OffsetFile)
	require.NoError(t, os.Truncate(system, 3))
	level()
	require.NotEqual(t, made.ID, file().ID, "replaced")
	if os.Symlink("../../outside", filepath.Join(path, "link")) == nil {
		require.NoError(t, os.WriteFile(filepath.Join(path, "outside"), make([]byte, offsetSize), 0o600))
		require.NoError(t, os.Remove(system))
		require.NoError(t, os.Symlink("../../outside", system))
		level()
		require.Error(t, levelled[len(levelled)-1].Err)
		b, err := os.ReadFile(filepath.Join(path, "outside"))
		require.NoError(t, err)
		require.Equal(t, make([]byte, offsetSize), b, "no link is followed")
		require.NoError(t, os.Remove(system))
	}
	require.Zero(t, stranded)

	level()
	require.NoError(t, os.Rename(filepath.Join(path, "t", "p0"), filepath.Join(path, "t", "gone")))
	require.NoError(t, root.Mkdir("t/p0"))
	require.NoError(t, os.WriteFile(system, make([]byte, offsetSize), 0o600))
	done, err = c.levelQuickly(c.roster.parts[k], false)
	require.NoError(t, err)
	require.False(t, done)
	c.levelStep(c.roster.parts[k])
	live.ack(live.Committed + 1)
	level()
	require.Equal(t, 1, stranded)
	b, err := os.ReadFile(system)
	require.NoError(t, err)
	require.Equal(t, make([]byte, offsetSize), b, "nothing reaches the new directory")
}
