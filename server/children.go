package server

import (
	"errors"
	"net/http"
)

// Topics of this server have no children. The routes are there, with the rights and refusals that they will keep: a list is
// empty, a child is never found, and to attach one is 501.

var (
	errNoFanout = &Error{Status: http.StatusNotImplemented, Text: "topics cannot have children on this server"}
	errNoChild  = &Error{Status: http.StatusNotFound, Text: "no such child"}
)

func (s *Server) childRoutes() []route {
	return []route{
		{"POST /v1/topics/{topic}/children", s.attachChild},
		{"GET /v1/topics/{topic}/children", s.listChildren},
		{"DELETE /v1/topics/{topic}/children/{child}", s.detachChild},
		{"POST /v1/topics/{topic}/children/{child}/pause", s.changeChild},
		{"POST /v1/topics/{topic}/children/{child}/resume", s.changeChild},
		{"POST /v1/topics/{topic}/children/{child}/skip", s.changeChild},
	}
}

// attachRequest is the body of POST /v1/topics/{topic}/children.
type attachRequest struct {
	Child       string  `json:"child"`
	DelayMs     *int64  `json:"delay_ms"`
	Remote      string  `json:"remote"`
	RemoteTopic *string `json:"remote_topic"`
	From        *string `json:"from"`
	Lanes       *int64  `json:"lanes"`
	DryRun      *bool   `json:"dry_run"`
}

// delayMax is the longest delay of a child, one year.
const delayMax = 31_536_000_000

func (s *Server) attachChild(x *exchange) error {
	if _, err := x.found(ActionManage); err != nil {
		return err
	}
	body, err := x.body(bodyMax)
	if err != nil {
		if errors.Is(err, errBodyTooLarge) { // 400 here, as facts 1.2 have it
			return badf("%s", err)
		}
		return err
	}
	var req attachRequest
	if err := decodeStrict(body, &req); err != nil {
		return err
	}
	if err := req.check(x.topic); err != nil {
		return err
	}
	if req.Remote != "" {
		if err := x.may(ActionAdmin, "", ""); err != nil {
			return err
		}
		return errNoFanout
	}
	child, err := s.engine.Topic(req.Child)
	if err != nil {
		return err
	}
	if err := x.may(ActionManage, child.Name, child.Owner); err != nil {
		return err
	}
	return errNoFanout
}

func (q *attachRequest) check(parent string) error {
	switch {
	case q.Child == "":
		return badf("child is missing")
	case q.Child == parent && q.Remote == "":
		return badf("a topic is not its own child")
	case q.DelayMs != nil && (*q.DelayMs < 0 || *q.DelayMs > delayMax):
		return badf("delay_ms is %d, allowed are 0 to %d", *q.DelayMs, int64(delayMax))
	case q.Remote == "" && (q.RemoteTopic != nil || q.From != nil || q.Lanes != nil || q.DryRun != nil):
		return badf("remote_topic, from, lanes and dry_run go with remote")
	}
	return nil
}

func (s *Server) listChildren(x *exchange) error {
	t, err := x.found(ActionRead)
	if err != nil {
		return err
	}
	if _, err := x.flagParam("partitions"); err != nil {
		return err
	}
	return x.value(http.StatusOK, struct {
		Parent   string   `json:"parent"`
		ParentID string   `json:"parent_id"`
		Children []string `json:"children"`
	}{t.Name, t.ID, []string{}})
}

func (s *Server) detachChild(x *exchange) error {
	if _, err := x.found(ActionManage); err != nil {
		return err
	}
	return errNoChild
}

// changeChild answers for what is done to remote children only, by administrators.
func (s *Server) changeChild(x *exchange) error {
	if err := x.may(ActionAdmin, "", ""); err != nil {
		return err
	}
	if _, err := s.engine.Topic(x.topic); err != nil {
		return err
	}
	return errNoChild
}
