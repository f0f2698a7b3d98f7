package raft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"narad/metastore"

	hraft "github.com/hashicorp/raft"
)

const (
	fsmFile     = "fsm.db"
	restoreFile = "fsm.db.restore"
)

// errStale refuses an entry that was planned against another state than it is applied to.
var errStale = errors.New("the entry was planned against another state")

// command is the entry of a change in the log, as JSON.
type command struct {
	After  uint64          `json:"after"` // number of the state that the change was planned against
	Change json.RawMessage `json:"change"`
}

// fsm applies entries to the replica. One goroutine of Raft calls its methods, except for failed, and for the
// snapshot that Snapshot returns.
type fsm struct {
	dir     string
	config  Config
	replica *metastore.Replica // what it shows is in the file
	closing <-chan struct{}

	mu   sync.Mutex // guards the pointer below, which a restore replaces
	disk *disk

	at      atomic.Pointer[position]
	failure atomic.Pointer[error] // why nothing is applied any more
	stop    func(error)           // tells the store, once

	bytes  atomic.Int64 // of the file
	counts counts
}

// ApplyBatch applies entries in order, as many as possible in one transaction, and returns for each nil or the error that
// refuses it.
func (f *fsm) ApplyBatch(logs []*hraft.Log) []any {
	answers := make([]any, len(logs))
	b := f.newBatch()
	for i, l := range logs {
		if l.Type != hraft.LogCommand {
			continue
		}
		if err := f.failed(); err != nil {
			answers[i] = err
			continue
		}
		refused, err := b.add(l)
		if err != nil {
			f.flush(b)
			f.fail(err)
			answers[i] = f.failed()
			continue
		}
		answers[i] = refused
	}
	if f.failed() == nil {
		f.flush(b)
	}
	if err := f.failed(); err != nil {
		for i, l := range logs { // what is not durable was not done
			if l.Index > f.at.Load().index && l.Type == hraft.LogCommand {
				answers[i] = err
			}
		}
	}
	return answers
}

// Apply applies one entry.
func (f *fsm) Apply(l *hraft.Log) any { return f.ApplyBatch([]*hraft.Log{l})[0] }

// batch is entries that have been applied in memory and are not in the file yet.
type batch struct {
	state   *metastore.State
	at      position
	changed []metastore.Record
	counts  *counts
}

func (f *fsm) newBatch() *batch {
	return &batch{state: f.replica.State(), at: *f.at.Load(), counts: &f.counts}
}

// add applies an entry. It returns why the entry changes nothing, or the error for which nothing may be applied any more.
func (b *batch) add(l *hraft.Log) (refused any, err error) {
	if l.Index <= b.at.index {
		return nil, nil // applied before the last stop
	}
	var cmd command
	change := metastore.Change{}
	err = json.Unmarshal(l.Data, &cmd)
	if err == nil {
		change, err = metastore.DecodeChange(cmd.Change)
	}
	var unknown *metastore.UnknownChangeError
	switch {
	case errors.As(err, &unknown):
		b.counts.unknown.Add(1)
		return nil, fmt.Errorf("entry %d: %w", l.Index, err)
	case err != nil: // nobody can read it: it changes nothing anywhere
		b.counts.undecodable.Add(1)
		refused = err
	case cmd.After != b.state.Sequence():
		refused = errStale
	default:
		refused, err = b.apply(change)
		if err != nil {
			return nil, err
		}
	}
	b.at.index, b.at.term = l.Index, l.Term
	return refused, nil
}

func (b *batch) apply(c metastore.Change) (refused any, err error) {
	next, err := b.state.Apply(c)
	if err != nil {
		return err, nil
	}
	changed, err := next.Changed(b.state, c)
	if err != nil {
		return nil, err
	}
	b.state, b.at.sequence = next, next.Sequence()
	b.changed = append(b.changed, changed...)
	return nil, nil
}

// flush makes a batch durable and then visible. A disk that refuses is tried again for a while.
func (f *fsm) flush(b *batch) {
	if b.at == *f.at.Load() {
		return
	}
	start, pause := time.Now(), f.config.retryFirst
	for {
		err := f.write(b)
		if err == nil {
			break
		}
		f.counts.storage.Add(1)
		f.counts.stalled.Store(true)
		f.config.Logger.Error("metastore: the replica cannot be written", "error", err)
		if time.Since(start) >= f.config.retryFor {
			f.fail(fmt.Errorf("write %s: %w", fsmFile, err))
			return
		}
		select {
		case <-time.After(pause):
		case <-f.closing:
			f.fail(fmt.Errorf("write %s: %w", fsmFile, err))
			return
		}
		pause = min(2*pause, 5*time.Second)
	}
	f.counts.stalled.Store(false)
	f.at.Store(&b.at)
	f.bytes.Store(f.disk.size())
	f.replica.Show(b.state)
}

func (f *fsm) write(b *batch) error {
	if f.config.failWrite != nil {
		if err := f.config.failWrite(); err != nil {
			return err
		}
	}
	return f.disk.write(b.changed, b.at)
}

// fail stops applying for good.
func (f *fsm) fail(err error) {
	if f.failure.CompareAndSwap(nil, &err) {
		f.stop(err)
	}
}

// failed returns why nothing is applied any more, nil while all is well.
func (f *fsm) failed() error {
	if err := f.failure.Load(); err != nil {
		return fmt.Errorf("%w: %w", metastore.ErrFailed, *err)
	}
	return nil
}

// Restore replaces the replica by a snapshot, unless it is newer.
func (f *fsm) Restore(from io.ReadCloser) error {
	defer from.Close()
	if err := f.failed(); err != nil {
		return err
	}
	path := filepath.Join(f.dir, restoreFile)
	if err := receive(path, from); err != nil {
		return err
	}
	got, err := openDisk(path, f.config.noSync)
	if err != nil {
		return err
	}
	state, at, err := got.load()
	if err = errors.Join(err, got.close()); err != nil {
		return err
	}
	if at.index < f.at.Load().index {
		return os.Remove(path)
	}
	return f.replace(path, state, at)
}

// replace puts a file in the place of the replica's.
func (f *fsm) replace(path string, state *metastore.State, at position) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.disk.close(); err != nil {
		return err
	}
	err := os.Rename(path, filepath.Join(f.dir, fsmFile))
	if err == nil {
		err = syncDir(f.dir)
	}
	d, openErr := openDisk(filepath.Join(f.dir, fsmFile), f.config.noSync)
	if openErr == nil {
		f.disk = d
	}
	if err = errors.Join(err, openErr); err != nil {
		f.fail(fmt.Errorf("restore a snapshot: %w", err))
		return err
	}
	f.at.Store(&at)
	f.bytes.Store(f.disk.size())
	f.replica.Show(state)
	return nil
}
