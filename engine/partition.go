package engine

import (
	"hash/fnv"
	"sync"

	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/segment"
	"narad/vfs"
)

// partition is one partition of this node: its log and its lease table. Both are opened at first use: the
// log by the first commit or consume, the lease table (the shard) by the first consume (REC-01).
type partition struct {
	topic *topic
	index int32
	key   Key

	opening *env.Mutex // one opening of log or shard at a time; spans I/O
	mu      sync.Mutex // guards the fields below and everything inside shard
	log     *segment.Log
	dir     vfs.Dir
	shard   *inflight.Shard
	dirID   vfs.ID // the directory that the shard was seeded from
	closed  bool
}

func newPartition(t *topic, index int32) *partition {
	return &partition{
		topic: t, index: index, key: Key{t.info.Name, index}, opening: t.engine.env.NewMutex(),
	}
}

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

// openLog returns the partition's log, opening it when needed.
func (p *partition) openLog() (*segment.Log, error) {
	if log, _, err := p.opened(); log != nil || err != nil {
		return log, err
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	return p.openLogLocked()
}

// openLogLocked needs p.opening.
func (p *partition) openLogLocked() (*segment.Log, error) {
	if log, _, err := p.opened(); log != nil || err != nil {
		return log, err
	}
	e := p.topic.engine
	dir, err := e.root.OpenDir(partitionPath(p.key.Topic, p.index))
	if err != nil {
		return nil, err
	}
	o := segment.Options{SegmentBytes: e.opts.SegmentBytes, OnAdvance: p.topic.notify}
	if e.listening() {
		o.Event = func(v segment.Event) { e.emit(Log{p.key, v}) }
	}
	log, err := segment.Open(e.env, dir, o)
	if err != nil {
		dir.Close()
		return nil, err
	}
	if err := p.clampConsumerState(dir, log.HighWatermark()); err != nil {
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
	if err != nil || !report.Clamped {
		return err
	}
	if err := committer.Reseed(dir, p.identity(), state); err != nil {
		return err
	}
	p.topic.engine.emit(FrontierClamped{p.key, report.Frontier, hw})
	return nil
}

// opened returns the log and the shard as far as they are open.
func (p *partition) opened() (*segment.Log, *inflight.Shard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrClosed
	}
	return p.log, p.shard, nil
}

// open returns the log after making sure that the shard is there too.
func (p *partition) open() (*segment.Log, error) {
	if log, shard, err := p.opened(); log != nil && shard != nil || err != nil {
		return log, err
	}
	p.opening.Lock()
	defer p.opening.Unlock()
	log, err := p.openLogLocked()
	if err != nil {
		return nil, err
	}
	if _, shard, err := p.opened(); shard != nil || err != nil {
		return log, err
	}
	return log, p.seedShard(log)
}

// seedShard creates the shard from what the disk holds: the larger frontier of the two files, clamped to
// the log, the acked-ahead set, and no leases (REC-03). It needs p.opening.
func (p *partition) seedShard(log *segment.Log) error {
	e := p.topic.engine
	p.mu.Lock()
	dir := p.dir
	p.mu.Unlock()
	hw := log.HighWatermark()
	state, report, err := committer.Recover(dir, p.identity(), hw)
	if err != nil {
		return err
	}
	seeded := inflight.State{Committed: state.Committed, Ahead: state.Ahead}
	shard := inflight.New(inflight.Options{
		Visibility:    p.topic.visibility(),
		MaxInFlight:   int(p.topic.info.MaxInFlight),
		MaxAckedAhead: int(p.topic.info.MaxAckedAhead),
		Seed:          e.env.Seed("nonces"), // fresh at each start (INF-24)
	}, seeded)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shard, p.dirID = shard, dir.ID()
	if e.listening() {
		e.emit(ShardOpened{Key: p.key, State: shard.Snapshot(nil), Report: report, HW: hw})
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
	log, dir := p.log, p.dir
	p.log, p.dir = nil, nil
	p.topic.logs.set(p.index, nil)
	p.mu.Unlock()
	log.Close() // its error is the failure that brought us here
	dir.Close()
}

func (p *partition) close() error {
	p.opening.Lock()
	defer p.opening.Unlock()
	p.mu.Lock()
	log, dir := p.log, p.dir
	p.log, p.dir, p.shard, p.closed = nil, nil, nil, true
	p.topic.logs.set(p.index, nil)
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

func (p *partition) stats() (PartitionStats, error) {
	log, err := p.open()
	if err != nil {
		return PartitionStats{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shard == nil {
		return PartitionStats{}, ErrClosed
	}
	return PartitionStats{
		Partition: p.index, Oldest: log.Oldest(), HighWatermark: log.HighWatermark(),
		Committed: p.shard.Committed(), Leases: p.shard.Leases(), AckedAhead: p.shard.AckedAhead(),
	}, nil
}

// consumerState answers the committer: the state of the live shard as it is now (COM-37).
func (e *Engine) consumerState(k committer.Key, dst []int64) (committer.State, uint64, bool) {
	t, err := e.topic(k.Topic)
	if err != nil || int(k.Partition) >= len(t.partitions) {
		return committer.State{}, 0, false
	}
	p := t.partitions[k.Partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shard == nil {
		return committer.State{}, p.identity(), false
	}
	s := p.shard.Snapshot(dst)
	if e.listening() {
		e.emit(ConsumerSnapshot{p.key, s})
	}
	return committer.State{Committed: s.Committed, Ahead: s.Ahead, Dir: p.dirID}, p.identity(), true
}
