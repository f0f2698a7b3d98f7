package engine

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"narad/committer"
	"narad/metastore"
	"narad/vfs"
)

// Topic is what the metastore knows of a topic.
type Topic = metastore.Topic

const incarnationFile = "incarnation"

// topic is a topic of this node.
type topic struct {
	engine     *Engine
	info       Topic
	partitions []*partition
	start      atomic.Uint32 // where the next scan begins
	roundRobin atomic.Uint32 // the next partition for a message without key

	waiting waitQueue // parked consume requests
	marked  bool      // to be pumped; guarded by pump.mu
	logs    logTable  // which logs are open
	// undispatched: the topic was deleted, what the ingress log has for it is discarded; guarded by dispatcher.mu
	undispatched bool
}

func newTopic(e *Engine, info Topic) *topic {
	t := &topic{engine: e, info: info}
	rng := e.env.Stream("topic start: " + info.Name)
	t.start.Store(uint32(rng.Uint64()))
	t.roundRobin.Store(uint32(rng.Uint64()))
	for i := range info.Partitions {
		t.partitions = append(t.partitions, newPartition(t, i))
	}
	return t
}

func topicPath(name string) string { return topicsDir + "/" + name }

func partitionPath(name string, index int32) string {
	return fmt.Sprintf("%s/%s/p%05d", topicsDir, name, index)
}

// CreateTopic creates a topic; it exists durably when CreateTopic returns. After an error that is not
// ErrInvalid or ErrTopicExists the topic may or may not exist.
//
// Crash safety: the directories are made and synced first, the metastore's record is the commit point. A
// crash before it leaves a directory of an incarnation that nobody knows; the next creation of that name
// sets it aside.
func (e *Engine) CreateTopic(spec TopicSpec) (Topic, error) {
	if !e.gate.enter() {
		return Topic{}, ErrClosed
	}
	defer e.gate.leave()
	spec = spec.withDefaults()
	if err := metastore.ValidateName(spec.Name); err != nil {
		return Topic{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := spec.validate(); err != nil {
		return Topic{}, err
	}
	info := Topic{
		Name: spec.Name, ID: e.newIncarnation(), Partitions: int32(spec.Partitions), RetentionMs: spec.RetentionMs,
		VisibilityMs: spec.Visibility.Milliseconds(), MaxInFlight: int32(spec.MaxInFlight),
		MaxAckedAhead: int32(spec.MaxAckedAhead), CreatedAt: e.env.Wall().UnixMilli() / 1000,
	}
	e.creating.Lock()
	defer e.creating.Unlock()
	if err := e.nameIsFree(spec.Name); err != nil {
		return Topic{}, err
	}
	if err := e.makeTopicDirs(info); err != nil {
		return Topic{}, fmt.Errorf("engine: create topic %s: %w", info.Name, err)
	}
	if err := e.meta.Create(info); err != nil {
		return Topic{}, fmt.Errorf("engine: create topic %s: %w", info.Name, err)
	}
	e.addTopic(newTopic(e, info))
	e.emit(TopicCreated{info})
	return info, nil
}

// nameIsFree refuses a name that is taken, also by one that differs only in case: on some file systems the
// two would share a directory.
func (e *Engine) nameIsFree(name string) error {
	for _, t := range e.allTopics() {
		if strings.EqualFold(t.info.Name, name) {
			return fmt.Errorf("%w: %s", ErrTopicExists, t.info.Name)
		}
	}
	return nil
}

func (e *Engine) newIncarnation() string {
	seed := e.env.Seed("incarnation")
	return hex.EncodeToString(seed[:8])
}

// makeTopicDirs makes the topic's directory tree durable.
func (e *Engine) makeTopicDirs(t Topic) error {
	topics, err := e.root.OpenDir(topicsDir)
	if err != nil {
		return err
	}
	defer topics.Close()
	if err := setAside(topics, t.Name, t.ID); err != nil {
		return err
	}
	if err := topics.Mkdir(t.Name); err != nil {
		return err
	}
	dir, err := topics.OpenDir(t.Name)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := vfs.ReplaceFile(dir, incarnationFile, []byte(t.ID)); err != nil {
		return err
	}
	for i := range t.Partitions {
		if err := dir.Mkdir(fmt.Sprintf("p%05d", i)); err != nil {
			return err
		}
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	return topics.Sync()
}

// setAside renames a directory that an earlier, unfinished creation left; it is never removed here.
func setAside(topics vfs.Dir, name, id string) error {
	if _, err := topics.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := topics.Rename(name, name+".stale-"+id); err != nil {
		return err
	}
	return topics.Sync()
}

// adoptTopic takes a topic of the metastore into service. Its directory must be there and must belong to
// the same incarnation: a missing one means that a volume was lost, and nothing is recreated silently.
func (e *Engine) adoptTopic(info Topic) error {
	dir, err := e.root.OpenDir(topicPath(info.Name))
	if err != nil {
		return fmt.Errorf("topic %s: its directory is missing or unreadable; restore it from a snapshot: %w", info.Name, err)
	}
	defer dir.Close()
	id, err := vfs.ReadFile(dir, incarnationFile, 64)
	if err != nil {
		return fmt.Errorf("topic %s: %w", info.Name, err)
	}
	if string(id) != info.ID {
		return fmt.Errorf("topic %s: the directory belongs to incarnation %q, the topic is incarnation %q", info.Name, id, info.ID)
	}
	e.addTopic(newTopic(e, info))
	return nil
}

func (e *Engine) addTopic(t *topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.topics[t.info.Name] = t
	i := sort.Search(len(e.sorted), func(i int) bool { return e.sorted[i].info.Name >= t.info.Name })
	grown := make([]*topic, 0, len(e.sorted)+1) // a fresh slice: allTopics hands out the old one
	grown = append(append(append(grown, e.sorted[:i]...), t), e.sorted[i:]...)
	e.sorted = grown
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
	return t.info, nil
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
	t, err := e.topic(name)
	if err != nil {
		return nil, err
	}
	stats := make([]PartitionStats, 0, len(t.partitions))
	for _, p := range t.partitions {
		s, err := p.stats()
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
		for _, p := range t.partitions {
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

func (t *topic) visibility() time.Duration {
	return time.Duration(t.info.VisibilityMs) * time.Millisecond
}
