package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"narad/engine"
	"narad/metastore"
)

// partitionsMin is the fewest partitions that a topic of this surface has; the engine takes fewer.
const partitionsMin = 3

// Bounds of a page of topics.
const (
	pageDefault = 100
	pageMax     = 1000
)

// createRequest is the body of POST /v1/topics. A pointer tells an absent field, or null, from a zero.
type createRequest struct {
	Name          string          `json:"name"`
	Partitions    *int64          `json:"partitions"`
	RetentionMs   *int64          `json:"retention_ms"`
	VisibilityMs  *int64          `json:"visibility_timeout_ms"`
	MaxInFlight   *int64          `json:"max_in_flight_per_partition"`
	MaxAckedAhead *int64          `json:"max_acked_ahead_per_partition"`
	Owner         json.RawMessage `json:"owner"` // ignored
	Schema        json.RawMessage `json:"schema"`
	Parent        *string         `json:"parent"`
	FanoutDelayMs *int64          `json:"fanout_delay_ms"`
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
	if err := metastore.ValidateName(req.Name); err != nil {
		return badf("%s", err)
	}
	if err := x.may(ActionCreate, req.Name, ""); err != nil {
		return err
	}
	spec, err := s.spec(&req)
	if err != nil {
		return err
	}
	if err := s.refuseParent(x, &req); err != nil {
		return err
	}
	if spec.Schema, err = s.firstSchema(x, &req); err != nil {
		return err
	}
	spec.Owner = x.user
	t, err := s.engine.CreateTopic(spec)
	if errors.Is(err, metastore.ErrUserNotFound) { // deleted at this moment
		return errForbidden
	}
	if err != nil {
		return err
	}
	return x.value(http.StatusCreated, newTopicBody(&t, "")) // the role is absent here, as facts 1.3 have it
}

// firstSchema returns the document that a topic is created with, nil for none.
func (s *Server) firstSchema(x *exchange, req *createRequest) (json.RawMessage, error) {
	if req.Schema == nil || string(req.Schema) == "null" {
		return nil, nil
	}
	if s.opts.Schemas == nil {
		return nil, errNoSchemas
	}
	return s.opts.Schemas.CheckFirst(x.r.Context(), req.Name, req.Schema)
}

// refuseParent answers for a topic that is to be a child: this server has none.
func (s *Server) refuseParent(x *exchange, req *createRequest) error {
	if req.Parent == nil || *req.Parent == "" {
		if req.FanoutDelayMs != nil && *req.FanoutDelayMs != 0 {
			return badf("fanout_delay_ms goes with parent")
		}
		return nil
	}
	parent, err := s.engine.Topic(*req.Parent)
	if err != nil {
		return err
	}
	if err := x.may(ActionManage, parent.Name, parent.Owner); err != nil {
		return err
	}
	return errNoFanout
}

// decodeStrict decodes one JSON value. An unknown field, and anything behind the value, is refused.
func decodeStrict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badf("the request body is not what this route takes: %s", decodeProblem(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badf("the request body goes on after its JSON value")
	}
	return nil
}

// decodeProblem says what is wrong with a body, without the names that it has in this program.
func decodeProblem(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends in the middle of its JSON value"
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%s: %s does not fit", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Sprintf("it is a JSON %s, not an object", kind.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// visibilityMax is the longest lease, in milliseconds: what a [time.Duration] can be.
const visibilityMax = math.MaxInt64 / int64(time.Millisecond)

// spec checks what this surface restricts beyond the engine and fills in what is absent.
func (s *Server) spec(q *createRequest) (engine.TopicSpec, error) {
	o := &s.opts
	spec := engine.TopicSpec{
		Name: q.Name, Partitions: o.DefaultPartitions, RetentionMs: o.DefaultRetentionMs, Visibility: o.DefaultVisibility,
		MaxInFlight: o.DefaultMaxInFlight, MaxAckedAhead: o.DefaultMaxAckedAhead,
	}
	if spec.RetentionMs < 0 {
		spec.RetentionMs = 0
	}
	if q.Partitions != nil {
		if *q.Partitions < partitionsMin || *q.Partitions > int64(o.MaxPartitions) {
			return spec, badf("partitions is %d, allowed are %d to %d", *q.Partitions, partitionsMin, o.MaxPartitions)
		}
		spec.Partitions = int(*q.Partitions)
	}
	if q.RetentionMs != nil {
		spec.RetentionMs = *q.RetentionMs
	}
	if q.VisibilityMs != nil {
		if *q.VisibilityMs < 1 || *q.VisibilityMs > visibilityMax {
			return spec, badf("visibility_timeout_ms is %d, allowed are 1 to %d", *q.VisibilityMs, visibilityMax)
		}
		spec.Visibility = time.Duration(*q.VisibilityMs) * time.Millisecond
	}
	spec.MaxInFlight = capOf(q.MaxInFlight, spec.MaxInFlight)
	spec.MaxAckedAhead = capOf(q.MaxAckedAhead, spec.MaxAckedAhead)
	return spec, nil
}

// capOf returns a cap of the request, standard when it is absent or 0, and something that the engine refuses when it does
// not fit.
func capOf(n *int64, standard int) int {
	if n == nil || *n == 0 {
		return standard
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
	if len(topics) > limit { // the token is the last name of the page, seen or not
		topics = topics[:limit]
		page.Next = topics[limit-1].Name
	}
	for i := range topics {
		if t := &topics[i]; x.may(ActionRead, t.Name, t.Owner) == nil {
			page.Topics = append(page.Topics, newTopicBody(t, roleStandalone))
		}
	}
	return x.value(http.StatusOK, page)
}

// deleteTopic removes a topic with all its messages. The force of the query string is for topics with remote children.
func (s *Server) deleteTopic(x *exchange) error {
	if _, err := x.found(ActionManage); err != nil {
		return err
	}
	q, err := x.query()
	if err != nil {
		return err
	}
	if _, err := q.flag("force"); err != nil {
		return err
	}
	if err := s.engine.DeleteTopic(x.topic); err != nil {
		return err
	}
	return x.noContent()
}
