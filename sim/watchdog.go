package sim

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// watchdog looks at the step counter from a real timer: a world whose counter stands still is blocked for
// real, most likely on a sync.Mutex that a parked task holds, or on a channel.
type watchdog struct {
	w       *World
	limit   time.Duration
	last    int64
	stopped atomic.Bool
	timer   *time.Timer
}

const defaultWatchdog = 10 * time.Second

// watch starts the watchdog of a run; nil when there is none.
func (w *World) watch() *watchdog {
	limit := w.options.Watchdog
	if limit < 0 {
		return nil
	}
	if limit == 0 {
		limit = defaultWatchdog
	}
	d := &watchdog{w: w, limit: limit, last: w.beat.Add(1)}
	ready := make(chan struct{})
	d.timer = time.AfterFunc(limit, func() { <-ready; d.look() })
	close(ready)
	return d
}

func (d *watchdog) stop() {
	if d != nil {
		d.stopped.Store(true)
		d.timer.Stop()
	}
}

func (d *watchdog) look() {
	if d.stopped.Load() {
		return
	}
	if beat := d.w.beat.Load(); beat != d.last {
		d.last = beat
		d.timer.Reset(d.limit)
		return
	}
	report := d.report()
	if hang := d.w.options.Hang; hang != nil {
		hang(report)
		return
	}
	fmt.Fprintln(os.Stderr, report)
	os.Exit(2)
}

// report may read the world without a lock: its only other user stands still.
func (d *watchdog) report() string {
	task := "the driver"
	if t := d.w.current; t != nil {
		task = "task " + t.String()
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Sprintf("sim: blocked for real since more than %v in %s, seed %#x, step %d, true time %v.\n"+
		"A simulated task must not wait for anything but through env: look for a sync.Mutex that is held across a call that parks.\n\n%s",
		d.limit, task, d.w.options.Seed, d.last, time.Duration(d.w.now), stacks)
}
