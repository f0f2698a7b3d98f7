package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// The commands of this file speak of several nodes and of other clusters. What the server does not have it answers with 501,
// and the command says so.

func (a *app) clusterCommand() *cobra.Command {
	return group("cluster", "Nodes, and partitions that move between them",
		a.membersCommand(), a.movesCommand(), a.decommissionCommand())
}

func detailed(detail bool) url.Values {
	if detail {
		return url.Values{"detail": {"true"}}
	}
	return nil
}

func (a *app) membersCommand() *cobra.Command {
	var detail, asJSON bool
	cmd := &cobra.Command{
		Use: "members", Short: "List the nodes", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := c.Call(cmd.Context(), http.MethodGet, "/v1/cluster/members", detailed(detail), nil, &answer); err != nil {
				return err
			}
			if asJSON || detail {
				return a.printJSON(answer)
			}
			var list struct {
				Members []struct {
					ID         string `json:"id"`
					Addr       string `json:"addr"`
					Status     string `json:"status"`
					Draining   bool   `json:"draining"`
					Partitions int    `json:"owned_partitions"`
					Leader     bool   `json:"leader"`
				} `json:"members"`
			}
			if err := json.Unmarshal(answer, &list); err != nil {
				return fmt.Errorf("the server's answer is not understood: %w", err)
			}
			t := a.table("NODE", "ADDRESS", "STATUS", "DRAINING", "PARTITIONS", "LEADER")
			for _, m := range list.Members {
				t.row(m.ID, m.Addr, m.Status, m.Draining, m.Partitions, m.Leader)
			}
			return t.flush()
		},
	}
	cmd.Flags().BoolVar(&detail, "detail", false, "with what each node says of itself, as JSON")
	jsonFlag(cmd, &asJSON)
	cmd.AddCommand(&cobra.Command{
		Use: "forget NODE", Short: "Remove a node that does not come back from the metadata", Args: args(1, 1, "the name of one node"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.send(cmd.Context(), http.MethodPost, "/v1/cluster/members/"+url.PathEscape(names[0])+"/forget", nil, nil)
		},
	})
	return cmd
}

func (a *app) movesCommand() *cobra.Command {
	var detail bool
	var target string
	cmd := &cobra.Command{
		Use: "moves", Short: "List the partitions that move, as JSON", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.send(cmd.Context(), http.MethodGet, "/v1/cluster/moves", detailed(detail), nil)
		},
	}
	cmd.Flags().BoolVar(&detail, "detail", false, "with what the nodes say of them")
	abort := &cobra.Command{
		Use: "abort TOPIC PARTITION", Short: "Give up a move", Args: args(2, 2, "a topic and a partition"),
		RunE: func(cmd *cobra.Command, names []string) error {
			query := url.Values{}
			if target != "" {
				query.Set("target", target)
			}
			path := "/v1/cluster/moves/" + url.PathEscape(names[0]) + "/" + url.PathEscape(names[1]) + "/abort"
			return a.send(cmd.Context(), http.MethodPost, path, query, nil)
		},
	}
	abort.Flags().StringVar(&target, "target", "", "only a move to this node")
	cmd.AddCommand(abort)
	return cmd
}

func (a *app) decommissionCommand() *cobra.Command {
	var dryRun, cancel bool
	cmd := &cobra.Command{
		Use: "decommission NODE", Short: "Move everything away from a node", Args: args(1, 1, "the name of one node"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if dryRun && cancel {
				return usagef("give --dry-run or --cancel, not both")
			}
			path, method, query := "/v1/cluster/members/"+url.PathEscape(names[0])+"/decommission", http.MethodPost, url.Values{}
			if cancel {
				method = http.MethodDelete
			}
			if dryRun {
				query.Set("dry_run", "true")
			}
			return a.send(cmd.Context(), method, path, query, nil)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what stands in the way")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "take the node back")
	return cmd
}

// remoteFlags describe another cluster.
type remoteFlags struct {
	url, username, caFile, compression  string
	noCA, passwordStdin                 bool
	maxInFlight                         int
	requestTimeout, idle, maxAge, check time.Duration
}

func (r *remoteFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.url, "url", "", "address of the other cluster, https")
	f.StringVar(&r.username, "username", "", "user over there")
	f.StringVar(&r.caFile, "ca-file", "", "file with the certificates to trust")
	f.BoolVar(&r.noCA, "no-ca", false, "trust what the system trusts")
	f.BoolVar(&r.passwordStdin, "remote-password-stdin", false, "read the password over there from the standard input: its first line, or the second one with --password-stdin")
	f.IntVar(&r.maxInFlight, "max-in-flight", 0, "requests at a time")
	f.DurationVar(&r.requestTimeout, "request-timeout", 0, "bound of one request")
	f.DurationVar(&r.idle, "idle-conn-timeout", 0, "how long an idle connection is kept")
	f.DurationVar(&r.maxAge, "conn-max-age", 0, "how old a connection may become")
	f.DurationVar(&r.check, "check-interval", 0, "how often the other cluster is checked")
	f.StringVar(&r.compression, "compression", "", "none or zstd")
}

// body returns the fields of the flags that were given.
func (r *remoteFlags) body(a *app, cmd *cobra.Command) (map[string]any, error) {
	body, limits := map[string]any{}, map[string]any{}
	f := cmd.Flags()
	if f.Changed("url") {
		body["url"] = r.url
	}
	if f.Changed("username") {
		body["username"] = r.username
	}
	switch {
	case r.caFile != "" && r.noCA:
		return nil, usagef("give --ca-file or --no-ca, not both")
	case r.caFile != "":
		pem, err := os.ReadFile(r.caFile)
		if err != nil {
			return nil, err
		}
		body["ca_pem"] = string(pem)
	case r.noCA:
		body["ca_pem"] = ""
	}
	for _, l := range []struct {
		flag, name string
		value      any
	}{
		{"max-in-flight", "max_in_flight", r.maxInFlight}, {"request-timeout", "request_timeout_ms", r.requestTimeout.Milliseconds()},
		{"idle-conn-timeout", "idle_conn_timeout_ms", r.idle.Milliseconds()}, {"conn-max-age", "conn_max_age_ms", r.maxAge.Milliseconds()},
		{"check-interval", "check_interval_ms", r.check.Milliseconds()}, {"compression", "compression", r.compression},
	} {
		if f.Changed(l.flag) {
			limits[l.name] = l.value
		}
	}
	if len(limits) > 0 {
		body["limits"] = limits
	}
	if r.passwordStdin {
		password, err := a.readLine()
		if err != nil {
			return nil, err
		}
		body["password"] = password
	}
	return body, nil
}

func remotePath(name, verb string) string { return "/v1/remotes/" + url.PathEscape(name) + verb }

func (a *app) remoteCommand() *cobra.Command {
	var noNodes, force bool
	var topic, source string
	list := &cobra.Command{
		Use: "ls", Short: "List them, as JSON", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"nodes": {fmt.Sprint(!noNodes)}}
			return a.send(cmd.Context(), http.MethodGet, "/v1/remotes", query, nil)
		},
	}
	list.Flags().BoolVar(&noNodes, "no-nodes", false, "without asking the nodes")
	remove := &cobra.Command{
		Use: "rm NAME", Short: "Forget one", Args: args(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.send(cmd.Context(), http.MethodDelete, remotePath(names[0], ""), forced(force), nil)
		},
	}
	remove.Flags().BoolVar(&force, "force", false, "also while something is shipped there")
	test := &cobra.Command{
		Use: "test NAME", Short: "Check that it can be reached", Args: args(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			body := map[string]any{}
			if topic != "" {
				body["topic"] = topic
			}
			if source != "" {
				body["source"] = source
			}
			return a.send(cmd.Context(), http.MethodPost, remotePath(names[0], "/test"), nil, body)
		},
	}
	test.Flags().StringVar(&topic, "topic", "", "topic over there")
	test.Flags().StringVar(&source, "source", "", "topic here")
	return group("remote", "Other clusters to ship messages to",
		a.remoteChangeCommand("add NAME", "Make one known", func(name string, body map[string]any) (string, string) {
			body["name"] = name
			return http.MethodPost, "/v1/remotes"
		}),
		a.remoteChangeCommand("set NAME", "Change one", func(name string, _ map[string]any) (string, string) {
			return http.MethodPatch, remotePath(name, "")
		}),
		list, remove, test,
		&cobra.Command{
			Use: "reencrypt", Short: "Encrypt the passwords with the current secret of the cluster", Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.send(cmd.Context(), http.MethodPost, "/v1/cluster/reencrypt-remotes", nil, nil)
			},
		})
}

func (a *app) remoteChangeCommand(use, short string, route func(name string, body map[string]any) (method, path string)) *cobra.Command {
	var r remoteFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, names []string) error {
			l, err := a.login() // takes the first line of the standard input, if both passwords come from there
			if err != nil {
				return err
			}
			body, err := r.body(a, cmd)
			if err != nil {
				return err
			}
			method, path := route(names[0], body)
			return a.sendAs(cmd.Context(), l, method, path, nil, body)
		},
	}
	r.add(cmd)
	return cmd
}
