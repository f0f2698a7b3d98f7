package engine

import (
	"hash/fnv"
	"sync/atomic"

	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/vfs"
)

// partition is one partition of one incarnation of a topic: its log and, in its seat, its lease table. Both are opened at
// first use, the log by the first commit or consume, the lease table (the shard) by the first consume (REC-01), and closed
// again when nobody has used them for a while (see janitor).
type partition struct {
	topic *topic
	index int32
	key   Key
	*seat // shared with the partition's predecessor and successor of the same name

	log  *segment.Log // guarded by seat.mu, like the fields below
	dir  vfs.Dir
	end  int64 // how far the log went when it was last closed, or is known to have gone
	gone error // why nothing is opened any more: ErrClosed, or errRetired
	seen seen  // what closed parts said last

	reseed bool // a clamp of the consumer state failed, and what the files show may not be durable; guarded by fence

	retired atomic.Bool  // gone is errRetired
	used    atomic.Int64 // env.Instant of the last use (LOG-22)
	// expiry is, while the log is closed, a commit time that a cutoff must pass before retention has something to do;
	// unknownExpiry: not known.
	expiry atomic.Int64
}

func newPartition(t *topic, index int32) *partition {
	p := &partition{topic: t, index: index, key: Key{t.info.Name, index}}
	p.seat = t.engine.seats.take(p)
	p.stamp(t.engine.env.Now())
	p.expiry.Store(unknownExpiry)
	return p
}

// stamp notes a use.
func (p *partition) stamp(now env.Instant) { p.used.Store(int64(now)) }

func (p *partition) committerKey() committer.Key {
	return committer.Key{Topic: p.key.Topic, Partition: p.index}
}

// identity ties consumer state to this partition of this incarnation, so that a file that strayed here from
// elsewhere never counts.
func (p *partition) identity() uint64 {
	h := fnv.New64a()
	h.Write([]byte(p.topic.info.ID))
	h.Write([]byte{byte(p.index), byte(p.index >> 8), byte(p.index >> 16), byte(p.index >> 24)})
	return h.Sum64()
}

// wake tells those who wait that records may have become available. A retired partition can have freed something that its
// successor's consumers wait for (LOG-19).
func (p *partition) wake() {
	p.topic.notify()
	if !p.retired.Load() {
		return
	}
	if t, err := p.topic.engine.topic(p.key.Topic); err == nil {
		t.notify()
	}
}

// openLog returns the partition's log, opening it when needed.
func (p *partition) openLog() (*segment.Log, error) {
	p.stamp(p.topic.engine.env.Now())
	if log, _, err := p.opened(); log != nil || err != nil {
		return log, err
	}
	p.fence.Lock()
	defer p.fence.Unlock()
	return p.openFenced()
}

// openFenced is openLogLocked for somebody who waited for the fence.
func (p *partition) openFenced() (*segment.Log, error) {
	log, err := p.openLogLocked()
	if err == errRetired {
		p.topic.engine.emit(OpenRefused{p.key, p.topic.info.ID})
	}
	return log, err
}

// openLogLocked needs p.fence.
func (p *partition) openLogLocked() (*segment.Log, error) {
	if log, _, err := p.opened(); log != nil || err != nil {
		return log, err
	}
	if !p.topic.placed.Load() {
		return nil, ErrNotPlaced // the path may lead to another incarnation's directory
	}
	e := p.topic.engine
	dir, err := e.root.OpenDir(partitionPath(p.key.Topic, p.index))
	if err != nil {
		return nil, err
	}
	p.expiry.Store(unknownExpiry)
	o := segment.Options{Identity: p.identity(), Naming: p.naming, Files: e.bounds, SegmentBytes: e.opts.SegmentBytes, Codec: e.opts.Codec, Level: e.opts.CompressionLevel, OnAdvance: p.topic.notify}
	if e.listening() {
		o.Event = func(v segment.Event) { e.emit(Log{p.key, p.topic.info.ID, v}) }
	}
	log, err := segment.Open(e.env, dir, o)
	if err != nil {
		dir.Close()
		return nil, err
	}
	err = p.reaches(dir, log.HighWatermark())
	if err == nil {
		err = p.clampConsumerState(dir, log.HighWatermark())
	}
	if err != nil {
		log.Close()
		dir.Close()
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.dir = log, dir
	p.topic.logs.set(p.index, log)
	return log, nil
}

// clampConsumerState makes sure, before the log takes a commit, that no offset which it has still to give out
// counts as settled already: a volume that was restored from snapshots of different age can hold consumer state
// from beyond the end of its log. Records under it would be born settled and never be delivered.
func (p *partition) clampConsumerState(dir vfs.Dir, hw int64) error {
	if _, shard, _ := p.opened(); shard != nil {
		return nil // seeded from this log before, which never shrinks
	}
	state, report, err := committer.Recover(dir, p.identity(), hw)
	if err != nil || !report.Clamped && !p.reseed {
		return err
	}
	p.reseed = true
	p.naming.Lock()
	err = committer.Reseed(dir, p.identity(), state)
	p.naming.Unlock()
	if err != nil {
		return err
	}
	p.reseed = false
	p.topic.engine.emit(FrontierClamped{p.key, report.Frontier, hw})
	return nil
}

// opened returns the log and the shard as far as they are open.
func (p *partition) opened() (*segment.Log, *inflight.Shard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone != nil {
		return nil, nil, p.gone
	}
	return p.log, p.shard, nil
}

// open returns the log after making sure that the shard is there too.
func (p *partition) open() (*segment.Log, error) {
	if log, shard, err := p.opened(); log != nil && shard != nil || err != nil {
		return log, err
	}
	p.fence.Lock()
	defer p.fence.Unlock()
	p.topic.opens.Add(1)
	log, err := p.openFenced()
	if err != nil {
		return nil, err
	}
	if _, shard, err := p.opened(); shard != nil || err != nil {
		return log, err
	}
	return log, p.seedShard(log)
}

// seedShard creates the shard from what the disk holds: the larger frontier of the two files, clamped to
// the log, the acked-ahead set, and no leases (REC-03). It needs p.fence from here until the shard is stored (REC-12).
func (p *partition) seedShard(log *segment.Log) error {
	e := p.topic.engine
	dir, err := e.root.OpenDir(partitionPath(p.key.Topic, p.index)) // a handle of its own: a commit that fails closes the log's
	if err != nil {
		return err
	}
	defer dir.Close()
	hw := log.HighWatermark()
	state, report, err := committer.Recover(dir, p.identity(), hw)
	if err != nil {
		return err
	}
	e.env.Point("engine: consumer state read, shard not stored")
	options := p.topic.leases()
	options.Seed = e.env.Seed("nonces") // fresh at each start (INF-24)
	shard := inflight.New(options, inflight.State{Committed: state.Committed, Ahead: state.Ahead})
	p.mu.Lock()
	defer p.mu.Unlock()
	limits := p.topic.leases() // again: an alteration that came meanwhile found no shard to tell
	shard.SetLimits(limits)
	p.shard, p.holder, p.dirID = shard, p, dir.ID()
	p.taken = shard.Version()
	p.stored = p.taken
	if e.listening() {
		e.emit(ShardOpened{Key: p.key, Incarnation: p.topic.info.ID, State: shard.Snapshot(nil), Report: report, HW: hw})
		e.emit(LimitsSet{p.key, limits.MaxInFlight, limits.MaxAckedAhead})
	}
	return nil
}

// dropLog closes a log that failed, so that the next use opens it anew and recovers it from disk (LOG-25).
// The shard stays: it belongs to the partition, not to the open file.
func (p *partition) dropLog(failed *segment.Log) {
	p.mu.Lock()
	if p.log != failed {
		p.mu.Unlock()
		return
	}
	log, dir := p.detach()
	p.mu.Unlock()
	log.Close() // its error is the failure that brought us here
	dir.Close()
}

// detach takes the open log out. It needs p.mu.
func (p *partition) detach() (*segment.Log, vfs.Dir) {
	log, dir := p.log, p.dir
	if log != nil {
		p.end = log.HighWatermark()
		p.seen.closing(log)
	}
	p.log, p.dir = nil, nil
	p.topic.logs.set(p.index, nil)
	return log, dir
}

// shut refuses every further opening with the given error and closes the log: what waits for a read of it gets
// segment.ErrClosed. It needs p.fence. The shard stays.
func (p *partition) shut(why error) error {
	p.mu.Lock()
	log, dir := p.detach()
	p.gone = why
	p.retired.Store(why == errRetired)
	p.mu.Unlock()
	if log == nil {
		return nil
	}
	err := log.Close()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	return err
}

// close ends the partition with the engine.
func (p *partition) close() error {
	p.fence.Lock()
	defer p.fence.Unlock()
	err := p.shut(ErrClosed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shard, p.holder = nil, nil
	return err
}

func (p *partition) stats() (PartitionStats, error) {
	for {
		log, err := p.open()
		if err != nil {
			return PartitionStats{}, err
		}
		p.mu.Lock()
		shard := p.shard
		var s PartitionStats
		if shard != nil {
			s = PartitionStats{
				Partition: p.index, Oldest: log.Oldest(), HighWatermark: log.HighWatermark(),
				Committed: shard.Committed(), Leases: shard.Leases(), AckedAhead: shard.AckedAhead(),
			}
		}
		p.mu.Unlock()
		if shard != nil {
			return s, nil
		}
	}
}
