package engine

import (
	"narad/committer"
	"narad/env"
	"narad/inflight"
	"narad/segment"
)

// TopicView is what can be told of a topic without touching the disk.
type TopicView struct {
	Topic      Topic
	Parked     int  // consume requests that wait
	Placed     bool // its directory is where its name leads; after a purge that lasts until the disk has renamed it
	Partitions []PartitionView
}

// PartitionView is what can be told of a partition without touching the disk.
type PartitionView struct {
	Partition int32
	Open      bool // the log is

	// LogKnown tells that the log is open, was open in this life, or was learned: without it these mean nothing.
	LogKnown      bool
	Oldest        int64 // lowest retained offset
	HighWatermark int64 // the next offset
	Segments      int
	Bytes         int64
	FirstMs       int64 // commit time of the oldest record, in unix milliseconds; 0: not known

	// ConsumerKnown is the same for consumer state.
	ConsumerKnown bool
	Committed     int64 // the frontier, -1 for none
	AckedAhead    int
	Leases        int
	Written       bool // the lease table is open, and its files hold all that it says, as far as is known: maybe not durably
}

// Lag is how many messages lie above the frontier, settled ahead of it or not; 0 when that is not known.
func (v *PartitionView) Lag() int64 {
	if !v.LogKnown || !v.ConsumerKnown {
		return 0
	}
	return max(v.HighWatermark-v.Committed-1, 0)
}

// Missed is how many messages retention has removed before they were consumed and the frontier has not passed yet.
func (v *PartitionView) Missed() int64 {
	if !v.LogKnown || !v.ConsumerKnown {
		return 0
	}
	return max(v.Oldest-v.Committed-1, 0)
}

// seen is what the log and the lease table of a partition said when they were closed, or what their files say. Nothing changes
// either while it is closed. It is guarded by seat.mu.
type seen struct {
	log    bool
	oldest int64
	hw     int64
	extent segment.Extent

	consumer  bool
	committed int64
	ahead     int

	head   int64 // offset of the lowest unsettled record when it was learned
	headMs int64 // its commit time, 0: not known
}

func (s *seen) closing(log *segment.Log) {
	s.log, s.oldest, s.hw, s.extent = true, log.Oldest(), log.HighWatermark(), log.Extent()
}

func (s *seen) dropping(shard *inflight.Shard) {
	s.consumer, s.committed, s.ahead = true, shard.Committed(), shard.AckedAhead()
}

// Describe describes a topic as memory has it: it opens nothing and does no I/O. See Learn for what it does not know.
func (e *Engine) Describe(name string) (TopicView, error) {
	if !e.gate.enter() {
		return TopicView{}, ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(name)
	if err != nil {
		return TopicView{}, err
	}
	parts := t.partitions()
	v := TopicView{Topic: t.view(), Parked: t.waiting.parked(), Placed: t.placed.Load(), Partitions: make([]PartitionView, len(parts))}
	for i, p := range parts {
		v.Partitions[i] = p.view()
	}
	return v, nil
}

func (p *partition) view() PartitionView {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := PartitionView{Partition: p.index, Open: p.log != nil}
	s := p.seen
	if p.log != nil {
		s.closing(p.log)
	}
	if p.shard != nil && p.holder == p {
		s.dropping(p.shard)
		v.Leases, v.Written = p.shard.Leases(), p.shard.Version() == p.stored
	}
	v.LogKnown, v.Oldest, v.HighWatermark = s.log, s.oldest, s.hw
	v.Segments, v.Bytes, v.FirstMs = s.extent.Segments, s.extent.Bytes, s.extent.FirstMs
	v.ConsumerKnown, v.Committed, v.AckedAhead = s.consumer, s.committed, s.ahead
	return v
}

// Learn finds out from the files what Describe does not know of a partition, which is at most once in the life of an engine.
// It opens the log as a first use would, and closes it again when nobody has come to use it. Who is at the partition already
// is not waited for; then nothing is learned. It delivers nothing and leaves consumer state as it is.
func (e *Engine) Learn(topic string, partition int32) error {
	if !e.gate.enter() {
		return ErrClosed
	}
	defer e.gate.leave()
	t, err := e.topic(topic)
	if err != nil {
		return err
	}
	if err := t.checkPartition(partition); err != nil || partition == AnyPartition {
		return err
	}
	return t.partitions()[partition].learn()
}

func (p *partition) learn() error {
	if v := p.view(); v.LogKnown && v.ConsumerKnown || !p.fence.TryLock() {
		return nil
	}
	defer p.fence.Unlock()
	if log, _, err := p.opened(); log != nil || err != nil {
		if err != nil {
			return err
		}
		return p.learnConsumer(log)
	}
	since := p.topic.engine.env.Now()
	log, err := p.openLogLocked()
	if err != nil {
		return err
	}
	err = p.learnConsumer(log)
	p.closeUnused(log, since)
	return err
}

// learnConsumer needs p.fence, so that nobody creates the lease table meanwhile.
func (p *partition) learnConsumer(log *segment.Log) error {
	if p.view().ConsumerKnown {
		return nil
	}
	dir, err := p.topic.engine.root.OpenDir(partitionPath(p.key.Topic, p.index))
	if err != nil {
		return err
	}
	defer dir.Close()
	state, _, err := committer.Recover(dir, p.identity(), log.HighWatermark())
	if err != nil {
		return err
	}
	head, headMs := max(state.Committed+1, log.Oldest()), int64(0)
	if rec, err := log.View(head); err == nil { // there may be none, or it may be unreadable
		headMs = rec.CommittedMs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.head, p.seen.headMs = head, headMs
	p.seen.consumer, p.seen.committed, p.seen.ahead = true, state.Committed, len(state.Ahead)
	return nil
}

// CommittedAt returns when the record at an offset was committed, in unix milliseconds on the wall clock of this node. It
// reads the record, but opens no log and counts as no use: of a closed one it knows only the lowest unsettled record, and that
// only from Learn. Otherwise, and when the record cannot be read, ok is false.
func (e *Engine) CommittedAt(topic string, partition int32, offset int64) (ms int64, ok bool) {
	if !e.gate.enter() {
		return 0, false
	}
	defer e.gate.leave()
	t, err := e.topic(topic)
	if err != nil || partition == AnyPartition || t.checkPartition(partition) != nil {
		return 0, false
	}
	p := t.partitions()[partition]
	log, _, err := p.opened()
	if err != nil {
		return 0, false
	}
	if log == nil {
		return p.headAt(offset)
	}
	rec, err := log.View(offset)
	return rec.CommittedMs, err == nil
}

func (p *partition) headAt(offset int64) (ms int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.headMs, p.seen.headMs != 0 && p.seen.head == offset
}

// Seats returns how many partitions have a place in memory: those of all topics, and for about a second those of topics that are
// gone (PUMP-13). It is for those who look for leaks.
func (e *Engine) Seats() int {
	e.seats.mu.Lock()
	defer e.seats.mu.Unlock()
	return len(e.seats.byKey)
}

// Now reads the clock that the instants of events are on.
func (e *Engine) Now() env.Instant { return e.env.Now() }

// parked returns how many requests wait.
func (q *waitQueue) parked() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.live
}
