package committer

import (
	"errors"
	"fmt"
	"time"

	"narad/env"
	"narad/vfs"
)

// Key names a partition of this node.
type Key struct {
	Topic     string
	Partition int32
}

// String gives the key the form "orders/7", for errors and logs.
func (k Key) String() string { return fmt.Sprintf("%s/%d", k.Topic, k.Partition) }

// State is what is settled in a partition.
type State struct {
	// Committed is the frontier: every offset up to and including it is settled; -1 means none.
	Committed int64
	// Ahead holds the offsets settled above the frontier, ascending.
	Ahead []int64
	// Dir is the directory that the shard was seeded from, the zero ID when the owner of the shard does not
	// keep it. When set, the state is never written into any other directory.
	Dir vfs.ID
}

// Bounds and default of [Options.Interval], and the longest tick, which is its default.
const (
	DefaultInterval = time.Second
	MinInterval     = 10 * time.Millisecond
	MaxInterval     = time.Minute
	maxTick         = 100 * time.Millisecond
)

// LevelEvery is how often consumer.offset of one partition is brought level with its frontier at most,
// except by [Committer.Close].
const LevelEvery = 30 * time.Second

// maxHeld bounds the descriptors that [MaxOpenDefault] grants.
const maxHeld = 4096

// Options configure a committer.
type Options struct {
	// Interval is the durability interval D: 1 s when zero, otherwise 10 ms to 60 s.
	Interval time.Duration
	// Tick bounds the tick T, which is the smaller of D and this: 100 ms when zero, otherwise 10 ms to 100 ms.
	Tick time.Duration
	// Root is the data directory. What lies below it is resolved anew for each operation that goes by path.
	// The committer never closes it.
	Root vfs.Dir
	// Path returns the directory of a partition, relative to Root. It must always answer the same.
	Path func(Key) string
	// State returns what is settled now in the live shard of a partition and the identity that its slots
	// carry, which is not zero. It appends the offsets above the frontier to dst, which is empty. With ok false
	// there is no shard and nothing is written; the identity then says whose slots a [Committer.Touch] may
	// sync, zero for none. It is called by the committer's task without any lock of the committer held, and
	// must not park.
	State func(k Key, dst []int64) (s State, identity uint64, ok bool)
	// Naming returns the turn of a partition's directory: the committer holds it from each change of a name there until the
	// sync of the directory behind it has returned, and so does everybody else who makes names in it. A sync that fails may lose every
	// name that waits for one (vfs D4). Nil when nobody else does.
	Naming func(Key) *env.Mutex
	// MaxOpen is the number of consumer.ahead descriptors kept open, at least 1; see [MaxOpenDefault].
	MaxOpen int
	// Event, when set, is told what happens: by the committer's task and, for a [Forgotten], by the caller of
	// Forget. It must not park and must not call the committer.
	Event func(Event)
}

// MaxOpenDefault returns how many descriptors a committer may keep open under a soft limit of open files: a
// quarter of the limit, between 1 and 4096, or 4096 when the limit is not known (0).
func MaxOpenDefault(softLimit int) int {
	if softLimit <= 0 {
		return maxHeld
	}
	return max(1, min(maxHeld, softLimit/4))
}

func (o Options) withDefaults() Options {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Tick == 0 {
		o.Tick = maxTick
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Interval < MinInterval || o.Interval > MaxInterval:
		return fmt.Errorf("committer: interval %v is outside %v to %v", o.Interval, MinInterval, MaxInterval)
	case o.Tick < MinInterval || o.Tick > maxTick:
		return fmt.Errorf("committer: tick %v is outside %v to %v", o.Tick, MinInterval, maxTick)
	case o.MaxOpen < 1:
		return fmt.Errorf("committer: %d descriptors to hold, want at least 1", o.MaxOpen)
	case o.Root == nil || o.Path == nil || o.State == nil:
		return errors.New("committer: Root, Path and State must be set")
	}
	return nil
}
