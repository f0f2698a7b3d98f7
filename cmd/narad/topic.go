package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"narad/client"
)

func (a *app) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "topic", Aliases: []string{"topics"}, Short: "Make and look at topics", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.topicAddCommand(), a.topicListCommand(), a.topicInfoCommand())
	return cmd
}

func (a *app) topicAddCommand() *cobra.Command {
	var spec client.TopicSpec
	var retention, visibility time.Duration
	cmd := &cobra.Command{
		Use: "add TOPIC", Short: "Create a topic", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			spec.Name = names[0]
			if cmd.Flags().Changed("retention") {
				spec.RetentionMs = new(retention.Milliseconds())
			}
			if visibility != 0 && visibility < time.Millisecond {
				return usagef("--visibility is %s, allowed is 1ms and more", visibility)
			}
			spec.VisibilityMs = visibility.Milliseconds()
			t, err := c.CreateTopic(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return a.print("created topic %s with %d partitions\n", t.Name, t.Partitions)
		},
	}
	f := cmd.Flags()
	f.IntVar(&spec.Partitions, "partitions", 0, "number of partitions (default: the server's, 3)")
	f.DurationVar(&retention, "retention", 0, "how long messages are kept, at least 1h; 0 keeps them for ever (default: the server's, 7 days)")
	f.DurationVar(&visibility, "visibility", 0, "how long a consumer holds a message (default: the server's, 30s)")
	f.IntVar(&spec.MaxInFlight, "max-in-flight", 0, "leases per partition (default: the server's, 1024)")
	f.IntVar(&spec.MaxAckedAhead, "max-acked-ahead", 0, "acks above a gap per partition (default: the server's, 1024)")
	return cmd
}

func (a *app) topicListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List topics", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			topics, err := c.Topics(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(topics)
			}
			return a.printTopics(topics)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printTopics(topics []client.Topic) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTS\tRETENTION\tVISIBILITY")
	for _, t := range topics {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", t.Name, t.Partitions, retentionText(t.RetentionMs), millis(t.VisibilityMs))
	}
	return w.Flush()
}

func (a *app) topicInfoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "info TOPIC", Short: "Describe a topic and its partitions", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := c.Topic(cmd.Context(), names[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(t)
			}
			return a.printTopic(t)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) printTopic(t client.Topic) error {
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "topic\t%s\nid\t%s\ncreated\t%s\n", t.Name, t.ID, time.Unix(t.CreatedAt, 0).UTC().Format(time.RFC3339))
	fmt.Fprintf(w, "retention\t%s\nvisibility\t%s\n", retentionText(t.RetentionMs), millis(t.VisibilityMs))
	fmt.Fprintf(w, "max in flight\t%d per partition\nmax acked ahead\t%d per partition\n\n", t.MaxInFlight, t.MaxAckedAhead)
	fmt.Fprintln(w, "PARTITION\tOLDEST\tNEXT\tSTATUS")
	for _, p := range t.PartitionStats {
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\n", p.Index, p.Oldest, p.Next, p.Status)
	}
	return w.Flush()
}

func retentionText(ms int64) string {
	if ms == 0 {
		return "for ever"
	}
	return millis(ms).String()
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (a *app) print(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
