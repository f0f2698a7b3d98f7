package disk

import (
	"fmt"
	"testing"
)

func newFile(b *testing.B, d *Disk, name string) Ino {
	i, err := d.Create(d.Root(), name)
	if err != nil {
		b.Fatal(err)
	}
	if err := d.SyncDir(d.Root()); err != nil {
		b.Fatal(err)
	}
	return i
}

func eachB(b *testing.B, fn func(b *testing.B, p Personality)) {
	for _, p := range personalities {
		b.Run(p.String(), func(b *testing.B) { fn(b, p) })
	}
}

// A log: append 1 KiB and sync. The file is emptied now and then to bound memory.
func BenchmarkAppendSync(b *testing.B) {
	eachB(b, func(b *testing.B, p Personality) {
		d := New(p)
		f := newFile(b, d, "log")
		data := make([]byte, 1024)
		for i := range data {
			data[i] = byte(i)
		}
		b.ReportAllocs()
		off := int64(0)
		for b.Loop() {
			if off == 16<<20 {
				off = 0
				d.Truncate(f, 0)
			}
			if d.WriteAt(f, data, off) != nil || d.Sync(f) != nil {
				b.Fatal("failed")
			}
			off += 1024
		}
	})
}

func BenchmarkOverwriteSync4K(b *testing.B) {
	d := New(Adversarial)
	f := newFile(b, d, "log")
	d.Preallocate(f, 1<<20)
	data := make([]byte, 4096)
	data[0], data[600] = 1, 1
	off := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		d.WriteAt(f, data, off)
		d.Sync(f)
		off = (off + 4096) % (1 << 20)
	}
}

func BenchmarkRead1K(b *testing.B) {
	d := New(Adversarial)
	f := newFile(b, d, "log")
	d.WriteAt(f, make([]byte, 1<<20), 0)
	p := make([]byte, 1024)
	for b.Loop() {
		d.ReadAt(f, p, 12345)
	}
}

// pending16 returns a disk on which 16 sectors of a log of 16 KiB are not synced.
func pending16(b *testing.B, p Personality) *Disk {
	d := New(p)
	f := newFile(b, d, "log")
	data := make([]byte, 16<<10)
	for i := range data {
		data[i] = byte(i)
	}
	d.WriteAt(f, data, 0)
	d.Sync(f)
	for i := range data {
		data[i]++
	}
	d.WriteAt(f, data[:8<<10], 4<<10)
	return d
}

func BenchmarkPowerLoss16(b *testing.B) {
	eachB(b, func(b *testing.B, p Personality) {
		d := pending16(b, p)
		rng := newPCG(1)
		b.ReportAllocs()
		for b.Loop() {
			d.Clone().PowerLoss(rng) // about half the time is the clone
		}
	})
}

func BenchmarkClone(b *testing.B) {
	for _, files := range []int{1, 100} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			d := New(Adversarial)
			for i := range files {
				newFile(b, d, fmt.Sprint(i))
			}
			for b.Loop() {
				d.Clone()
			}
		})
	}
}

// One of the 2^16 images of a log with 16 unsynced sectors.
func BenchmarkCrashImage(b *testing.B) {
	eachB(b, func(b *testing.B, p Personality) {
		d := pending16(b, p)
		b.ReportAllocs()
		for left := b.N; left > 0; {
			for range d.Crashes(0) {
				if left--; left == 0 {
					break
				}
			}
		}
	})
}

func BenchmarkHash1M(b *testing.B) {
	d := New(Adversarial)
	f := newFile(b, d, "log")
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i) + 1
	}
	d.WriteAt(f, data, 0)
	b.SetBytes(1 << 20)
	for b.Loop() {
		d.Hash()
	}
}

// Through vfs, as an engine does.
func BenchmarkFSAppendSync(b *testing.B) {
	dir := openRoot(b, New(Adversarial))
	f, err := dir.Create("log")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 1024)
	data[5], data[1000] = 1, 1
	off := int64(0)
	for b.Loop() {
		if off == 16<<20 {
			off = 0
			f.Truncate(0)
		}
		f.WriteAt(data, off)
		f.Sync()
		off += 1024
	}
}
