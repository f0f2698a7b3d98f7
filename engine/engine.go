package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"narad/committer"
	"narad/env"
	"narad/metastore"
	"narad/segment"
	"narad/vfs"
	"narad/wal"
)

// Names in the data directory (narad-facts 4.1).
const (
	topicsDir    = "topics"
	ingressDir   = "ingress"
	produceDir   = "ingress/produce"
	metastoreDir = "metastore"
	lockFile     = "lock"
)

// Engine is one node's queue: topics, partitions, and the messages in them. All methods may be called from
// any number of tasks at once.
//
// Lock order: Engine.changing before seat.fence, of several in the order of the partitions (env.Mutexes, they span I/O), before
// seat.mu before topic.mu before Engine.mu before pump.mu; dispatcher.mu before Engine.mu. The sync.Mutexes guard memory and are never held across I/O.
type Engine struct {
	env  *env.Env
	opts Options
	root vfs.Dir
	lock io.Closer

	meta       metastore.Store
	metaDir    vfs.Dir // of the engine's own metastore, else nil
	wal        *wal.Log
	committer  *committer.Committer
	dispatcher *dispatcher
	pump       *pump
	purger     *purger
	janitor    *janitor
	bounds     *segment.FileShare // of the logs
	reaper     *reaper
	seats      seats

	mu     sync.Mutex // guards the fields below
	topics map[string]*topic
	sorted []*topic // the same, by name

	changing *env.Mutex       // one creation, alteration, purge or deletion of a topic at a time
	doubts   map[string]doubt // topics of which a change may have been made or not, by name; guarded by changing
	failure  error            // of the metastore, at a change that may have been made; guarded by changing
	gate     gate
}

// Open opens the data directory at dir, creating it when it is missing, recovers what is in it and starts to
// serve. The directory belongs to this engine until Close: a second Open of it fails with [vfs.ErrLocked].
//
// Recovery reads the topics and scans the end of the ingress log; partitions are opened at their first use.
func Open(dir string, o Options) (*Engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	root, err := o.Env.FS().OpenRoot(dir, true)
	if err != nil {
		return nil, fmt.Errorf("engine: open %s: %w", dir, err)
	}
	e := &Engine{env: o.Env, opts: o, root: root, topics: make(map[string]*topic), doubts: make(map[string]doubt), changing: o.Env.NewMutex()}
	e.seats.byKey = make(map[Key]*seat)
	e.bounds = boundsShare(o.Env)
	e.janitor = newJanitor(e)
	e.gate.init(o.Env)
	if err := e.recover(); err != nil {
		e.release()
		return nil, fmt.Errorf("engine: open %s: %w", dir, err)
	}
	return e, nil
}

// recover brings the engine from the disk to where it serves. The steps may be interrupted by a crash
// between any two: each only reads, or repeats harmlessly.
func (e *Engine) recover() (err error) {
	if e.lock, err = e.root.Lock(lockFile); err != nil {
		return err
	}
	if err := e.makeDirs(); err != nil {
		return err
	}
	mark, err := e.readCleanMark()
	if err != nil {
		return err
	}
	if err := e.openMetastore(mark); err != nil {
		return err
	}
	e.pump = newPump(e)
	if err := e.openWAL(); err != nil {
		return err
	}
	if err := e.expect(mark); err != nil {
		return err
	}
	if err := e.dropCleanMark(); err != nil {
		return err
	}
	if e.committer, err = committer.Start(e.env, e.committerOptions()); err != nil {
		return err
	}
	if mark == nil {
		if err := e.touchConsumerFiles(); err != nil {
			return err
		}
	}
	e.purger = newPurger(e)
	e.dispatcher.start()
	e.pump.start()
	e.purger.start()
	e.janitor.start()
	e.reaper = newReaper(e)
	e.reaper.start()
	e.emit(Opened{Clean: mark != nil})
	return nil
}

// makeDirs creates the directories that are missing and makes their names durable.
func (e *Engine) makeDirs() error {
	names := []string{topicsDir, ingressDir, produceDir}
	if e.opts.Metastore == nil {
		names = append(names, metastoreDir)
	}
	for _, name := range names {
		if err := e.root.Mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	ingress, err := e.root.OpenDir(ingressDir)
	if err != nil {
		return err
	}
	defer ingress.Close()
	if err := ingress.Sync(); err != nil {
		return err
	}
	return e.root.Sync()
}

func (e *Engine) openWAL() error {
	dir, err := e.root.OpenDir(produceDir)
	if err != nil {
		return err
	}
	e.dispatcher = newDispatcher(e)
	e.dispatcher.discard = e.isDeleted
	o := wal.Options{SegmentBytes: e.opts.WALSegmentBytes, Preallocate: e.opts.WALPreallocate, OnDurable: e.dispatcher.durable}
	if e.opts.Listener != nil {
		o.Event = func(v wal.Event) { e.opts.Listener(WAL{v}) }
	}
	e.wal, err = wal.Open(e.env, dir, o)
	return err
}

func (e *Engine) committerOptions() committer.Options {
	o := committer.Options{
		Interval: e.opts.CommitInterval,
		Tick:     e.opts.WriteoutInterval,
		Root:     e.root,
		Path:     func(k committer.Key) string { return partitionPath(k.Topic, k.Partition) },
		State:    e.consumerState,
		Naming:   e.naming,
		MaxOpen:  e.opts.MaxConsumerFiles,
		Event: func(v committer.Event) {
			if w, ok := v.(committer.WindowWritten); ok {
				e.windowWritten(w)
			}
		},
	}
	if e.opts.Listener != nil {
		tell := o.Event
		o.Event = func(v committer.Event) {
			tell(v)
			e.opts.Listener(Consumer{v})
		}
	}
	return o
}

// Close stops gracefully: it refuses new calls, answers parked consumers, lets calls in progress end, stops
// dispatching, and makes the consumer state and the checkpoint exact and durable. After a nil error a new
// start delivers no acked message again (REC-07). Messages that are accepted but not dispatched stay in the
// ingress log. Leases are forgotten, as in a crash (REC-08).
func (e *Engine) Close() error {
	if !e.gate.close() {
		return ErrClosed
	}
	e.wakeAllWaiters()
	e.gate.wait()
	e.dispatcher.stop()
	e.pump.stop()
	e.purger.stop()
	e.janitor.stop()
	e.reaper.stop()
	err := e.committer.Close()
	err = errors.Join(err, e.closePartitions(), e.wal.Close(), e.closeMetastore())
	if err == nil {
		err = e.markClean()
	}
	return errors.Join(err, e.releaseRoot())
}

func (e *Engine) closePartitions() (err error) {
	for _, t := range e.allTopics() {
		for _, p := range t.partitions() {
			err = errors.Join(err, p.close())
		}
	}
	return err
}

// release gives up what a failed Open had taken.
func (e *Engine) release() {
	if e.wal != nil {
		e.wal.Close()
	}
	if e.committer != nil {
		e.committer.Close()
	}
	e.closeMetastore()
	e.releaseRoot()
}

func (e *Engine) releaseRoot() error {
	var err error
	if e.lock != nil {
		err = e.lock.Close()
	}
	return errors.Join(err, e.root.Close())
}

func (e *Engine) emit(v Event) {
	if e.opts.Listener != nil {
		e.opts.Listener(v)
	}
}

// listening reports whether building an event is worth its cost.
func (e *Engine) listening() bool { return e.opts.Listener != nil }

// detailed reports whether the listener wants the events that Options.Coarse leaves out.
func (e *Engine) detailed() bool { return e.opts.Listener != nil && !e.opts.Coarse }

// gate admits calls until it is closed, and lets Close wait for those inside.
type gate struct {
	state atomic.Int64 // how many calls are inside, one that is being refused among them; gateClosed is added when it is closed
	empty *env.Event
}

const gateClosed = 1 << 62

func (g *gate) init(e *env.Env) { g.empty = e.NewEvent() }

func (g *gate) enter() bool {
	if g.state.Add(1) >= gateClosed {
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
	if g.state.Add(-1) == gateClosed {
		g.empty.Set()
	}
}

// close refuses further calls; it reports false when that was done before.
func (g *gate) close() bool {
	before := g.state.Or(gateClosed)
	if before == 0 {
		g.empty.Set()
	}
	return before < gateClosed
}

func (g *gate) wait() { g.empty.Wait() }

func (g *gate) isClosed() bool { return g.state.Load() >= gateClosed }
