package disk

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What readers see, and what the disk holds, around a failed sync. D4
func TestFailedSync(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		for _, c := range []struct {
			program       string
			seen, durable string
		}{
			{"failsync a visible", "a=CDE", "a=AB"},
			{"failsync a visible, sync a", "a=CDE", "a=AB."},
			{"failsync a visible, evict a", "a=AB.", "a=AB"},
			{"failsync a visible, processcrash, sync a", "a=CDE", "a=AB."},
			{"failsync a hidden", "a=AB.", "a=AB"},
			{"failsync a hidden, sync a, evict a", "a=AB.", "a=AB."},
			{"failsync a visible, write a F @1, sync a", "a=CFE", "a=AF."},
			{"failsync a visible, write a F @1, sync a, evict a", "a=AF.", "a=AF."},
			{"failsync a visible, write a F @1, evict a", "a=AF.", "a=AB"},
			{"failsync a visible, write a F @1, failsync a hidden", "a=CBE", "a=AB"},
			{"failsync a visible, truncate a 512, sync a", "a=C", "a=A"},
			{"failsync a visible, truncate a 512, truncate a 1536, sync a", "a=C..", "a=A.."},
		} {
			d := New(p)
			run(t, d, "durable a AB", "write a CDE")
			run(t, d, strings.Split(c.program, ", ")...)
			requireSound(t, d)
			require.Equal(t, c.seen, show(d), c.program)
			require.Equal(t, c.durable, show(d.Durable()), c.program)
		}
	})
}

// The cut of a file is data like any other: when its sync fails, the old bytes are still on the disk.
func TestFailedSyncOfCut(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a AB", "truncate a 512", "failsync a hidden")
	require.Equal(t, []string{"a=A", "a=AB"}, states(d))
	require.Equal(t, "a=A", show(d))
	run(t, d, "truncate a 1024")
	require.Equal(t, "a=A.", show(d), "growth exposes zeros")
	requireSound(t, d)
}

func TestLostAndMisdirectedWrites(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "durable a AB", "durable b XY", "lose a C @0", "misdirect a D @1 b @0", "misdirect a E @2 b @7", "sync a", "sync b")
		require.Equal(t, "a=CDE b=XY", show(d))
		require.Equal(t, "a=AB. b=DY", show(d.Durable()))
		run(t, d, "evict a", "evict b")
		require.Equal(t, "a=AB. b=DY", show(d))
		requireSound(t, d)
		run(t, d, "misdirect a F @0 a @1", "evict a") // into the same file
		require.Equal(t, "a=AF. b=DY", show(d))
		requireSound(t, d)
	})
}

func TestFlipBit(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a AAA", "preallocate a 2048", "sync a", "write a B @1")
	_, a, err := d.Lookup(d.Root(), "a")
	require.NoError(t, err)
	before := d.Used()
	d.FlipBit(a, 3)           // 'A' becomes 'I'
	d.FlipBit(a, 8*(512+7)+1) // on the disk only: the cache has newer contents
	d.FlipBit(a, 8*(2048-1))  // in a hole
	d.FlipBit(a, 8*2048)      // beyond the end
	d.FlipBit(a, -1)
	require.Equal(t, "a=I1+A511+B512+A512+.511+\\011", show(d))
	require.Equal(t, "a=I1+A518+C1+A1016+.511+\\011", show(d.Durable()))
	require.Equal(t, before, d.Used())
	require.Equal(t, "a=I1+A511+B512+A512+.511+\\011", show(d), "rot is not something to sync")
	run(t, d, "sync a")
	require.Equal(t, "a=I1+A511+B512+A512+.511+\\011", show(d.Durable()))
	requireSound(t, d)
}

func TestShortWrite(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "durable a AB", "short a CDE @0 1000")
	require.Equal(t, "a=C512+D488+B24", show(d))
	run(t, d, "short a CDE @0 0", "short a CDE @0 -5", "short a FG @0 5000")
	require.Equal(t, "a=FG", show(d))
}

func TestNoSpace(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		d.SetCapacity(4 * pageSize)
		run(t, d, "create a", "create b", "preallocate a 8192")
		require.EqualValues(t, 8192, d.Used())
		// Writes into reserved space need none.
		run(t, d, "write a AB", "write b C", "write b D @1")
		require.EqualValues(t, 3*pageSize, d.Used())
		// The prefix that has room is written.
		_, b, _ := d.Lookup(d.Root(), "b")
		err := d.WriteAt(b, []byte(strings.Repeat("E", 8192)), 1024)
		require.ErrorIs(t, err, syscall.ENOSPC)
		size, err := d.Size(b)
		require.NoError(t, err)
		require.EqualValues(t, 8192, size)
		require.EqualValues(t, 4*pageSize, d.Used())
		require.ErrorIs(t, d.WriteAt(b, []byte("F"), 8192), syscall.ENOSPC)
		require.ErrorIs(t, step(d, "preallocate a 8193"), syscall.ENOSPC)
		require.NoError(t, step(d, "preallocate b 8192"))
		// Cutting and removing make room; an open file keeps its own until it is closed.
		run(t, d, "truncate b 4096")
		require.EqualValues(t, 3*pageSize, d.Used())
		d.Hold(b)
		run(t, d, "remove b")
		require.EqualValues(t, 3*pageSize, d.Used())
		d.Release(b)
		require.EqualValues(t, 2*pageSize, d.Used())
		requireSound(t, d)
		// A power loss that brings b back brings back its space.
		d.PowerLoss(&script{keepAll})
		require.EqualValues(t, 2*pageSize, d.Used())
		requireSound(t, d)
	})
}

func TestSparse(t *testing.T) {
	d := New(Adversarial)
	run(t, d, "create a", "preallocate a 67108864")
	_, a, _ := d.Lookup(d.Root(), "a")
	d.WriteAt(a, make([]byte, 1<<20), 0) // zeros take no memory
	require.Zero(t, sectorsInMemory(d.node(a)))
	run(t, d, "write a X @100000")
	require.Equal(t, 1, sectorsInMemory(d.node(a)))
	require.EqualValues(t, 64<<20, d.Used())
	b := make([]byte, 1024)
	_, err := d.ReadAt(a, b, 100000*512-256)
	require.NoError(t, err)
	require.Equal(t, ".256+X512+.256", describe(b))
	run(t, d, "truncate a 100")
	require.EqualValues(t, pageSize, d.Used())
	requireSound(t, d)
}

func sectorsInMemory(n *inode) (count int) {
	for _, l := range n.content.leaves {
		for i := 0; l != nil && i < leafSectors; i++ {
			if l.sectors[i] != nil {
				count++
			}
		}
	}
	return count
}

// An inode lives while it is open, through the loss of its name, and not through a crash.
func TestHold(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "create a", "write a A", "sync a")
		_, a, _ := d.Lookup(d.Root(), "a")
		d.Hold(a)
		d.Hold(a)
		run(t, d, "remove a", "syncdir .")
		require.NoError(t, d.WriteAt(a, []byte("x"), 0))
		require.NoError(t, d.Sync(a))
		d.Release(a)
		_, err := d.Size(a)
		require.NoError(t, err)
		c := d.Clone()
		d.Release(a)
		_, err = d.Size(a)
		require.Error(t, err)
		require.Nil(t, d.node(a))
		require.Zero(t, d.Used())
		_, err = c.Size(a)
		require.NoError(t, err)
		c.ProcessCrash()
		_, err = c.Size(a)
		require.Error(t, err)
		require.Zero(t, c.Used())
		requireSound(t, c)
		requireSound(t, d)
	})
}

// What is unsynced stays bounded: the kernel's writeback has happened meanwhile.
func TestPendingIsBounded(t *testing.T) {
	each(t, func(t *testing.T, p Personality) {
		d := New(p)
		run(t, d, "create a", "create b", "syncdir .")
		for i := range 1000 {
			run(t, d, fmt.Sprintf("create f%d", i), fmt.Sprintf("remove f%d", i), fmt.Sprintf("write a %c", 'A'+i%26),
				fmt.Sprintf("put a x*10 @%d", 512+10*i))
			run(t, d, "truncate b 0", "write b BCDE", "truncate b 700", "preallocate b 2000", "write b F @2")
		}
		requireSound(t, d)
		require.LessOrEqual(t, len(d.pending), pendingNamesMax)
		require.LessOrEqual(t, len(d.table), pendingNamesMax+8)
		for _, s := range d.table {
			require.LessOrEqual(t, len(s.node.sizes), pendingSizesMax)
			for i := range s.node.dirty {
				require.LessOrEqual(t, s.node.dirty[i].newest(), versionsMax+2*pendingSizesMax)
			}
		}
		// Whatever was forgotten, the extremes are still there.
		seen := show(d)
		kept := d.Clone()
		kept.PowerLoss(&script{keepAll})
		require.Equal(t, seen, show(kept))
		for seed := range uint64(50) {
			img := d.Clone()
			img.PowerLoss(newPCG(seed))
			requireSound(t, img)
			if p == Ordered {
				requireNoStaleB(t, img)
			}
		}
	})
}

// requireNoStaleB: on an Ordered disk, b of TestPendingIsBounded is empty or has what every growth brought.
func requireNoStaleB(t *testing.T, d *Disk) {
	_, b, err := d.Lookup(d.Root(), "b")
	require.NoError(t, err)
	buf := make([]byte, 4096)
	if n, _ := d.ReadAt(b, buf, 0); n > 0 {
		require.GreaterOrEqual(t, n, 700)
		require.Equal(t, "B512+C188", describe(buf[:700]))
	}
}
