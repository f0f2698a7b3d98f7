package segment

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// D4: a log has the directory's turn whenever it syncs it, and whenever it makes a name that it counts on: in a roll, a removal and an open,
// also of an empty segment, whose name is made once more.
func TestNamesAreMadeInTurn(t *testing.T) {
	e := env.OS()
	turn := e.NewMutex()
	seen := map[disk.OpKind]int{}
	d := disk.New(disk.Adversarial)
	root, err := disk.FS(d, func(op disk.Op) error {
		counts := op.Kind == disk.OpSyncDir ||
			op.Kind == disk.OpCreate && !strings.HasSuffix(op.Path, indexSuffix) || op.Kind == disk.OpRename // an index is a hint
		if counts {
			require.False(t, turn.TryLock(), "%v %s", op.Kind, op.Path)
			seen[op.Kind]++
		}
		return nil
	}).OpenRoot("/", false)
	require.NoError(t, err)
	require.NoError(t, root.Mkdir("p"))
	dir := openDir(t, root, "p")
	o := Options{SegmentBytes: 600, FrameBytes: 500, Naming: turn}

	l, err := Open(e, dir, o)
	require.NoError(t, err)
	for n := range 6 {
		_, err := l.Commit([]Record{rec(n, 300)})
		require.NoError(t, err)
	}
	_, err = l.Retain(math.MaxInt64) // leaves an empty segment
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = Open(e, dir, o)
	require.NoError(t, err)
	_, err = l.Commit([]Record{rec(7, 300)})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Positive(t, seen[disk.OpRename])
	require.Greater(t, seen[disk.OpSyncDir], 6)
	require.True(t, turn.TryLock(), "it is given back")
}

func openDir(t *testing.T, d vfs.Dir, name string) vfs.Dir {
	t.Helper()
	sub, err := d.OpenDir(name)
	require.NoError(t, err)
	return sub
}
