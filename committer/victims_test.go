package committer

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/vfs"
)

// nothing is an open file that nobody calls.
type nothing struct{ vfs.File }

// COM-34: whatever happens to partitions in between, the victim is the one written longest ago of those whose descriptor may be closed, there is one
// exactly when there is any such, and what is kept of all others is bounded.
func TestVictims(t *testing.T) {
	took, swept := 0, false
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRoster(Options{Interval: 1e9, Tick: 1e8, MaxOpen: 1 << 20})
		parts := make([]*part, 1+rng.IntN(60))
		for i := range parts {
			parts[i] = &part{key: part0(i)}
			r.parts[part0(i)] = parts[i]
		}
		often := 1 + rng.IntN(300) // a victim is needed each so many steps
		for range 5000 {
			p, before := parts[rng.IntN(len(parts))], len(r.victims)
			switch what := rng.IntN(10); {
			case what == 0 && rng.IntN(20) == 0: // forgotten, and a successor
				r.forget(p.key)
				fresh := &part{key: p.key}
				parts[p.key.Partition], r.parts[p.key] = fresh, fresh
			case what == 0:
				r.release(p)
			case what == 1 && rng.IntN(often) == 0:
				victim := r.victims.take()
				require.Same(t, longestAgo(parts), victim)
				if victim != nil {
					took++
					r.release(victim)
				}
			case what == 2 && rng.IntN(often) == 0: // taken for one that may be closed, and kept after all
				victim := r.victims.take()
				require.Same(t, longestAgo(parts), victim)
				if victim != nil {
					r.settle(victim)
				}
			case what < 5:
				if p.handle == nil {
					r.hold(p, nothing{})
				}
				r.settle(p)
			case what < 8:
				r.stamp(p)
				p.unsynced = p.handle != nil
				r.settle(p)
			default:
				p.unsynced = false
				r.settle(p)
				swept = swept || len(r.victims) < before
			}
			require.LessOrEqual(t, len(r.victims), 2*len(parts)+minVictims+1)
		}
	}
	require.Greater(t, took, 100)
	require.True(t, swept)
}

// longestAgo is the victim by looking at all.
func longestAgo(parts []*part) (victim *part) {
	for _, p := range parts {
		if p.evictable() && p.lastWrite > 0 && (victim == nil || p.lastWrite < victim.lastWrite) {
			victim = p
		}
	}
	return victim
}

// COM-39, COM-45: nothing is done with a partition that is being forgotten, was forgotten or is stranded.
func TestWithPart(t *testing.T) {
	r := newRig(t, 1, nil)
	k := part0(0)
	r.ack(k, 0)
	r.tick()
	p := r.c.roster.parts[k]
	done := func() (yes bool) {
		r.c.withPart(p, func(*part) {
			yes = true
			require.True(t, r.c.hand.on && r.c.hand.writing && r.c.hand.key == k, "a forget waits")
		})
		require.False(t, r.c.hand.on)
		return yes
	}
	require.True(t, done())
	r.c.forgetting[k]++
	require.False(t, done())
	delete(r.c.forgetting, k)
	p.stranded = true
	require.False(t, done())
	p.stranded = false
	require.True(t, done())
	r.c.Forget(k)
	require.False(t, done())
}

// COM-34: the descriptor of a partition that was primed, and of which no window was written since its shard went, makes room for others.
func TestPrimedOnlyMakesRoom(t *testing.T) {
	r := newRig(t, 2, func(o *Options) { o.MaxOpen = 1 })
	r.ack(part0(0), 0)
	r.c.beginTick()
	for _, d := range r.c.roster.takeDirty(nil) {
		r.c.primeStep(d)
	}
	require.Equal(t, 1, r.c.roster.held)
	r.ack(part0(1), 0)
	r.tick()
	require.Equal(t, []Evicted{{Key: part0(0)}}, all[Evicted](r))
}
