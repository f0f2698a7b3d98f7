package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// RaftStatus is the state of the metastore's Raft on this node.
type RaftStatus struct {
	State                  string // follower, candidate, leader or shutdown
	Term                   uint64
	LastIndex, CommitIndex uint64
	AppliedIndex           uint64 // by Raft's count
	FSMPending             uint64
	HasLeader              bool
	LastContact            time.Duration // since the leader was heard of; 0 on the leader, negative when it never was
	Voters, Nonvoters      int
	MetastoreBytes         int64  // of the replica on disk
	MetastoreApplied       uint64 // entries that are durably applied to it
	ApplyStopped           bool   // an entry could not be applied: this replica stands still
	ApplyStalled           bool   // the disk refuses an entry, which is tried again
	ApplyErrors            map[string]uint64
	SnapshotBytes          int64
	SnapshotFailures       uint64
	SnapshotCount          uint64  // since the start
	SnapshotSeconds        float64 // that the newest one took
}

var raftStates = [...]string{"follower", "candidate", "leader", "shutdown"}

// applyErrorKinds are the values of the label kind of metastore_apply_errors_total.
var applyErrorKinds = [...]string{"storage", "unknown_entry_type", "undecodable", "newer_database"}

var (
	descRaftState     = describe("raft_state", "1 for the state that this node is in.", "state")
	descRaftTerm      = describe("raft_term", "Current term.")
	descRaftLast      = describe("raft_last_log_index", "Index of the last entry of the log.")
	descRaftCommit    = describe("raft_commit_index", "Index up to which entries are committed.")
	descRaftApplied   = describe("raft_applied_index", "Index up to which entries were given to the metastore.")
	descRaftPending   = describe("raft_fsm_pending", "Entries that wait for the metastore.")
	descRaftLeader    = describe("raft_has_leader", "1 when a leader is known.")
	descRaftContact   = describe("raft_last_contact_seconds", "Time since the leader was heard of; 0 on the leader.")
	descRaftVoters    = describe("raft_voters", "Members that vote.")
	descRaftNonvoters = describe("raft_nonvoters", "Members that do not vote.")
	descMetaBytes     = describe("metastore_fsm_bytes", "Bytes of the metastore's replica.")
	descMetaApplied   = describe("metastore_applied_index", "Index up to which entries are applied to the replica.")
	descMetaErrors    = describe("metastore_apply_errors_total", "Entries that could not be applied, by kind.", "kind")
	descMetaStopped   = describe("metastore_apply_stopped", "1 when the replica stands still because an entry could not be applied.")
	descMetaStalled   = describe("metastore_apply_stalled", "1 while the disk refuses an entry, which is tried again.")
	descSnapshots     = describe("metastore_snapshots_total", "Snapshots that were written since the start.")
	descSnapBytes     = describe("metastore_snapshot_bytes", "Bytes of the newest snapshot.")
	descSnapSeconds   = describe("metastore_snapshot_duration_seconds", "Time that the newest snapshot took to write.")
	descSnapFailures  = describe("metastore_snapshot_failures_total", "Snapshots that failed.")
)

// raftCollector reads the state of Raft when it is scraped.
type raftCollector struct{ read func() RaftStatus }

// Describe implements prometheus.Collector.
func (c *raftCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRaftState, descRaftTerm, descRaftLast, descRaftCommit, descRaftApplied, descRaftPending, descRaftLeader, descRaftContact,
		descRaftVoters, descRaftNonvoters, descMetaBytes, descMetaApplied, descMetaErrors, descMetaStopped, descMetaStalled, descSnapshots, descSnapBytes, descSnapSeconds,
		descSnapFailures,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *raftCollector) Collect(to chan<- prometheus.Metric) {
	s := c.read()
	for _, state := range raftStates {
		level(to, descRaftState, truth(state == s.State), state)
	}
	level(to, descRaftTerm, float64(s.Term))
	level(to, descRaftLast, float64(s.LastIndex))
	level(to, descRaftCommit, float64(s.CommitIndex))
	level(to, descRaftApplied, float64(s.AppliedIndex))
	level(to, descRaftPending, float64(s.FSMPending))
	level(to, descRaftLeader, truth(s.HasLeader))
	if s.LastContact >= 0 {
		level(to, descRaftContact, s.LastContact.Seconds())
	}
	level(to, descRaftVoters, float64(s.Voters))
	level(to, descRaftNonvoters, float64(s.Nonvoters))
	level(to, descMetaBytes, float64(s.MetastoreBytes))
	level(to, descMetaApplied, float64(s.MetastoreApplied))
	for _, kind := range applyErrorKinds {
		count(to, descMetaErrors, s.ApplyErrors[kind], kind)
	}
	level(to, descMetaStopped, truth(s.ApplyStopped))
	level(to, descMetaStalled, truth(s.ApplyStalled))
	level(to, descSnapBytes, float64(s.SnapshotBytes))
	level(to, descSnapSeconds, s.SnapshotSeconds)
	count(to, descSnapshots, s.SnapshotCount)
	count(to, descSnapFailures, s.SnapshotFailures)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
