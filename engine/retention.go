package engine

import (
	"errors"
	"math"
	"sync"

	"narad/env"
	"narad/segment"
)

// unknownExpiry is below every cutoff that removes anything.
const unknownExpiry = math.MinInt64

// coldRounds is every how many rounds retention looks at closed partitions too, unless it is told otherwise.
const coldRounds = 5

// reaper is the task that removes what retention has expired (RET-03…RET-05): once a minute from the logs that are open,
// every fifth time from closed ones as well. Those are opened only when something in them is known to have expired, and closed
// again.
//
// A message lives at least the retention of its topic, and is gone at most about twice that after it was written: a
// segment begins to be removable when its last record is that old, and is sealed when its first one is.
type reaper struct {
	engine *Engine
	wake   *env.Waiter
	task   *env.Group
	ages   ageClock // of run alone

	mu       sync.Mutex // guards stopping
	stopping bool
}

func newReaper(e *Engine) *reaper {
	return &reaper{engine: e, wake: e.env.NewWaiter(), task: e.env.NewGroup()}
}

func (r *reaper) start() {
	r.ages.observe(r.engine.env.Now(), r.engine.env.Wall().UnixMilli())
	r.task.Go("retention", r.run)
}

func (r *reaper) stop() {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.wake.Unpark()
	r.task.Wait()
}

func (r *reaper) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

func (r *reaper) run() {
	e := r.engine
	next, rounds := e.env.Now(), int64(e.opts.ColdRetentionInterval/e.opts.RetentionInterval)
	for round := int64(1); ; round++ {
		next = max(next, e.env.Now()).Add(e.opts.RetentionInterval)
		for e.env.Now() < next && !r.stopped() {
			r.wake.ParkUntil(next)
		}
		if r.stopped() {
			return
		}
		r.ages.observe(e.env.Now(), e.env.Wall().UnixMilli())
		cold, begun := round%rounds == 0, e.env.Now()
		opened := r.round(cold)
		e.emit(RetentionRun{e.env.Now().Sub(begun), cold, opened})
	}
}

// round goes over all partitions whose topic does not keep everything (RET-10), and returns how many closed ones it opened.
func (r *reaper) round(cold bool) (opened int) {
	for _, t := range r.engine.allTopics() {
		retention := t.settings.Load().RetentionMs
		if retention <= 0 {
			continue
		}
		cutoff := r.ages.cutoff(retention)
		for _, p := range t.partitions() {
			if r.stopped() {
				return opened
			}
			if p.retain(cutoff, cold) {
				opened++
			}
		}
	}
	return opened
}

// retain removes the records that were committed before the cutoff, as far as whole segments go. It reports whether it
// opened a closed partition for that.
func (p *partition) retain(cutoff int64, cold bool) (opened bool) {
	log, _, err := p.opened()
	switch {
	case err != nil:
	case log != nil:
		p.retainLog(log, cutoff)
	case cold && cutoff > p.expiry.Load():
		return p.retainClosed(cutoff)
	}
	return false
}

func (p *partition) retainLog(log *segment.Log, cutoff int64) (segment.Retained, error) {
	e := p.topic.engine
	r, err := log.Retain(cutoff)
	if r.Segments > 0 {
		e.emit(RetentionRemoved{
			Key: p.key, Incarnation: p.topic.info.ID, Segments: r.Segments, Records: r.Records, Bytes: r.Bytes, Oldest: r.Oldest,
		})
	}
	if err != nil && !errors.Is(err, segment.ErrClosed) {
		e.emit(RetentionFailed{p.key, err})
		if log.Err() != nil {
			p.dropLog(log)
		}
	}
	return r, err
}

// retainClosed looks at a closed partition, and opens it only when something in it has expired. Who is at the partition
// already is not waited for: it is looked at again.
func (p *partition) retainClosed(cutoff int64) (opened bool) {
	if !p.fence.TryLock() {
		return false
	}
	defer p.fence.Unlock()
	e := p.topic.engine
	if log, _, err := p.opened(); log != nil || err != nil || !p.topic.placed.Load() {
		return false
	}
	next, known, err := p.peek()
	if err != nil {
		e.emit(RetentionFailed{p.key, err})
		return false
	}
	if known && cutoff <= next {
		p.expiry.Store(next)
		return false
	}
	since := e.env.Now()
	log, err := p.openLogLocked()
	if err != nil {
		e.emit(RetentionFailed{p.key, err})
		return false
	}
	r, err := p.retainLog(log, cutoff)
	if p.closeUnused(log, since) && err == nil {
		p.expiry.Store(r.Next)
	}
	return true
}

// peek needs p.fence.
func (p *partition) peek() (next int64, known bool, err error) {
	dir, err := p.topic.engine.root.OpenDir(partitionPath(p.key.Topic, p.index))
	if err != nil {
		return 0, false, err
	}
	defer dir.Close()
	return segment.Peek(dir)
}

// closeUnused closes a log that was opened without being used, unless somebody has used the partition since. It needs p.fence.
func (p *partition) closeUnused(log *segment.Log, since env.Instant) bool {
	p.mu.Lock()
	if p.log != log || p.shard != nil || env.Instant(p.used.Load()) >= since {
		p.mu.Unlock()
		return false
	}
	_, dir := p.detach()
	p.mu.Unlock()
	log.Close()
	dir.Close()
	return true
}

// ageClock says which commit times are older than a retention. Records are stamped by the wall clock, which may jump;
// the monotonic clock of the process does not.
//
// A jump forward would make everything that was stamped before it look older than it is, and be removed early (RET-03). So
// jumps of more than a second between two rounds are noted, and what was stamped before one counts as younger by it. A jump
// back needs no care: records then look younger, and stamps never decrease; they live longer by as much as the clock went
// back, and a jump back that follows one forward takes that away again. Only a clock that is set while the process is down
// is believed.
type ageClock struct {
	seen   bool
	now    env.Instant
	wallMs int64
	jumps  []wallJump // forward, oldest first
}

// wallJump says that stamps below atMs were made when the clock showed byMs less.
type wallJump struct{ atMs, byMs int64 }

const (
	jumpToleranceMs = 1000
	jumpsMax        = 16
)

// observe reads both clocks, at the same instant.
func (c *ageClock) observe(now env.Instant, wallMs int64) {
	jumped := wallMs - c.wallMs - now.Sub(c.now).Milliseconds()
	seen := c.seen
	c.seen, c.now, c.wallMs = true, now, wallMs
	switch {
	case !seen:
	case jumped > jumpToleranceMs:
		// Where in between the jump was is not known. From wallMs on a stamp is certainly one of the clock after it.
		c.jumps = append(c.jumps, wallJump{wallMs, jumped})
		if len(c.jumps) > jumpsMax { // two as one: younger rather than older
			c.jumps[1].byMs += c.jumps[0].byMs
			c.jumps = c.jumps[1:]
		}
	case jumped < -jumpToleranceMs:
		c.takeBack(-jumped)
	}
}

// takeBack cancels jumps forward, the newest first, by a jump back.
func (c *ageClock) takeBack(ms int64) {
	for n := len(c.jumps); n > 0 && ms > 0; n-- {
		j := &c.jumps[n-1]
		d := min(ms, j.byMs)
		j.byMs -= d
		ms -= d
		if j.byMs > 0 {
			return
		}
		c.jumps = c.jumps[:n-1]
	}
}

// cutoff returns the commit time such that everything stamped before it is older than the retention.
func (c *ageClock) cutoff(retentionMs int64) int64 {
	if retentionMs >= c.wallMs {
		return math.MinInt64
	}
	cutoff := c.wallMs - retentionMs
	for i := len(c.jumps) - 1; i >= 0 && cutoff < c.jumps[i].atMs; i-- {
		cutoff -= c.jumps[i].byMs
	}
	return cutoff
}
