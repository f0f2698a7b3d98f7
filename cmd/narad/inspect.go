package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	worldenv "narad/env"
	"narad/inspect"
	"narad/metastore/raft"
)

const inspectLong = `Inspect reads a file or directory of Narad without a broker, says what it holds, and locates damage to
the byte. It never changes anything. docs/inspect.md explains the output.

A file is read in full. A directory (a data, topic or partition directory, or one of the others inside) is
walked by the headers of frames, a line per file; with --verify everything is read, all checksums are verified,
and the files are held against each other. That needs the data directory for itself: stop the broker first.

Exit status:
  0  no damage; there may be warnings and notes
  1  something is damaged
  2  wrong usage, or something could not be read: a broker is running, permissions, an I/O error`

// inspectCommand reads files of a data directory.
func (a *app) inspectCommand() *cobra.Command {
	var o inspect.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use: "inspect FILE|DIR", Short: "Read files of a data directory and locate damage", Long: inspectLong,
		Args: args(1, 1, "one file or directory"),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if o.Limit < 1 {
				return usagef("--limit is %d, at least 1 is allowed", o.Limit)
			}
			path, err := filepath.Abs(paths[0])
			if err != nil {
				return usageError{err}
			}
			progress := newProgress(a.stderr)
			o.Progress, o.Metastore = progress.bytes, raft.Read
			report, err := inspect.Run(worldenv.OS(), path, o)
			progress.clear()
			if err != nil {
				return cannotInspect(path, err)
			}
			if asJSON {
				err = a.printJSON(report)
			} else {
				err = report.WriteText(a.stdout)
			}
			if err != nil {
				return err
			}
			return inspectOutcome(report)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	f.BoolVar(&o.Verify, "verify", false, "read everything and hold the files against each other; no broker may be running")
	f.BoolVar(&o.Records, "records", false, "list the records of each file")
	f.IntVar(&o.Limit, "limit", 20, "how many records to list of each file")
	return cmd
}

// inspectOutcome turns a report into the exit status.
func inspectOutcome(r *inspect.Report) error {
	switch r.Outcome {
	case inspect.Damaged:
		return fmt.Errorf("%s is damaged", r.Path)
	case inspect.Unreadable:
		return exitError{fmt.Errorf("%s could not be read in full", r.Path), exitUsage}
	}
	return nil
}

// cannotInspect says what to do about a path that cannot be looked at.
func cannotInspect(path string, err error) error {
	switch {
	case errors.Is(err, inspect.ErrInUse):
		err = fmt.Errorf("%s: %w; stop the broker, or look without --verify", path, err)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%s: %w; run this as the user that owns the data directory", path, err)
	}
	return exitError{err, exitUsage}
}
