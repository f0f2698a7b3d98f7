package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"narad/engine"
)

// serveConfig is what one server process is started with.
type serveConfig struct {
	addr           string
	dataDir        string
	shownDir       string // as the user would write it
	logLevel       string
	logFormat      string
	commitInterval time.Duration
}

func (a *app) serveCommand() *cobra.Command {
	var c serveConfig
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server until SIGINT or SIGTERM, which stop it gracefully: requests in flight are answered, consumer
state is made durable. A second signal ends it at once.

There is no authentication yet, so the server listens on loopback addresses only.

` + exitSection,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			c.shownDir = c.dataDir
			return a.serve(c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.addr, "addr", env("NARAD_HTTP_ADDR", "127.0.0.1:7942"), "address to listen on (NARAD_HTTP_ADDR)")
	f.StringVar(&c.dataDir, "data-dir", env("NARAD_DATA_DIR", "data"), "directory of all data (NARAD_DATA_DIR)")
	f.StringVar(&c.logLevel, "log-level", env("NARAD_LOG_LEVEL", "info"), "debug, info, warn or error (NARAD_LOG_LEVEL)")
	f.StringVar(&c.logFormat, "log-format", env("NARAD_LOG_FORMAT", "json"), "json or text (NARAD_LOG_FORMAT)")
	f.DurationVar(&c.commitInterval, "consumer-offset-commit-interval", time.Second,
		"durability interval of consumer offsets, 10ms to 1m: a power loss brings back about that much of acked messages")
	return cmd
}

func (a *app) serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "server", Short: "Server commands", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.serverStartCommand())
	return cmd
}

func (a *app) serverStartCommand() *cobra.Command {
	var c serveConfig
	var dev bool
	var port uint16
	cmd := &cobra.Command{
		Use:   "start --dev",
		Short: "Run a development server",
		Long: `Run a development server: on a loopback address, without authentication, with logs to read.

` + exitSection,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !dev {
				return usagef("server start needs --dev; use \"narad serve\" otherwise")
			}
			c.addr = fmt.Sprintf("127.0.0.1:%d", port)
			c.shownDir = c.dataDir
			if err := c.expandHome(); err != nil {
				return err
			}
			return a.serve(c)
		},
	}
	c.logFormat, c.commitInterval = "text", time.Second
	f := cmd.Flags()
	f.BoolVar(&dev, "dev", false, "a development server")
	f.Uint16Var(&port, "port", 7942, "port to listen on")
	f.StringVar(&c.dataDir, "data-dir", "~/.narad/data", "directory of all data")
	f.StringVar(&c.logLevel, "log-level", env("NARAD_LOG_LEVEL", "info"), "debug, info, warn or error (NARAD_LOG_LEVEL)")
	return cmd
}

// expandHome replaces a leading "~/" of the data directory.
func (c *serveConfig) expandHome() error {
	rest, ok := strings.CutPrefix(c.dataDir, "~/")
	if !ok {
		return nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return fmt.Errorf("the home directory is not known: set --data-dir")
	}
	c.dataDir = filepath.Join(home, rest)
	return nil
}

// validate refuses a configuration before anything is opened.
func (c *serveConfig) validate() error {
	if c.dataDir == "" {
		return usagef("--data-dir is empty")
	}
	if err := (engine.Options{CommitInterval: c.commitInterval}).Validate(); err != nil || c.commitInterval == 0 {
		return usagef("--consumer-offset-commit-interval is %s, allowed is 10ms to 1m", c.commitInterval)
	}
	return loopbackOnly(c.addr)
}

// loopbackOnly refuses an address that other machines could reach.
func loopbackOnly(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usagef("--addr is %q, it must be host:port like 127.0.0.1:7942", addr)
	}
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return usagef("--addr is %q, but this version has no authentication and listens on loopback addresses only: "+
		"use 127.0.0.1, ::1 or localhost as the host", addr)
}

// logger returns the logger that the flags ask for.
func (c *serveConfig) logger(a *app) (*slog.Logger, error) {
	var level slog.Level
	switch c.logLevel {
	case "debug":
		level = slog.LevelDebug
	case "info":
		level = slog.LevelInfo
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, usagef("--log-level is %q, allowed are debug, info, warn and error", c.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch c.logFormat {
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, options)), nil
	}
	return nil, usagef("--log-format is %q, allowed are json and text", c.logFormat)
}
