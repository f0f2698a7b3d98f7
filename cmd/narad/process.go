package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"narad/config"
	"narad/vfs"
)

// serve runs one server until a signal.
func (a *app) serve(c *config.Loaded, shownDir string) error {
	n := &node{config: c, shownDir: shownDir, logger: newLogger(a, c.Log), version: version(), started: time.Now()}
	for _, w := range c.Warnings {
		n.logger.Warn("configuration: " + w)
	}
	ownFiles()
	ctx, stop := a.untilSignal()
	defer stop()
	err := n.run(ctx)
	if err == nil {
		n.logger.Info("stopped; consumer state is durable")
	}
	return err
}

// newLogger returns the logger that the configuration asks for.
func newLogger(a *app, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic(err) // the configuration was checked
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "text" {
		return slog.New(slog.NewTextHandler(a.stderr, options))
	}
	return slog.New(slog.NewJSONHandler(a.stderr, options))
}

// listen opens every address of the node.
func (n *node) listen() (err error) {
	for _, l := range []struct {
		addr string
		into *net.Listener
	}{
		{n.config.HTTP.Addr, &n.listeners.main},
		{n.config.HTTP.MetricsAddr, &n.listeners.metrics},
		{n.config.HTTP.PprofAddr, &n.listeners.pprof},
	} {
		if l.addr == "" {
			continue
		}
		ln, err := net.Listen("tcp", l.addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%s is in use by another process", l.addr)
		}
		if err != nil {
			return fmt.Errorf("cannot listen: %w", err)
		}
		*l.into = ln
		n.onClose("", func() error { ln.Close(); return nil }) // who serves it has mostly closed it already
	}
	return nil
}

// openError says what is wrong with the data directory in the words of whoever chose it.
func (n *node) openError(err error) error {
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("the data directory %s is in use by another narad process", n.shownDir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory %s cannot be written: %w", n.shownDir, cause(err))
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the data directory %s, or a part of that path, is not a directory", n.shownDir)
	}
	text := strings.ReplaceAll(err.Error(), n.config.Storage.DataDir, n.shownDir)
	return fmt.Errorf("the data directory %s could not be opened: %s", n.shownDir, text)
}

// cause strips paths from an error.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// signalEcho is how long after the first signal another one is the same: timeout(1) and some supervisors send one to the process and one
// to its group.
const signalEcho = 200 * time.Millisecond

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the process at once.
func (a *app) untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		for echo := time.After(signalEcho); echo != nil; {
			select {
			case <-signals:
			case <-echo:
				echo = nil
			case <-done:
				return
			}
		}
		select {
		case <-signals:
			fmt.Fprintln(a.stderr, "narad: stopped at once by a second signal")
			os.Exit(exitSecond)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}
