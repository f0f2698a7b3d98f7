package server

import (
	"encoding/json"
	"net/http"

	"narad/engine"
)

// topicBody is the wire form of a topic.
type topicBody struct {
	Name          string `json:"name"`
	ID            string `json:"id"`
	Partitions    int32  `json:"partitions"`
	RetentionMs   int64  `json:"retention_ms"`
	VisibilityMs  int64  `json:"visibility_timeout_ms"`
	MaxInFlight   int32  `json:"max_in_flight_per_partition"`
	MaxAckedAhead int32  `json:"max_acked_ahead_per_partition"`
	CreatedAt     int64  `json:"created_at"` // unix seconds
	Owner         string `json:"owner,omitempty"`
	Role          string `json:"role,omitempty"`
}

// describedBody is a topic with its partitions and its schema.
type describedBody struct {
	topicBody
	SchemaVersion  int             `json:"schema_version"`
	Schema         json.RawMessage `json:"schema,omitempty"`
	PartitionStats []partitionBody `json:"partition_stats"`
	Partial        bool            `json:"partial,omitempty"` // some partitions could not be looked at
}

// partitionBody is the wire form of a partition's statistics.
type partitionBody struct {
	Index           int32  `json:"index"`
	Segments        int    `json:"segments"`
	Oldest          int64  `json:"oldest_offset"`
	Next            int64  `json:"next_offset"`
	HighWatermark   int64  `json:"high_watermark"`
	SizeBytes       int64  `json:"size_bytes"`
	OldestSegmentAt int64  `json:"oldest_segment_at,omitempty"` // unix seconds of its first message
	OwnerNode       string `json:"owner_node"`
	Status          string `json:"status"`
	OwnerLiveness   string `json:"owner_liveness,omitempty"`
}

// roleStandalone is the only role while topics have no children.
const roleStandalone = "standalone"

func newTopicBody(t *engine.Topic, role string) topicBody {
	return topicBody{
		Name: t.Name, ID: t.ID, Partitions: t.Partitions, RetentionMs: t.RetentionMs, VisibilityMs: t.VisibilityMs,
		MaxInFlight: t.MaxInFlight, MaxAckedAhead: t.MaxAckedAhead, CreatedAt: t.CreatedAt, Owner: t.Owner, Role: role,
	}
}

// getTopic describes a topic. It keeps no partition log open that was not.
func (s *Server) getTopic(x *exchange) error {
	if _, err := x.found(ActionRead); err != nil {
		return err
	}
	q, err := x.query()
	if err != nil {
		return err
	}
	one, err := q.partition()
	if err != nil {
		return err
	}
	view, err := s.engine.Describe(x.topic)
	if err != nil {
		return err
	}
	if one >= view.Topic.Partitions {
		return badf("partition %d, topic %s has 0 to %d", one, view.Topic.Name, view.Topic.Partitions-1)
	}
	body := describedBody{topicBody: newTopicBody(&view.Topic, roleStandalone), PartitionStats: []partitionBody{}}
	for i := range view.Partitions {
		p := &view.Partitions[i]
		if one == engine.AnyPartition || p.Partition == one {
			stat := s.statOf(x, p)
			body.Partial = body.Partial || stat.Status != statusOK
			body.PartitionStats = append(body.PartitionStats, stat)
		}
	}
	if s.opts.Schemas != nil {
		body.SchemaVersion, body.Schema = s.opts.Schemas.Current(&view.Topic)
	}
	return x.value(http.StatusOK, body)
}

const (
	statusOK          = "ok"
	statusUnavailable = "owner_unavailable"
)

// statOf describes a partition. What memory does not know of it since the start is learned from its files, once.
func (s *Server) statOf(x *exchange, p *engine.PartitionView) partitionBody {
	if !p.LogKnown {
		s.learn(x, p)
	}
	stat := partitionBody{
		Index: p.Partition, Segments: p.Segments, Oldest: p.Oldest, Next: p.HighWatermark, HighWatermark: p.HighWatermark,
		SizeBytes: p.Bytes, OldestSegmentAt: p.FirstMs / 1000, OwnerNode: s.opts.NodeID, Status: statusOK,
	}
	if !p.LogKnown { // its files cannot be read, or somebody is just opening them
		stat.Status, stat.OwnerLiveness = statusUnavailable, "unknown"
	}
	return stat
}

func (s *Server) learn(x *exchange, p *engine.PartitionView) {
	if err := s.engine.Learn(x.topic, p.Partition); err != nil {
		s.opts.Logger.Warn("a partition could not be described", "topic", x.topic, "partition", p.Partition, "error", err)
		return
	}
	if view, err := s.engine.Describe(x.topic); err == nil && int(p.Partition) < len(view.Partitions) {
		*p = view.Partitions[p.Partition]
	}
}
