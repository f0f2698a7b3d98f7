package bench

import (
	"slices"
	"sync"
	"time"
)

// meter follows acks of partitions on their way to the disk, whoever brings them there.
type meter struct {
	mu    sync.Mutex
	parts []partMeter

	windows  int     // written, over all partitions
	ticks    []int64 // nanoseconds each
	outs     []int64 // writeouts
	latePage []int64 // from an ack to the page cache
	lateDisk []int64 // from an ack to the disk
}

// partMeter holds when the oldest ack was made that got no further; 0: there is none.
type partMeter struct {
	frontier int64
	acked    int64 // in memory only
	taken    int64 // in a snapshot that is being written
	written  int64 // in the page cache
}

func newMeter(partitions int) *meter { return &meter{parts: make([]partMeter, partitions)} }

var epoch = time.Now()

// now is nanoseconds on the monotonic clock, never 0.
func now() int64 { return int64(time.Since(epoch)) + 1 }

func oldest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (m *meter) ack(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[i]
	p.frontier++
	p.acked = oldest(p.acked, now())
}

// snapshot returns the frontier that is about to be written.
func (m *meter) snapshot(i int) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[i]
	p.taken, p.acked = oldest(p.taken, p.acked), 0
	return p.frontier
}

func (m *meter) windowWritten(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[i]
	m.windows++
	if p.taken == 0 {
		return
	}
	m.latePage = append(m.latePage, now()-p.taken)
	p.written, p.taken = oldest(p.written, p.taken), 0
}

func (m *meter) writtenOut(i int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.parts[i]
	m.outs = append(m.outs, int64(took))
	if p.written == 0 {
		return
	}
	m.lateDisk = append(m.lateDisk, now()-p.written)
	p.written = 0
}

func (m *meter) tickDone(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticks = append(m.ticks, int64(took))
}

// reset forgets the samples; what is on its way stays on it.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ticks, m.outs, m.latePage, m.lateDisk = nil, nil, nil, nil
}

// windowCount reports how many windows were written so far.
func (m *meter) windowCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.windows
}

// longestTick returns the longest tick so far.
func (m *meter) longestTick() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ticks) == 0 {
		return 0
	}
	return time.Duration(slices.Max(m.ticks))
}
