package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"narad/client"
)

func (a *app) topicCommand() *cobra.Command {
	cmd := group("topic", "Make, look at, change and delete topics",
		a.topicAddCommand(), a.topicListCommand(), a.topicInfoCommand(), a.topicEditCommand(), a.topicSchemaCommand(), a.topicRemoveCommand())
	cmd.AddCommand(a.childCommands()...)
	cmd.Aliases = []string{"topics"}
	return cmd
}

// topicFlags are those that say how a topic shall be; what is not given is left to the server.
type topicFlags struct {
	flags                      *pflag.FlagSet
	retention, visibility      time.Duration
	partitions                 int
	maxInFlight, maxAckedAhead int
	schema                     string
}

func (t *topicFlags) add(f *pflag.FlagSet) {
	t.flags = f
	f.IntVar(&t.partitions, "partitions", 0, "number of partitions")
	f.DurationVar(&t.retention, "retention", 0, "how long messages are kept, at least 1h; 0 keeps them for ever")
	f.DurationVar(&t.visibility, "visibility", 0, "how long a consumer holds a message")
	f.IntVar(&t.maxInFlight, "max-in-flight", 0, "leases per partition; 0 is the server's default")
	f.IntVar(&t.maxAckedAhead, "max-acked-ahead", 0, "acks above a gap per partition; 0 is the server's default")
	f.StringVar(&t.schema, "schema", "", "JSON Schema of the payloads: the document itself, @FILE, or - for the standard input")
}

// given returns a pointer to the value of a flag that was given, nil otherwise.
func given[T any](f *pflag.FlagSet, name string, value T) *T {
	if f.Changed(name) {
		return &value
	}
	return nil
}

func (t *topicFlags) retentionMs() (*int64, error) {
	if t.retention%time.Millisecond != 0 {
		return nil, usagef("--retention is %s, allowed are whole milliseconds", t.retention)
	}
	return given(t.flags, "retention", t.retention.Milliseconds()), nil
}

func (a *app) topicAddCommand() *cobra.Command {
	var t topicFlags
	var parent string
	var delay time.Duration
	cmd := &cobra.Command{
		Use: "add TOPIC", Short: "Create a topic", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if t.flags.Changed("visibility") && (t.visibility < time.Millisecond || t.visibility%time.Millisecond != 0) {
				return usagef("--visibility is %s, allowed are whole milliseconds, 1ms and more", t.visibility)
			}
			spec := client.TopicSpec{
				Name: names[0], Partitions: t.partitions, VisibilityMs: t.visibility.Milliseconds(),
				MaxInFlight: t.maxInFlight, MaxAckedAhead: t.maxAckedAhead, Parent: parent, FanoutDelayMs: delay.Milliseconds(),
			}
			if spec.RetentionMs, err = t.retentionMs(); err != nil {
				return err
			}
			if spec.Schema, err = a.document(t.schema); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			made, err := c.CreateTopic(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return a.print("created topic %s with %d partitions\n", made.Name, made.Partitions)
		},
	}
	t.add(cmd.Flags())
	cmd.Flags().StringVar(&parent, "parent", "", "topic whose messages are copied into this one")
	cmd.Flags().DurationVar(&delay, "delay", 0, "how much later than in the parent")
	return cmd
}

func (a *app) topicEditCommand() *cobra.Command {
	var t topicFlags
	var base int
	cmd := &cobra.Command{
		Use: "edit TOPIC", Short: "Change a topic",
		Long: `Change a topic: its retention, its caps, its partitions (more, never fewer), its schema (wider, never narrower), in this order.
The first change that is refused ends it; those before it stay. The visibility timeout of a topic cannot be changed.`,
		Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if t.flags.Changed("visibility") {
				return usagef("the visibility timeout of a topic cannot be changed: make a new topic")
			}
			patch := client.TopicPatch{
				Partitions: given(t.flags, "partitions", t.partitions), MaxInFlight: given(t.flags, "max-in-flight", t.maxInFlight),
				MaxAckedAhead: given(t.flags, "max-acked-ahead", t.maxAckedAhead), SchemaBaseVersion: given(t.flags, "schema-base-version", base),
			}
			if patch.RetentionMs, err = t.retentionMs(); err != nil {
				return err
			}
			if patch.Schema, err = a.document(t.schema); err != nil {
				return err
			}
			if patch.SchemaBaseVersion != nil && patch.Schema == nil {
				return usagef("--schema-base-version goes with --schema")
			}
			if text, _ := json.Marshal(patch); string(text) == "{}" {
				return usagef("nothing is to be changed: give a flag")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			changed, err := c.PatchTopic(cmd.Context(), names[0], patch)
			if err != nil {
				return err
			}
			return a.print("changed topic %s\n", changed.Name)
		},
	}
	t.add(cmd.Flags())
	cmd.Flags().IntVar(&base, "schema-base-version", 0, "refuse the schema when the newest version is not this one")
	return cmd
}

func (a *app) topicRemoveCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "rm TOPIC", Short: "Delete a topic with its messages", Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if !force {
				yes, err := a.confirm(fmt.Sprintf("Delete topic %s with all its messages?", names[0]))
				if err != nil || !yes {
					return fmt.Errorf("topic %s was not deleted", names[0])
				}
			}
			if err := c.DeleteTopic(cmd.Context(), names[0]); err != nil {
				return err
			}
			return a.print("deleted topic %s\n", names[0])
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "do not ask")
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
				return a.printJSON(append([]client.Topic{}, topics...))
			}
			return a.printTopics(topics)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printTopics(topics []client.Topic) error {
	w := a.table("TOPIC", "PARTS", "RETENTION", "VISIBILITY")
	for _, t := range topics {
		w.row(t.Name, t.Partitions, retentionText(t.RetentionMs), millis(t.VisibilityMs))
	}
	return w.flush()
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
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) printTopic(t client.Topic) error {
	w := a.table()
	w.row("topic", t.Name)
	w.row("id", t.ID)
	w.row("created", time.Unix(t.CreatedAt, 0).UTC().Format(time.RFC3339))
	if t.Owner != "" {
		w.row("owner", t.Owner)
	}
	w.row("retention", retentionText(t.RetentionMs))
	w.row("visibility", millis(t.VisibilityMs))
	w.row("max in flight", fmt.Sprintf("%d per partition", t.MaxInFlight))
	w.row("max acked ahead", fmt.Sprintf("%d per partition", t.MaxAckedAhead))
	if t.SchemaVersion > 0 {
		w.row("schema", fmt.Sprintf("version %d", t.SchemaVersion))
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := a.print("\n"); err != nil {
		return err
	}
	w = a.table("PARTITION", "OLDEST", "NEXT", "SIZE", "STATUS")
	for _, p := range t.PartitionStats {
		w.row(p.Index, p.Oldest, p.Next, sizeText(p.Size), p.Status)
	}
	return w.flush()
}

func retentionText(ms int64) string {
	if ms == 0 {
		return "for ever"
	}
	return millis(ms).String()
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// sizeText is a number of bytes to read.
func sizeText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/1024, 0
	for ; size >= 1024 && unit < len(units)-1; unit++ {
		size /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", size, units[unit])
}
