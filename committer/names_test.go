package committer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// losingNames has every sync of a directory fail, and take the names that wait for it along.
func (r *rig) losingNames() {
	r.hook = func(op disk.Op) error {
		if op.Kind == disk.OpSyncDir {
			r.disk.SyncDirFails(op.Ino)
			return errIO
		}
		return nil
	}
}

// D4, COM-25: the sync of a new consumer.ahead's name failed in a process that died. The next one sees the file, and a sync of the
// directory that succeeds then tells nothing.
func TestPrimeAfterALostName(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.losingNames()
	r.tick()
	r.hook = nil
	r.crash()
	r.seed(k)
	r.ack(k, 0)
	r.flush()
	r.durable(k, 0)
}

// D4: a prime that failed before its sync of the directory left a name, and somebody else's sync lost it.
func TestPrimeAfterSomebodyLostItsName(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.failOn(disk.OpWrite, "p0/"+AheadFile, -1, errIO)
	r.tick()
	r.losingNames()
	dir, err := r.root.OpenDir(r.path(k))
	require.NoError(t, err)
	require.ErrorIs(t, dir.Sync(), errIO)
	r.hook = nil
	r.flush()
	r.durable(k, 0)
}

// D4, COM-28: a consumer.offset whose name is not known to be durable is put in place once more.
func TestLevelAfterALostName(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.flush()
	r.losingNames()
	r.ticks(320)
	failed, ok := last[Levelled](r)
	require.True(t, ok)
	require.ErrorIs(t, failed.Err, errIO)
	r.hook = nil
	r.ticks(320)
	done, _ := last[Levelled](r)
	require.NoError(t, done.Err)
	for img := range r.disk.Crashes(0) {
		root, err := disk.FS(img).OpenRoot(r.path(k), false)
		require.NoError(t, err)
		b, err := vfs.ReadFile(root, OffsetFile, 100)
		require.NoError(t, err)
		require.Equal(t, encodeOffset(0), b)
	}
}

// D4: the committer has the directory's turn whenever it syncs it, and whenever it has made a name that is not synced.
func TestNamesAreMadeInTurn(t *testing.T) {
	var turn *env.Mutex
	r := newRig(t, 1, func(o *Options) { o.Naming = func(Key) *env.Mutex { return turn } })
	turn = r.c.env.NewMutex()
	checked := 0
	r.hook = func(op disk.Op) error {
		switch op.Kind {
		case disk.OpCreate, disk.OpRename, disk.OpSyncDir:
			require.False(t, turn.TryLock(), "%v %s", op.Kind, op.Path)
			checked++
		}
		return nil
	}
	k := part0(0)
	r.ack(k, 0)
	r.ticks(320)
	require.Equal(t, 2+3, checked, "of the prime, and of the level")
	require.True(t, turn.TryLock(), "it is given back")
}
