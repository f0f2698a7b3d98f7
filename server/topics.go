package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"narad/engine"
)

// partitionsMin is the fewest partitions that a topic of this surface has; the engine takes fewer.
const partitionsMin = 3

// Bounds of a page of topics.
const (
	pageDefault = 100
	pageMax     = 1000
)

// roleStandalone is the only role while topics have no children.
const roleStandalone = "standalone"

// createRequest is the body of POST /v1/topics. A pointer tells an absent field, or null, from a zero.
type createRequest struct {
	Name          string           `json:"name"`
	Partitions    *int64           `json:"partitions"`
	RetentionMs   *int64           `json:"retention_ms"`
	VisibilityMs  *int64           `json:"visibility_timeout_ms"`
	MaxInFlight   *int64           `json:"max_in_flight_per_partition"`
	MaxAckedAhead *int64           `json:"max_acked_ahead_per_partition"`
	Owner         json.RawMessage  `json:"owner"` // ignored
	Schema        *json.RawMessage `json:"schema"`
	Parent        *json.RawMessage `json:"parent"`
	FanoutDelayMs *json.RawMessage `json:"fanout_delay_ms"`
}

// topicBody is the wire form of a topic.
type topicBody struct {
	Name           string          `json:"name"`
	ID             string          `json:"id"`
	Partitions     int32           `json:"partitions"`
	RetentionMs    int64           `json:"retention_ms"`
	VisibilityMs   int64           `json:"visibility_timeout_ms"`
	MaxInFlight    int32           `json:"max_in_flight_per_partition"`
	MaxAckedAhead  int32           `json:"max_acked_ahead_per_partition"`
	CreatedAt      int64           `json:"created_at"` // unix seconds
	Role           string          `json:"role,omitempty"`
	PartitionStats []partitionBody `json:"partition_stats,omitempty"`
}

// partitionBody is the wire form of a partition's statistics.
type partitionBody struct {
	Index         int32  `json:"index"`
	Oldest        int64  `json:"oldest_offset"`
	Next          int64  `json:"next_offset"`
	HighWatermark int64  `json:"high_watermark"`
	Status        string `json:"status"`
}

func newTopicBody(t engine.Topic, role string) topicBody {
	return topicBody{
		Name: t.Name, ID: t.ID, Partitions: t.Partitions, RetentionMs: t.RetentionMs, VisibilityMs: t.VisibilityMs,
		MaxInFlight: t.MaxInFlight, MaxAckedAhead: t.MaxAckedAhead, CreatedAt: t.CreatedAt, Role: role,
	}
}

func (s *Server) createTopic(x *exchange) error {
	body, err := x.body(bodyMax)
	if err != nil {
		return err
	}
	var req createRequest
	if err := decodeStrict(body, &req); err != nil {
		return err
	}
	spec, err := req.spec(s.opts.DefaultRetentionMs)
	if err != nil {
		return err
	}
	t, err := s.engine.CreateTopic(spec)
	if err != nil {
		return err
	}
	return x.value(http.StatusCreated, newTopicBody(t, "")) // the role is absent here, as facts 1.3 have it
}

// decodeStrict decodes one JSON value. An unknown field, and anything behind the value, is refused.
func decodeStrict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badf("the request body is not what this route takes: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badf("the request body goes on after its JSON value")
	}
	return nil
}

// spec checks what this surface restricts beyond the engine and fills in what is absent.
func (q createRequest) spec(retentionMs int64) (engine.TopicSpec, error) {
	for _, field := range []struct {
		name  string
		value *json.RawMessage
	}{{"schema", q.Schema}, {"parent", q.Parent}, {"fanout_delay_ms", q.FanoutDelayMs}} {
		if field.value != nil {
			return engine.TopicSpec{}, badf("%s is not supported by this server", field.name)
		}
	}
	spec := engine.TopicSpec{Name: q.Name, Partitions: partitionsMin, RetentionMs: retentionMs}
	if q.Partitions != nil {
		if *q.Partitions < partitionsMin || *q.Partitions > engine.MaxPartitions {
			return spec, badf("partitions is %d, allowed are %d to %d", *q.Partitions, partitionsMin, engine.MaxPartitions)
		}
		spec.Partitions = int(*q.Partitions)
	}
	if q.RetentionMs != nil {
		spec.RetentionMs = *q.RetentionMs
	}
	if q.VisibilityMs != nil {
		if *q.VisibilityMs < 1 || *q.VisibilityMs > math.MaxInt64/int64(time.Millisecond) {
			return spec, badf("visibility_timeout_ms is %d, allowed is at least 1", *q.VisibilityMs)
		}
		spec.Visibility = time.Duration(*q.VisibilityMs) * time.Millisecond
	}
	spec.MaxInFlight = capOf(q.MaxInFlight)
	spec.MaxAckedAhead = capOf(q.MaxAckedAhead)
	return spec, nil
}

// capOf returns a cap of the request, 0 (the default) when it is absent, and something that the engine
// refuses when it does not fit.
func capOf(n *int64) int {
	if n == nil {
		return 0
	}
	return int(min(max(*n, -1), math.MaxInt32))
}

func (s *Server) listTopics(x *exchange) error {
	q, err := x.query()
	if err != nil {
		return err
	}
	limit := pageDefault
	if text, given := q.first("limit"); given {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return badf("limit is not a number from 1 on")
		}
	}
	limit = min(limit, pageMax)
	after, _ := q.first("page_token")
	topics := s.engine.Topics(after, limit+1)
	page := struct {
		Topics []topicBody `json:"topics"`
		Next   string      `json:"next_page_token"`
	}{Topics: []topicBody{}}
	if len(topics) > limit { // the token is the last name of the page
		topics = topics[:limit]
		page.Next = topics[limit-1].Name
	}
	for _, t := range topics {
		page.Topics = append(page.Topics, newTopicBody(t, roleStandalone))
	}
	return x.value(http.StatusOK, page)
}

func (s *Server) getTopic(x *exchange) error {
	t, err := s.engine.Topic(x.topic)
	if err != nil {
		return err
	}
	stats, err := s.engine.Stats(t.Name)
	if err != nil {
		return err
	}
	body := newTopicBody(t, roleStandalone)
	for _, p := range stats {
		body.PartitionStats = append(body.PartitionStats, partitionBody{
			Index: p.Partition, Oldest: p.Oldest, Next: p.HighWatermark, HighWatermark: p.HighWatermark, Status: "ok",
		})
	}
	return x.value(http.StatusOK, body)
}
