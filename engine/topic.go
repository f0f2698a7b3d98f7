package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"narad/committer"
	"narad/inflight"
	"narad/metastore"
)

// Topic is what the metastore knows of a topic.
type Topic = metastore.Topic

// topic is one incarnation of a topic of this node.
type topic struct {
	engine     *Engine
	info       Topic // as it was when it was taken into service; name, id and visibility never change
	settings   atomic.Pointer[Topic]
	parts      atomic.Pointer[[]*partition] // only ever longer
	placed     atomic.Bool                  // its directory is where its name leads
	start      atomic.Uint32                // where the next scan begins
	opens      atomic.Uint32                // how many times somebody opened a partition, or waited for that
	roundRobin atomic.Uint32                // the next partition for a message without key

	waiting waitQueue // parked consume requests
	marked  bool      // to be pumped; guarded by pump.mu
	logs    logTable  // which logs are open

	gathering   atomic.Int32 // partitions that records wait for in the dispatcher
	wantedUntil atomic.Int64 // env.Instant until when the topic counts as awaited although nobody is parked
	// undispatched: the topic was deleted, what the ingress log has for it is discarded; guarded by dispatcher.mu
	undispatched bool
}

// newTopic makes a topic whose directory is in place when placed says so.
func newTopic(e *Engine, info Topic, placed bool) *topic {
	t := &topic{engine: e, info: info}
	t.placed.Store(placed)
	rng := e.env.Stream("topic start: " + info.Name)
	t.start.Store(uint32(rng.Uint64()))
	t.roundRobin.Store(uint32(rng.Uint64()))
	t.become(info)
	return t
}

// become puts settings into effect, of which only those that may change are looked at.
func (t *topic) become(info Topic) {
	var parts []*partition
	if old := t.parts.Load(); old != nil {
		parts = append(parts, *old...)
	}
	for i := int32(len(parts)); i < info.Partitions; i++ {
		parts = append(parts, newPartition(t, i))
	}
	t.settings.Store(&info)
	t.parts.Store(&parts)
}

// partitions returns the partitions as they are now. The slice must not be changed.
func (t *topic) partitions() []*partition { return *t.parts.Load() }

// leases returns how the lease tables of the topic behave now.
func (t *topic) leases() inflight.Options {
	s := t.settings.Load()
	return inflight.Options{
		Visibility:    time.Duration(s.VisibilityMs) * time.Millisecond,
		MaxInFlight:   int(s.MaxInFlight),
		MaxAckedAhead: int(s.MaxAckedAhead),
	}
}

func topicPath(name string) string { return topicsDir + "/" + name }

func partitionPath(name string, index int32) string {
	return fmt.Sprintf("%s/%s/p%05d", topicsDir, name, index)
}

// swapTopic puts a topic where old was; either may be nil. From here on requests find the new one.
func (e *Engine) swapTopic(old, new *topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	sorted := make([]*topic, 0, len(e.sorted)+1) // a fresh slice: allTopics hands out the old one
	for _, t := range e.sorted {
		if t != old {
			sorted = append(sorted, t)
		}
	}
	if old != nil {
		delete(e.topics, old.info.Name)
	}
	if new != nil {
		e.topics[new.info.Name] = new
		i := sort.Search(len(sorted), func(i int) bool { return sorted[i].info.Name >= new.info.Name })
		sorted = slices.Insert(sorted, i, new)
	}
	e.sorted = sorted
}

func (e *Engine) topic(name string) (*topic, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrTopicNotFound, name)
}

// allTopics returns the topics by name; the slice must not be changed.
func (e *Engine) allTopics() []*topic {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sorted
}

// Topic returns a topic by name.
func (e *Engine) Topic(name string) (Topic, error) {
	t, err := e.topic(name)
	if err != nil {
		return Topic{}, err
	}
	return t.view(), nil
}

// Topics returns at most limit topics whose names come after the given one, ordered by name.
func (e *Engine) Topics(after string, limit int) []Topic { return e.meta.List(after, limit) }

// PartitionStats describes a partition as it is now.
type PartitionStats struct {
	Partition     int32
	Oldest        int64 // lowest retained offset
	HighWatermark int64 // the next offset; everything below is visible
	Committed     int64 // the frontier: highest offset below which all is settled, -1 for none
	Leases        int
	AckedAhead    int
}

// Stats describes the partitions of a topic. It opens the logs that are not open yet, and reads consumer
// state as the first consume would.
func (e *Engine) Stats(name string) ([]PartitionStats, error) {
	if !e.gate.enter() {
		return nil, ErrClosed
	}
	defer e.gate.leave()
	return e.statsOf(name)
}

func (e *Engine) statsOf(name string) ([]PartitionStats, error) {
	t, err := e.topic(name)
	if err != nil {
		return nil, err
	}
	var stats []PartitionStats
	for _, p := range t.partitions() {
		s, err := p.stats()
		if errors.Is(err, errRetired) {
			return e.statsOf(name)
		}
		if err != nil {
			return nil, err
		}
		stats = append(stats, s)
	}
	return stats, nil
}

// touchConsumerFiles asks for a sync of every consumer.ahead that an unclean stop left: what its last
// ticks wrote may be in the page cache only, and older than any promised window by the next power loss
//
func (e *Engine) touchConsumerFiles() error {
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			_, err := e.root.Stat(partitionPath(t.info.Name, p.index) + "/" + committer.AheadFile)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			e.committer.Touch(committer.Key{Topic: t.info.Name, Partition: p.index})
		}
	}
	return nil
}
