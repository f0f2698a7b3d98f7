package observe

import (
	"sync"
	"sync/atomic"
	"time"

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

// Bounds of histograms, in seconds.
var (
	waitBounds = []float64{.001, .01, .1, .5, 1, 5, 10, 30, 60}
	diskBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1}
)

func newTopicSeries(name string, partitions int32) *topicSeries {
	t := &topicSeries{name: name}
	for i := range t.waits {
		t.waits[i] = newHist(waitBounds)
	}
	t.parts.Store(&[]*partSeries{})
	t.grow(partitions)
	return t
}

// grow needs the table's lock, or that nobody else knows t.
func (t *topicSeries) grow(partitions int32) {
	parts := append([]*partSeries(nil), *t.parts.Load()...)
	for int32(len(parts)) < partitions {
		parts = append(parts, &partSeries{fsync: newHist(diskBounds), flush: newHist(diskBounds)})
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

// hist is a histogram that costs two additions, and that is part of something that can go.
type hist struct {
	bounds []float64 // upper, in seconds
	counts []atomic.Uint64
	nanos  atomic.Int64
}

func newHist(bounds []float64) *hist {
	return &hist{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *hist) observe(d time.Duration) {
	i, seconds := 0, d.Seconds()
	for i < len(h.bounds) && seconds > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.nanos.Add(int64(d))
}

// read returns what Prometheus wants: the cumulative counts.
func (h *hist) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.bounds))
	for i, bound := range h.bounds {
		count += h.counts[i].Load()
		buckets[bound] = count
	}
	count += h.counts[len(h.bounds)].Load()
	return count, time.Duration(h.nanos.Load()).Seconds(), buckets
}
