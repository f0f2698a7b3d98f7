// Command narad runs a Narad server, talks to one, and reads its files.
//
//	narad serve                  run a server
//	narad server start --dev     run a development server
//	narad topic add|ls|info      make and look at topics
//	narad pub, narad sub         produce and consume messages
//	narad inspect                read the files of a data directory
//	narad version
//
// Exit status: 0 success; 1 the operation failed; 2 wrong usage; 3 a second signal cut a graceful stop short.
//
// Files: main.go, serve.go (the server commands), process.go (one server from start to stop), topic.go, pub.go,
// sub.go, inspect.go.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"narad/client"
)

// Exit statuses.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitSecond  = 3
	exitSection = `Exit status:
  0  success
  1  the operation failed, or the server could not start or not stop cleanly
  2  wrong usage
  3  a second signal cut a graceful stop short`
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	var usage usageError
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "narad: %v\nTry \"narad help\".\n", err)
		return exitUsage
	case errors.As(err, &exit):
		fmt.Fprintf(stderr, "narad: %v\n", err)
		return exit.status
	default:
		fmt.Fprintf(stderr, "narad: %v\n", err)
		return exitFailed
	}
}

// usageError is a command line that is wrong by itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError is a failure with an exit status of its own.
type exitError struct {
	error
	status int
}

func (e exitError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// app is what the commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	server         string // --server
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "narad",
		Short:         "A durable, at-least-once work queue",
		Long:          "Narad is a durable, at-least-once work queue on partitioned logs.\n\n" + exitSection,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVarP(&a.server, "server", "s", env("NARAD_ADDR", client.DefaultServer),
		"server to talk to (NARAD_ADDR)")
	root.AddCommand(a.serveCommand(), a.serverCommand(), a.topicCommand(), a.pubCommand(), a.subCommand(), a.versionCommand())
	root.AddCommand(a.inspectCommand())
	return root
}

// env returns a variable of the environment, or a default when it is not set.
func env(name, otherwise string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return otherwise
}

// noArgs and args check the number of arguments; what they refuse is wrong usage.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown argument %q", args[0])
	}
	return nil
}

func args(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("%s takes %s", cmd.CommandPath(), names)
		}
		return nil
	}
}

// client returns a client of the server that the command line names.
func (a *app) client() (*client.Client, error) {
	c, err := client.New(a.server, client.Options{Name: "narad-cli"})
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "narad", version())
			return err
		},
	}
}

// version is what the build knows of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value
		}
	}
	return text + " " + info.GoVersion
}
