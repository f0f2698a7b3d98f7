package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A node that does nothing but pass messages on has a few MiB of live heap, and by default the garbage collector would run whenever as
// much again was allocated: many times a second, for an eighth of the node's CPU. So the heap may grow to heapFloor before it
// is collected. What is larger is collected as ever, and a memory limit has its effect in any case.
const heapFloor = 64 << 20

// gcPercentDefault is what Go has without GOGC.
const gcPercentDefault = 100

// gcPercent returns how much may be allocated on top of a live heap, in percent of it.
func gcPercent(live uint64) int {
	if live == 0 {
		live = 1 << 20
	}
	if live >= heapFloor/2 {
		return gcPercentDefault
	}
	return max(gcPercentDefault, int(100*(heapFloor-live)/live))
}

// keepHeapFloor sets the percentage anew after each collection, for the rest of the process. With GOGC set it does nothing.
func keepHeapFloor() {
	if os.Getenv("GOGC") != "" {
		return
	}
	f := &heapFloorKeeper{percent: gcPercentDefault, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	f.adjust()
	f.arm()
}

type heapFloorKeeper struct {
	percent int
	sample  []metrics.Sample
}

// arm has the next collection call adjust: it is what finds the object dead.
func (f *heapFloorKeeper) arm() {
	dead := new([16]byte)
	runtime.SetFinalizer(dead, func(*[16]byte) {
		f.adjust()
		f.arm()
	})
}

func (f *heapFloorKeeper) adjust() {
	metrics.Read(f.sample)
	if f.sample[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	percent := gcPercent(f.sample[0].Value.Uint64())
	if d := percent - f.percent; d > f.percent/8 || -d > f.percent/8 { // setting it stops the world
		f.percent = percent
		debug.SetGCPercent(percent)
	}
}
