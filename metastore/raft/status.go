package raft

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	hraft "github.com/hashicorp/raft"
)

// contactMax is how long ago a follower may have heard from its leader to count as caught up.
const contactMax = 5 * time.Second

// counts are kept while the store is open.
type counts struct {
	storage, unknown, undecodable atomic.Uint64
	stalled                       atomic.Bool
	snapshots, snapshotFailures   atomic.Uint64
	snapshotBytes, snapshotNanos  atomic.Int64
	snapshotNanosSum              atomic.Int64
}

// progress is what the store remembers to tell whether it has caught up.
type progress struct {
	passedTerm atomic.Uint64 // of the newest barrier passed
	caughtUp   atomic.Bool   // was once

	mu    sync.Mutex // guards quiet
	quiet uint64     // no entry above the replica's and up to this one is a change
}

func (p *progress) passed(term uint64) { p.passedTerm.Store(term) }

// Status is the state of a store, as this node knows it.
type Status struct {
	State            string // "follower", "candidate", "leader" or "shutdown"
	Term             uint64
	LastLogIndex     uint64
	CommitIndex      uint64
	AppliedIndex     uint64 // handed to the replica by Raft
	DurableIndex     uint64 // of the newest change in the replica
	FSMPending       int    // batches of entries that wait for the replica
	HasLeader        bool
	LeaderID         string
	LeaderAddr       string
	LastContact      time.Duration // since the leader was heard; 0 on the leader, -1 when it never was
	Voters           int
	NonVoters        int
	ReplicaBytes     int64
	Version          uint64 // of the state that reads show
	CaughtUp         bool   // the replica is as new as anything that this node has heard of
	CaughtUpOnce     bool   // since the start
	ApplyStalled     bool   // the disk refuses a write, which is tried again
	Stopped          error  // why nothing is applied any more, nil while all is well
	StorageErrors    uint64
	UnknownEntries   uint64
	UndecodedEntries uint64
	Snapshots        uint64 // written since the start
	SnapshotFailures uint64
	SnapshotBytes    int64         // of the newest one
	SnapshotDuration time.Duration // it took to write that
	// SnapshotDurations is what all snapshots since the start took together.
	SnapshotDurations time.Duration
}

// Status tells how the store is. It does not wait for Raft or for the disk.
func (s *Store) Status() Status {
	stats := s.raft.Stats()
	number := func(key string) uint64 {
		n, _ := strconv.ParseUint(stats[key], 10, 64)
		return n
	}
	addr, id := s.raft.LeaderWithID()
	c := &s.fsm.counts
	v := Status{
		State: stateName(s.raft.State()), Term: number("term"), LastLogIndex: number("last_log_index"), CommitIndex: number("commit_index"),
		AppliedIndex: number("applied_index"), DurableIndex: s.fsm.at.Load().index, FSMPending: int(number("fsm_pending")),
		HasLeader: id != "", LeaderID: string(id), LeaderAddr: string(addr), LastContact: s.lastContact(), ReplicaBytes: s.fsm.bytes.Load(),
		Version: s.Version(), CaughtUp: s.isCaughtUp(), ApplyStalled: c.stalled.Load(), Stopped: s.fsm.failed(),
		StorageErrors: c.storage.Load(), UnknownEntries: c.unknown.Load(), UndecodedEntries: c.undecodable.Load(),
		Snapshots: c.snapshots.Load(), SnapshotFailures: c.snapshotFailures.Load(), SnapshotBytes: c.snapshotBytes.Load(),
		SnapshotDuration: time.Duration(c.snapshotNanos.Load()), SnapshotDurations: time.Duration(c.snapshotNanosSum.Load()),
	}
	v.CaughtUpOnce = s.caughtUp.Load()
	for _, server := range s.raft.GetConfiguration().Configuration().Servers {
		if server.Suffrage == hraft.Voter {
			v.Voters++
		} else {
			v.NonVoters++
		}
	}
	return v
}

func stateName(state hraft.RaftState) string {
	switch state {
	case hraft.Leader:
		return "leader"
	case hraft.Candidate:
		return "candidate"
	case hraft.Follower:
		return "follower"
	}
	return "shutdown"
}

// Ready returns nil when the node may serve: it knows a leader, has caught up, and applies what is committed.
func (s *Store) Ready() error {
	if err := s.fsm.failed(); err != nil {
		return err
	}
	if _, id := s.raft.LeaderWithID(); id == "" {
		return s.noLeader()
	}
	if !s.isCaughtUp() {
		return errors.New("the metastore has not caught up")
	}
	return nil
}

func (s *Store) voters() (n int) {
	for _, server := range s.raft.GetConfiguration().Configuration().Servers {
		if server.Suffrage == hraft.Voter {
			n++
		}
	}
	return n
}

func (s *Store) lastContact() time.Duration {
	if s.raft.State() == hraft.Leader {
		return 0
	}
	if last := s.raft.LastContact(); !last.IsZero() {
		return time.Since(last)
	}
	return -1
}

// isCaughtUp reports whether the replica holds every change that this node knows to be committed, and whether this node hears
// from its leader, or has passed a barrier if it leads.
func (s *Store) isCaughtUp() bool {
	if s.fsm.failed() != nil {
		return false
	}
	target := max(s.trans.newest.Load(), s.raft.CommitIndex())
	switch contact := s.lastContact(); {
	case s.raft.State() == hraft.Leader:
		if s.passedTerm.Load() != s.raft.CurrentTerm() {
			return false
		}
		target = s.raft.CommitIndex()
	case contact < 0 || contact > contactMax:
		return false
	default:
		if _, id := s.raft.LeaderWithID(); id == "" {
			return false
		}
	}
	applied := s.raft.AppliedIndex() // by Raft's account: the replica may still be at it
	if applied < target || !s.isQuiet(applied) {
		return false
	}
	s.caughtUp.Store(true)
	return true
}

// isQuiet reports whether no entry up to one is a change that the replica does not have.
func (s *Store) isQuiet(to uint64) bool {
	s.progress.mu.Lock()
	defer s.progress.mu.Unlock()
	for i := max(s.quiet, s.fsm.at.Load().index) + 1; i <= to; i++ {
		var l hraft.Log
		err := s.files.logs.GetLog(i, &l)
		if err == nil && l.Type == hraft.LogCommand {
			return s.fsm.at.Load().index >= to
		}
		if err != nil && !errors.Is(err, hraft.ErrLogNotFound) { // one that a snapshot replaced was applied
			return false
		}
		s.quiet = i
	}
	return true
}

// AwaitCaughtUp waits until the replica has caught up. The error is that of the context, or why the store has stopped.
func (s *Store) AwaitCaughtUp(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !s.isCaughtUp() {
		if err := s.fsm.failed(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the replica has not caught up: %w", ctx.Err())
		}
	}
	return nil
}

func (s *Store) awaitCaughtUp(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return s.AwaitCaughtUp(ctx)
}
