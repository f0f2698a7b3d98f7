package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Disks that came by different ways to one state have one hash, and each thing in which states differ changes it.
func TestStateHash(t *testing.T) {
	reach := func(before int, more ...func(d *Disk, f Ino)) uint64 {
		d := New(Adversarial)
		for range before { // numbers and stamps go on, and nothing stays
			f, err := d.Create(d.Root(), "gone")
			require.NoError(t, err)
			require.NoError(t, d.WriteAt(f, []byte("gone"), 0))
			require.NoError(t, d.Remove(d.Root(), "gone"))
			require.NoError(t, d.SyncDir(d.Root()))
		}
		f, err := d.Create(d.Root(), "f")
		require.NoError(t, err)
		require.NoError(t, d.WriteAt(f, []byte("old"), 0))
		require.NoError(t, d.Sync(f))
		require.NoError(t, d.SyncDir(d.Root()))
		for _, do := range more {
			do(d, f)
		}
		return d.StateHash()
	}
	write := func(s string, off int64) func(d *Disk, f Ino) {
		return func(d *Disk, f Ino) { require.NoError(t, d.WriteAt(f, []byte(s), off)) }
	}
	sync := func(d *Disk, f Ino) { require.NoError(t, d.Sync(f)) }
	syncDir := func(d *Disk, _ Ino) { require.NoError(t, d.SyncDir(d.Root())) }
	truncate := func(size int64) func(d *Disk, f Ino) {
		return func(d *Disk, f Ino) { require.NoError(t, d.Truncate(f, size)) }
	}
	rename := func(to string) func(d *Disk, f Ino) {
		return func(d *Disk, _ Ino) { require.NoError(t, d.Rename(d.Root(), "f", to)) }
	}
	hold := func(d *Disk, f Ino) { d.Hold(f) }
	fails := func(d *Disk, f Ino) { d.SyncFails(f, true) }
	states := map[string][]func(d *Disk, f Ino){
		"nothing more":            nil,
		"new":                     {write("new", 0), sync},
		"new, unsynced":           {write("new", 0)},
		"new, behind another":     {write("mid", 0), write("new", 0)},
		"new, behind a third":     {write("mod", 0), write("new", 0)},
		"new, its sync failed":    {write("new", 0), fails},
		"longer":                  {write("new", 0), write("x", 600)},
		"longer, the other order": {write("x", 600), write("new", 0)},
		"longer, unset":           {write("new", 0), truncate(601), write("x", 600)},
		"shorter":                 {truncate(2)},
		"shorter, synced":         {truncate(2), sync},
		"renamed":                 {rename("g")},
		"renamed, synced":         {rename("g"), syncDir},
		"renamed elsewhere":       {rename("h")},
		"open":                    {hold},
	}
	seen := map[uint64]string{}
	for name, do := range states { // order-free: all must differ
		h := reach(0, do...)
		require.Empty(t, seen[h], name)
		seen[h] = name
		require.Equal(t, h, reach(3, do...), "%s, by another way", name)
	}
}
