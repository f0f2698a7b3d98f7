package wal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// maxUnsynced is the largest number of bytes that are written between two syncs of a segment. Recovery
// relies on it: what lies further than this behind a torn frame was written after the frame was synced.
const maxUnsynced = record.WALHeaderSize + record.MaxWALRecord

// Log is an open ingress log. Its methods may be called by several tasks at once.
//
// Lock order: dirMu and point.io, which span I/O and are never held together, come before mu and point.mu,
// which guard memory and are never held together either.
type Log struct {
	env     *env.Env
	dir     vfs.Dir
	options Options
	tasks   *env.Group
	next    atomic.Uint64 // durable end; advanced under mu by the task that commits
	point   checkpoint

	prepared preparation

	// dirMu spans every change of names together with the directory sync that follows it, so that a failed
	// sync is always the one of the task that made the change.
	dirMu *env.Mutex

	// tail is the end of the active segment. It belongs to the task that has set committing.
	tail struct {
		file vfs.File
		seg  *segment // it and its fields are written under mu
	}

	wake  env.Waiter // of the sync task
	relay env.Relay  // of writers who are expected back; of the task that has set committing

	mu         sync.Mutex // guards the fields below
	open       *batch     // takes appends
	spare      *batch     // empty; nil while it is written
	committing bool       // one task, a writer or the sync task, writes the active segment
	staged     uint64     // sequence number of the next record to be staged
	queue      writerList // appends that wait for room in open
	gather     gather     // how long open waits for more
	segments   []*segment // oldest first; the last is active
	rollWanted bool
	closing    bool
	err        error // *FailedError once the log has latched

	writers sync.Pool // of *writer
}

// Open opens the log in dir, an existing directory whose name is durable, and makes what it finds there
// durable before it returns. It owns dir from then on, also when it fails. It returns a *[CorruptError],
// having changed nothing, when the files are damaged in a way that could have hit acknowledged records.
func Open(e *env.Env, dir vfs.Dir, o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		dir.Close()
		return nil, err
	}
	l := &Log{env: e, dir: dir, options: o.withDefaults(), tasks: e.NewGroup(), dirMu: e.NewMutex()}
	l.open, l.spare = &batch{}, &batch{}
	l.wake.Init(e)
	l.point.init(e)
	l.prepared.wake.Init(e)
	recovered, err := l.load()
	if err != nil {
		l.closeFiles()
		return nil, fmt.Errorf("open ingress log: %w", err)
	}
	l.staged = recovered.Next
	l.next.Store(recovered.Next)
	l.event(recovered)
	l.tasks.Go("wal sync", l.syncLoop)
	l.tasks.Go("wal checkpoint", l.checkpointLoop)
	if l.options.Preallocate {
		l.tasks.Go("wal prepare", l.prepareLoop)
	}
	return l, nil
}

// Append adds the payloads to the log with consecutive sequence numbers, the first of which it returns, and
// blocks until all of them are durable. The payloads are copied; the caller may reuse them afterwards.
//
// On error some of the first payloads, perhaps all, may be in the log and become durable all the same, unless the
// error is ErrSize or ErrClosed. A *[FailedError] means that the log accepts nothing until it is reopened.
func (l *Log) Append(payloads ...[]byte) (first uint64, err error) {
	need, err := framesSize(payloads)
	if err != nil {
		return 0, err
	}
	w := l.takeWriter()
	w.need = need
	w.sum(payloads)
	l.lockToStage()
	if err := l.refusalLocked(); err != nil {
		l.mu.Unlock()
		l.giveWriter(w)
		return 0, err
	}
	var own *batch
	if l.queue.head == nil && l.open.fits(need, l.options.BatchBytes) {
		l.stageLocked(w, payloads)
		switch staged := l.open.writers.count; {
		case l.committing:
		case l.gather.isAlone(staged):
			own = l.takeOpenLocked()
		case l.gather.isLast(staged):
			l.wake.Unpark()
		}
	} else {
		w.payloads = append(w.payloads[:0], payloads...)
		l.queue.push(w)
		l.wake.Unpark() // the batch is full, so it waits for nobody
	}
	l.mu.Unlock()

	if own != nil && l.commitAlone(own) {
		l.wake.Unpark()
	}
	w.waiter.Park()
	if first, err = w.first, w.err; err != nil {
		first = 0
	}
	l.giveWriter(w)
	return first, err
}

// Next returns the durable end: every record with a lower sequence number is durable.
func (l *Log) Next() uint64 { return l.next.Load() }

// Err returns the *[FailedError] of a log that has failed, else nil. It stays until the log is reopened.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close waits for the appends under way, syncs the checkpoint, removes what was prepared and releases the files. Readers must be
// closed by their owners. Further calls return ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.closing = true
	l.mu.Unlock()
	l.wake.Unpark()
	l.point.wake.Unpark()
	l.prepared.wake.Unpark()
	l.tasks.Wait()
	l.closePrepared()
	var err error
	if l.tail.seg.prepared && l.err == nil {
		err = l.trimDurably()
	}
	return errors.Join(err, l.point.close(l), l.closeFiles())
}

func (l *Log) closeFiles() error { return errors.Join(l.closeOpened(), l.dir.Close()) }

// closeOpened closes the files that are open, and forgets them.
func (l *Log) closeOpened() error {
	var errs []error
	for _, file := range []*vfs.File{&l.tail.file, &l.point.file} {
		if *file != nil {
			errs = append(errs, (*file).Close())
			*file = nil
		}
	}
	return errors.Join(errs...)
}

// refusalLocked returns why the log accepts nothing, or nil.
func (l *Log) refusalLocked() error {
	if l.err != nil {
		return l.err
	}
	if l.closing {
		return ErrClosed
	}
	return nil
}

// stageLocked stages the payloads of w in the open batch.
func (l *Log) stageLocked(w *writer, payloads [][]byte) {
	l.open.stage(w, l.staged, payloads, l.options.BatchBytes)
	l.staged += uint64(len(payloads))
}

// stageQueueLocked stages waiting appends, in their order, as long as they fit.
func (l *Log) stageQueueLocked() {
	for l.queue.head != nil && l.open.fits(l.queue.head.need, l.options.BatchBytes) {
		w := l.queue.pop()
		l.stageLocked(w, w.payloads)
	}
}

// stagingTries is how often a writer tries for the lock before it parks: about as long as another one stages.
const stagingTries = 64

// lockToStage takes mu for an append. All writers of a batch come back at once and each holds the lock for a moment, so
// a task switch, as [sync.Mutex] makes at once when other tasks are ready to run, would cost far more than to try again.
func (l *Log) lockToStage() {
	for range stagingTries {
		if l.mu.TryLock() {
			return
		}
	}
	l.mu.Lock()
}

func (l *Log) takeWriter() *writer {
	if w, ok := l.writers.Get().(*writer); ok {
		return w
	}
	w := &writer{}
	w.waiter.Init(l.env)
	return w
}

func (l *Log) giveWriter(w *writer) {
	if len(w.payloads) > 0 {
		clear(w.payloads)
		w.payloads = w.payloads[:0]
	}
	w.err = nil
	l.writers.Put(w)
}

func (l *Log) event(v Event) {
	if l.options.Event != nil {
		l.options.Event(v)
	}
}
