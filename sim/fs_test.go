package sim

import (
	"bytes"
	"io"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/env"
	"narad/sim/disk"
	"narad/vfs"
)

// onDisk runs body as a process of a machine and returns the machine.
func onDisk(t *testing.T, seed uint64, config MachineConfig, body func(w *World, m *Machine, d vfs.Dir)) *Machine {
	t.Helper()
	var m *Machine
	run(t, Options{Seed: seed}, func(w *World) {
		m = w.Machine("m", config)
		m.Boot(func(e *env.Env) {
			d, err := e.FS().OpenRoot("/data", true)
			require.NoError(t, err)
			body(w, m, d)
		}).Wait()
	})
	return m
}

// contents reads a file of a machine from outside.
func contents(t *testing.T, m *Machine, name string) []byte {
	t.Helper()
	d, err := disk.FS(m.Disk()).OpenRoot("/data", false)
	require.NoError(t, err)
	b, err := vfs.ReadFile(d, name, 1<<20)
	require.NoError(t, err)
	return b
}

// makeFile makes a durable file of n bytes.
func makeFile(t *testing.T, d vfs.Dir, name string, n int, fill byte) vfs.File {
	t.Helper()
	f, err := d.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{fill}, n), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, d.Sync())
	return f
}

func TestTornWriteAfterPowerLoss(t *testing.T) {
	const sectors = 4
	images := map[string]int{}
	for seed := range uint64(400) {
		m := onDisk(t, seed, MachineConfig{Personality: disk.Adversarial}, func(w *World, m *Machine, d vfs.Dir) {
			f := makeFile(t, d, "f", sectors*512, 'o')
			_, err := f.WriteAt(bytes.Repeat([]byte{'n'}, sectors*512), 0)
			require.NoError(t, err)
			m.PowerLoss()
		})
		b := contents(t, m, "f")
		image := ""
		for s := range sectors {
			sector := b[s*512 : (s+1)*512]
			require.Equal(t, 512, bytes.Count(sector, sector[:1]), "a sector is never torn")
			image += string(sector[0])
		}
		images[image]++
	}
	require.Len(t, images, 1<<sectors, "every mixture of old and new sectors")
}

func TestCrashInAWriteLeavesAPrefix(t *testing.T) {
	const off, n = 100, 3*4096 + 3000
	lengths := map[int]int{}
	partial := 0
	for seed := range uint64(300) {
		var m *Machine
		w := run(t, Options{Seed: seed}, func(w *World) {
			l := DefaultLatency()
			l.Waits, l.Write = 1_000_000, Range{time.Second, time.Second}
			m = w.Machine("m", MachineConfig{Latency: l})
			p := m.Boot(func(e *env.Env) {
				d, err := e.FS().OpenRoot("/data", true)
				require.NoError(t, err)
				f, err := d.Create("f")
				require.NoError(t, err)
				f.WriteAt(bytes.Repeat([]byte{'x'}, n), off)
				t.Error("the write returned")
			})
			w.Env().Sleep(500 * time.Millisecond)
			m.CrashProcess()
			require.False(t, p.Alive())
		})
		partial += w.Stats().PartialWrites
		b := contents(t, m, "f")
		require.Equal(t, max(0, len(b)-off), bytes.Count(b, []byte("x")))
		lengths[len(b)]++
	}
	require.Len(t, lengths, 5, "nothing, up to each page border, all: %v", lengths)
	for _, size := range []int{0, 4096, 2 * 4096, 3 * 4096, off + n} {
		require.Greater(t, lengths[size], 5, "%v", lengths)
	}
	require.Greater(t, partial, 80, "about half the writes have not begun; most of those happen in part")
}

func TestCrashInASyncLeavesItUndoneOrDone(t *testing.T) {
	done := 0
	for seed := range uint64(200) {
		var m *Machine
		run(t, Options{Seed: seed}, func(w *World) {
			l := DefaultLatency()
			l.Sync = Range{time.Second, time.Second}
			m = w.Machine("m", MachineConfig{Latency: l})
			m.Boot(func(e *env.Env) {
				d, err := e.FS().OpenRoot("/", true)
				require.NoError(t, err)
				f, err := d.Create("f")
				require.NoError(t, err)
				_, err = f.WriteAt([]byte("x"), 0)
				require.NoError(t, err)
				f.Sync()
				t.Error("the sync returned")
			})
			w.Env().Sleep(500 * time.Millisecond)
			before := m.Disk().DurableHash()
			m.CrashProcess()
			require.Equal(t, before, m.Disk().DurableHash(), "the name is not durable, so nothing shows")
		})
		clone := m.Disk().Clone()
		require.NoError(t, clone.SyncDir(clone.Root()))
		if report := clone.PowerLoss(zero{}); report.SectorsLost == 0 {
			done++
		}
	}
	require.InDelta(t, 150, done, 25, "half of them were done before, and half of the others")
}

// zero chooses nothing: the disk loses all it can.
type zero struct{}

func (zero) Choose(int) int { return 0 }

func TestFsyncgate(t *testing.T) {
	for _, fault := range []Fault{SyncLost, SyncVisible} {
		onDisk(t, 1, MachineConfig{}, func(w *World, m *Machine, d vfs.Dir) {
			f := makeFile(t, d, "f", 512, 'o')
			_, err := f.WriteAt(bytes.Repeat([]byte{'n'}, 512), 0)
			require.NoError(t, err)
			m.ArmFault(fault, OpSync, "", 1)
			require.ErrorIs(t, f.Sync(), syscall.EIO)
			b := make([]byte, 1)
			_, err = f.ReadAt(b, 0)
			require.NoError(t, err)
			require.Equal(t, fault == SyncVisible, b[0] == 'n')
			require.NoError(t, f.Sync(), "the lie: the next sync succeeds")
			m.Disk().Evict(disk.Ino(f.ID().Inode))
			_, err = f.ReadAt(b, 0)
			require.NoError(t, err)
			require.EqualValues(t, 'o', b[0], "the data is gone")
			require.Equal(t, 1, w.Stats().Faults[FaultCount{fault, CallPlace{Op: OpSync}}])
		})
	}
}

func TestArmedFaults(t *testing.T) {
	onDisk(t, 1, MachineConfig{}, func(w *World, m *Machine, d vfs.Dir) {
		f := makeFile(t, d, "f", 2048, 'o')
		b := make([]byte, 2048)

		m.ArmFault(FailEIO, OpRead, "", 2)
		_, err := f.ReadAt(b, 0)
		require.NoError(t, err)
		_, err = f.ReadAt(b, 0)
		require.ErrorIs(t, err, syscall.EIO)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)

		m.ArmFault(FailNoSpace, OpWrite, "", 1)
		n, err := f.WriteAt(bytes.Repeat([]byte{'n'}, 2048), 0)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.Zero(t, n)
		f.ReadAt(b, 0)
		require.Zero(t, bytes.Count(b, []byte("n")))

		m.ArmFault(ShortWrite, OpAny, "", 1)
		n, err = f.WriteAt(bytes.Repeat([]byte{'n'}, 2048), 0)
		require.ErrorIs(t, err, syscall.ENOSPC)
		f.ReadAt(b, 0)
		require.Equal(t, n, bytes.Count(b, []byte("n")))

		m.ArmFault(FailEIO, OpRename, "/data/g", 1)
		require.ErrorIs(t, d.Rename("f", "g"), syscall.EIO)
		require.NoError(t, d.Rename("f", "g"))
		m.ArmFault(FailEIO, OpSyncDir, "/data", 1)
		require.ErrorIs(t, d.Sync(), syscall.EIO)
		require.NoError(t, d.Sync())
		m.ArmFault(FailEIO, OpCreate, "", 1)
		require.ErrorIs(t, d.Mkdir("dir"), syscall.EIO)
		_, err = d.Stat("dir")
		require.ErrorIs(t, err, fs.ErrNotExist)
		m.ArmFault(FailEIO, OpResize, "", 1)
		require.ErrorIs(t, f.Truncate(1), syscall.EIO)

		require.NoError(t, f.Sync())
		m.ArmFault(BitRot, OpRead, "", 1)
		before := make([]byte, 2048)
		f.ReadAt(before, 0)
		clean := make([]byte, 2048)
		f.ReadAt(clean, 0)
		require.Equal(t, before, clean, "bit rot stays")
		require.NotEqual(t, b, before)

		m.ArmFault(LostWrite, OpWrite, "", 1)
		n, err = f.WriteAt([]byte("lost"), 0)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.NoError(t, f.Sync())
		m.Disk().Evict(disk.Ino(f.ID().Inode))
		f.ReadAt(b, 0)
		require.Equal(t, before, b)

		m.ArmFault(Stall, OpRead, "", 1)
		start := w.Now()
		f.ReadAt(b, 0)
		require.GreaterOrEqual(t, w.Now().Sub(start), DefaultLatency().Stall.Min)

		m.ArmFault(FailEIO, OpRead, "", 1)
		m.ClearFaults()
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
	})
}

func TestFaultPlanHitsAtItsRateAndOnlyItsPaths(t *testing.T) {
	var w *World
	failed := map[string]int{}
	onDisk(t, 3, MachineConfig{}, func(world *World, m *Machine, d vfs.Dir) {
		w = world
		f, g := makeFile(t, d, "f", 512, 'o'), makeFile(t, d, "g", 512, 'o')
		m.SetFaults(FaultPlan{
			ReadEIO: 100_000, WriteEIO: 50_000, ShortWrite: 50_000, SyncLost: 100_000,
			Only: func(path string) bool { return path == "/data/f" },
		})
		for range 2000 {
			for name, file := range map[string]vfs.File{"f": f} {
				if _, err := file.ReadAt(make([]byte, 10), 0); err != nil {
					failed["read "+name]++
				}
				if _, err := file.WriteAt(make([]byte, 10), 0); err != nil {
					failed["write "+name]++
				}
				if file.Sync() != nil {
					failed["sync "+name]++
				}
			}
			_, err := g.WriteAt(make([]byte, 10), 0)
			require.NoError(t, err)
			require.NoError(t, g.Sync())
		}
	})
	for _, what := range []string{"read f", "write f", "sync f"} {
		require.InDelta(t, 200, failed[what], 60, what)
	}
	total := 0
	for f, n := range w.Stats().Faults { // order-free: a sum
		if f.Fault != Stall {
			total += n
		}
	}
	require.Equal(t, failed["read f"]+failed["write f"]+failed["sync f"], total)
	require.Positive(t, w.Stats().Faults[FaultCount{ShortWrite, CallPlace{Op: OpWrite}}])
}

func TestNoSpaceOnAFullDisk(t *testing.T) {
	onDisk(t, 1, MachineConfig{}, func(w *World, m *Machine, d vfs.Dir) {
		f, err := d.Create("f")
		require.NoError(t, err)
		m.Disk().SetCapacity(8192)
		_, err = f.WriteAt(make([]byte, 10_000), 0)
		require.ErrorIs(t, err, syscall.ENOSPC)
	})
}

func TestLatency(t *testing.T) {
	onDisk(t, 9, MachineConfig{}, func(w *World, m *Machine, d vfs.Dir) {
		f := makeFile(t, d, "f", 512, 'o')
		waits, start := 0, w.Now()
		for range 1000 {
			at := w.Now()
			_, err := f.ReadAt(make([]byte, 1), 0)
			require.NoError(t, err)
			if w.Now() > at {
				waits++
			}
		}
		require.InDelta(t, 250, waits, 60, "most reads come from the page cache")
		for range 100 {
			at := w.Now()
			require.NoError(t, f.Sync())
			require.GreaterOrEqual(t, w.Now().Sub(at), DefaultLatency().Sync.Min)
		}
		require.Less(t, w.Now().Sub(start), 10*time.Second)

		l := DefaultLatency()
		l.Sync = Range{time.Minute, time.Minute}
		m.SetLatency(l)
		at := w.Now()
		require.NoError(t, f.Sync())
		require.GreaterOrEqual(t, w.Now().Sub(at), time.Minute)
	})
}

func TestReadersSeeTornWritesOfOthers(t *testing.T) {
	// While a write is under way a reader may find a prefix of it: nobody promised atomicity.
	const size = 4 * 4096
	torn := 0
	for seed := range uint64(200) {
		onDisk(t, seed, MachineConfig{}, func(w *World, m *Machine, d vfs.Dir) {
			f := makeFile(t, d, "f", size, 'o')
			l := DefaultLatency()
			l.Waits, l.Write = 1_000_000, Range{time.Second, time.Second}
			m.SetLatency(l)
			e := m.Process().Env()
			e.Go("writer", func() { f.WriteAt(bytes.Repeat([]byte{'n'}, size), 0) })
			e.Sleep(500 * time.Millisecond)
			b := make([]byte, size)
			_, err := f.ReadAt(b, 0)
			require.NoError(t, err)
			if n := bytes.Count(b, []byte("n")); n > 0 && n < size {
				torn++
			}
		})
	}
	require.Positive(t, torn)
	require.Less(t, torn, 150)
}

func TestFilesOutsideOfARun(t *testing.T) {
	w := New(Options{})
	m := w.Machine("m", MachineConfig{})
	p := m.Boot(forever)
	d, err := p.Env().FS().OpenRoot("/data", true)
	require.NoError(t, err)
	f, err := d.Create("f")
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("hello"), 0)
	require.NoError(t, err)
	b := make([]byte, 10)
	n, err := f.ReadAt(b, 0)
	require.Equal(t, io.EOF, err)
	require.Equal(t, "hello", string(b[:n]))
	require.Zero(t, w.Now(), "outside of a run files take no time")
}

func TestOrderedDiskKeepsNamesInOrder(t *testing.T) {
	for seed := range uint64(100) {
		m := onDisk(t, seed, MachineConfig{Personality: disk.Ordered}, func(w *World, m *Machine, d vfs.Dir) {
			for _, name := range []string{"1", "2", "3"} {
				require.NoError(t, d.Mkdir(name))
			}
			m.PowerLoss()
		})
		d, err := disk.FS(m.Disk()).OpenRoot("/data", false)
		require.NoError(t, err)
		list, err := d.List()
		require.NoError(t, err)
		for i, info := range list {
			require.Equal(t, string(rune('1'+i)), info.Name)
		}
	}
}
