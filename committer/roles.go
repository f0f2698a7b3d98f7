package committer

import (
	"hash/fnv"
	"time"

	"narad/env"
)

// noSlot says that no slot of a partition is an anchor yet.
const noSlot = -1

// roles says which slot of a consumer.ahead is written next and what is known to be durable. It is a pure
// value: it changes by what happened, never by doing it.
type roles struct {
	anchor    int         // slot of the newest record known durable, never written; noSlot: none
	seq       uint64      // highest sequence used or seen
	durable   int64       // frontier of the anchor
	written   int64       // frontier of the newest window written
	unsynced  bool        // the window holds a record that is not known durable
	oldest    env.Instant // snapshot of the oldest record not known durable
	distrust  bool        // the page cache of the window is not to be trusted: rewrite it before a sync counts
	recheck   bool        // check the identities of directory and file before the next write
	retry     bool        // the last writeout failed: the next tick tries again whatever its turn
	flipped   bool        // a window was written out since the prime
	level     int64       // frontier that consumer.offset is known to hold
	leveled   bool        // level is known, and exact
	settled   bool        // level is on the disk too
	leveledAt env.Instant // of the last level, or of the prime
}

// primeRoles returns the roles after a prime at now that read both slots and synced them.
func primeRoles(s Slots, now env.Instant) roles {
	r := roles{anchor: noSlot, durable: -1, leveledAt: now}
	if s.Newest != noSlot {
		newest := s.Slot[s.Newest]
		r.anchor, r.seq, r.durable = s.Newest, newest.Sequence, newest.State.Committed
	}
	r.written = r.durable
	return r
}

// window returns the slot that ticks write.
func (r *roles) window() int {
	if r.anchor == noSlot {
		return 0
	}
	return 1 - r.anchor
}

// wrote records that the window holds a record with sequence seq of a snapshot taken at snapshot.
func (r *roles) wrote(seq uint64, committed int64, snapshot env.Instant) {
	r.seq, r.written = seq, committed
	if !r.unsynced {
		r.unsynced, r.oldest = true, snapshot
	}
	r.distrust = false
}

// tore records that a write of the window failed: it may hold parts of two records.
func (r *roles) tore(seq uint64, snapshot env.Instant) {
	r.seq = seq
	if !r.unsynced {
		r.unsynced, r.oldest = true, snapshot
	}
	r.distrust = true
}

// writtenOut records that a sync which began after the last write succeeded: the roles flip.
func (r *roles) writtenOut() {
	r.anchor = r.window()
	r.durable = r.written
	r.unsynced, r.retry, r.flipped = false, false, true
	if r.durable != r.level {
		r.leveled = false
	}
}

// failed records that a writeout failed. With synced, a sync ran, so the page cache is not to be trusted.
func (r *roles) failed(synced bool) {
	r.retry = true
	if synced {
		r.distrust = true
	}
}

// due reports whether the window is to be written out at a tick: on its turn, when it waited a whole
// interval, or again after a failure.
func (r *roles) due(now env.Instant, interval time.Duration, turn bool) bool {
	return r.unsynced && !r.distrust && (turn || r.retry || now.Sub(r.oldest) >= interval)
}

// levelDue reports whether consumer.offset may be brought level with the durable frontier now.
func (r *roles) levelDue(now env.Instant) bool {
	return r.levelable() && now.Sub(r.leveledAt) >= LevelEvery
}

// levelable reports whether consumer.offset trails, or is not known to hold on the disk, the durable frontier. Before
// the first writeout the slots may trail consumer.offset (an older release wrote it), so it is left alone.
func (r *roles) levelable() bool { return r.flipped && !(r.leveled && r.settled) }

// leveledTo records that consumer.offset holds frontier, and whether durably.
func (r *roles) leveledTo(frontier int64, durably bool, now env.Instant) {
	r.level, r.leveled, r.settled, r.leveledAt = frontier, frontier == r.durable, durably, now
}

// levelFailed records that nobody knows what consumer.offset holds.
func (r *roles) levelFailed(now env.Instant) { r.leveled, r.leveledAt = false, now }

// idle reports whether the descriptor may be closed: everything written is durable.
func (r *roles) idle() bool { return !r.unsynced && !r.distrust }

// cadence is when things happen.
type cadence struct {
	interval time.Duration // D
	tick     time.Duration // T
	turns    int           // ticks of an interval
}

func newCadence(interval, tick time.Duration) cadence {
	t := min(interval, tick)
	return cadence{interval: interval, tick: t, turns: max(1, int(interval/t))}
}

// turnOf returns the tick of the interval at which a partition is written out.
func (c cadence) turnOf(k Key) int {
	h := fnv.New32a()
	h.Write([]byte(k.Topic))
	p := uint32(k.Partition)
	h.Write([]byte{0, byte(p), byte(p >> 8), byte(p >> 16), byte(p >> 24)})
	return int(mix(h.Sum32()) % uint32(c.turns))
}

// mix spreads what FNV leaves in the low bits of keys that differ in one byte.
func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

// next returns when the tick after one that ran from start to end begins: T after its start, or at once.
func (c cadence) next(start, end env.Instant) env.Instant {
	return max(start.Add(c.tick), end)
}

// limiter lets one warning a minute through.
type limiter struct {
	last env.Instant
	used bool
}

const warnEvery = time.Minute

func (l *limiter) allow(now env.Instant) bool {
	if l.used && now.Sub(l.last) < warnEvery {
		return false
	}
	l.last, l.used = now, true
	return true
}
