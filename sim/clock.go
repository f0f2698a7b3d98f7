package sim

import (
	"math"
	"math/bits"
	"time"

	"narad/env"
)

// clock runs at a constant rate from an anchor.
type clock struct {
	trueAnchor int64 // true time
	anchor     int64 // what the clock showed then
	ppm        int64 // how much faster than true time it runs, in millionths
}

// read returns what the clock shows at a true time not before the anchor, rounded down.
func (c *clock) read(now int64) int64 {
	d := now - c.trueAnchor
	if c.ppm == 0 {
		return c.anchor + d
	}
	return c.anchor + d + scale(d, c.ppm)
}

// when returns the first true time at which the clock shows at least reading: d*1e6/(1e6+ppm), rounded up.
func (c *clock) when(reading int64) int64 {
	d := reading - c.anchor
	if c.ppm == 0 {
		return c.trueAnchor + d
	}
	hi, lo := bits.Mul64(uint64(max(d, -d)), 1_000_000)
	q, rest := bits.Div64(hi, lo, uint64(1_000_000+c.ppm))
	if d < 0 {
		return c.trueAnchor - int64(q)
	}
	if rest > 0 {
		q++
	}
	return c.trueAnchor + int64(min(q, maxTrue))
}

// setRate changes the rate from now on.
func (c *clock) setRate(now, ppm int64) {
	c.anchor, c.trueAnchor, c.ppm = c.read(now), now, ppm
}

// scale returns d*ppm/1e6 rounded down, without overflow.
func scale(d, ppm int64) int64 {
	const million = 1_000_000
	whole, rest := d/million, d%million*ppm
	q := whole*ppm + rest/million
	if rest%million < 0 {
		q--
	}
	return q
}

// maxTrue bounds true times that deadlines are turned into: about 146 years.
const maxTrue = math.MaxInt64 / 2

// instant is what the monotonic clock of the process shows at a true time.
func (p *Process) instant(now int64) env.Instant {
	if p.mono == nil {
		return env.Instant(now)
	}
	return env.Instant(p.mono.read(now) + p.origin)
}

// trueTime is the first true time at which the process's clock shows at least i.
func (p *Process) trueTime(i env.Instant) int64 {
	if i > maxTrue {
		return maxTrue
	}
	if p.mono == nil {
		return int64(i)
	}
	return p.mono.when(int64(i) - p.origin)
}

// Instant tells what the monotonic clock of this process shows at a true time.
func (p *Process) Instant(t env.Instant) env.Instant { return p.instant(int64(t)) }

// TrueTime tells the first true time at which the monotonic clock of this process shows i. Both tell the
// truth only since the last change of the machine's rate.
func (p *Process) TrueTime(i env.Instant) env.Instant { return env.Instant(p.trueTime(i)) }

// Wall reads the machine's wall clock.
func (m *Machine) Wall() env.Wall { return env.Wall(epoch + m.wall.read(m.w.now)) }

// JumpWall moves the wall clock by d, which may be negative.
func (m *Machine) JumpWall(d time.Duration) {
	if m.w.fenced() {
		return
	}
	m.wall.anchor += int64(d)
	m.w.stats.WallJumps++
	if m.w.Logging() {
		m.w.Logf("%s: wall clock jumps by %v", m.name, d)
	}
}

// SetRate makes the machine's clocks run ppm millionths faster than true time from now on. Parked tasks
// get the true time of their deadlines anew.
func (m *Machine) SetRate(ppm int) {
	w := m.w
	m.mono.setRate(w.now, int64(ppm))
	m.wall.setRate(w.now, int64(ppm))
	if w.Logging() {
		w.Logf("%s: clocks run at %+d ppm", m.name, ppm)
	}
	if m.process == nil {
		return
	}
	for t := m.process.tasks.first; t != nil; t = t.next {
		if t.state == stateParked && t.waiter != nil && t.until != env.Forever {
			w.timers.disarm(&t.timer)
			w.timers.arm(&t.timer, max(w.now, m.process.trueTime(t.until)))
		}
	}
}
