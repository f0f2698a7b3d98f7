package engine

import (
	"sync"
	"time"

	"narad/env"
	"narad/inflight"
)

// purgeEvery is the cadence of the background purge: a message whose consumer died is available again at
// most this long after its lease ended, without anybody asking (INF-20, INF-21).
const purgeEvery = time.Second

// purger releases expired leases.
type purger struct {
	engine *Engine
	wake   *env.Waiter
	task   *env.Group

	mu       sync.Mutex // guards stopping
	stopping bool
}

func newPurger(e *Engine) *purger {
	return &purger{engine: e, wake: e.env.NewWaiter(), task: e.env.NewGroup()}
}

func (p *purger) start() { p.task.Go("purger", p.run) }

func (p *purger) stop() {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.wake.Unpark()
	p.task.Wait()
}

func (p *purger) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping
}

func (p *purger) run() {
	e := p.engine
	next := e.env.Now()
	idleRound := next
	for !p.stopped() {
		next = next.Add(purgeEvery)
		p.wake.ParkUntil(next)
		for _, t := range e.allTopics() {
			for _, part := range t.partitions() {
				part.purge()
			}
		}
		e.seats.sweep()
		if idleRound < next {
			idleRound = next.Add(e.opts.IdleAfter / 8)
			if idle := e.idlePartitions(next.Add(-e.opts.IdleAfter)); len(idle) > 0 {
				e.janitor.retireIdle(idle)
			}
		}
		if now := e.env.Now(); now > next { // a stalled process does not catch up on missed purges
			next = now
		}
	}
}

func (p *partition) purge() {
	p.mu.Lock()
	if p.shard == nil || p.shard.Leases() == 0 {
		p.mu.Unlock()
		return
	}
	effect := p.purgeLocked(p.topic.engine.env.Now())
	p.mu.Unlock()
	p.act(effect)
}

// purgeLocked releases what has expired; every touch of the partition begins with it (INF-20). It needs p.mu and an
// open shard.
func (p *partition) purgeLocked(now env.Instant) inflight.Effect {
	n, effect := p.shard.Expire(now)
	if n > 0 && p.topic.engine.listening() {
		p.topic.engine.emit(LeasesExpired{p.key, n, now})
	}
	return effect
}
