package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"narad/engine"
	"narad/server"
	"narad/vfs"
)

// serve runs one server until a signal: listen, so that a taken port is found before the data is touched; recover
// the data; serve; stop; close the data. Connections that arrive during the recovery wait in the backlog.
func (a *app) serve(c serveConfig) error {
	if err := c.validate(); err != nil {
		return err
	}
	logger, err := c.logger(a)
	if err != nil {
		return err
	}
	ctx, stop := a.untilSignal()
	defer stop()
	ln, err := listen(c.addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	events := server.NewEventLog(logger)
	defer events.Close()
	e, err := engine.Open(c.dataDir, engine.Options{CommitInterval: c.commitInterval, Listener: events.Listen})
	if err != nil {
		return openError(c, err)
	}
	s := server.New(e, server.Options{Logger: logger})
	logger.Info("serving", "addr", ln.Addr().String(), "data_dir", c.shownDir, "version", version())
	serveErr := s.Serve(ctx, ln)
	logger.Info("stopping")
	if err := e.Close(); err != nil {
		return errors.Join(serveErr, fmt.Errorf("the data directory was not closed cleanly; acked messages may be delivered again: %w", err))
	}
	if serveErr == nil {
		logger.Info("stopped; consumer state is durable")
	}
	return serveErr
}

// listen opens the address and makes sure that it is what validate took it for: "localhost" may be anything.
func listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		ln.Close()
		return nil, usagef("%s is not a loopback address", addr)
	}
	return ln, nil
}

// openError says what is wrong with the data directory in the words of whoever chose it.
func openError(c serveConfig, err error) error {
	switch {
	case errors.Is(err, vfs.ErrLocked):
		return fmt.Errorf("the data directory %s is in use by another narad process", c.shownDir)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory %s cannot be written: %w", c.shownDir, cause(err))
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("the data directory %s, or a part of that path, is not a directory", c.shownDir)
	}
	text := strings.ReplaceAll(err.Error(), c.dataDir, c.shownDir)
	return fmt.Errorf("the data directory %s could not be opened: %s", c.shownDir, text)
}

// cause strips paths from an error.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

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
