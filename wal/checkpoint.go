package wal

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"narad/env"
	"narad/vfs"
)

const (
	checkpointName = "checkpoint"
	checkpointSize = 8
)

// checkpoint is the file with the lowest sequence number that is not done: 8 bytes, big-endian, within one
// sector and overwritten in place while the log is open, so that neither its name nor its size is at stake then.
type checkpoint struct {
	env  *env.Env
	file vfs.File
	wake env.Waiter // of the checkpoint task

	// io spans the writes, so that they reach the file in ascending order. A sync runs beside them.
	io *env.Mutex

	mu          sync.Mutex // guards the fields below
	stored      uint64     // in the page cache
	durable     uint64     // on the disk
	dirtySince  env.Instant
	dirty       bool // stored has to be synced
	rewrite     bool // stored has to be written anew first: a sync or a write of it failed
	compactions bool // segments may have become removable
	closed      bool
}

func (c *checkpoint) init(e *env.Env) {
	c.env = e
	c.wake.Init(e)
	c.io = e.NewMutex()
	c.compactions = true
}

// Checkpoint returns the checkpoint as stored in the page cache, which survives the process, and as known
// to be on the disk.
func (l *Log) Checkpoint() (stored, durable uint64) {
	l.point.mu.Lock()
	defer l.point.mu.Unlock()
	return l.point.stored, l.point.durable
}

// SetCheckpoint stores that every record below seq is done and will not be needed again. It returns once
// the value is in the page cache; a background task syncs it within Options.CheckpointSync, and only then
// are records below it removed. It returns ErrCheckpoint when seq is below the stored checkpoint or above
// Next. After another error the stored checkpoint is as before and the call may be repeated.
func (l *Log) SetCheckpoint(seq uint64) error {
	c := &l.point
	c.io.Lock()
	defer c.io.Unlock()
	stored, closed := c.state()
	if closed {
		return ErrClosed
	}
	if seq < stored || seq > l.Next() {
		return fmt.Errorf("%w: %d is not in %d … %d", ErrCheckpoint, seq, stored, l.Next())
	}
	if seq == stored {
		return nil
	}
	err := c.write(seq)
	if err != nil {
		err = fmt.Errorf("store checkpoint %d: %w", seq, err)
	} else {
		l.env.Point("wal: checkpoint stored, not synced")
	}
	c.noteWrite(seq, err)
	l.event(CheckpointStored{Seq: seq, Err: err})
	return err
}

func (c *checkpoint) state() (stored uint64, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stored, c.closed
}

// write puts seq into the page cache. The caller holds io.
func (c *checkpoint) write(seq uint64) error {
	var b [checkpointSize]byte
	binary.BigEndian.PutUint64(b[:], seq)
	_, err := c.file.WriteAt(b[:], 0)
	return err
}

// noteWrite records the outcome of a write and wakes the task that will sync it.
func (c *checkpoint) noteWrite(seq uint64, err error) {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.stored = seq
		c.rewrite = false
	} else {
		c.rewrite = true // the file may hold either value, or none
	}
	if !c.dirty {
		c.dirty, c.dirtySince = true, now
		c.wake.Unpark()
	}
}

// wantCompaction makes the checkpoint task look for removable segments.
func (c *checkpoint) wantCompaction() {
	c.mu.Lock()
	c.compactions = true
	c.mu.Unlock()
	c.wake.Unpark()
}

// checkpointLoop is the task that syncs the checkpoint and, behind it, removes segments.
func (l *Log) checkpointLoop() {
	for !l.isClosing() {
		sync, compact, until := l.point.work(l.options.CheckpointSync)
		if sync {
			compact = l.syncCheckpoint() == nil
		}
		if compact {
			l.compact()
		}
		if !sync && !compact {
			l.point.wake.ParkUntil(until)
		}
	}
}

func (l *Log) isClosing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// work tells what is due now and, when nothing is, until when.
func (c *checkpoint) work(delay time.Duration) (sync, compact bool, until env.Instant) {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	compact, c.compactions = c.compactions, false
	until = env.Forever
	if c.dirty {
		until = c.dirtySince.Add(delay)
	}
	return c.dirty && now >= until, compact, until
}

// syncCheckpoint makes the stored checkpoint durable. After a failure the value is written anew before the
// next sync, which could otherwise succeed without it.
func (l *Log) syncCheckpoint() error {
	c := &l.point
	seq, err := c.prepareSync()
	if err == nil {
		l.env.Point("wal: checkpoint about to be synced")
		err = c.file.Sync()
	}
	c.noteSync(seq, err)
	if err != nil {
		err = fmt.Errorf("sync checkpoint %d: %w", seq, err)
	}
	l.event(CheckpointSynced{Seq: seq, Err: err})
	return err
}

// prepareSync returns the value that a sync begun now will make durable.
func (c *checkpoint) prepareSync() (seq uint64, err error) {
	c.io.Lock()
	defer c.io.Unlock()
	c.mu.Lock()
	seq, rewrite := c.stored, c.rewrite
	c.dirty, c.rewrite = false, false
	c.mu.Unlock()
	if rewrite {
		err = c.write(seq)
	}
	return seq, err
}

func (c *checkpoint) noteSync(seq uint64, err error) {
	now := c.env.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.durable = seq
		return
	}
	c.dirty, c.rewrite, c.dirtySince = true, true, now
}

// close syncs what is not synced yet. The tasks of the log have ended.
func (c *checkpoint) close(l *Log) error {
	c.io.Lock()
	c.mu.Lock()
	c.closed = true
	dirty := c.dirty
	c.mu.Unlock()
	c.io.Unlock()
	if !dirty {
		return nil
	}
	return l.syncCheckpoint()
}
