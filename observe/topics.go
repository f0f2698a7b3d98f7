package observe

import (
	"sync"
	"sync/atomic"

	"narad/engine"
	"narad/server"
)

// topicTable holds the counters of the topics that there are.
type topicTable struct {
	mu     sync.RWMutex // guards byName
	byName map[string]*topicSeries
}

// topicSeries are the counters of one topic.
type topicSeries struct {
	name      string
	parts     atomic.Pointer[[]*partSeries] // only ever longer
	extended  atomic.Uint64
	ended     [endings]atomic.Uint64
	withheld  [3]atomic.Uint64 // by outcome, from inflight.InFlightCap on
	refused   [len(produceRefusals)]atomic.Uint64
	empty     atomic.Uint64
	waits     [server.WaitNone + 1]*hist
	handles   atomic.Uint64 // that named no live lease
	dispatchs atomic.Uint64 // commits that failed
}

// endings are the ways in which a lease ends without an ack: engine.Cause, and expiry.
const (
	endedExpired = int(engine.CauseCut) + 1
	endings      = endedExpired + 1
)

// endingNames are the values of the label cause.
var endingNames = [endings]string{
	engine.CauseNack: "nack", engine.CauseCancel: "client_left", engine.CauseReadFail: "read_failed", engine.CauseCut: "batch_cut",
	endedExpired: "expired",
}

// produceRefusals are the values of the label reason of rejected produces; another one counts as the last.
var produceRefusals = [...]string{"schema", "delayed_child", "remote_child", "other"}

// partSeries are the counters of one partition.
type partSeries struct {
	produced, producedBytes atomic.Uint64
	consumed, consumedBytes atomic.Uint64
	acked                   atomic.Uint64
	corrupt                 atomic.Uint64
	jumps, jumped           atomic.Uint64
	expired, expiredBytes   atomic.Uint64 // by retention
	flushedBytes            atomic.Uint64
	fsync, flush            *hist
	late                    lateness
}

func newTopicSeries(name string, partitions int32) *topicSeries {
	t := &topicSeries{name: name}
	for i := range t.waits {
		t.waits[i] = newSeconds(waitBounds)
	}
	t.parts.Store(&[]*partSeries{})
	t.grow(partitions)
	return t
}

// grow needs the table's lock, or that nobody else knows t.
func (t *topicSeries) grow(partitions int32) {
	parts := append([]*partSeries(nil), *t.parts.Load()...)
	for int32(len(parts)) < partitions {
		parts = append(parts, &partSeries{fsync: newSeconds(diskBounds), flush: newSeconds(diskBounds)})
	}
	t.parts.Store(&parts)
}

// add makes room for a topic, or for more of its partitions.
func (t *topicTable) add(name string, partitions int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byName[name]
	switch {
	case s == nil:
		t.byName[name] = newTopicSeries(name, partitions)
	case int32(len(*s.parts.Load())) < partitions:
		s.grow(partitions)
	}
}

func (t *topicTable) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byName, name)
}

// topic returns the counters of a topic, nil when it is gone.
func (t *topicTable) topic(name string) *topicSeries {
	t.mu.RLock()
	s := t.byName[name]
	t.mu.RUnlock()
	return s
}

// part returns the counters of a partition, nil when it is gone.
func (t *topicTable) part(key engine.Key) *partSeries {
	s := t.topic(key.Topic)
	if s == nil {
		return nil
	}
	return s.part(key.Partition)
}

func (s *topicSeries) part(partition int32) *partSeries {
	if parts := *s.parts.Load(); partition >= 0 && int(partition) < len(parts) {
		return parts[partition]
	}
	return nil
}

// all returns the topics, in no order.
func (t *topicTable) all() []*topicSeries {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*topicSeries, 0, len(t.byName))
	for _, s := range t.byName {
		all = append(all, s)
	}
	return all
}
