package server

import (
	"net/http"
	"strconv"
)

// A server of this stage is alone. The routes of a cluster are there and say so: one member, which leads; no moves; and what
// would need another node is refused with the codes that a cluster refuses it with. Remotes, other clusters that topics are
// copied to, are 501.

func (s *Server) clusterRoutes() []route {
	remotes := s.adminOnly(s.noRemotes)
	return []route{
		{"GET /v1/cluster/members", s.adminOnly(s.members)},
		{"POST /v1/cluster/members/{id}/decommission", s.adminOnly(s.decommission)},
		{"DELETE /v1/cluster/members/{id}/decommission", s.adminOnly(s.cancelDecommission)},
		{"POST /v1/cluster/members/{id}/forget", s.adminOnly(s.forget)},
		{"GET /v1/cluster/moves", s.adminOnly(s.moves)},
		{"POST /v1/cluster/moves/{topic}/{partition}/abort", s.adminOnly(s.abortMove)},
		{"POST /v1/cluster/reencrypt-remotes", remotes},
		{"POST /v1/remotes", remotes},
		{"GET /v1/remotes", remotes},
		{"GET /v1/remotes/{name}", remotes},
		{"PATCH /v1/remotes/{name}", remotes},
		{"DELETE /v1/remotes/{name}", remotes},
		{"POST /v1/remotes/{name}/test", remotes},
	}
}

// adminOnly lets administrators pass.
func (s *Server) adminOnly(h handler) handler {
	return func(x *exchange) error {
		if err := x.may(ActionAdmin, "", ""); err != nil {
			return err
		}
		return h(x)
	}
}

// codeBody is why something is refused, in a word for programs and one for people.
type codeBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// aloneReasons are why the only member cannot be decommissioned.
var aloneReasons = []codeBody{
	{"below_min_voters", "the cluster would have no voter"},
	{"no_receivers", "no other member could take the partitions"},
}

// memberBody is the wire form of a member.
type memberBody struct {
	ID                  string          `json:"id"`
	Addr                string          `json:"addr"`
	Status              string          `json:"status"`
	Draining            bool            `json:"draining"`
	OwnedPartitions     int             `json:"owned_partitions"`
	OutboundMoves       int             `json:"outbound_moves"`
	Voter               bool            `json:"voter"`
	Leader              bool            `json:"leader"`
	HeartbeatAge        float64         `json:"heartbeat_age_seconds"`
	DecommissionBlocked []codeBody      `json:"decommission_blocked"`
	NodeStatus          *nodeStatusBody `json:"node_status,omitempty"`
}

// nodeStatusBody is what a member says of itself.
type nodeStatusBody struct {
	Node            string         `json:"node"`
	Draining        bool           `json:"draining"`
	ProduceInFlight int            `json:"produce_in_flight"`
	DispatchBacklog uint64         `json:"dispatch_backlog"`
	Quarantine      quarantineBody `json:"quarantine"`
	Moves           []string       `json:"moves"`
}

type quarantineBody struct {
	Copies int      `json:"copies"`
	Bytes  int64    `json:"bytes"`
	List   []string `json:"list"`
}

func (s *Server) members(x *exchange) error {
	detail, err := x.flagParam("detail")
	if err != nil {
		return err
	}
	m := memberBody{
		ID: s.opts.NodeID, Addr: s.opts.NodeAddr, Status: "alive", OwnedPartitions: s.ownedPartitions(), Voter: true,
		Leader: s.opts.Ready == nil || s.opts.Ready() == nil, DecommissionBlocked: []codeBody{},
	}
	if detail {
		log := s.engine.Ingress()
		m.NodeStatus = &nodeStatusBody{
			Node: s.opts.NodeID, ProduceInFlight: int(s.producing.Load()), DispatchBacklog: log.Next - log.Checkpoint,
			Quarantine: quarantineBody{List: []string{}}, Moves: []string{},
		}
	}
	return x.value(http.StatusOK, struct {
		Members []memberBody `json:"members"`
	}{[]memberBody{m}})
}

func (s *Server) ownedPartitions() (n int) {
	for _, t := range s.engine.Topics("", 0) {
		n += int(t.Partitions)
	}
	return n
}

func (s *Server) moves(x *exchange) error {
	if _, err := x.flagParam("detail"); err != nil {
		return err
	}
	return x.value(http.StatusOK, struct {
		Moves []string `json:"moves"`
	}{[]string{}})
}

// flagParam returns a parameter of the query string that is true or false.
func (x *exchange) flagParam(name string) (bool, error) {
	q, err := x.query()
	if err != nil {
		return false, err
	}
	return q.flag(name)
}

// member refuses an id that is not this node's.
func (s *Server) member(x *exchange) error {
	if x.r.PathValue("id") != s.opts.NodeID {
		return &Error{Status: http.StatusNotFound, Text: "no such member"}
	}
	return nil
}

func (s *Server) decommission(x *exchange) error {
	dry, err := x.flagParam("dry_run")
	if err != nil {
		return err
	}
	if err := s.member(x); err != nil {
		return err
	}
	if !dry {
		return &Error{Status: http.StatusConflict, Text: "the only member cannot be decommissioned", Fields: map[string]any{"reasons": aloneReasons}}
	}
	return x.value(http.StatusOK, struct {
		Member          string     `json:"member"`
		Would           bool       `json:"would_decommission"`
		Reasons         []codeBody `json:"reasons"`
		Voter           bool       `json:"voter"`
		OwnedPartitions int        `json:"owned_partitions"`
		InboundMoves    int        `json:"inbound_moves"`
	}{s.opts.NodeID, false, aloneReasons, true, s.ownedPartitions(), 0})
}

func (s *Server) cancelDecommission(x *exchange) error {
	q, err := x.query()
	if err != nil {
		return err
	}
	if q.has("dry_run") {
		return badf("dry_run does not go with a cancellation")
	}
	if err := s.member(x); err != nil {
		return err
	}
	return x.noContent() // it was not draining
}

func (s *Server) forget(x *exchange) error {
	if err := s.member(x); err != nil {
		return err
	}
	return badf("the leader cannot be forgotten")
}

func (s *Server) abortMove(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	t, err := s.engine.Topic(x.topic)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(x.r.PathValue("partition"), 10, 31)
	if err != nil {
		return badf("partition is not a number from 0 on")
	}
	if int64(n) >= int64(t.Partitions) {
		return &Error{Status: http.StatusNotFound, Text: "no such partition"}
	}
	return &Error{Status: http.StatusNotFound, Text: "this partition is not being moved"}
}

var errNoRemotes = &Error{Status: http.StatusNotImplemented, Text: "remotes are not supported by this server"}

func (s *Server) noRemotes(x *exchange) error {
	x.Header().Set("Cache-Control", "no-store")
	return errNoRemotes
}
