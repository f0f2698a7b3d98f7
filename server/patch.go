package server

import (
	"encoding/json"
	"net/http"

	"narad/engine"
)

// patchRequest is the body of PATCH /v1/topics/{topic}. A pointer tells an absent field, or null, from a zero.
type patchRequest struct {
	RetentionMs   *int64          `json:"retention_ms"`
	MaxInFlight   *int64          `json:"max_in_flight_per_partition"`
	MaxAckedAhead *int64          `json:"max_acked_ahead_per_partition"`
	Partitions    *int64          `json:"partitions"`
	Schema        json.RawMessage `json:"schema"`
	SchemaBase    *int64          `json:"schema_base_version"`
}

var (
	errNoSchemas  = &Error{Status: http.StatusNotImplemented, Text: "schemas are not supported by this server"}
	errNullSchema = badRequest("a schema cannot be removed")
)

// patchTopic changes settings in the order retention, caps, partitions, schema. There is no transaction: the first that fails
// is answered, and those before it stay changed (narad-facts 1.3).
func (s *Server) patchTopic(x *exchange) error {
	t, err := x.found(ActionManage)
	if err != nil {
		return err
	}
	body, err := x.body(bodyMax)
	if err != nil {
		return err
	}
	var req patchRequest
	if err := decodeStrict(body, &req); err != nil {
		return err
	}
	steps, err := req.steps(s)
	if err != nil {
		return err
	}
	for _, patch := range steps {
		if t, err = s.engine.AlterTopic(x.topic, patch); err != nil {
			return err
		}
	}
	if req.Schema != nil {
		if s.opts.Schemas == nil {
			return errNoSchemas
		}
		if err := s.opts.Schemas.Append(x.r.Context(), &t, req.SchemaBase, req.Schema); err != nil {
			return err
		}
	}
	return x.value(http.StatusOK, newTopicBody(&t, roleStandalone))
}

// steps returns what to change before the schema, one group after the other, after a look at the form of all.
func (q *patchRequest) steps(s *Server) (steps []engine.TopicPatch, err error) {
	if string(q.Schema) == "null" {
		return nil, errNullSchema
	}
	if q.RetentionMs != nil {
		steps = append(steps, engine.TopicPatch{RetentionMs: q.RetentionMs})
	}
	if q.MaxInFlight != nil || q.MaxAckedAhead != nil {
		steps = append(steps, engine.TopicPatch{
			MaxInFlight: patchCap(q.MaxInFlight, s.opts.DefaultMaxInFlight), MaxAckedAhead: patchCap(q.MaxAckedAhead, s.opts.DefaultMaxAckedAhead),
		})
	}
	if q.Partitions != nil {
		if *q.Partitions > int64(s.opts.MaxPartitions) || *q.Partitions < 1 {
			return nil, badf("partitions is %d, allowed are %d to %d", *q.Partitions, partitionsMin, s.opts.MaxPartitions)
		}
		n := int(*q.Partitions)
		steps = append(steps, engine.TopicPatch{Partitions: &n})
	}
	if len(steps) == 0 && q.Schema == nil {
		return nil, badf("the patch changes nothing")
	}
	return steps, nil
}

// patchCap returns a cap to set, nil to leave it as it is.
func patchCap(n *int64, standard int) *int {
	if n == nil {
		return nil
	}
	limit := capOf(n, standard)
	return &limit
}
