package committer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"narad/sim/disk"
	"narad/vfs"
)

// drives lets the disk of a rig be two, each with a cache that only FlushDevice empties: partitions with an even number
// are on device 1, the others on device 2.
type drives struct {
	r       *rig
	handed  map[uint64][]handedTo
	flushes map[uint64]int
	broken  map[uint64]bool // flushes of the device fail, and what it held is lost
	handing int             // calls of SyncToDevice
	before  func(device uint64)
}

// handedTo is a file or directory in a drive's cache.
type handedTo struct {
	ino disk.Ino
	dir bool
}

// onDrives returns a rig on two drives.
func onDrives(t testing.TB, partitions int, change func(o *Options)) (*rig, *drives) {
	d := &drives{}
	r := newRig(t, partitions, func(o *Options) {
		o.Root = driveDir{o.Root, d, ""}
		if change != nil {
			change(o)
		}
	})
	d.on(r)
	return r, d
}

// on makes the drives those of the disk of r, with nothing in their caches.
func (d *drives) on(r *rig) {
	*d = drives{r: r, handed: map[uint64][]handedTo{}, flushes: map[uint64]int{}, broken: map[uint64]bool{}, before: d.before}
	for _, s := range r.shards { // order-free: all get the same
		s.Dir = vfs.ID{} // the rig seeds from the bare disk
	}
}

// deviceOf is the device of a path below the root.
func deviceOf(path string) uint64 {
	var partition uint64
	if n, _ := fmt.Sscanf(path, "p%d", &partition); n == 0 {
		return 9
	}
	return 1 + partition%2
}

func idOn(path string, id vfs.ID) vfs.ID {
	id.Device = deviceOf(path)
	return id
}

func (d *drives) hand(path string, id vfs.ID, dir bool) {
	device := deviceOf(path)
	d.handed[device] = append(d.handed[device], handedTo{disk.Ino(id.Inode), dir})
}

func (d *drives) flush(device uint64) error {
	if d.before != nil {
		d.before(device)
	}
	d.flushes[device]++
	for _, h := range d.handed[device] {
		switch {
		case d.broken[device]:
			d.r.disk.SyncFails(h.ino, true)
		case h.dir:
			d.r.disk.SyncDir(h.ino)
		default:
			d.r.disk.Sync(h.ino)
		}
	}
	d.handed[device] = nil
	if d.broken[device] {
		return errIO
	}
	return nil
}

type driveDir struct {
	vfs.Dir
	d    *drives
	path string
}

func (d driveDir) at(name string) string { return strings.TrimPrefix(d.path+"/"+name, "/") }

func (d driveDir) ID() vfs.ID { return idOn(d.path, d.Dir.ID()) }

func (d driveDir) Stat(name string) (vfs.Info, error) {
	info, err := d.Dir.Stat(name)
	info.ID = idOn(d.at(name), info.ID)
	return info, err
}

func (d driveDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return driveDir{sub, d.d, d.at(name)}, nil
}

func (d driveDir) Open(name string) (vfs.File, error) { return d.file(name, d.Dir.Open) }

func (d driveDir) Create(name string) (vfs.File, error) { return d.file(name, d.Dir.Create) }

func (d driveDir) file(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return driveFile{f, d.d, d.at(name)}, nil
}

func (d driveDir) SyncToDevice() error {
	d.d.hand(d.path, d.Dir.ID(), true)
	return nil
}

func (d driveDir) FlushDevice() error { return d.d.flush(deviceOf(d.path)) }

type driveFile struct {
	vfs.File
	d    *drives
	path string
}

func (f driveFile) ID() vfs.ID { return idOn(f.path, f.File.ID()) }

func (f driveFile) SyncToDevice() error {
	f.d.handing++
	f.d.hand(f.path, f.File.ID(), false)
	return nil
}

func (f driveFile) FlushDevice() error { return f.d.flush(deviceOf(f.path)) }

// COM-05, COM-27, COM-59: what a tick primes, and what it writes out, is synced file by file and flushed once for each
// device.
func TestOneFlushForEachDevice(t *testing.T) {
	r, d := onDrives(t, 6, nil)
	for i := range 6 {
		r.ack(part0(i), 0)
	}
	require.Equal(t, 6, r.tick().Primed)
	require.Equal(t, map[uint64]int{1: 1, 2: 1}, d.flushes, "six primes share a flush for each device")
	require.Equal(t, 6, d.handing)
	require.Len(t, all[WindowWritten](r), 6, "in the same tick")
	for range r.c.roster.turns + 1 {
		clear(d.flushes)
		handing := d.handing
		r.tick()
		require.LessOrEqual(t, d.flushes[1], 1)
		require.LessOrEqual(t, d.flushes[2], 1)
		require.Equal(t, d.handing > handing, len(d.flushes) > 0)
	}
	require.Len(t, all[WrittenOut](r), 6)
	for i := range 6 {
		r.durable(part0(i), 0)
	}
	clear(d.flushes)
	for i := range 6 {
		r.ack(part0(i), 1)
	}
	require.NoError(t, r.c.finish())
	require.Equal(t, map[uint64]int{1: 1, 2: 1}, d.flushes, "six writeouts share a flush for each device")
}

// COM-15, COM-58 (BUG-104): nothing flips, and nothing counts as durable, before the flush of its device.
func TestFlipWaitsForTheFlush(t *testing.T) {
	r, d := onDrives(t, 1, nil)
	r.ack(part0(0), 0)
	r.flush()
	anchor := r.c.roster.parts[part0(0)].anchor
	r.ack(part0(0), 1)
	r.tick()
	looked := 0
	d.before = func(uint64) {
		p := r.c.roster.parts[part0(0)]
		require.Equal(t, anchor, p.anchor)
		require.True(t, p.unsynced)
		lost := false
		r.images(part0(0), func(s State) { lost = lost || s.Committed == 0 })
		require.True(t, lost, "the drive's cache may be lost")
		looked++
	}
	r.writeout(part0(0))
	require.Zero(t, looked)
	require.Equal(t, anchor, r.c.roster.parts[part0(0)].anchor)
	r.c.flushDevices()
	require.Equal(t, 1, looked)
	require.NotEqual(t, anchor, r.c.roster.parts[part0(0)].anchor)
	r.durable(part0(0), 1)
}

// COM-16, COM-59, COM-62: a flush that fails fails the partitions of its device, and only those: no flip, and the
// window is written again in full.
func TestFailedFlushFailsItsDevice(t *testing.T) {
	r, d := onDrives(t, 4, func(o *Options) { o.Interval = 100 * time.Millisecond })
	for i := range 4 {
		r.ack(part0(i), 0)
	}
	r.tick()
	anchors := func() (out []int) {
		for i := range 4 {
			out = append(out, r.c.roster.parts[part0(i)].anchor)
		}
		return out
	}
	before := anchors()
	for i := range 4 {
		r.ack(part0(i), 1)
	}
	d.broken[1] = true
	done := r.tick()
	require.Equal(t, 2, done.Failed)
	after := anchors()
	for i := range 4 {
		if i%2 == 0 {
			require.Equal(t, before[i], after[i])
			r.images(part0(i), func(s State) { require.GreaterOrEqual(t, s.Committed, int64(0)) })
		} else {
			require.NotEqual(t, before[i], after[i])
			r.durable(part0(i), 1)
		}
	}
	d.broken[1] = false
	r.events = nil
	r.tick()
	require.Len(t, all[WindowWritten](r), 2, "both windows again, though nobody acked")
	for i := range 4 {
		r.durable(part0(i), 1)
	}
}

// COM-25, COM-58: a prime whose device does not flush lets no window be written; the next tick primes a new file.
func TestPrimeWaitsForTheFlush(t *testing.T) {
	r, d := onDrives(t, 2, nil)
	r.ack(part0(0), 0)
	r.ack(part0(1), 0)
	d.broken[1] = true
	require.Equal(t, 1, r.tick().Failed)
	require.Len(t, all[WindowWritten](r), 1)
	require.Equal(t, part0(1), all[WindowWritten](r)[0].Key)
	var failed []Key
	for _, v := range all[Primed](r) {
		if v.Err != nil {
			require.ErrorIs(t, v.Err, errIO)
			failed = append(failed, v.Key)
		}
	}
	require.Equal(t, []Key{part0(0)}, failed)
	require.Nil(t, r.c.roster.parts[part0(0)])
	d.broken[1] = false
	r.ops = nil
	r.tick()
	require.Contains(t, r.log(), "rename p0/consumer.ahead.tmp")
	r.flush()
	r.durable(part0(0), 0)
	require.NoError(t, r.c.finish())
}

// COM-39, COM-58: a partition that is forgotten between its sync and the flush neither flips nor keeps the others from it.
func TestForgetBeforeTheFlush(t *testing.T) {
	r, d := onDrives(t, 3, func(o *Options) { o.Interval = 100 * time.Millisecond })
	for _, i := range []int{0, 2} {
		r.ack(part0(i), 0)
	}
	r.tick()
	for _, i := range []int{0, 2} {
		r.ack(part0(i), 1)
	}
	r.c.beginTick()
	r.c.writeWindows()
	for _, i := range []int{0, 2} {
		r.c.writeoutStep(r.c.roster.parts[part0(i)])
	}
	delete(r.shards, part0(0))
	r.c.Forget(part0(0))
	r.events, d.flushes = nil, map[uint64]int{}
	r.c.flushDevices()
	require.Equal(t, 1, d.flushes[1])
	require.Len(t, all[WrittenOut](r), 1)
	r.durable(part0(2), 1)
}

// INV-08, INV-11, COM-58, COM-59: whatever is acked, flushed, broken, crashed and cut off, on two drives with caches, recovery
// finds nothing that was not acked and all that the last successful writeout or prime held.
func TestTwoDrives(t *testing.T) {
	flushed := 0
	rapid.Check(t, func(rt *rapid.T) {
		const partitions = 3
		var durable, window, acked [partitions]map[int64]bool
		var r *rig
		var d *drives
		event := func(v Event) {
			switch v := v.(type) {
			case WindowWritten:
				if v.Err == nil {
					window[v.Key.Partition] = settledIn(r.shards[v.Key].State)
				}
			case WrittenOut:
				if v.Err == nil {
					durable[v.Key.Partition] = window[v.Key.Partition]
					flushed++
				}
			}
		}
		options := func(o *Options) {
			o.Interval = 200 * time.Millisecond
			o.MaxOpen = 2
			o.Event = event
		}
		r, d = onDrives(t, partitions, options)
		for i := range partitions {
			acked[i] = map[int64]bool{}
		}
		restart := func() {
			clear(r.shards)
			r.open()
			r.start(func(o *Options) {
				o.Root = driveDir{o.Root, d, ""}
				options(o)
			})
			for i := range partitions {
				got := settledIn(r.seed(part0(i)).State)
				require.NoError(rt, covers(acked[i], got), "partition %d recovered what nobody acked", i)
				require.NoError(rt, covers(got, durable[i]), "partition %d", i)
				r.c.Touch(part0(i))
			}
			d.on(r)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"ack": func(rt *rapid.T) {
				k := part0(rapid.IntRange(0, partitions-1).Draw(rt, "partition"))
				o := r.shards[k].Committed + 1 + rapid.Int64Range(0, 3).Draw(rt, "above")
				r.ack(k, o)
				acked[k.Partition][o] = true
			},
			"tick":   func(*rapid.T) { r.c.tick() },
			"break":  func(rt *rapid.T) { d.broken[uint64(rapid.IntRange(1, 2).Draw(rt, "device"))] = true },
			"repair": func(*rapid.T) { clear(d.broken) },
			"forget": func(rt *rapid.T) {
				k := part0(rapid.IntRange(0, partitions-1).Draw(rt, "partition"))
				delete(r.shards, k)
				r.c.Forget(k)
				r.seed(k).Dir = vfs.ID{}
			},
			"process crash": func(*rapid.T) {
				r.disk.ProcessCrash()
				restart()
			},
			"power loss": func(rt *rapid.T) {
				var images []*disk.Disk
				for img := range r.disk.Crashes(32) {
					images = append(images, img)
				}
				r.disk = images[rapid.IntRange(0, len(images)-1).Draw(rt, "image")]
				restart()
			},
		})
	})
	require.Greater(t, flushed, 100)
}
