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
	Name          string `json:"name"`
	Partitions    int    `json:"partitions,omitempty"`
	RetentionMs   *int64 `json:"retention_ms,omitempty"` // a pointer to 0: keep for ever
	VisibilityMs  int64  `json:"visibility_timeout_ms,omitempty"`
	MaxInFlight   int    `json:"max_in_flight_per_partition,omitempty"`
	MaxAckedAhead int    `json:"max_acked_ahead_per_partition,omitempty"`
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
	PartitionStats []PartitionStats `json:"partition_stats,omitempty"`
}

// PartitionStats describes one partition.
type PartitionStats struct {
	Index         int    `json:"index"`
	Oldest        int64  `json:"oldest_offset"`
	Next          int64  `json:"next_offset"`
	HighWatermark int64  `json:"high_watermark"`
	Status        string `json:"status"`
}

// CreateTopic creates a topic. Tried again after no answer, it may find its own work: [ErrExists].
func (c *Client) CreateTopic(ctx context.Context, spec TopicSpec) (t Topic, err error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return t, err
	}
	a, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/topics", kind: "application/json", body: body, want: http.StatusCreated,
	})
	if err != nil {
		return t, err
	}
	return t, a.decode(&t)
}

// Topic describes a topic with its partitions.
func (c *Client) Topic(ctx context.Context, name string) (t Topic, err error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: topicPath(name, ""), want: http.StatusOK})
	if err != nil {
		return t, err
	}
	return t, a.decode(&t)
}

// Topics returns all topics, ordered by name, without their partitions.
func (c *Client) Topics(ctx context.Context) ([]Topic, error) {
	var all []Topic
	for token := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(1000)}}
		if token != "" {
			query.Set("page_token", token)
		}
		a, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/topics", query: query, want: http.StatusOK})
		if err != nil {
			return nil, err
		}
		var page struct {
			Topics []Topic `json:"topics"`
			Next   string  `json:"next_page_token"`
		}
		if err := a.decode(&page); err != nil {
			return nil, err
		}
		all = append(all, page.Topics...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

func topicPath(name, verb string) string { return "/v1/topics/" + url.PathEscape(name) + verb }
