package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// TopicSpec describes a topic to create. A zero field is left to the server.
type TopicSpec struct {
	Name          string          `json:"name"`
	Partitions    int             `json:"partitions,omitempty"`
	RetentionMs   *int64          `json:"retention_ms,omitempty"` // a pointer to 0: keep for ever
	VisibilityMs  int64           `json:"visibility_timeout_ms,omitempty"`
	MaxInFlight   int             `json:"max_in_flight_per_partition,omitempty"`
	MaxAckedAhead int             `json:"max_acked_ahead_per_partition,omitempty"`
	Schema        json.RawMessage `json:"schema,omitempty"`
	Parent        string          `json:"parent,omitempty"`
	FanoutDelayMs int64           `json:"fanout_delay_ms,omitempty"`
}

// TopicPatch changes a topic. A nil field stays as it is.
type TopicPatch struct {
	RetentionMs       *int64          `json:"retention_ms,omitempty"`                  // 0: keep for ever
	MaxInFlight       *int            `json:"max_in_flight_per_partition,omitempty"`   // 0: the server's default
	MaxAckedAhead     *int            `json:"max_acked_ahead_per_partition,omitempty"` // 0: the server's default
	Partitions        *int            `json:"partitions,omitempty"`                    // may only grow
	Schema            json.RawMessage `json:"schema,omitempty"`
	SchemaBaseVersion *int            `json:"schema_base_version,omitempty"` // refused (ErrExists) when the newest is another one
}

// Topic is a topic as the server describes it.
type Topic struct {
	Name           string           `json:"name"`
	ID             string           `json:"id"`
	Partitions     int              `json:"partitions"`
	RetentionMs    int64            `json:"retention_ms"` // 0: for ever
	VisibilityMs   int64            `json:"visibility_timeout_ms"`
	MaxInFlight    int              `json:"max_in_flight_per_partition"`
	MaxAckedAhead  int              `json:"max_acked_ahead_per_partition"`
	CreatedAt      int64            `json:"created_at"` // unix seconds
	Owner          string           `json:"owner,omitempty"`
	Role           string           `json:"role,omitempty"` // standalone, parent or child
	Parent         string           `json:"parent,omitempty"`
	Children       []string         `json:"children,omitempty"`
	SchemaVersion  int              `json:"schema_version,omitempty"` // 0: none
	Schema         json.RawMessage  `json:"schema,omitempty"`
	PartitionStats []PartitionStats `json:"partition_stats,omitempty"`
	Partial        bool             `json:"partial,omitempty"` // some partitions are unavailable
}

// PartitionStats describes one partition.
type PartitionStats struct {
	Index         int    `json:"index"`
	Segments      int    `json:"segments"`
	Oldest        int64  `json:"oldest_offset"`
	Next          int64  `json:"next_offset"`
	HighWatermark int64  `json:"high_watermark"`
	Size          int64  `json:"size_bytes"`
	Owner         string `json:"owner_node,omitempty"`
	Status        string `json:"status"` // "ok" or "owner_unavailable"
	Liveness      string `json:"owner_liveness,omitempty"`
}

// Schemas is the history of a topic's schema.
type Schemas struct {
	Topic    string          `json:"topic"`
	Version  int             `json:"version"` // the newest, 0 when there is none
	Versions []SchemaVersion `json:"versions"`
}

// SchemaVersion is one version of a topic's schema.
type SchemaVersion struct {
	Version int             `json:"version"`
	Schema  json.RawMessage `json:"schema"`
}

// Children are the topics that get a copy of a parent's messages.
type Children struct {
	Parent   string  `json:"parent"`
	Children []Child `json:"children"`
}

// Child is one of them.
type Child struct {
	Name        string `json:"name"`
	DelayMs     int64  `json:"delay_ms"`
	Lag         int64  `json:"lag_messages"`
	LagComplete bool   `json:"lag_complete"`
}

// CreateTopic creates a topic. Tried again after an unknown outcome, it may find its own work: [ErrExists].
func (c *Client) CreateTopic(ctx context.Context, spec TopicSpec) (t Topic, err error) {
	return t, c.change(ctx, call{method: http.MethodPost, path: "/v1/topics", want: http.StatusCreated}, spec, &t)
}

// PatchTopic changes a topic: retention, then caps, then partitions, then the schema. The first that is refused ends it;
// those before it stay.
func (c *Client) PatchTopic(ctx context.Context, name string, patch TopicPatch) (t Topic, err error) {
	return t, c.change(ctx, call{method: http.MethodPatch, path: topicPath(name, ""), want: http.StatusOK}, patch, &t)
}

// DeleteTopic deletes a topic with its messages.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	return c.change(ctx, call{method: http.MethodDelete, path: topicPath(name, ""), want: http.StatusNoContent, maybe: mayBeDone, done: isAbsent}, nil, nil)
}

// Topic describes a topic with its partitions.
func (c *Client) Topic(ctx context.Context, name string) (t Topic, err error) {
	return t, c.get(ctx, topicPath(name, ""), "", &t)
}

// Schemas returns the history of a topic's schema.
func (c *Client) Schemas(ctx context.Context, name string) (s Schemas, err error) {
	return s, c.get(ctx, topicPath(name, "/schema"), "", &s)
}

// Children lists the children of a topic.
func (c *Client) Children(ctx context.Context, name string) (k Children, err error) {
	return k, c.get(ctx, topicPath(name, "/children"), "", &k)
}

// Topics returns all topics, ordered by name, without their partitions.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	var all []Topic
	for token := ""; ; {
		var q params
		q.add("limit", strconv.Itoa(1000))
		if token != "" {
			q.add("page_token", token)
		}
		var page struct {
			Topics []Topic `json:"topics"`
			Next   string  `json:"next_page_token"`
		}
		if err := c.get(ctx, "/v1/topics", q.String(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Topics...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

// get reads a route.
func (c *Client) get(ctx context.Context, path, query string, into any) error {
	a, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query, want: http.StatusOK})
	if err != nil {
		return err
	}
	return a.decode(into)
}

// change sends a body, unless it is nil, and decodes the answer, unless into is nil.
func (c *Client) change(ctx context.Context, op call, body, into any) (err error) {
	if body != nil {
		if op.body, err = json.Marshal(body); err != nil {
			return err
		}
		op.kind = jsonBody
	}
	a, err := c.do(ctx, op)
	if err != nil || into == nil {
		return err
	}
	return a.decode(into)
}

func topicPath(name, verb string) string { return "/v1/topics/" + url.PathEscape(name) + verb }
