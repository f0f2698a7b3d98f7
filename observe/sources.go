package observe

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"narad/engine"
)

// vitals is what the loops have read last.
type vitals struct {
	o *Observer

	walFailed atomic.Bool
	backlog   atomic.Uint64
	walCause  atomic.Pointer[string]
	views     atomic.Pointer[[]engine.TopicView] // by name

	space struct {
		sync.Mutex // guards the fields below
		known      bool
		available  uint64 // bytes that the process may still write
		total      uint64
	}
	tree struct {
		sync.Mutex // guards the fields below
		known      bool
		bytes      int64
		orphans    int
		next       time.Time // of the next walk
	}
	heads struct {
		sync.Mutex // guards at
		at         map[engine.Key]head
	}
}

// head is the lowest message of a partition that is not settled.
type head struct {
	offset int64
	ms     int64 // commit time, unix milliseconds; 0: not known
}

// ingress reads the state of the ingress log. It waits for nothing.
func (v *vitals) ingress(e *engine.Engine) {
	in := e.Ingress()
	v.walFailed.Store(in.Failed != nil)
	if in.Failed != nil {
		cause := in.Failed.Error()
		v.walCause.Store(&cause)
	}
	v.backlog.Store(in.Next - min(in.Checkpoint, in.Next))
}

// reconcile describes all topics, and makes the table of counters agree with what there is.
func (o *Observer) reconcile(e *engine.Engine) {
	topics := e.Topics("", 0)
	views := make([]engine.TopicView, 0, len(topics))
	known := make(map[string]bool, len(topics))
	for _, t := range topics {
		view, err := e.Describe(t.Name)
		if errors.Is(err, engine.ErrClosed) {
			return
		}
		if err != nil {
			continue // deleted meanwhile
		}
		views = append(views, view)
		known[t.Name] = true
		o.topics.add(t.Name, t.Partitions)
	}
	for _, s := range o.topics.all() {
		if known[s.name] {
			continue
		}
		if _, err := e.Topic(s.name); errors.Is(err, engine.ErrTopicNotFound) {
			o.topics.remove(s.name)
		}
	}
	o.vitals.views.Store(&views)
}

// current returns the last description of all topics.
func (v *vitals) current() []engine.TopicView {
	if views := v.views.Load(); views != nil {
		return *views
	}
	return nil
}

func (v *vitals) disk() error {
	if v.o.config.DataDir == "" {
		return nil
	}
	available, total, err := diskSpace(v.o.config.DataDir)
	if err != nil {
		return err
	}
	v.space.Lock()
	defer v.space.Unlock()
	v.space.known, v.space.available, v.space.total = true, available, total
	return nil
}

// learnBudget is how long a round looks up closed partitions: after a start with many, their series appear one after the other.
const learnBudget = 250 * time.Millisecond

// learn looks up what is not known of closed partitions.
func (v *vitals) learn(ctx context.Context, e *engine.Engine) (err error) {
	until := time.Now().Add(learnBudget)
	for _, t := range v.current() {
		for _, p := range t.Partitions {
			if p.LogKnown && p.ConsumerKnown {
				continue
			}
			if time.Now().After(until) || ctx.Err() != nil {
				return err
			}
			failed := e.Learn(t.Topic.Name, p.Partition)
			if errors.Is(failed, engine.ErrClosed) {
				return nil
			}
			if failed != nil && !errors.Is(failed, engine.ErrTopicNotFound) && err == nil {
				err = failed
			}
		}
	}
	return err
}

// ages looks up since when the lowest unsettled message of each partition has been there.
func (v *vitals) ages(ctx context.Context, e *engine.Engine) error {
	old := v.headsNow()
	fresh := make(map[engine.Key]head, len(old))
	for _, t := range v.current() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Lag() == 0 {
				continue
			}
			key := engine.Key{Topic: t.Topic.Name, Partition: p.Partition}
			h := head{offset: max(p.Committed+1, p.Oldest)}
			switch was := old[key]; {
			case was.offset == h.offset && was.ms != 0 || ctx.Err() != nil:
				h.ms = was.ms
			default:
				h.ms, _ = e.CommittedAt(key.Topic, key.Partition, h.offset)
			}
			fresh[key] = h
		}
	}
	v.heads.Lock()
	defer v.heads.Unlock()
	v.heads.at = fresh
	return ctx.Err()
}

// headsNow returns the map of heads, which is never changed once it is there.
func (v *vitals) headsNow() map[engine.Key]head {
	v.heads.Lock()
	defer v.heads.Unlock()
	return v.heads.at
}

// walk adds up the data directory. It is repeated every walkEvery, and less often when that is more than a thousandth of the time.
func (v *vitals) walk() error {
	v.tree.Lock()
	begin := time.Now()
	skip := v.o.config.DataDir == "" || begin.Before(v.tree.next)
	v.tree.Unlock()
	if skip {
		return nil
	}
	bytes, orphans, err := measureTree(v.o.config.DataDir)
	took := time.Since(begin)
	v.tree.Lock()
	defer v.tree.Unlock()
	v.tree.next = begin.Add(max(walkEvery, 1000*took))
	if err != nil {
		return err
	}
	v.tree.known, v.tree.bytes, v.tree.orphans = true, bytes, orphans
	return nil
}

// measureTree returns the bytes of all files, and how many directories were set aside and are not removed yet. Files that
// go while it looks are no error.
func measureTree(dir string) (bytes int64, orphans int, err error) {
	topics := filepath.Join(dir, "topics")
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if filepath.Dir(path) == topics && strings.Contains(d.Name(), ".stale-") {
				orphans++
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		bytes += info.Size()
		return nil
	})
	return bytes, orphans, err
}
