package tap

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
	"narad/vfs/vfstest"
)

type chooser struct{ *rand.Rand }

func (c chooser) Choose(n int) int { return c.IntN(n) }

func open(t *testing.T, files vfs.FS) vfs.Dir {
	t.Helper()
	d, err := files.OpenRoot(t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// What goes through it behaves as without it, with a record and without.
func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) vfs.Dir { return open(t, New(vfs.OS{})) })
	vfstest.Run(t, func(t *testing.T) vfs.Dir { return open(t, Recording(vfs.OS{})) })
	vfstest.RunFS(t, func(t *testing.T) (vfs.FS, string) { return New(vfs.OS{}), t.TempDir() })
}

func TestCounts(t *testing.T) {
	files := New(vfs.OS{})
	d := open(t, files)
	f, err := d.Create("00000000000000000001.wal")
	require.NoError(t, err)
	before := files.Counts()
	_, err = f.WriteAt(make([]byte, 100), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Sync())
	require.NoError(t, d.Sync())
	_, err = f.ReadAt(make([]byte, 10), 0)
	require.NoError(t, err)
	got := files.Counts().Since(before)
	require.EqualValues(t, 1, got[Ingress].Writes)
	require.EqualValues(t, 100, got[Ingress].Bytes)
	require.EqualValues(t, 2, got[Ingress].Syncs)
	require.EqualValues(t, 10, got[Ingress].ReadBytes)
	require.EqualValues(t, 1, got[Directory].Syncs)
	require.EqualValues(t, 3, got.Total().Syncs)
	require.Len(t, files.IngressSyncs(), 2)
	require.Empty(t, files.IngressSyncs())
	_, err = files.CutPower()
	require.ErrorIs(t, err, ErrNoRecord)
	require.NoError(t, f.Close())
}

func TestKinds(t *testing.T) {
	for name, want := range map[string]Kind{
		"ingress/produce/00000000000000000001.wal": Ingress, "ingress/produce/next-segment.prep": Ingress, "ingress/produce/checkpoint": Checkpoint,
		"topics/t/p00000/00000000000000000000.log": Partition, "consumer.ahead": Ahead, "p1/consumer.offset": Offset, "clean": Other,
	} {
		require.Equal(t, want, kindOf(name), name)
	}
}

// A cut keeps what was synced, and what was not only where the disk was kind.
func TestCutPower(t *testing.T) {
	files := Recording(vfs.OS{})
	path := t.TempDir()
	d, err := files.OpenRoot(path, false)
	require.NoError(t, err)
	defer d.Close()
	f, err := d.Create("a")
	require.NoError(t, err)
	defer f.Close()
	write := func(text string, off int64) {
		_, err := f.WriteAt([]byte(text), off)
		require.NoError(t, err)
	}
	write("synced", 0)
	require.NoError(t, f.Sync())
	require.NoError(t, d.Sync())
	write("unsure", vfs.SectorSize)
	cut, err := files.CutPower()
	require.NoError(t, err)
	write("later", 2*vfs.SectorSize) // after the cut
	require.NoError(t, f.Sync())
	read := func(fs vfs.FS) string {
		d, err := fs.OpenRoot(path, false)
		require.NoError(t, err)
		defer d.Close()
		b, err := vfs.ReadFile(d, "a", 1<<20)
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "synced", read(cut.Least()))
	seen := map[int]bool{}
	draw := chooser{rand.New(rand.NewPCG(1, 1))}
	for range 50 {
		text := read(cut.Image(draw))
		require.Equal(t, "synced", text[:6])
		require.NotContains(t, text, "later")
		seen[len(text)] = true
	}
	require.Len(t, seen, 2, "with the write that was not synced, and without")
}
