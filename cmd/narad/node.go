package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"path/filepath"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"narad/auth"
	"narad/config"
	"narad/engine"
	"narad/metastore/raft"
	"narad/observe"
	"narad/record"
	"narad/schema"
	"narad/server"
	"narad/vfs"
)

// node is one server from its start to its stop. The parts are opened in the order of run and closed in reverse: what
// is above is gone before what it stands on.
type node struct {
	config   *config.Loaded
	shownDir string // the data directory as the user would write it
	logger   *slog.Logger
	version  string
	started  time.Time

	listeners struct{ main, metrics, pprof net.Listener }
	opening   *opening
	observer  *observe.Observer
	meta      *raft.Store
	users     *auth.Authenticator // nil: security is off
	engine    *engine.Engine
	server    *server.Server
	closers   []closer
}

// closer is a part that was opened.
type closer struct {
	close   func() error
	trouble string // what it means when it fails
}

// run serves until ctx ends: listen, so that a taken port is found before the data is touched; recover the data; serve;
// stop; close the data. Requests that arrive during the recovery wait for its end.
func (n *node) run(ctx context.Context) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() { err = errors.Join(err, n.closeAll()) }()
	n.limitMemory()
	for _, open := range []func() error{
		n.listen, n.beginOpening, n.openObserver, func() error { return n.openMetastore(fail) }, n.openAuth, n.openEngine, n.openServer,
	} {
		if err := open(); err != nil {
			return err
		}
	}
	n.serveSide("metrics", n.listeners.metrics, n.server.OpsHandler())
	n.serveSide("pprof", n.listeners.pprof, profiler())
	if err := n.opening.handOver(n.server); err != nil {
		return err
	}
	n.logger.Info("serving", "addr", n.listeners.main.Addr().String(), "data_dir", n.shownDir, "node", n.config.Cluster.NodeID,
		"security", n.config.Security.Enabled, "version", n.version)
	err = n.server.Serve(ctx, n.listeners.main)
	n.opening.close() // before anything that its last requests stand on
	n.logger.Info("stopping")
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

// beginOpening has the main listener say that the process is alive.
func (n *node) beginOpening() error {
	n.opening = newOpening(n.listeners.main, n.config.HTTP.MaxHeaderBytes)
	n.onClose("", n.opening.close)
	return nil
}

// openObserver opens metrics, log lines of events, and the status page. It hears the engine's last event.
func (n *node) openObserver() (err error) {
	n.observer, err = observe.New(observe.Config{
		DataDir: n.config.Storage.DataDir, CommitInterval: n.config.Storage.CommitInterval,
		WriteoutInterval: n.config.Storage.WriteoutInterval, Logger: n.logger,
		Version: n.version, Node: n.config.Cluster.NodeID, Raft: n.raftStatus, AuthQueued: n.authQueued, Started: n.started,
	})
	if err != nil {
		return err
	}
	n.onClose("what was observed was not written in full", n.observer.Close)
	return nil
}

// openMetastore opens what the node knows of topics and users. When it stops for good, fail ends the node.
func (n *node) openMetastore(fail context.CancelCauseFunc) error {
	c := n.config.Cluster
	meta, err := raft.Open(n.config.Storage.DataDir, raft.Config{
		NodeID: c.NodeID, SnapshotThreshold: uint64(c.SnapshotThreshold), SnapshotInterval: c.SnapshotInterval,
		TrailingLogs: uint64(c.TrailingLogs), Logger: n.logger,
		OnStop: func(err error) { fail(fmt.Errorf("the metastore has stopped: %w", err)) },
	})
	if err != nil {
		return n.openError(err)
	}
	n.meta = meta
	n.onClose("the metastore was not closed cleanly", meta.Close)
	return nil
}

// openAuth turns security on, unless the configuration says otherwise, and makes the first user of a new data directory.
func (n *node) openAuth() (err error) {
	if !n.config.Security.Enabled {
		return nil
	}
	if n.users, err = auth.New(n.meta, auth.Options{}); err != nil {
		return err
	}
	dir, err := vfs.OS{}.OpenRoot(n.config.Storage.DataDir, false)
	if err != nil {
		return n.openError(err)
	}
	defer dir.Close()
	given := string(n.config.Secrets.AdminPassword)
	seeded, err := n.users.SeedRoot(context.Background(), n.meta, dir, given, time.Now(), rand.Reader)
	switch {
	case err != nil:
		return fmt.Errorf("the user %s could not be made: %w", auth.RootName, err)
	case seeded == auth.RootFromFile:
		n.logger.Warn("the user "+auth.RootName+" was made with a password that was drawn; read it, then remove the file",
			"file", filepath.Join(n.shownDir, auth.PasswordFile))
	case seeded == auth.RootFromGiven:
		n.logger.Info("the user " + auth.RootName + " was made with the password of NARAD_ADMIN_PASSWORD")
	case given != "":
		n.logger.Info("NARAD_ADMIN_PASSWORD has no effect: the user " + auth.RootName + " exists")
	}
	return nil
}

func (n *node) openEngine() (err error) {
	if n.engine, err = engine.Open(n.config.Storage.DataDir, n.engineOptions()); err != nil {
		return n.openError(err)
	}
	n.onClose("the data directory was not closed cleanly; acked messages may be delivered again", n.engine.Close)
	n.observer.Start(n.engine)
	return nil
}

func (n *node) openServer() error {
	o := n.serverOptions()
	o.Schemas = server.NewSchemas(n.meta, schema.NewChecker(schema.CheckerOptions{Observer: n.observer}))
	if n.users != nil {
		o.Auth = server.NewAuth(n.users)
	}
	n.server = server.New(n.engine, o)
	return nil
}

// onClose has a part closed at the end. A failure is reported as trouble.
func (n *node) onClose(trouble string, closePart func() error) {
	n.closers = append(n.closers, closer{closePart, trouble})
}

// closeAll closes every part that was opened, also when one of them cannot be closed properly.
func (n *node) closeAll() (err error) {
	for len(n.closers) > 0 {
		c := n.closers[len(n.closers)-1]
		n.closers = n.closers[:len(n.closers)-1]
		if failed := c.close(); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", c.trouble, failed))
		}
	}
	return err
}

// limitMemory has the garbage collector work harder near the memory limit of the container: 90 % of the tightest one,
// unless GOMEMLIMIT says something else.
func (n *node) limitMemory() {
	limit, err := memlimit.Set(memlimit.WithRatio(0.9))
	switch {
	case err != nil:
		n.logger.Debug("no memory limit was found", "error", err)
	case limit != math.MaxInt64:
		n.logger.Info("memory limit", "bytes", limit)
	}
}

// levels are the levels of compression by their names.
var levels = map[string]record.Level{
	"fastest": record.LevelFastest, "default": record.LevelDefault, "better": record.LevelBetter, "best": record.LevelBest,
}

// engineOptions are those of the configuration.
func (n *node) engineOptions() engine.Options {
	s := n.config.Storage
	return engine.Options{
		Metastore:             n.meta,
		CommitInterval:        s.CommitInterval,
		WriteoutInterval:      s.WriteoutInterval,
		WALPreallocate:        s.WALPrealloc,
		IdleAfter:             orNever(s.IdleEviction),
		ColdRetentionInterval: orNever(s.ColdWalk),
		CompressionLevel:      levels[s.CompressionLevel],
		Codec:                 map[string]record.Codec{"none": record.CodecNone, "zstd": record.CodecZstd}[s.Codec],
		Listener:              n.observer.Listen,
		Coarse:                n.observer.Coarse(),
		Tally:                 n.observer.Tally(),
		SharedReads:           true,
	}
}

// orNever is an interval of the configuration, where 0 turns something off.
func orNever(d time.Duration) time.Duration {
	const never = 100 * 365 * 24 * time.Hour
	if d == 0 {
		return never
	}
	return d
}

// serverOptions are those of the configuration, and the parts of the node.
func (n *node) serverOptions() server.Options {
	h, t := n.config.HTTP, n.config.Topic
	return server.Options{
		MaxConsumeWait:         h.ConsumeWait(),
		DefaultPartitions:      t.DefaultPartitions,
		MaxPartitions:          t.MaxPartitions,
		DefaultRetentionMs:     orBelow(t.DefaultRetentionMs),
		DefaultVisibility:      time.Duration(t.DefaultVisibilityMs) * time.Millisecond,
		DefaultMaxInFlight:     t.DefaultMaxInFlight,
		DefaultMaxAckedAhead:   t.DefaultMaxAckedAhead,
		NodeID:                 n.config.Cluster.NodeID,
		NodeAddr:               n.config.Cluster.Addr,
		MaxConsumesPerIdentity: orBelow(h.MaxConsumes),
		MaxProducesPerIdentity: orBelow(h.MaxProduces),
		MaxBatchBodyBytes:      orBelow(h.MaxBatchBytes),
		MaxHeaderBytes:         h.MaxHeaderBytes,
		MaxConnections:         orUnlimited(h.MaxConnections),
		NoDirect:               !h.Direct,
		ReadTimeout:            h.ReadTimeout,
		WriteTimeout:           h.WriteTimeout,
		IdleTimeout:            h.IdleTimeout,
		Grace:                  h.ShutdownGrace,
		Observer:               n.observer,
		Metrics:                n.observer.Handler(),
		MetricsOpen:            h.MetricsOpen,
		MetricsAway:            h.MetricsAddr != "",
		StatusPage:             n.observer.ServeStatus,
		Ready:                  n.meta.Ready,
		Logger:                 n.logger,
	}
}

// orBelow is a value of the configuration, where 0 is no limit; the server's options say that by a value below 0.
func orBelow[T int | int64](limit T) T {
	if limit == 0 {
		return -1
	}
	return limit
}

// orUnlimited is a limit of the configuration, where 0 is none.
func orUnlimited(limit int) int {
	if limit == 0 {
		return math.MaxInt32
	}
	return limit
}

// authQueued is how many logins wait to be verified, for the metrics.
func (n *node) authQueued() int {
	if n.users == nil {
		return 0
	}
	return n.users.Queued()
}

// raftStatus is the metastore's state for the metrics; before it is open there is nothing to tell.
func (n *node) raftStatus() observe.RaftStatus {
	if n.meta == nil {
		return observe.RaftStatus{State: "shutdown"}
	}
	s := n.meta.Status()
	return observe.RaftStatus{
		State: s.State, Term: s.Term, LastIndex: s.LastLogIndex, CommitIndex: s.CommitIndex, AppliedIndex: s.AppliedIndex,
		FSMPending: uint64(s.FSMPending), HasLeader: s.HasLeader, LastContact: s.LastContact, Voters: s.Voters, Nonvoters: s.NonVoters,
		MetastoreBytes: s.ReplicaBytes, MetastoreApplied: s.DurableIndex, ApplyStopped: s.Stopped != nil, ApplyStalled: s.ApplyStalled,
		ApplyErrors:   map[string]uint64{"storage": s.StorageErrors, "unknown_entry_type": s.UnknownEntries, "undecodable": s.UndecodedEntries},
		SnapshotBytes: s.SnapshotBytes, SnapshotFailures: s.SnapshotFailures, SnapshotCount: s.Snapshots, SnapshotSeconds: s.SnapshotDurations.Seconds(),
	}
}

// serveSide serves a handler on a listener of its own until the node ends. Without a listener it does nothing.
func (n *node) serveSide(name string, ln net.Listener, h http.Handler) {
	if ln == nil {
		return
	}
	n.logger.Info("listening", "listener", name, "addr", ln.Addr().String())
	web := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, ErrorLog: slog.NewLogLogger(n.logger.Handler(), slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			n.logger.Error("a listener failed", "addr", ln.Addr().String(), "error", err)
		}
	}()
	n.onClose("", func() error { web.Close(); <-done; return nil })
}

// profiler serves the Go profiler.
func profiler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
