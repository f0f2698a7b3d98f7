package raft

import (
	"net"
	"sync/atomic"
	"time"

	hraft "github.com/hashicorp/raft"
)

// newTransport returns how this node talks to the others. A node alone has no port.
func newTransport(c Config) (hraft.Transport, error) {
	switch {
	case c.transport != nil:
		return c.transport, nil
	case c.Listen == "":
		_, t := hraft.NewInmemTransport(hraft.ServerAddress(c.address()))
		return t, nil
	}
	advertise, err := net.ResolveTCPAddr("tcp", c.address())
	if err != nil {
		return nil, err
	}
	return hraft.NewTCPTransportWithLogger(c.Listen, advertise, 3, 10*time.Second, newLogger(c.Logger))
}

// watched is a transport that notes how far the leaders who sent something had committed. Raft's own commit index goes no
// further than its log, so it does not tell whether the node lags.
type watched struct {
	hraft.Transport
	rpcs     chan hraft.RPC
	closing  <-chan struct{}
	newest   atomic.Uint64
	finished chan struct{}
}

func watch(t hraft.Transport, closing <-chan struct{}) *watched {
	w := &watched{Transport: t, rpcs: make(chan hraft.RPC), closing: closing, finished: make(chan struct{})}
	go w.run()
	return w
}

func (w *watched) run() {
	defer close(w.finished)
	for {
		select {
		case rpc := <-w.Transport.Consumer():
			w.note(rpc)
			select {
			case w.rpcs <- rpc:
			case <-w.closing:
				return
			}
		case <-w.closing:
			return
		}
	}
}

// stand has this node stand for election at once, as a leader that hands over would ask it to. A node alone has nobody to hear
// from first, and may then have long timeouts: the library looks at the lease of a leader as often as that is short.
func (w *watched) stand() {
	now := hraft.RPC{
		Command:  &hraft.TimeoutNowRequest{RPCHeader: hraft.RPCHeader{ProtocolVersion: hraft.ProtocolVersionMax}},
		RespChan: make(chan hraft.RPCResponse, 1),
	}
	select {
	case w.rpcs <- now:
	case <-w.closing:
	}
}

// Consumer returns where what the others ask for comes from.
func (w *watched) Consumer() <-chan hraft.RPC { return w.rpcs }

// SetHeartbeatHandler notes heartbeats too, which may go past the consumer.
func (w *watched) SetHeartbeatHandler(handle func(hraft.RPC)) {
	w.Transport.SetHeartbeatHandler(func(rpc hraft.RPC) {
		w.note(rpc)
		handle(rpc)
	})
}

func (w *watched) note(rpc hraft.RPC) {
	a, ok := rpc.Command.(*hraft.AppendEntriesRequest)
	if !ok {
		return
	}
	for {
		old := w.newest.Load()
		if a.LeaderCommitIndex <= old || w.newest.CompareAndSwap(old, a.LeaderCommitIndex) {
			return
		}
	}
}

// Close ends the transport.
func (w *watched) Close() error {
	<-w.finished
	if c, ok := w.Transport.(hraft.WithClose); ok {
		return c.Close()
	}
	return nil
}

// RequestPreVote passes a request on; every transport of this package can.
func (w *watched) RequestPreVote(id hraft.ServerID, target hraft.ServerAddress, args *hraft.RequestPreVoteRequest, resp *hraft.RequestPreVoteResponse) error {
	return w.Transport.(hraft.WithPreVote).RequestPreVote(id, target, args, resp)
}
