package committer

import (
	"testing"
	"time"
)

// BenchmarkDirtyAgain is what an ack pays for a partition that is dirty already.
func BenchmarkDirtyAgain(b *testing.B) {
	r := newRig(b, 1, nil)
	k := part0(0)
	b.ReportAllocs()
	for b.Loop() {
		r.c.Dirty(k)
	}
}

// BenchmarkTick is a tick that writes 256 windows, on a disk that takes no time.
func BenchmarkTick(b *testing.B) {
	r := newRig(b, 256, func(o *Options) { o.MaxOpen = 256 })
	r.c.o.Event = func(Event) {}
	for i := range 256 {
		r.ack(part0(i), 0, 2)
	}
	r.c.tick()
	b.ReportAllocs()
	for b.Loop() {
		for i := range 256 {
			r.c.Dirty(part0(i))
		}
		r.c.tick()
		r.ops = r.ops[:0]
		r.still.now = r.still.now.Add(100 * time.Millisecond)
	}
}
