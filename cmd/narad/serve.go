package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"narad/config"
)

// configFileMax bounds a configuration file, in bytes.
const configFileMax = 1 << 20

// serveFlags are the flags of serve that set a key of the configuration, by the name of the flag.
var serveFlags = []struct{ name, key, usage string }{
	{"addr", "http.addr", "address to listen on, host:port (NARAD_HTTP_ADDR)"},
	{"port", "http.port", "port to listen on, the host stays"},
	{"cluster-port", "cluster.port", "port of the cluster address, the host stays"},
	{"node-id", "cluster.node_id", "name of this node (NARAD_NODE_ID)"},
	{"data-dir", "storage.data_dir", "directory of all data (NARAD_DATA_DIR)"},
	{"log-level", "log.level", "debug, info, warn or error (NARAD_LOG_LEVEL)"},
	{"log-format", "log.format", "json or text (NARAD_LOG_FORMAT)"},
	{"pprof-addr", "http.pprof_addr", "own address of the Go profiler (NARAD_HTTP_PPROF_ADDR)"},
}

// serveRun is one command line that runs a server.
type serveRun struct {
	app      *app
	file     string // --config
	interval time.Duration
	print    bool // --print-config
	check    bool // --check-config
	loopback bool // other addresses are refused
}

func (a *app) serveCommand() *cobra.Command {
	r := serveRun{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server until SIGINT or SIGTERM, which stop it gracefully: requests in flight are answered, consumer
state is made durable. A second signal ends it at once.

Each value of the configuration comes from its default, the file of --config, the environment or a flag; the later one
wins. All keys are in docs/operators.md; --print-config shows what is in effect and where it comes from.

` + exitSection,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Flags(), config.Sources{}) },
	}
	r.commonFlags(cmd.Flags())
	for _, f := range serveFlags {
		cmd.Flags().String(f.name, "", f.usage)
	}
	return cmd
}

func (r *serveRun) commonFlags(f *pflag.FlagSet) {
	f.StringVar(&r.file, "config", "", "configuration file, JSON")
	f.BoolVar(&r.print, "print-config", false, "print the configuration in effect, with the origin of each value, and end")
	f.BoolVar(&r.check, "check-config", false, "check the configuration and end")
	f.DurationVar(&r.interval, "consumer-offset-commit-interval", 0,
		"durability interval of consumer state, 10ms to 1m: a power loss brings back about that much of acked messages")
}

// run loads the configuration and does with it what was asked for.
func (r *serveRun) run(flags *pflag.FlagSet, from config.Sources) error {
	from.Environ = os.Environ()
	from.Hostname, _ = os.Hostname() // the rules say what is wrong with it
	for _, f := range serveFlags {
		if flag := flags.Lookup(f.name); flag != nil && flag.Changed {
			from.Flags = append(from.Flags, config.Flag{Key: f.key, Name: "--" + f.name, Value: flag.Value.String()})
		}
	}
	if flags.Changed("consumer-offset-commit-interval") {
		if r.interval%time.Millisecond != 0 {
			return usagef("--consumer-offset-commit-interval is %s, allowed are whole milliseconds, 10ms to 1m", r.interval)
		}
		from.Flags = append(from.Flags, config.Flag{
			Key: "storage.consumer_offset_commit_interval_ms", Name: "--consumer-offset-commit-interval", Value: fmt.Sprint(r.interval.Milliseconds()),
		})
	}
	var err error
	if from.FileName, from.File, err = readConfigFile(r.file); err != nil {
		return err
	}
	c, err := config.Load(from)
	if err != nil {
		return usageError{err}
	}
	if r.loopback && !config.Loopback(c.HTTP.Addr) {
		return usagef("http.addr is %s (from %s), but a development server listens on a loopback address only", c.HTTP.Addr, c.Origin("http.addr"))
	}
	shown := c.Storage.DataDir
	if c.Storage.DataDir, err = expandHome(shown); err != nil {
		return err
	}
	switch {
	case r.print:
		return r.app.printConfig(c)
	case r.check:
		return r.app.checkedConfig(c)
	}
	return r.app.serve(c, shown)
}

func readConfigFile(name string) (string, []byte, error) {
	if name == "" {
		return "", nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", nil, usageError{fmt.Errorf("the configuration file %s cannot be read: %w", name, cause(err))}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configFileMax+1))
	switch {
	case err != nil:
		return "", nil, usageError{fmt.Errorf("the configuration file %s cannot be read: %w", name, cause(err))}
	case len(text) > configFileMax:
		return "", nil, usagef("the configuration file %s is larger than %d bytes", name, configFileMax)
	case text == nil:
		text = []byte{}
	}
	return name, text, nil
}

// printConfig prints every key with its value and origin.
func (a *app) printConfig(c *config.Loaded) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM")
	for _, l := range c.Lines() {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.Key, l.Value, l.Origin)
	}
	return errors.Join(w.Flush(), a.checkedConfig(c))
}

// checkedConfig says what an operator should know of a configuration that is taken.
func (a *app) checkedConfig(c *config.Loaded) error {
	for _, w := range c.Warnings {
		if _, err := fmt.Fprintf(a.stderr, "warning: %s\n", w); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) serverCommand() *cobra.Command {
	return group("server", "Run a development server; report on a server", a.serverStartCommand(), a.serverReportCommand())
}

func (a *app) serverStartCommand() *cobra.Command {
	r := serveRun{app: a}
	var dev bool
	cmd := &cobra.Command{
		Use:   "start [--dev]",
		Short: "Run a server, with --dev one for development",
		Long: `Run a server. With --dev it is one for development: it listens on a loopback address only, needs no credentials,
writes logs to read, and keeps its data in ~/.narad/data unless told otherwise.

` + exitSection,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var from config.Sources
			if dev {
				from.ModeName = "server start --dev"
				from.Mode = developmentMode(cmd.Flags())
				r.loopback = true
			}
			return r.run(cmd.Flags(), from)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&dev, "dev", false, "a development server")
	r.commonFlags(f)
	for _, flag := range serveFlags {
		switch flag.name {
		case "port", "data-dir", "log-level", "log-format", "pprof-addr":
			f.String(flag.name, "", flag.usage)
		}
	}
	return cmd
}

// developmentMode returns the defaults of the development server. Its cluster address is next to the one of --port.
func developmentMode(flags *pflag.FlagSet) map[string]string {
	next := 7943
	if port, err := strconv.Atoi(flags.Lookup("port").Value.String()); err == nil && port > 0 && port < 65535 {
		next = port + 1
	}
	return map[string]string{
		"http.addr": "127.0.0.1:7942", "cluster.addr": fmt.Sprintf("127.0.0.1:%d", next), "storage.data_dir": "~/.narad/data",
		"log.format": "text", "security.enabled": "false",
	}
}

// expandHome replaces a leading "~/" of the data directory.
func expandHome(dir string) (string, error) {
	rest, ok := strings.CutPrefix(dir, "~/")
	if !ok {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("the home directory is not known: set --data-dir")
	}
	return filepath.Join(home, rest), nil
}
