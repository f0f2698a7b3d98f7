package raft

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	hraft "github.com/hashicorp/raft"
)

// Peer is a voter of the cluster.
type Peer struct {
	ID   string
	Addr string // where the others reach it, host:port
}

// Config configures a store. The zero value of every field means its default.
type Config struct {
	// NodeID names this node among the voters. It must never change. Default "node". A node that has always been the only voter
	// keeps the name that it began with.
	NodeID string
	// Listen is the TCP address for the other voters. Default: that of this node among Peers; without peers no port is opened.
	Listen string
	// Peers are the voters of a new cluster, this node among them. They count at the first start only, and must then be the same
	// everywhere. Default: this node alone.
	Peers []Peer
	// AllowPlaintext lets the port be one that other machines reach. What goes over it is neither encrypted nor authenticated.
	AllowPlaintext bool
	// SnapshotThreshold is how many entries make a snapshot worthwhile. Default 8192.
	SnapshotThreshold uint64
	// SnapshotInterval is about how often that is looked at. Default 2 minutes, at least 5 ms.
	SnapshotInterval time.Duration
	// TrailingLogs is how many entries are kept behind a snapshot, for voters that lag. Default 10240.
	TrailingLogs uint64
	// OpenTimeout bounds how long Open waits to catch up. Default 1 minute.
	OpenTimeout time.Duration
	// Logger takes what Raft logs. Default: nothing.
	Logger *slog.Logger
	// OnStop is called once, in a goroutine of its own, when the store stops for good before Close; the error says why. Whoever runs
	// the node should end it then.
	OnStop func(error)

	forTests
}

// forTests is what only tests of this package set.
type forTests struct {
	transport  hraft.Transport
	noSync     bool
	retryFor   time.Duration
	timeouts   time.Duration // of heartbeats and elections
	lease      time.Duration // how long a leader that hears nobody goes on
	retryFirst time.Duration
	failWrite  func() error // of the replica
}

func (c Config) withDefaults() Config {
	alone := len(c.Peers) == 0
	setDefault(&c.NodeID, "node")
	setDefault(&c.SnapshotThreshold, 8192)
	setDefault(&c.SnapshotInterval, 2*time.Minute)
	setDefault(&c.TrailingLogs, 10240)
	setDefault(&c.OpenTimeout, time.Minute)
	setDefault(&c.retryFor, 30*time.Second)
	setDefault(&c.retryFirst, 100*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if alone {
		setDefault(&c.lease, time.Second)
		c.Peers = []Peer{{c.NodeID, c.Listen}}
		setDefault(&c.Peers[0].Addr, "alone")
	}
	setDefault(&c.timeouts, time.Second)
	setDefault(&c.lease, max(c.timeouts/2, 5*time.Millisecond))
	if c.Listen == "" && !alone {
		c.Listen = c.address()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// address returns where the others reach this node.
func (c Config) address() string {
	for _, p := range c.Peers {
		if p.ID == c.NodeID {
			return p.Addr
		}
	}
	return ""
}

// validate reports the first setting that cannot be.
func (c Config) validate() error {
	seen := map[string]bool{}
	for _, p := range c.Peers {
		if p.ID == "" || p.Addr == "" {
			return fmt.Errorf("peer %+v lacks its id or address", p)
		}
		if seen[p.ID] || seen[p.Addr] {
			return fmt.Errorf("peer %+v shares its id or address with another", p)
		}
		seen[p.ID], seen[p.Addr] = true, true
	}
	switch {
	case !seen[c.NodeID]:
		return fmt.Errorf("this node, %q, is not among the peers", c.NodeID)
	case c.SnapshotInterval < 5*time.Millisecond:
		return fmt.Errorf("SnapshotInterval is %v, allowed is at least 5ms", c.SnapshotInterval)
	case c.Listen != "" && c.transport == nil && !c.AllowPlaintext && !loopback(c.Listen):
		return fmt.Errorf("Raft would listen at %s without encryption: allow that, or listen at a loopback address", c.Listen)
	}
	return nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// raftConfig returns the configuration of the library.
func (c Config) raftConfig(id hraft.ServerID) *hraft.Config {
	r := hraft.DefaultConfig()
	r.LocalID = id
	r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = c.timeouts, c.timeouts, c.lease
	r.SnapshotThreshold, r.SnapshotInterval, r.TrailingLogs = c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs
	r.Logger = newLogger(c.Logger)
	return r
}
