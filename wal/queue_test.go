package wal

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WAL-06, WAL-11: an append that waits for room in the batch is answered, too, when what is before it fails: it is tried again after a
// segment could not be made, and refused after the log has failed.
func TestFailureIsToldToTheQueue(t *testing.T) {
	for kind, suffix := range map[string]string{"create": segmentSuffix, "sync": segmentSuffix} {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t)
			l := r.open(Options{SegmentBytes: 300, BatchBytes: 200})
			_, err := l.Append(make([]byte, 250))
			require.NoError(t, err)
			entered, release := make(chan bool), make(chan bool)
			r.hooks.mu.Lock()
			done := false
			r.hooks.before = func(o op) (int, error) {
				if done || o.kind != kind || len(o.name) < len(suffix) || o.name[len(o.name)-len(suffix):] != suffix {
					return 0, nil
				}
				done = true
				entered <- true
				<-release
				return 0, syscall.ENOSPC
			}
			r.hooks.mu.Unlock()
			start := func() chan error {
				answer := make(chan error, 1)
				go func() {
					_, err := l.Append(make([]byte, 150))
					answer <- err
				}()
				return answer
			}
			counts := func(staged, queued int) {
				for {
					l.mu.Lock()
					ok := l.open.writers.count == staged && l.queue.count == queued
					l.mu.Unlock()
					if ok {
						return
					}
					runtime.Gosched()
				}
			}
			first := start()
			<-entered
			staged := start()
			counts(1, 0)
			queued := start()
			counts(1, 1)
			release <- true
			require.ErrorIs(t, <-first, syscall.ENOSPC)
			require.ErrorIs(t, <-staged, syscall.ENOSPC)
			select {
			case err := <-queued:
				if kind == "create" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, syscall.ENOSPC)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the append that waited for room has no answer")
			}
			l.Close()
		})
	}
}

// Many writers of the real world, who come back at once, later or not at all, all get their answers, whoever wakes them.
func TestWritersThatRelay(t *testing.T) {
	r := newRig(t)
	l := r.open(Options{})
	const writers, appends = 64, 200
	firsts := make([][]uint64, writers)
	var group sync.WaitGroup
	var relayed atomic.Bool
	for w := range writers {
		group.Go(func() {
			for i := range appends * (1 + w%3) / 3 {
				first, err := l.Append([]byte{byte(w)})
				if !assert.NoError(t, err) {
					return
				}
				firsts[w] = append(firsts[w], first)
				if l.relay.UnderWay() {
					relayed.Store(true)
				}
				if w%16 == 0 && i%32 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	group.Wait()
	require.True(t, relayed.Load())
	all := slices.Concat(firsts...)
	slices.Sort(all)
	for i, first := range all {
		require.EqualValues(t, i+1, first)
	}
	require.EqualValues(t, len(all)+1, l.Next())
	require.False(t, l.relay.UnderWay())
	require.NoError(t, l.Close())
}
