package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"narad/client"
)

// reportRequests is how many topics are asked for at a time.
const reportRequests = 8

// topicReport is one line of the report.
type topicReport struct {
	Topic       string   `json:"topic"`
	Partitions  int      `json:"partitions"`
	Unavailable int      `json:"unavailable_partitions,omitempty"`
	Messages    int64    `json:"messages"` // that are kept, acked or not
	Size        int64    `json:"size_bytes"`
	Owners      []string `json:"owners"`
	Role        string   `json:"role"`
}

func (a *app) serverReportCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "report", Short: "What a server holds, by topic", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			lines, err := a.report(cmd.Context(), c)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(lines)
			}
			return a.printReport(lines)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// report asks for every topic. One that is deleted meanwhile is left out.
func (a *app) report(ctx context.Context, c *client.Client) ([]topicReport, error) {
	topics, err := c.Topics(ctx)
	if err != nil {
		return nil, err
	}
	lines := make([]topicReport, len(topics))
	errs := make([]error, len(topics))
	progress := newProgress(a.stderr)
	defer progress.clear()
	var asked sync.WaitGroup
	var mu sync.Mutex // guards done and progress
	var done int64
	slots := make(chan struct{}, reportRequests)
	for i, t := range topics {
		slots <- struct{}{}
		asked.Go(func() {
			defer func() { <-slots }()
			var full client.Topic
			if full, errs[i] = c.Topic(ctx, t.Name); errs[i] == nil {
				lines[i] = reportOf(full)
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress.count("topics", done, int64(len(topics)))
		})
	}
	asked.Wait()
	out := []topicReport{}
	for i, err := range errs {
		var e *client.Error
		switch {
		case err == nil:
			out = append(out, lines[i])
		case asError(err, &e) && e.Status == 404:
		default:
			return nil, fmt.Errorf("topic %s: %w", topics[i].Name, err)
		}
	}
	return out, nil
}

func reportOf(t client.Topic) topicReport {
	r := topicReport{Topic: t.Name, Partitions: t.Partitions, Role: t.Role, Owners: []string{}}
	for _, p := range t.PartitionStats {
		if p.Status != "ok" {
			r.Unavailable++
			continue
		}
		r.Messages += p.HighWatermark - p.Oldest
		r.Size += p.Size
		if p.Owner != "" && !slices.Contains(r.Owners, p.Owner) {
			r.Owners = append(r.Owners, p.Owner)
		}
	}
	slices.Sort(r.Owners)
	return r
}

func (a *app) printReport(lines []topicReport) error {
	t := a.table("TOPIC", "PARTS", "MESSAGES", "SIZE", "OWNERS", "ROLE")
	var total topicReport
	for _, l := range lines {
		name := l.Topic
		if l.Unavailable > 0 {
			name += fmt.Sprintf(" [%d of %d partitions unavailable]", l.Unavailable, l.Partitions)
		}
		t.row(name, l.Partitions, l.Messages, sizeText(l.Size), strings.Join(l.Owners, ","), l.Role)
		total.Partitions, total.Messages, total.Size = total.Partitions+l.Partitions, total.Messages+l.Messages, total.Size+l.Size
	}
	t.row(fmt.Sprintf("TOTAL (%d topics)", len(lines)), total.Partitions, total.Messages, sizeText(total.Size))
	return t.flush()
}
