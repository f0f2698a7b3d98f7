package committer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/disk"
)

// seconds is how many ticks they take.
const seconds = 10

// levels are the frontiers that consumer.offset of k was brought to, and whether each was synced.
func (r *rig) levels(k Key) (frontiers []int64, durable []bool) {
	for _, l := range all[Levelled](r) {
		if l.Key == k {
			require.NoError(r.t, l.Err)
			frontiers, durable = append(frontiers, l.Frontier), append(durable, l.Durable)
		}
	}
	return frontiers, durable
}

// lasting requires consumer.offset to say v whatever a power loss leaves.
func (r *rig) lasting(k Key, v int64) {
	r.t.Helper()
	for img := range r.disk.Crashes(0) {
		root, err := disk.FS(img).OpenRoot(r.path(k), false)
		require.NoError(r.t, err)
		has, _, err := readOffset(root)
		require.NoError(r.t, err)
		require.Equal(r.t, v, has)
	}
}

// COM-29, COM-31, Q-12: consumer.offset of a partition in use is not synced, that of one that became quiet is, half a minute after
// its last level, and then nothing more is done.
func TestLevelIsSyncedWhenQuiet(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.place(k, OffsetFile, encodeOffset(-1))
	syncs := 0
	r.hook = func(op disk.Op) error {
		if op.Kind == disk.OpSync && op.Path == r.path(k)+"/"+OffsetFile {
			syncs++
		}
		return nil
	}
	next := int64(0)
	use := func(d int) {
		for range d {
			r.ack(k, next)
			next++
			r.tick()
		}
	}
	use(100 * seconds)
	_, durable := r.levels(k)
	require.Equal(t, []bool{false, false, false}, durable)
	require.Zero(t, syncs)

	r.ticks(32 * seconds) // it trailed, and is brought level
	frontiers, durable := r.levels(k)
	require.Equal(t, next-1, frontiers[3])
	require.False(t, durable[3])
	require.False(t, r.c.Exact(k))
	r.ticks(32 * seconds)
	frontiers, durable = r.levels(k)
	require.Equal(t, []int64{next - 1, next - 1}, frontiers[3:])
	require.True(t, durable[4])
	require.Equal(t, 1, syncs)
	require.True(t, r.c.Exact(k))
	r.lasting(k, next-1)
	r.ticks(100 * seconds)
	require.Len(t, all[Levelled](r), 5)

	use(40 * seconds) // beginning again
	_, durable = r.levels(k)
	require.False(t, durable[len(durable)-1])
	require.NoError(t, r.c.finish())
	r.lasting(k, next-1)
}

// COM-31, INV-10: Close syncs also what was level already.
func TestCloseSyncsWhatWasLevel(t *testing.T) {
	r := newRig(t, 3, nil)
	for i := range 3 {
		r.place(part0(i), OffsetFile, encodeOffset(-1))
		r.ack(part0(i), 0)
	}
	r.ticks(32 * seconds)
	for i := range 3 {
		frontiers, durable := r.levels(part0(i))
		require.Equal(t, []int64{0}, frontiers)
		require.Equal(t, []bool{false}, durable)
	}
	require.NoError(t, r.c.finish())
	for i := range 3 {
		r.lasting(part0(i), 0)
	}
}

// After a sync of consumer.offset that failed nobody knows what it says, and Close says so when it cannot sync it.
func TestLevelWhoseSyncFails(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.place(k, OffsetFile, encodeOffset(-1))
	r.ack(k, 0)
	r.ticks(32 * seconds)
	r.failOn(disk.OpSync, r.path(k)+"/"+OffsetFile, 1, errIO)
	r.ticks(32 * seconds)
	failed, _ := last[Levelled](r)
	require.ErrorIs(t, failed.Err, errIO)
	require.True(t, failed.Durable, "that is what it was to be")
	require.False(t, r.c.Exact(k))
	r.ticks(32 * seconds)
	again, _ := last[Levelled](r)
	require.NoError(t, again.Err)
	require.False(t, again.Durable, "nobody knows what it said")
	r.ticks(32 * seconds)
	again, _ = last[Levelled](r)
	require.NoError(t, again.Err)
	require.True(t, again.Durable)
	require.GreaterOrEqual(t, again.End.Sub(failed.End), 2*LevelEvery, "never more often")
	r.lasting(k, 0)

	r.ack(k, 1)
	r.ticks(32 * seconds)
	r.failOn(disk.OpSync, r.path(k)+"/"+OffsetFile, -1, errIO)
	require.ErrorIs(t, r.c.finish(), errIO)
}

// D4: a failed sync of consumer.offset takes what was written along and leaves the page clean; a later sync alone would find nothing to do.
func TestLevelThatASyncLost(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.place(k, OffsetFile, encodeOffset(-1))
	r.ack(k, 0)
	r.ticks(32 * seconds)
	lost := 0
	r.hook = func(op disk.Op) error {
		if op.Kind != disk.OpSync || op.Path != r.path(k)+"/"+OffsetFile || lost > 0 {
			return nil
		}
		lost++
		_, ino, err := r.disk.Lookup(r.disk.Root(), op.Path)
		require.NoError(t, err)
		r.disk.SyncFails(ino, true)
		return errIO
	}
	r.ticks(96 * seconds)
	require.Equal(t, 1, lost)
	require.True(t, r.c.Exact(k))
	r.lasting(k, 0)
}

// A mark that comes while the partition is primed, when it has no part yet, is the same as one that comes after.
func TestMarkDuringThePrime(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	marked := false
	r.hook = func(op disk.Op) error {
		if op.Kind == disk.OpSync && !marked {
			marked = true
			r.c.Dirty(k)
		}
		return nil
	}
	r.ack(k, 0)
	r.tick()
	require.True(t, marked)
	r.c.Dirty(k)
	require.Len(t, r.c.roster.dirty, 1)
	require.False(t, r.c.Exact(k))
}

// Exact is false from a mark on until all that follows from it is on the disk, whether or not the partition was primed before the mark.
func TestExact(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	require.True(t, r.c.Exact(k), "nothing is known of it")
	for next := range int64(2) {
		r.ack(k, next)
		require.False(t, r.c.Exact(k), "marked")
		r.tick()
		for begin := r.still.now; !r.c.Exact(k); r.tick() {
			require.Less(t, r.still.now.Sub(begin), 70*time.Second)
		}
		r.lasting(k, next)
		r.durable(k, next)
	}
	r.c.Dirty(k)
	require.False(t, r.c.Exact(k), "marked")
	r.c.Forget(k)
	require.False(t, r.c.Exact(k), "the mark is for a successor too")
	r.tick()
	r.c.Dirty(k)
	r.c.Dirty(k)
	require.Len(t, r.c.roster.dirty, 1)
	r.c.Forget(k)
	r.c.Dirty(k)
	require.Len(t, r.c.roster.dirty, 1, "marked once")
}
