package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"narad/config"
	"narad/engine"
	"narad/record"
	"narad/server"
)

// node is one server from its start to its stop. The parts are opened in the order of run and closed in reverse: what
// is above is gone before what it stands on.
type node struct {
	config   *config.Loaded
	shownDir string // the data directory as the user would write it
	logger   *slog.Logger
	version  string

	listeners struct{ main, metrics, pprof net.Listener }
	closers   []closer
}

// closer is a part that was opened.
type closer struct {
	close   func() error
	trouble string // what it means when it fails
}

// run serves until ctx ends: listen, so that a taken port is found before the data is touched; recover the data; serve;
// stop; close the data. Connections that arrive during the recovery wait in the backlog.
func (n *node) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, n.closeAll()) }()
	if n.config.Security.Enabled && !config.Loopback(n.config.HTTP.Addr) {
		return usagef("http.addr is %q, but this version has no authentication and listens on loopback addresses only: "+
			"use 127.0.0.1, ::1 or localhost as the host", n.config.HTTP.Addr)
	}
	n.limitMemory()
	if err := n.listen(); err != nil {
		return err
	}
	events := server.NewEventLog(n.logger)
	n.onClose("", func() error { events.Close(); return nil })
	e, err := engine.Open(n.config.Storage.DataDir, n.engineOptions(events.Listen))
	if err != nil {
		return n.openError(err)
	}
	n.onClose("the data directory was not closed cleanly; acked messages may be delivered again", e.Close)
	s := server.New(e, n.serverOptions())
	n.serveSide(n.listeners.pprof, profiler())
	n.logger.Info("serving", "addr", n.listeners.main.Addr().String(), "data_dir", n.shownDir, "version", n.version)
	err = s.Serve(ctx, n.listeners.main)
	n.logger.Info("stopping")
	return err
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

// engineOptions are those of the configuration.
func (n *node) engineOptions(listen func(engine.Event)) engine.Options {
	s := n.config.Storage
	return engine.Options{
		CommitInterval: s.CommitInterval,
		WALPreallocate: s.WALPrealloc,
		IdleAfter:      orNever(s.IdleEviction),
		Codec:          map[string]record.Codec{"none": record.CodecNone, "zstd": record.CodecZstd}[s.Codec],
		Listener:       listen,
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

// serverOptions are those of the configuration.
func (n *node) serverOptions() server.Options {
	h := n.config.HTTP
	return server.Options{
		MaxConsumeWait:     h.ConsumeWait(),
		DefaultRetentionMs: n.config.Topic.DefaultRetentionMs,
		MaxHeaderBytes:     h.MaxHeaderBytes,
		MaxConnections:     orUnlimited(h.MaxConnections),
		ReadTimeout:        h.ReadTimeout,
		WriteTimeout:       h.WriteTimeout,
		IdleTimeout:        h.IdleTimeout,
		Grace:              h.ShutdownGrace,
		Logger:             n.logger,
	}
}

// orUnlimited is a limit of the configuration, where 0 is none.
func orUnlimited(limit int) int {
	if limit == 0 {
		return math.MaxInt32
	}
	return limit
}

// serveSide serves a handler on a listener of its own until the node ends. Without a listener it does nothing.
func (n *node) serveSide(ln net.Listener, h http.Handler) {
	if ln == nil {
		return
	}
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
