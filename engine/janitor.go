package engine

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"narad/env"
	"narad/vfs"
)

// janitorRetry is the pause after a job of the janitor failed.
const janitorRetry = time.Second

// janitor is the one task that tidies up behind the others' backs: it removes directories that were set aside, moves a purged
// topic's directory to its place when that failed at first, and closes partitions that nobody has used for a while. Without
// work it does not exist for the scheduler: no timer, no poll.
type janitor struct {
	engine *Engine
	wake   *env.Waiter
	task   *env.Group

	mu       sync.Mutex // guards the fields below
	stopping bool
	stale    []string // directories in topics/ to remove
	unplaced []*topic
	idle     []*partition // to close
	doubtful bool         // some topics are in doubt
	pause    env.Instant  // nothing is tried again before
}

func newJanitor(e *Engine) *janitor {
	return &janitor{engine: e, wake: e.env.NewWaiter(), task: e.env.NewGroup()}
}

func (j *janitor) start() { j.task.Go("janitor", j.run) }

func (j *janitor) stop() {
	j.mu.Lock()
	j.stopping = true
	j.mu.Unlock()
	j.wake.Unpark()
	j.task.Wait()
}

func (j *janitor) stopped() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stopping
}

// remove asks for the removal of a directory that was set aside.
func (j *janitor) remove(stale string) {
	j.mu.Lock()
	j.stale = append(j.stale, stale)
	j.mu.Unlock()
	j.wake.Unpark()
}

// placeLater asks for the directory of a purged topic to be moved to its place.
func (j *janitor) placeLater(t *topic) {
	j.mu.Lock()
	j.unplaced = append(j.unplaced, t)
	j.mu.Unlock()
	j.wake.Unpark()
}

// retireIdle asks for partitions to be closed if they are still idle.
func (j *janitor) retireIdle(parts []*partition) {
	j.mu.Lock()
	j.idle = parts
	j.mu.Unlock()
	j.wake.Unpark()
}

// resolveLater asks for the topics in doubt to be looked at.
func (j *janitor) resolveLater() {
	j.mu.Lock()
	j.doubtful = true
	j.mu.Unlock()
	j.wake.Unpark()
}

func (j *janitor) run() {
	for {
		work, until := j.next()
		switch {
		case j.stopped():
			return
		case work == nil:
			j.wake.ParkUntil(until)
		default:
			work()
		}
	}
}

// next takes a job; with none it returns how long to wait.
func (j *janitor) next() (work func(), until env.Instant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.idle) > 0 {
		p := j.idle[0]
		j.idle = j.idle[1:]
		return func() { p.evict() }, 0
	}
	if len(j.unplaced)+len(j.stale) == 0 && !j.doubtful {
		return nil, env.Forever
	}
	if j.engine.env.Now() < j.pause {
		return nil, j.pause
	}
	if j.doubtful {
		j.doubtful = false
		return j.tryResolve, 0
	}
	if len(j.unplaced) > 0 {
		t := j.unplaced[0]
		j.unplaced = j.unplaced[1:]
		return func() { j.tryPlace(t) }, 0
	}
	name := j.stale[0]
	j.stale = j.stale[1:]
	return func() { j.tryRemove(name) }, 0
}

// failed reports a job that is tried again, and lets some time pass before that.
func (j *janitor) failed(v Event, again func()) {
	j.engine.emit(v)
	j.mu.Lock()
	j.pause = j.engine.env.Now().Add(janitorRetry)
	j.mu.Unlock()
	again()
}

func (j *janitor) tryResolve() {
	e := j.engine
	e.changing.Lock()
	defer e.changing.Unlock()
	if err := e.resolve(); err != nil {
		j.failed(DoubtRemains{err}, j.resolveLater)
	}
}

func (j *janitor) tryPlace(t *topic) {
	e := j.engine
	e.changing.Lock()
	defer e.changing.Unlock()
	if now, err := e.topic(t.info.Name); err != nil || now != t {
		return // deleted meanwhile
	}
	if err := e.place(*t.settings.Load()); err != nil {
		j.failed(TidyFailed{t.info.Name, err}, func() { j.placeLater(t) })
		return
	}
	t.placed.Store(true)
}

// tryRemove removes a directory that was set aside. A topic may have been called like it since: then the directory was moved
// out of its way and is somebody else's job.
func (j *janitor) tryRemove(name string) {
	dir, err := j.openStale(name)
	if dir == nil && err == nil {
		return
	}
	if err == nil {
		err = j.empty(dir)
		id := dir.ID()
		dir.Close()
		if err == nil && !j.stopped() {
			err = j.removeEmpty(name, id)
		}
	}
	switch {
	case j.stopped(): // the next start goes on
	case err != nil:
		j.failed(TidyFailed{name, err}, func() { j.remove(name) })
	default:
		j.engine.emit(StaleRemoved{name})
	}
}

// openStale pins the directory, nil when it is not the janitor's.
func (j *janitor) openStale(name string) (vfs.Dir, error) {
	e := j.engine
	e.changing.Lock()
	defer e.changing.Unlock()
	if _, err := e.topic(name); err == nil {
		return nil, nil
	}
	dir, err := e.root.OpenDir(topicsDir + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// empty removes everything below a pinned directory, file by file, so that a stop does not wait for all of it.
func (j *janitor) empty(dir vfs.Dir) error {
	entries, err := dir.List()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if j.stopped() {
			return nil
		}
		if entry.Dir {
			if err := j.emptySub(dir, entry.Name); err != nil || j.stopped() {
				return err
			}
		}
		if err := dir.Remove(entry.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (j *janitor) emptySub(dir vfs.Dir, name string) error {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return j.empty(sub)
}

// removeEmpty removes the directory itself if it still has its name.
func (j *janitor) removeEmpty(name string, id vfs.ID) error {
	e := j.engine
	e.changing.Lock()
	defer e.changing.Unlock()
	info, err := e.root.Stat(topicsDir + "/" + name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.ID != id {
		return nil
	}
	if err == nil {
		err = e.root.Remove(topicsDir + "/" + name)
	}
	return err
}

// idlePartitions returns the partitions that nobody has used since the given instant and that are open.
func (e *Engine) idlePartitions(since env.Instant) (idle []*partition) {
	for _, t := range e.allTopics() {
		if t.waiting.present.Load() { // closing would wake those who wait, and they would open it again
			continue
		}
		for _, p := range t.partitions() {
			if env.Instant(p.used.Load()) >= since {
				continue
			}
			if log, shard, err := p.opened(); err == nil && (log != nil || shard != nil) {
				idle = append(idle, p)
			}
		}
	}
	return idle
}

// evict closes log and shard of a partition that nobody has used for Options.IdleAfter. The shard goes only when its files
// say exactly what it says: no lease, no corrupt skip that is in memory only, nothing acked since the last write, and that
// write durable and level. Otherwise all stays as it is, and the next round tries again.
func (p *partition) evict() {
	e := p.topic.engine
	if !p.fence.TryLock() {
		return
	}
	defer p.fence.Unlock()
	p.mu.Lock()
	if p.gone != nil || !p.isIdle() {
		p.mu.Unlock()
		return
	}
	log, dir := p.detach()
	if p.shard != nil {
		p.seen.dropping(p.shard)
		p.shard, p.holder = nil, nil
		if e.listening() {
			e.emit(ShardDropped{p.key, p.topic.info.ID, DropIdle})
		}
	}
	p.mu.Unlock()
	e.env.Point("engine: idle partition closed, not forgotten")
	e.committer.Forget(p.committerKey())
	if log != nil {
		log.Close()
		dir.Close()
	}
}

// isIdle needs p.mu.
func (p *partition) isIdle() bool {
	e := p.topic.engine
	if env.Instant(p.used.Load()).Add(e.opts.IdleAfter) > e.env.Now() {
		return false
	}
	if p.shard == nil {
		return true
	}
	return p.shard.Leases() == 0 && p.shard.Skipped() == 0 && p.shard.Version() == p.stored && e.committer.Exact(p.committerKey())
}
