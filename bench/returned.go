package bench

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"narad/bench/report"
	"narad/bench/tap"
	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/vfs"
)

// Returned is what came back after a crash.
type Returned struct {
	Crash    string        `json:"crash"`
	Interval time.Duration `json:"d_ns"`
	Acks     int           `json:"acks"`     // made before the crash
	Back     int           `json:"back"`     // of them, delivered again; the most of all images
	Mean     float64       `json:"mean"`     // over the images
	Images   int           `json:"images"`   // that were looked at
	Oldest   time.Duration `json:"oldest"`   // age of the oldest that came back, at the crash
	Promised time.Duration `json:"promised"` // the window
	TookPart time.Duration `json:"took"`     // the tick or writeout that is part of the window
}

// Kept reports whether nothing came back that is older than promised.
func (r Returned) Kept() bool { return r.Oldest <= r.Promised }

// acksSeen remembers when acks returned, in nanoseconds of the wall clock.
type acksSeen struct {
	mu   sync.Mutex
	acks map[place]int64
}

func (a *acksSeen) add(p place, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acks[p] = at
}

// judge compares what is delivered after a crash with the acks made before it.
func (r *Returned) judge(acks map[place]int64, crash int64, again map[place]bool) {
	back := 0
	for p, at := range acks {
		if again[p] {
			back++
			r.Oldest = max(r.Oldest, time.Duration(crash-at))
		}
	}
	r.Mean = (r.Mean*float64(r.Images) + float64(back)) / float64(r.Images+1)
	r.Images++
	r.Acks, r.Back = len(acks), max(r.Back, back)
}

// returnedAcks kills a process, and cuts the power, under load.
func (o Options) returnedAcks() (report.Section, error) {
	s := report.Section{Title: "Acks that come back after a crash, and the promised window", Table: report.Table{
		Columns: []string{"crash", "D", "acks made", "come back, at most", "on average", "images", "oldest of them", "promised window", "kept"},
	}}
	plot := report.Plot{Title: "Age of the oldest ack that came back", X: "D, ms", Y: "ms", LogX: true, LogY: true}
	var all []Returned
	for _, d := range pick(o, []time.Duration{100 * time.Millisecond}, []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}) {
		for _, crash := range []func(time.Duration) (Returned, error){o.killed, o.powerCut} {
			r, err := crash(d)
			if err != nil {
				return s, err
			}
			all = append(all, r)
			s.Table.Add(r.Crash, d, r.Acks, r.Back, r.Mean, r.Images, r.Oldest, r.Promised, map[bool]string{true: "yes", false: "NO"}[r.Kept()])
			plot.Add(r.Crash, report.Milliseconds(d), report.Milliseconds(r.Oldest))
			plot.Add(r.Crash+", promised", report.Milliseconds(d), report.Milliseconds(r.Promised))
		}
	}
	s.Data, s.Plots = all, []report.Plot{plot}
	s.Notes = []string{
		"Promised: after a kill, acks since the start of the last tick that ended: at most two ticks and the longest one that was measured. After a power loss: D + T and the longest writeout and tick.",
		"A power loss is cut from a record of all writes and syncs that the real files got: the image in which nothing unsynced survived, and others drawn from what a disk may leave.",
		"Kills are timed by the clock of the killer, so an age is too great by the moment that the kill took.",
	}
	return s, nil
}

func (o Options) crashRun(d time.Duration) time.Duration {
	return pick(o, 500*time.Millisecond, 1500*time.Millisecond) + d + d/2
}

// killed ends a process of its own by SIGKILL.
func (o Options) killed(d time.Duration) (r Returned, err error) {
	o.Progress("kill a process, D %v", d)
	r = Returned{Crash: "kill", Interval: d}
	if o.Child == nil {
		return r, errors.New("bench: no command for a process to kill")
	}
	dir, err := os.MkdirTemp(o.Dir, "kill-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	child := o.Child(data, d)
	pipe, err := child.StdoutPipe()
	if err != nil {
		return r, err
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		return r, err
	}
	seen := acksSeen{acks: map[place]int64{}}
	first, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var p place
			var at int64
			if n, _ := fmt.Sscan(lines.Text(), &p.partition, &p.offset, &at); n == 3 { // the last line may be cut
				if len(seen.acks) == 0 {
					close(first)
				}
				seen.add(p, at)
			}
		}
	}()
	select {
	case <-first:
	case <-ended:
		return r, fmt.Errorf("bench: the process to be killed ended by itself: %w", errors.Join(errors.New("no ack"), child.Wait()))
	}
	time.Sleep(o.crashRun(d))
	crash := time.Now().UnixNano()
	if err := child.Process.Kill(); err != nil {
		return r, err
	}
	<-ended
	child.Wait() // says that it was killed
	again, err := delivered(data, engine.Options{})
	if err != nil {
		return r, err
	}
	r.judge(seen.acks, crash, again)
	r.TookPart = tickAllowance
	r.Promised = 2*tickOf(d) + r.TookPart
	return r, nil
}

// tickAllowance is how long ticks and a kill take at most on a machine that is not stuck; the process that was killed
// cannot say how long its last tick took.
const tickAllowance = 50 * time.Millisecond

func tickOf(d time.Duration) time.Duration { return min(d, 100*time.Millisecond) }

// powerCut runs an engine on recorded files and looks at what a power loss may leave of them.
func (o Options) powerCut(d time.Duration) (r Returned, err error) {
	o.Progress("cut the power, D %v", d)
	r = Returned{Crash: "power loss", Interval: d}
	dir, err := os.MkdirTemp(o.Dir, "power-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	files := tap.Recording(vfs.OS{})
	world := env.OS().WithFS(files)
	if o.spoil != nil {
		world = env.OS().WithFS(o.spoil(files))
	}
	var longest atomic.Int64
	e, err := engine.Open(data, engine.Options{
		Env: world, CommitInterval: d,
		Listener: func(v engine.Event) {
			if took := persistTime(v); took > 0 { // these events come from one task, so nothing is lost between load and store
				longest.Store(max(longest.Load(), int64(took)))
			}
		},
	})
	if err != nil {
		return r, err
	}
	seen := acksSeen{acks: map[place]int64{}}
	var stop atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- traffic(e, &stop, func(p place) { seen.add(p, time.Now().UnixNano()) })
	}()
	time.Sleep(o.crashRun(d))
	// An ack that is in the list by now was made before the cut.
	seen.mu.Lock()
	acks := make(map[place]int64, len(seen.acks))
	for p, at := range seen.acks {
		acks[p] = at
	}
	seen.mu.Unlock()
	cut, err := files.CutPower()
	crash := time.Now().UnixNano()
	stop.Store(true)
	if err = errors.Join(err, <-ended, e.Close()); err != nil {
		return r, err
	}
	r.TookPart = time.Duration(longest.Load())
	r.Promised = d + tickOf(d) + 2*r.TookPart + time.Millisecond
	images := []vfs.FS{cut.Least()}
	draw := chooser{rand.New(rand.NewPCG(1, uint64(d)))}
	for range pick(o, 2, 10) {
		images = append(images, cut.Image(draw))
	}
	for _, image := range images {
		again, err := delivered(data, engine.Options{Env: env.OS().WithFS(image)})
		if err != nil {
			return r, fmt.Errorf("what a power loss left: %w", err)
		}
		r.judge(acks, crash, again)
	}
	return r, nil
}

// persistTime is how long a tick or a writeout took.
func persistTime(v engine.Event) time.Duration {
	if c, ok := v.(engine.Consumer); ok {
		switch c := c.Event.(type) {
		case committer.TickDone:
			return c.Took
		case committer.WrittenOut:
			return c.End.Sub(c.Start)
		}
	}
	return 0
}

// chooser draws which of the unsynced survives.
type chooser struct{ *rand.Rand }

func (c chooser) Choose(n int) int { return c.IntN(n) }
