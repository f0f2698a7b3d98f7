package check

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/sim"
	"narad/sim/disk"
	"narad/vfs"
	"narad/wal"
)

var errBroken = errors.New("EIO")

func refusedCommit() engine.Event {
	return engine.DispatchFailed{Key: key, Err: &segment.PoisonedError{Cause: errBroken}}
}

// windowed primes the partition of the tests and writes a window of it at the instant 0.
func windowed() []engine.Event {
	return []engine.Event{
		stored(5), open(-1), engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: -1}},
		consumer(committer.Primed{Key: ckey, Anchor: 1}), consumer(committer.WindowWritten{Key: ckey, Committed: -1}),
	}
}

// aDirectory makes the directory of the partition of the tests, with bounds that say durably where the log begins; -1: without any.
func aDirectory(t *testing.T, n *Node, oldest int64) (path string) {
	root, err := disk.FS(n.Machine.Disk()).OpenRoot(dataDir, true)
	require.NoError(t, err)
	for _, name := range []string{"topics", "topics/t", "topics/t/p00000"} {
		require.NoError(t, root.Mkdir(name))
		dir, err := root.OpenDir(name)
		require.NoError(t, err)
		if name == "topics/t/p00000" && oldest >= 0 {
			file, err := dir.Create(segment.BoundsFile)
			require.NoError(t, err)
			cell := make([]byte, segment.BoundsCellSize)
			segment.PutBounds(cell, segment.Bounds{Oldest: oldest, End: 100})
			_, err = file.WriteAt(cell, segment.BoundsCellAt)
			require.NoError(t, err)
			require.NoError(t, file.Sync())
			require.NoError(t, file.Close())
			require.NoError(t, dir.Sync())
		}
		require.NoError(t, dir.Close())
	}
	for _, name := range []string{"topics/t", "topics", "."} {
		if dir, err := root.OpenDir(name); err == nil {
			require.NoError(t, dir.Sync())
			require.NoError(t, dir.Close())
		}
	}
	require.NoError(t, root.Sync())
	require.NoError(t, root.Close())
	return topicsPath + "/t/p00000/"
}

// aFile makes a file in the directory of the partition of the tests.
func aFile(t *testing.T, n *Node, name string, contents []byte) {
	dir := aDirectory(t, n, -1)
	root, err := disk.FS(n.Machine.Disk()).OpenRoot(dir[:len(dir)-1], false)
	require.NoError(t, err)
	require.NoError(t, vfs.ReplaceFile(root, name, contents))
}

// aNextDirectory makes the directory of the successor of the topic of the tests, where it waits for its name.
func aNextDirectory(t *testing.T, n *Node) vfs.Dir {
	root, err := disk.FS(n.Machine.Disk()).OpenRoot(dataDir, true)
	require.NoError(t, err)
	for _, name := range []string{"topics", "topics/t.next-second", "topics/t.next-second/p00000"} {
		require.NoError(t, root.Mkdir(name))
	}
	return root
}

// says is an engine that describes its topics so.
func says(v engine.TopicView) func(string) (engine.TopicView, error) {
	return func(string) (engine.TopicView, error) { return v, nil }
}

// The engine repairs, tidies and lets go in time; each rule of that is seen to be broken.
func TestUpkeepViolations(t *testing.T) {
	type see = func(...engine.Event)
	for name, c := range map[string]struct {
		invariant string
		feed      func(w *sim.World, n *Node, see see)
	}{
		"a log that failed is not opened again for a commit": {"INV-04", func(_ *sim.World, _ *Node, see see) { // LOG-25
			see(logged(segment.Recovered{}), logged(segment.Poisoned{}), engine.DispatchFailed{Key: key, Err: errBroken}, refusedCommit())
		}},
		"nor for retention": {"INV-04", func(_ *sim.World, _ *Node, see see) { // LOG-25
			failed := engine.RetentionFailed{Key: key, Err: &segment.PoisonedError{Cause: errBroken}}
			see(logged(segment.Recovered{}), logged(segment.Poisoned{}), failed, failed)
		}},
		"a record is older than the one before it": {"INV-29", func(_ *sim.World, _ *Node, see see) {
			see(logged(segment.Committed{Next: 1, StampMs: 100}), logged(segment.Committed{Base: 1, Next: 2, StampMs: 99}))
		}},
		"also after the log was opened again": {"INV-29", func(_ *sim.World, _ *Node, see see) {
			see(logged(segment.Committed{Next: 1, StampMs: 100}), logged(segment.Closed{Next: 1}), logged(segment.Recovered{Next: 1}),
				logged(segment.Committed{Base: 1, Next: 2, StampMs: 99}))
		}},
		"a segment is removed before it is durable that the log begins behind it": {"INV-29", func(_ *sim.World, n *Node, _ see) { // RET-04
			n.Unlinked(aDirectory(t, n, 7) + "00000000000000000007.log")
		}},
		"more descriptors than may be": {"INV-32", func(w *sim.World, n *Node, _ see) { // COM-33
			aDirectory(t, n, -1)
			root, err := disk.FS(n.Machine.Disk()).OpenRoot(dataDir, false)
			require.NoError(t, err)
			n.Files = 1
			for _, name := range []string{"topics/t", "topics/t/p00000"} {
				dir, err := root.OpenDir(name)
				require.NoError(t, err)
				_, err = dir.Create(committer.AheadFile)
				require.NoError(t, err)
			}
			n.Quiet(w.Now())
		}},
		"a stop leaves a directory open": {"INV-32", func(_ *sim.World, n *Node, _ see) {
			_, err := disk.FS(n.Machine.Disk()).OpenRoot(dataDir, true)
			require.NoError(t, err)
			n.Closing()
			n.Stopped()
		}},
		"a writeout that failed is not tried again": {"COM-16", func(_ *sim.World, _ *Node, see see) {
			see(windowed()...)
			see(consumer(committer.WrittenOut{Key: ckey, Err: errBroken}), consumer(committer.TickDone{}), consumer(committer.TickDone{}))
		}},
		"a window waits for longer than an interval": {"COM-05", func(_ *sim.World, _ *Node, see see) {
			see(windowed()...)
			see(consumer(committer.TickDone{Start: env.Instant(time.Second)}))
		}},
		"a stop that failed counts as graceful": {"REC-07", func(_ *sim.World, n *Node, see see) {
			n.Closing()
			see(consumer(committer.Closed{Err: errBroken}))
			n.Crashed(sim.ProcessCrash, disk.Report{})
			n.Listen()(engine.Opened{Clean: true})
		}},
		"nobody goes on to remove what could not be removed": {"INV-32", func(w *sim.World, n *Node, see see) {
			n.Excused = func(error) bool { return true }
			see(found, engine.Opened{}, engine.TidyFailed{Name: "t.stale-1", Err: errBroken})
			w.Env().Sleep(900 * time.Millisecond)
			n.Quiet(w.Now()) // not yet
			w.Env().Sleep(200 * time.Millisecond)
			require.True(t, n.serving)
			n.Quiet(w.Now())
		}},
		"a window that does not hold all counts as written": {"INV-13", func(_ *sim.World, n *Node, see see) { // COM-36
			see(found, engine.Opened{}, stored(5), open(-1), leased(0, 1), leased(1, 2), engine.Settled{Key: key, Offset: 1, Nonce: spread(2), Committed: -1})
			see(engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: -1, Ahead: []int64{1}}}, consumer(committer.Primed{Key: ckey, Anchor: 1}))
			see(consumer(committer.WindowWritten{Key: ckey, Committed: -1, Ahead: 1}))
			n.Beliefs(says(engine.TopicView{Partitions: []engine.PartitionView{{Written: true}}}))
		}},
		"a window that was not written counts as written": {"INV-13", func(_ *sim.World, n *Node, see see) {
			see(found, engine.Opened{}, stored(5), open(-1))
			see(ackedFirst(1)...)
			see(engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: 0}}, consumer(committer.Primed{Key: ckey, Anchor: 1}))
			see(consumer(committer.WindowWritten{Key: ckey, Err: errBroken}))
			n.Beliefs(says(engine.TopicView{Partitions: []engine.PartitionView{{Written: true}}}))
		}},
		"a window is not in its file": {"INV-12", func(_ *sim.World, n *Node, see see) {
			aFile(t, n, committer.AheadFile, make([]byte, 2*aheadSlot))
			see(windowed()...)
		}},
		"consumer.offset says something else": {"INV-14", func(_ *sim.World, n *Node, see see) { // COM-29
			aFile(t, n, committer.OffsetFile, make([]byte, 8))
			see(consumer(committer.Levelled{Key: ckey, Frontier: -1}))
		}},
		"a topic that was purged is in its place and counts as not placed": {"INV-31", func(_ *sim.World, n *Node, see see) {
			n.Excused = func(error) bool { return true }
			see(found, engine.Opened{}, engine.TopicPurged{Topic: again()})
			root := aNextDirectory(t, n)
			see(engine.RetireFailed{Name: "t", Err: errBroken})
			n.Beliefs(says(engine.TopicView{Topic: again()})) // not yet
			require.NoError(t, root.Rename("topics/t.next-second", "topics/t"))
			n.Beliefs(says(engine.TopicView{Topic: again()}))
		}},
		"nobody goes on to move a directory to its place": {"INV-31", func(w *sim.World, n *Node, see see) {
			n.Excused = func(error) bool { return true }
			see(found, engine.Opened{}, engine.TopicPurged{Topic: again()}, engine.RetireFailed{Name: "t", Err: errBroken})
			w.Env().Sleep(900 * time.Millisecond)
			n.Beliefs(says(engine.TopicView{Topic: again()})) // not yet
			w.Env().Sleep(200 * time.Millisecond)
			n.Beliefs(says(engine.TopicView{Topic: again()}))
		}},
		"a commit that failed once waits too long": {"INV-31", func(w *sim.World, n *Node, see see) { // WAL-27
			see(found, engine.Opened{}, engine.DispatchFailed{Key: key}, engine.Stored{Key: key}, engine.DispatchFailed{Key: key})
			w.Env().Sleep(60 * time.Millisecond)
			n.Quiet(w.Now())
		}},
	} {
		t.Run(name, func(t *testing.T) { notices(t, c.invariant, c.feed) })
	}
}

// WAL-27, a false alarm at seed 52151: a commit that was under way while its topic went fails, and does not know it yet. Its records are
// discarded, so nobody tries again; nor does anybody what failed before the topic went.
func TestFailureForATopicThatIsGone(t *testing.T) {
	failed, purged := engine.DispatchFailed{Key: key}, engine.TopicPurged{Topic: again()}
	for name, events := range map[string][]engine.Event{"after": {purged, failed}, "before": {failed, purged}, "both": {failed, purged, failed}} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
				see(found, engine.Opened{})
				see(events...)
				see(engine.SetAside{Name: "t"}, engine.ShardDropped{Key: key, Why: engine.DropRetired}, consumer(committer.Forgotten{Key: ckey}))
				w.Env().Sleep(200 * time.Millisecond)
				n.Quiet(w.Now())
			}))
		})
	}
}

// What looks like it and is right.
func TestUpkeepIsAllowed(t *testing.T) {
	require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(found, engine.Opened{})
		// a log that fails each time it was opened
		for range 2 {
			see(logged(segment.Recovered{}), logged(segment.Poisoned{}), engine.DispatchFailed{Key: key, Err: errBroken}, logged(segment.Closed{}))
		}
		// its second failure in a row, for longer than after the first
		w.Env().Sleep(60 * time.Millisecond)
		n.Quiet(w.Now())
		see(engine.Stored{Key: key})
		// a clock that stands still, and a log that lost all that was stamped
		see(logged(segment.Recovered{}), logged(segment.Committed{Next: 5, StampMs: 100}), logged(segment.Committed{Base: 5, Next: 6, StampMs: 100}))
		see(logged(segment.Recovered{Oldest: 6, Next: 6}), logged(segment.Committed{Base: 6, Next: 7, StampMs: 50}))
		// removals of what is below the bounds, or not a segment's file
		dir := aDirectory(t, n, 7)
		for _, name := range []string{"00000000000000000003.log", "00000000000000000007.log.tmp", "00000000000000000007.idx", "bounds"} {
			n.Unlinked(dir + name)
		}
		n.Unlinked(topicsPath + "/t.stale-1/p00000/00000000000000000007.log")
	}))
	require.NoError(t, watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) { // what the engine believes is so
		n.Excused = func(error) bool { return true }
		see(found, engine.Opened{})
		see(windowed()...)
		see(engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: -1}}, consumer(committer.WindowWritten{Key: ckey, Committed: -1, Err: errBroken}))
		n.Beliefs(says(engine.TopicView{Partitions: []engine.PartitionView{{Written: true}}})) // one before it has the same state
		see(ackedFirst(1)...)
		see(engine.ConsumerSnapshot{Key: key, State: inflight.State{Committed: 0}}, consumer(committer.WindowWritten{Key: ckey, Err: errBroken}))
		n.Beliefs(says(engine.TopicView{Partitions: []engine.PartitionView{{}}}))
		see(engine.TopicPurged{Topic: again()})
		root := aNextDirectory(t, n)
		see(engine.RetireFailed{Name: "t", Err: errBroken})
		require.NoError(t, root.Rename("topics/t.next-second", "topics/t"))
		see(engine.TidyFailed{Name: "t", Err: errBroken}) // the sync behind it failed
		n.Beliefs(says(engine.TopicView{Topic: again()}))
		n.Beliefs(says(engine.TopicView{Topic: again(), Placed: true}))
		require.Empty(t, n.beliefs.unplaced)
	}))
	require.NoError(t, watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) {
		aDirectory(t, n, -1)
		n.Closing()
		n.Stopped()
	}))
	require.NoError(t, watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) {
		n.Unlinked(aDirectory(t, n, -1) + "00000000000000000007.log") // nothing says where the log begins
		see(windowed()...)
		see(consumer(committer.WrittenOut{Key: ckey, Err: errBroken}), consumer(committer.TickDone{}), consumer(committer.WrittenOut{Key: ckey, Err: errBroken}))
		see(consumer(committer.TickDone{Start: env.Instant(2 * time.Second)})) // that one was tried in the tick
	}))
}

// Seed 53991 was a false alarm: a partition is in use until its owner has found its last lease expired.
func TestUsedUntilItsLeaseExpired(t *testing.T) {
	require.NoError(t, watched(t, func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(found, engine.Opened{}, stored(5), open(-1), leased(0, 1))
		w.Env().Sleep(2 * time.Minute)
		n.Idle(0, time.Second) // a lease keeps it open
		see(engine.LeasesExpired{Key: key, Count: 1, At: w.Now()})
		n.Idle(0, time.Second)
	}))
	notices(t, "INV-32", func(w *sim.World, n *Node, see func(...engine.Event)) {
		see(found, engine.Opened{}, stored(5), open(-1), leased(0, 1))
		w.Env().Sleep(2 * time.Minute)
		see(engine.LeasesExpired{Key: key, Count: 1, At: w.Now()})
		w.Env().Sleep(2 * time.Minute)
		n.Idle(0, time.Second)
	})
}

// Seed 76965 was a false alarm: an answer is judged by the life of the process that gave it, also when its successor is running.
func TestLatchedInTheLifeOfTheAnswer(t *testing.T) {
	require.NoError(t, watched(t, func(_ *sim.World, n *Node, see func(...engine.Event)) {
		healthy := n.Life()
		require.False(t, n.LatchedIn(healthy))
		n.Crashed(sim.ProcessCrash, disk.Report{})
		n.Listen()(log(wal.Failed{Err: errBroken}))
		failed := n.Life()
		require.True(t, n.Latched())
		n.Crashed(sim.ProcessCrash, disk.Report{})
		n.Listen()
		require.False(t, n.Latched(), "the successor has its log opened anew")
		require.True(t, n.LatchedIn(failed))
		require.False(t, n.LatchedIn(n.Life()))
	}))
}
