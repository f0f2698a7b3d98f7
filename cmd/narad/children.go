package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"narad/client"
)

// childCommands are those about children of topics: topics that get a copy of a parent's messages. What the server does not
// have it answers with 501, and the command says so.
func (a *app) childCommands() []*cobra.Command {
	return []*cobra.Command{
		a.attachCommand(), a.detachCommand(), a.childrenCommand(), a.pauseCommand(), a.resumeCommand(), a.skipCommand(), a.waitCommand(),
	}
}

func childrenPath(parent, child, verb string) string {
	path := "/v1/topics/" + url.PathEscape(parent) + "/children"
	if child != "" {
		path += "/" + url.PathEscape(child)
	}
	return path + verb
}

// send makes one request of a route that the client has no method for, and prints what comes back.
func (a *app) send(ctx context.Context, method, path string, query url.Values, body any) error {
	l, err := a.login()
	if err != nil {
		return err
	}
	return a.sendAs(ctx, l, method, path, query, body)
}

func (a *app) sendAs(ctx context.Context, l login, method, path string, query url.Values, body any) error {
	c, err := a.clientOf(l)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := c.Call(ctx, method, path, query, body, &answer); err != nil {
		return err
	}
	if len(answer) == 0 {
		return a.print("done\n")
	}
	return a.printJSON(answer)
}

func (a *app) attachCommand() *cobra.Command {
	var delay time.Duration
	var remote, remoteTopic, from string
	var lanes int
	var dryRun bool
	cmd := &cobra.Command{
		Use: "attach PARENT CHILD", Short: "Copy a topic's messages into another one", Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			body := map[string]any{"child": names[1]}
			f := cmd.Flags()
			for _, field := range []struct {
				flag, name string
				value      any
			}{
				{"delay", "delay_ms", delay.Milliseconds()}, {"remote", "remote", remote}, {"remote-topic", "remote_topic", remoteTopic},
				{"from", "from", from}, {"lanes", "lanes", lanes}, {"dry-run", "dry_run", dryRun},
			} {
				if f.Changed(field.flag) {
					body[field.name] = field.value
				}
			}
			return a.send(cmd.Context(), http.MethodPost, childrenPath(names[0], "", ""), nil, body)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&delay, "delay", 0, "how much later than in the parent")
	f.StringVar(&remote, "remote", "", "ship to this other cluster")
	f.StringVar(&remoteTopic, "remote-topic", "", "topic over there")
	f.StringVar(&from, "from", "attach", "attach, unconsumed or earliest")
	f.IntVar(&lanes, "lanes", 1, "requests at a time, 1 to 8")
	f.BoolVar(&dryRun, "dry-run", false, "only check")
	return cmd
}

func (a *app) detachCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "detach PARENT CHILD", Short: "Stop copying", Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.send(cmd.Context(), http.MethodDelete, childrenPath(names[0], names[1], ""), forced(force), nil)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also when messages were not copied yet")
	return cmd
}

func forced(force bool) url.Values {
	if force {
		return url.Values{"force": {"true"}}
	}
	return nil
}

func (a *app) childrenCommand() *cobra.Command {
	var asJSON, partitions bool
	cmd := &cobra.Command{
		Use: "children TOPIC", Short: "List the children of a topic", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if asJSON || partitions {
				query := url.Values{}
				if partitions {
					query.Set("partitions", "true")
				}
				var answer json.RawMessage
				if err := c.Call(cmd.Context(), http.MethodGet, childrenPath(names[0], "", ""), query, nil, &answer); err != nil {
					return err
				}
				return a.printJSON(answer)
			}
			k, err := c.Children(cmd.Context(), names[0])
			if err != nil {
				return err
			}
			t := a.table("CHILD", "DELAY", "LAG")
			for _, child := range k.Children {
				lag := fmt.Sprint(child.Lag)
				if !child.LagComplete {
					lag += " or more"
				}
				t.row(child.Name, millis(child.DelayMs), lag)
			}
			return t.flush()
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&partitions, "partitions", false, "with each partition, as JSON")
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "pause PARENT CHILD", Short: "Pause shipping to another cluster", Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.send(cmd.Context(), http.MethodPost, childrenPath(names[0], names[1], "/pause"), nil, map[string]any{"reason": reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (a *app) resumeCommand() *cobra.Command {
	var accept bool
	cmd := &cobra.Command{
		Use: "resume PARENT CHILD", Short: "Resume shipping to another cluster", Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.send(cmd.Context(), http.MethodPost, childrenPath(names[0], names[1], "/resume"), nil, map[string]any{"accept_target": accept})
		},
	}
	cmd.Flags().BoolVar(&accept, "accept-target", false, "take the topic over there although it is another one now")
	return cmd
}

func (a *app) skipCommand() *cobra.Command {
	var partition int
	var offset int64
	cmd := &cobra.Command{
		Use: "skip PARENT CHILD", Short: "Leave out the record that shipping is stuck on", Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if !cmd.Flags().Changed("partition") || !cmd.Flags().Changed("offset") {
				return usagef("skip needs --partition and --offset")
			}
			return a.send(cmd.Context(), http.MethodPost, childrenPath(names[0], names[1], "/skip"), nil, map[string]any{"partition": partition, "offset": offset})
		},
	}
	cmd.Flags().IntVar(&partition, "partition", 0, "partition of the record")
	cmd.Flags().Int64Var(&offset, "offset", 0, "offset of the record")
	return cmd
}

// childWait waits until a child has caught up.
type childWait struct {
	parent, child             string
	lagZero, drained          bool
	stable, timeout, interval time.Duration
}

// childState is what a wait looks at.
type childState struct {
	client.Child
	Drained bool            `json:"source_drained"`
	Paused  bool            `json:"paused"`
	Blocked json.RawMessage `json:"blocked_at"`
}

func (a *app) waitCommand() *cobra.Command {
	var w childWait
	cmd := &cobra.Command{
		Use: "wait PARENT CHILD", Short: "Wait until a child has caught up with its parent",
		Long: `Wait until a child has every message of its parent (--lag-zero), or its parent has nothing left for it (--source-drained).

Exit status: 0 it has; 1 not within --timeout, or the operation failed; 2 wrong usage, or it is paused or stuck, so that waiting
is of no use.`,
		Args: args(2, 2, "a parent and a child"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if w.lagZero == w.drained {
				return usagef("give --lag-zero or --source-drained, one of them")
			}
			if w.interval < time.Millisecond || w.timeout < 0 || w.stable < 0 {
				return usagef("--interval must be 1ms or more, --timeout and --stable not negative")
			}
			w.parent, w.child = names[0], names[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&w.lagZero, "lag-zero", false, "until it has every message")
	f.BoolVar(&w.drained, "source-drained", false, "until its parent has nothing left for it")
	f.DurationVar(&w.stable, "stable", 0, "for that long without a break")
	f.DurationVar(&w.timeout, "timeout", 30*time.Minute, "give up after that long")
	f.DurationVar(&w.interval, "interval", 2*time.Second, "look that often")
	return cmd
}

func (w childWait) run(ctx context.Context, c *client.Client) error {
	began, since := time.Now(), time.Time{}
	for {
		s, err := w.look(ctx, c)
		switch {
		case err != nil:
			return err
		case s.Paused:
			return exitError{fmt.Errorf("%s is paused", w.child), exitUsage}
		case len(s.Blocked) > 0 && string(s.Blocked) != "null":
			return exitError{fmt.Errorf("%s is stuck: %s", w.child, s.Blocked), exitUsage}
		}
		now := time.Now()
		switch {
		case !w.reached(s):
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		if !since.IsZero() && now.Sub(since) >= w.stable {
			return nil
		}
		if now.Sub(began) >= w.timeout {
			return fmt.Errorf("%s has not caught up within %s: %d messages are missing", w.child, w.timeout, s.Lag)
		}
		time.Sleep(w.interval)
	}
}

func (w childWait) reached(s childState) bool {
	if w.lagZero {
		return s.LagComplete && s.Lag == 0
	}
	return s.Drained
}

func (w childWait) look(ctx context.Context, c *client.Client) (childState, error) {
	var answer struct {
		Children []childState `json:"children"`
	}
	if err := c.Call(ctx, http.MethodGet, childrenPath(w.parent, "", ""), nil, nil, &answer); err != nil {
		return childState{}, err
	}
	for _, s := range answer.Children {
		if s.Name == w.child {
			return s, nil
		}
	}
	return childState{}, fmt.Errorf("%s is no child of %s", w.child, w.parent)
}
