package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"narad/engine"
)

// Options configure a server. The zero value of every field means its default.
type Options struct {
	// MaxConsumeWait is the longest time a consume is parked. Default 10 s, at most [engine.MaxWait].
	MaxConsumeWait time.Duration
	// DefaultPartitions, DefaultRetentionMs, DefaultVisibility, DefaultMaxInFlight and DefaultMaxAckedAhead are what a topic
	// gets that is created without. Defaults 3, 7 days, 30 s, 1024, 1024; a retention below 0 is for ever. MaxPartitions bounds
	// the partitions of a topic, default [engine.MaxPartitions].
	DefaultPartitions, MaxPartitions         int
	DefaultRetentionMs                       int64
	DefaultVisibility                        time.Duration
	DefaultMaxInFlight, DefaultMaxAckedAhead int
	// NodeID and NodeAddr are what the node is called where members of a cluster are listed. Default "narad" and nothing.
	NodeID, NodeAddr string
	// MaxConsumesPerIdentity and MaxProducesPerIdentity bound what is in flight for one user, or for one client address while
	// security is off. Defaults 1024, and without a bound; below 0 is without a bound.
	MaxConsumesPerIdentity, MaxProducesPerIdentity int
	// MaxBatchBodyBytes bounds what bodies of batches hold, beyond 1 MiB of each. Default 256 MiB; below 0 is without a bound.
	MaxBatchBodyBytes int64
	// MaxHeaderBytes bounds request line and headers. Default 64 KiB.
	MaxHeaderBytes int
	// MaxConnections bounds open connections; the rest wait in the kernel's backlog. Default 4096.
	MaxConnections int
	// NoDirect leaves every request to net/http.
	NoDirect bool
	// HeaderTimeout, ReadTimeout, WriteTimeout and IdleTimeout bound a request's headers, the request, the
	// answer and the pause between requests. Defaults 5 s, 10 s, 30 s, 60 s. ReadTimeout ends
	// with the request's body; WriteTimeout begins after the headers and must exceed MaxConsumeWait.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// Grace is how long a stop waits for what is in flight. Default 10 s.
	Grace time.Duration
	// Auth, Schemas, Observer, Metrics and StatusPage are other parts of the node; nil turns each off.
	Auth     Auth
	Schemas  Schemas
	Observer Observer
	// Metrics serves /metrics: to whoever has credentials, to everybody with MetricsOpen, and not on this listener with
	// MetricsAway, when [Server.OpsHandler] has one of its own.
	Metrics                  http.Handler
	MetricsOpen, MetricsAway bool
	StatusPage               StatusPage
	// Ready says why the node cannot do its work yet, or any more; /readyz asks it. Nil: it always can.
	Ready func() error
	// Logger is told what no client is: internal errors and connections cut by a stop. Default: discarded.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	setDefault(&o.MaxConsumeWait, 10*time.Second)
	setDefault(&o.DefaultRetentionMs, 7*24*time.Hour.Milliseconds())
	setDefault(&o.DefaultPartitions, partitionsMin)
	setDefault(&o.MaxPartitions, engine.MaxPartitions)
	setDefault(&o.DefaultVisibility, 30*time.Second)
	setDefault(&o.DefaultMaxInFlight, 1024)
	setDefault(&o.DefaultMaxAckedAhead, 1024)
	setDefault(&o.NodeID, "narad")
	setDefault(&o.MaxConsumesPerIdentity, 1024)
	setDefault(&o.MaxBatchBodyBytes, 256<<20)
	setDefault(&o.MaxHeaderBytes, 64<<10)
	setDefault(&o.MaxConnections, 4096)
	setDefault(&o.HeaderTimeout, 5*time.Second)
	setDefault(&o.ReadTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.IdleTimeout, 60*time.Second)
	setDefault(&o.Grace, 10*time.Second)
	setDefault(&o.Logger, slog.New(slog.DiscardHandler))
	o.MaxConsumeWait = min(o.MaxConsumeWait, engine.MaxWait)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server answers HTTP requests with one engine. It is an [http.Handler]; [Server.Serve] adds the listener, its
// limits and the graceful stop.
type Server struct {
	engine  *engine.Engine
	opts    Options
	handler http.Handler // the server itself; tests stand before it
	routes  http.Handler
	hot     struct{ produce, consume, ack handler } // method values, made once

	consumes, produces *caps
	producing          atomic.Int64  // produces in flight
	produceLogged      atomic.Int64  // unix nanoseconds of the last log line of a failed one
	batchBodies        *budget       // nil: without a bound
	ownPasswords       lazyPasswords // of users, while security is off

	stopping context.Context // done once a stop has begun
	stop     context.CancelFunc
}

// New returns a server of e, which stays the caller's to close.
func New(e *engine.Engine, o Options) *Server {
	s := &Server{engine: e, opts: o.withDefaults()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.consumes, s.produces = newCaps(s.opts.MaxConsumesPerIdentity), newCaps(s.opts.MaxProducesPerIdentity)
	if s.opts.MaxBatchBodyBytes > 0 {
		s.batchBodies = newBudget(s.opts.MaxBatchBodyBytes)
	}
	s.handler, s.routes = s, s.newMux()
	s.hot.produce, s.hot.consume, s.hot.ack = s.produce, s.consume, s.ack
	return s
}

// Stop makes the server answer as one that is stopping, for good. Serve does it when its context ends.
func (s *Server) Stop() { s.stop() }

func (s *Server) isStopping() bool { return s.stopping.Err() != nil }

// Serve takes connections from ln, which it closes, until ctx ends, and then stops gracefully, which takes
// at most Options.Grace. It returns nil after a stop, also after one that had to cut connections, and otherwise
// what made it fail. It serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler,
		MaxHeaderBytes:    s.opts.MaxHeaderBytes,
		ReadHeaderTimeout: s.opts.HeaderTimeout,
		ReadTimeout:       s.opts.ReadTimeout,
		WriteTimeout:      s.opts.WriteTimeout,
		IdleTimeout:       s.opts.IdleTimeout,
		ErrorLog:          slog.NewLogLogger(s.opts.Logger.Handler(), slog.LevelDebug),
	}
	d := newDirect(s, newLimitedListener(ln, s.opts.MaxConnections))
	failed := make(chan error, 2)
	go func() { failed <- srv.Serve(d.others) }()
	go func() { failed <- d.accept() }()
	select {
	case err := <-failed:
		s.stop()
		d.stop()
		d.cut()
		srv.Close()
		return err
	case <-ctx.Done():
	}
	s.stop()
	return s.shutDown(srv, d)
}

func (s *Server) shutDown(srv *http.Server, d *direct) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Grace)
	defer cancel()
	d.stop()
	err := errors.Join(srv.Shutdown(ctx), d.wait(ctx))
	if errors.Is(err, context.DeadlineExceeded) {
		s.opts.Logger.Warn("requests were still in flight at the end of the grace period; their connections were cut",
			"grace", s.opts.Grace.String())
		d.cut()
		return srv.Close()
	}
	return err
}
