package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// PUMP-08, PUMP-09 (BUG-22): on a topic that nobody waits for, a notification takes no lock that others may hold.
func TestNotifyTakesNoLock(t *testing.T) {
	e := &Engine{}
	e.pump = &pump{engine: e}
	topic := &topic{engine: e}
	e.mu.Lock()
	e.pump.mu.Lock()
	topic.waiting.mu.Lock()
	notified := make(chan struct{})
	go func() {
		topic.notify()
		close(notified)
	}()
	select {
	case <-notified:
	case <-time.After(10 * time.Second):
		t.Fatal("notify waits for a lock")
	}
}

// PUMP-20 (BUG-19): who leaves is marked where it stands: nobody else is looked at or moved until marked entries outnumber live ones.
func TestLeavingTouchesNobodyElse(t *testing.T) {
	const n = 1000
	q := &waitQueue{}
	all := make([]*waiter, n)
	for i := range all {
		all[i] = &waiter{partition: AnyPartition}
		require.True(t, q.join(all[i], func() {}))
	}
	f := &q.shared
	before := append([]*waiter(nil), f.ring...)
	for i := 0; i < n/2; i++ { // up to here, no more have left than are there
		require.True(t, q.leave(all[(i*7)%n], func() {}))
	}
	require.Equal(t, n, f.n, "a waiter that leaves takes its entry out")
	require.Equal(t, n/2, f.live)
	require.Zero(t, f.head)
	require.Equal(t, len(before), len(f.ring))
	for i := range before {
		require.Same(t, before[i], f.ring[i], "entry %d moved", i)
	}
}
