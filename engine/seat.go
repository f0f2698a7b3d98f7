package engine

import (
	"sync"

	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/vfs"
)

// seat is where the lease table (the shard) of a partition lives. Seats are keyed by topic name and partition, as the
// directories and the committer's state are, and not by incarnation (LOG-19): a consume that holds the closed log of an
// incarnation that is gone can meet the shard of its successor here. It can do nothing to it but take a reservation and give it
// back: its log answers every read with ErrClosed, and what a read decided before that is not applied by a retired partition.
type seat struct {
	// fence is the create fence (COM-50, COM-51, REC-12). Who creates a shard holds it from reading the state files until the
	// shard is stored, who drops one from before the directory is set aside until the committer has forgotten it. It spans I/O,
	// and is per partition, so that a slow disk under one stops nobody else. It also makes openings of a log one
	// at a time.
	fence *env.Mutex
	// naming is the turn of the partition's directory, in which the log and the committer make names: taken for a change of names
	// together with the sync behind it (segment.Options.Naming). Only file calls are waited for under it.
	naming *env.Mutex

	mu     sync.Mutex // guards the fields below, everything in shard, and the open logs of the partitions in this seat
	shard  *inflight.Shard
	holder *partition // that the shard was made for
	dirID  vfs.ID     // the directory that the shard was seeded from
	taken  uint64     // version of the shard that the committer took last
	stored uint64     // version of the shard that the files hold, as far as is known

	owner *partition // of the incarnation that the name has now; nil: none. Guarded by seats.mu
}

// seats is the table of a node.
type seats struct {
	mu     sync.Mutex // guards the fields below
	byKey  map[Key]*seat
	vacant []Key // left by their owner; swept later, so that a successor may find the seat still there
}

// take gives the seat of p's key to p.
func (s *seats) take(p *partition) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.byKey[p.key]
	if at == nil {
		at = &seat{fence: p.topic.engine.env.NewMutex(), naming: p.topic.engine.env.NewMutex()}
		s.byKey[p.key] = at
	}
	at.owner = p
	return at
}

// leave gives the seat of p up, unless a successor has taken it.
func (s *seats) leave(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.seat.owner == p {
		p.seat.owner = nil
		s.vacant = append(s.vacant, p.key)
	}
}

// sweep removes the seats that are still vacant, so that deleted topics leave nothing behind (PUMP-13, INV-32). Who still holds
// on to one finds no shard in it, for ever.
func (s *seats) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.vacant {
		if at := s.byKey[key]; at != nil && at.owner == nil {
			delete(s.byKey, key)
		}
	}
	s.vacant = nil
}

// at returns the seat of a key, nil when there is none.
func (s *seats) at(key Key) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

// drop removes the shard of a retired partition and makes the committer forget it: when drop returns, no state of it is
// written any more (COM-38, COM-39). It needs the fence, and runs after the directory was set aside and before another one
// of that name exists.
func (p *partition) drop() {
	e := p.topic.engine
	p.mu.Lock()
	had := p.shard != nil
	p.shard, p.holder = nil, nil
	if had && e.listening() {
		e.emit(ShardDropped{p.key, p.topic.info.ID, DropRetired})
	}
	p.mu.Unlock()
	e.committer.Forget(p.committerKey()) // not under p.mu: it waits for the committer, which takes that
}

// consumerState answers the committer: the state of the live shard as it is now (COM-37). A shard that belongs to an
// incarnation which its name has lost already is none.
func (e *Engine) consumerState(k committer.Key, dst []int64) (committer.State, uint64, bool) {
	t, err := e.topic(k.Topic)
	if err != nil {
		return committer.State{}, 0, false
	}
	parts := t.partitions()
	if int(k.Partition) >= len(parts) {
		return committer.State{}, 0, false
	}
	p := parts[k.Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shard == nil || p.holder != p {
		return committer.State{}, p.identity(), false
	}
	s := p.shard.Snapshot(dst)
	p.taken = p.shard.Version()
	if e.detailed() {
		e.emit(ConsumerSnapshot{p.key, s})
	}
	return committer.State{Committed: s.Committed, Ahead: s.Ahead, Dir: p.dirID}, p.identity(), true
}

// naming answers the committer: the turn of a partition's directory.
func (e *Engine) naming(k committer.Key) *env.Mutex {
	if at := e.seats.at(Key{k.Topic, k.Partition}); at != nil {
		return at.naming
	}
	return e.env.NewMutex() // the partition is gone, and nobody else has its directory
}

// windowWritten notes how much of a shard's state its files hold.
func (e *Engine) windowWritten(v committer.WindowWritten) {
	if v.Err != nil || v.Stored != v.Ahead {
		return
	}
	at := e.seats.at(Key{v.Key.Topic, v.Key.Partition})
	if at == nil {
		return
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	at.stored = at.taken
}

// tellLate reports that the shard which changed is not there any more when the committer is told.
func (p *partition) tellLate() {
	e := p.topic.engine
	if !e.listening() || !p.retired.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder != p {
		e.emit(ReportedLate{p.key})
	}
}
