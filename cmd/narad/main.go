// Command narad runs a Narad server, talks to one, and reads its files.
//
//	narad serve                        run a server
//	narad server start --dev           run a development server
//	narad server report                what a server holds, by topic
//	narad topic add|ls|info|edit|…     make, look at, change and delete topics
//	narad pub, sub, replay, bench      messages
//	narad user add|grant|ls|rm|passwd  users
//	narad ctx add|select|ls|rm         servers by name
//	narad cluster, narad remote        nodes and links, as far as the server has them
//	narad inspect                      read the files of a data directory
//	narad version, narad completion
//
// Exit status: 0 success; 1 the operation failed; 2 wrong usage; 3 a second signal cut a graceful stop short. The commands
// inspect and topic wait give 2 another meaning; their help says which.
//
// Files: main.go; serve.go (the server commands), node.go (one node: its parts, in order), opening.go (the time until it serves), process.go (signals, listeners, logs);
// connect.go (which server, as whom), contexts.go; topic.go, schema.go, children.go, report.go, pub.go, sub.go, replay.go,
// bench.go, user.go, cluster.go (other commands that talk to a server); inspect.go; terminal.go (progress, prompts, tables).
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
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
	global         globalFlags
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "narad",
		Short:         "A durable, at-least-once work queue",
		Long:          "Narad is a durable, at-least-once work queue on partitioned logs.\n\n" + exitSection,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          showHelp,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	a.global.add(root.PersistentFlags())
	root.AddCommand(
		a.serveCommand(), a.serverCommand(),
		a.topicCommand(), a.pubCommand(), a.subCommand(), a.replayCommand(), a.benchCommand(),
		a.userCommand(), a.contextCommand(), a.clusterCommand(), a.remoteCommand(),
		a.inspectCommand(), a.versionCommand(),
	)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout) // the completion command takes it when it is made
	root.SetErr(a.stderr)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = noArgs, showHelp // a shell that it does not know is wrong usage
	}
	return root
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: showHelp}
	cmd.AddCommand(commands...)
	return cmd
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

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "narad", version())
			return err
		},
	}
}

// version is what the build knows of itself: the module's version, the commit, whether there were changes on top of it, and Go's.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	text := info.Main.Version
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		text += " " + revision
		if settings["vcs.modified"] == "true" {
			text += " (modified)"
		}
		if settings["vcs.time"] != "" {
			text += " " + settings["vcs.time"]
		}
	}
	return text + " " + info.GoVersion
}
