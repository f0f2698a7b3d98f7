package committer

import (
	"narad/env"
	"narad/vfs"
)

// part is what the committer holds for a partition from its prime to its forget. It belongs to whoever has
// the partition in hand; Committer.mu guards each change of what others read: roles, handle, gone.
type part struct {
	key      Key
	path     string
	turn     int
	identity uint64
	dir      vfs.ID // of the directory that the prime pinned
	file     vfs.ID // of consumer.ahead in it
	roles
	handle   vfs.File // nil: not held
	stranded bool     // nothing is written until the next forget
	// unflushed: the prime handed the file to its device, whose cache holds it; no window may be written yet.
	unflushed bool
	// unnamed: a consumer.offset was put in place and the sync of its name failed, so it must be replaced once more.
	unnamed bool
	// confirmed: the descriptor was opened, and its identity checked, after the last writeout; the next one need not check again.
	confirmed bool
	missed    bool // acks were skipped while stranded
	gone      bool // forgotten: no longer in roster.parts

	dirty     bool   // in roster.dirty
	pending   bool   // in roster.pending
	behind    bool   // in roster.behind
	lastWrite uint64 // order of writes, for eviction
	offered   uint64 // the lastWrite under which it is in roster.victims, 0: it is not
	ticked    uint64 // number of the last tick that counted it
}

// touch is a partition that is to be primed although nobody acked: not before its turn.
type touch struct {
	key   Key
	turn  int
	since env.Instant
}

// dirtied is a partition whose settled state changed.
type dirtied struct {
	key Key
	p   *part // that it had then, nil: none
}

// roster knows all partitions and says which are due. It does no I/O. Committer.mu guards it.
type roster struct {
	cadence
	maxOpen int
	turn    int // of the tick that runs or comes next

	parts    map[Key]*part
	dirty    []dirtied        // in the order of the marks
	dirtySet map[Key]struct{} // those of them that had no part when they were marked, or lost it since
	touched  []touch
	suspect  map[Key]struct{} // the sync of the last prime failed

	pending []*part   // written, not written out, in the order of their first write
	behind  [][]*part // by turn: consumer.offset is not level
	victims victims   // held descriptors that may be closed
	held    int
	writes  uint64
}

func newRoster(o Options) roster {
	c := newCadence(o.Interval, o.Tick)
	return roster{
		cadence: c, maxOpen: o.MaxOpen,
		parts: map[Key]*part{}, dirtySet: map[Key]struct{}{}, suspect: map[Key]struct{}{},
		behind: make([][]*part, c.turns),
	}
}

// isDirty reports whether a mark of k, whose part is p, waits for a tick.
func (r *roster) isDirty(k Key, p *part) bool {
	if p != nil && p.dirty {
		return true
	}
	_, yes := r.dirtySet[k]
	return yes
}

// mark makes k dirty.
func (r *roster) mark(k Key) {
	p := r.parts[k]
	if r.isDirty(k, p) {
		return
	}
	if p != nil {
		p.dirty = true
	} else {
		r.dirtySet[k] = struct{}{}
	}
	r.dirty = append(r.dirty, dirtied{k, p})
}

// touch notes that k is to be primed at its turn, within an interval of now.
func (r *roster) touch(k Key, now env.Instant) {
	r.touched = append(r.touched, touch{key: k, turn: r.turnOf(k), since: now})
}

// takeTouched moves the touched partitions to prime at a tick into dst: those of its turn, and those that
// cannot wait for another one. With all it takes every one.
func (r *roster) takeTouched(dst []Key, now env.Instant, all bool) []Key {
	kept := r.touched[:0]
	for _, t := range r.touched {
		switch {
		case r.parts[t.key] != nil: // an ack was faster
		case all || t.turn == r.turn || now.Sub(t.since)+r.tick >= r.interval:
			dst = append(dst, t.key)
		default:
			kept = append(kept, t)
		}
	}
	r.touched = kept
	return dst
}

// takeDirty moves the dirty partitions into dst, in the order of the marks.
func (r *roster) takeDirty(dst []dirtied) []dirtied {
	dst = append(dst, r.dirty...)
	for _, d := range r.dirty {
		if d.p != nil {
			d.p.dirty = false
		}
	}
	clear(r.dirty)
	r.dirty = r.dirty[:0]
	clear(r.dirtySet)
	return dst
}

// current returns the part of d's key now.
func (r *roster) current(d dirtied) *part {
	if d.p != nil && !d.p.gone {
		return d.p
	}
	return r.parts[d.key]
}

// dueWriteouts appends to dst the partitions to write out at a tick. With all it takes every pending one.
func (r *roster) dueWriteouts(dst []*part, now env.Instant, all bool) []*part {
	kept := r.pending[:0]
	for _, p := range r.pending {
		if p.gone || p.stranded || !p.unsynced {
			p.pending = false
			continue
		}
		kept = append(kept, p)
		if p.due(now, r.interval, all || p.turn == r.turn) {
			dst = append(dst, p)
		}
	}
	clear(r.pending[len(kept):])
	r.pending = kept
	return dst
}

// dueLevels appends to dst the quiet partitions to level at a tick, those of its turn. With all it takes every
// partition that is not level, whenever it was levelled last.
func (r *roster) dueLevels(dst []*part, now env.Instant, all bool) []*part {
	for turn := range r.behind {
		if !all && turn != r.turn {
			continue
		}
		kept := r.behind[turn][:0]
		for _, p := range r.behind[turn] {
			if p.gone || p.stranded || !p.levelable() {
				p.behind = false
				continue
			}
			kept = append(kept, p)
			if all || !p.unsynced && p.levelDue(now) {
				dst = append(dst, p)
			}
		}
		clear(r.behind[turn][len(kept):])
		r.behind[turn] = kept
	}
	return dst
}

// late returns how many partitions have waited longer than twice the interval, and the longest wait.
func (r *roster) late(now env.Instant) (l WriteoutLate) {
	l.Interval = r.interval
	for _, p := range r.pending {
		if p.gone || p.stranded || !p.unsynced {
			continue
		}
		if wait := now.Sub(p.oldest); wait > 2*r.interval {
			l.Partitions++
			l.Oldest = max(l.Oldest, wait)
		}
	}
	return l
}

// settle puts p where its roles say it belongs. It follows every change of them.
func (r *roster) settle(p *part) {
	if p.unsynced && !p.pending && !p.gone {
		p.pending = true
		r.pending = append(r.pending, p)
	}
	if p.levelable() && !p.behind && !p.gone {
		p.behind = true
		r.behind[p.turn] = append(r.behind[p.turn], p)
	}
	if p.evictable() {
		r.victims.offer(p, r.held)
	}
}

// evictable reports whether the descriptor of p may be closed for another one.
func (p *part) evictable() bool { return p.handle != nil && p.idle() && !p.gone }

// stamp makes p the partition written last.
func (r *roster) stamp(p *part) {
	r.writes++
	p.lastWrite = r.writes
}

// hold keeps f as the descriptor of p if there is room or can be made. It reports whether it did, and the
// partition that lost its descriptor for it with the descriptor to close. It is for something to be done with p, which settle follows.
func (r *roster) hold(p *part, f vfs.File) (held bool, victim *part, closing vfs.File) {
	if r.held >= r.maxOpen {
		if victim = r.victims.take(); victim == nil {
			return false, nil, nil
		}
		closing = r.release(victim)
	}
	p.handle = f
	r.held++
	return true, victim, closing
}

// release takes the descriptor of p away and returns it, nil when it had none.
func (r *roster) release(p *part) vfs.File {
	f := p.handle
	if f != nil {
		p.handle = nil
		r.held--
	}
	r.settle(p)
	return f
}

// forget removes the state of k and returns it with the descriptor to close.
func (r *roster) forget(k Key) (*part, vfs.File) {
	delete(r.suspect, k)
	p := r.parts[k]
	if p == nil {
		return nil, nil
	}
	delete(r.parts, k)
	p.gone = true
	if p.dirty {
		r.dirtySet[k] = struct{}{}
	}
	return p, r.release(p)
}

// strand stops all writes for p. It reports false when they were stopped already.
func (r *roster) strand(p *part) (first bool, closing vfs.File) {
	first, p.stranded = !p.stranded, true
	return first, r.release(p)
}
