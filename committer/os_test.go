package committer

import (
	"fmt"
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
