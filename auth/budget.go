package auth

import (
	"sync"
	"time"
)

// What may fail: so many at once, and one more each so often.
const (
	nameBurst = 5
	nameEvery = 12 * time.Second
	nodeBurst = 32
	nodeEvery = time.Second / 4
)

// bucket holds tokens that come back with time.
type bucket struct {
	burst int
	every time.Duration
	// full is when all tokens will be there again. n tokens are missing when it is n × every away, or a part of one less.
	full time.Time
}

// missing returns how many tokens are missing, a part of one as a whole one.
func (b *bucket) missing(now time.Time) int {
	if !b.full.After(now) {
		return 0
	}
	return int((b.full.Sub(now) + b.every - 1) / b.every)
}

func (b *bucket) take(now time.Time) bool {
	if b.missing(now) >= b.burst {
		return false
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(b.every)
	return true
}

func (b *bucket) giveBack() { b.full = b.full.Add(-b.every) }

// budget says who may try to log in.
type budget struct {
	now func() time.Time

	mu    sync.Mutex
	node  bucket
	names map[string]*bucket // of names with recent failures, or with attempts under way
	sweep int                // number of names at which those that are full again are forgotten
}

const sweepMin = 1024

func newBudget(now func() time.Time) *budget {
	return &budget{
		now: now, node: bucket{burst: nodeBurst, every: nodeEvery}, names: map[string]*bucket{}, sweep: sweepMin,
	}
}

// charge is what an attempt took.
type charge struct {
	name  string
	clean bool // the name had no recent failures, and took nothing from the budget of all
}

// take charges an attempt of a name before it is made, or reports that there may be none now.
func (b *budget) take(name string) (charge, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	own := b.names[name]
	if own == nil {
		own = &bucket{burst: nameBurst, every: nameEvery}
	}
	c := charge{name: name, clean: own.missing(now) == 0}
	if own.missing(now) >= nameBurst || !c.clean && !b.node.take(now) {
		return charge{}, false
	}
	own.take(now)
	b.names[name] = own
	b.forget(now)
	return c, true
}

// giveBack is for an attempt that succeeded, or was never made.
func (b *budget) giveBack(c charge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own := b.names[c.name]; own != nil {
		own.giveBack()
		if own.missing(b.now()) == 0 {
			delete(b.names, c.name)
		}
	}
	if !c.clean {
		b.node.giveBack()
	}
}

// forget drops names whose failures are long ago, each time that their number has doubled.
func (b *budget) forget(now time.Time) {
	if len(b.names) < b.sweep {
		return
	}
	for name, own := range b.names {
		if own.missing(now) == 0 {
			delete(b.names, name)
		}
	}
	b.sweep = max(sweepMin, 2*len(b.names))
}
