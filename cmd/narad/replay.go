package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"narad/client"
)

// peekEvery is how often sub --peek looks for new records.
const peekEvery = 500 * time.Millisecond

// startPoint is where to begin reading a partition.
type startPoint struct {
	newest bool
	offset int64 // -1: the oldest record
}

// startOf understands "oldest", "newest" and an offset, which makes sense in one partition only.
func startOf(text string, onePartition bool) (startPoint, error) {
	switch text {
	case "oldest":
		return startPoint{offset: -1}, nil
	case "newest":
		return startPoint{newest: true}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return startPoint{}, usagef("--from is %q, allowed are oldest, newest, and an offset from 0 on", text)
	}
	if !onePartition {
		return startPoint{}, usagef("--from is an offset, which needs --partition")
	}
	return startPoint{offset: n}, nil
}

// in returns the offset of the start in a partition.
func (s startPoint) in(p client.PartitionStats) int64 {
	if s.newest {
		return p.HighWatermark
	}
	return max(s.offset, p.Oldest)
}

func (a *app) replayCommand() *cobra.Command {
	var partition int
	var from string
	var to int64
	var raw bool
	cmd := &cobra.Command{
		Use: "replay TOPIC --partition N", Short: "Read the records of a partition again, without consuming them",
		Long: `Read the records of a partition again, from --from up to --to, without consuming them. Records that are not kept any more are
left out. A record that cannot be read is reported, and makes the exit status 1.`,
		Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) error {
			if !cmd.Flags().Changed("partition") {
				return usagef("replay needs --partition")
			}
			start, err := startOf(from, true)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			r := reading{app: a, client: c, topic: names[0], raw: raw}
			return r.replay(ctx, partition, start, given(cmd.Flags(), "to", to))
		},
	}
	f := cmd.Flags()
	f.IntVar(&partition, "partition", 0, "partition to read")
	f.StringVar(&from, "from", "oldest", "oldest, newest, or an offset")
	f.Int64Var(&to, "to", 0, "offset to stop before (default: the high watermark of now)")
	f.BoolVar(&raw, "raw", false, "print the payloads only, each as it is and a line feed")
	return cmd
}

// reading reads records of a topic without consuming them.
type reading struct {
	app        *app
	client     *client.Client
	topic      string
	raw        bool
	most       int // records to print, 0 for all
	printed    int
	unreadable int
}

// partition returns the state of one partition; one that is unavailable is an error.
func (r *reading) partition(ctx context.Context, index int) (client.PartitionStats, error) {
	t, err := r.client.Topic(ctx, r.topic)
	if err != nil {
		return client.PartitionStats{}, err
	}
	for _, p := range t.PartitionStats {
		switch {
		case p.Index != index:
		case p.Status != "ok":
			return p, fmt.Errorf("partition %d of %s is not available: %s", index, r.topic, p.Status)
		default:
			return p, nil
		}
	}
	return client.PartitionStats{}, fmt.Errorf("topic %s has no partition %d, it has %d of them", r.topic, index, t.Partitions)
}

func (r *reading) replay(ctx context.Context, index int, start startPoint, to *int64) error {
	p, err := r.partition(ctx, index)
	if err != nil {
		return err
	}
	end := p.HighWatermark
	if to != nil {
		end = min(end, *to)
	}
	if _, err := r.read(ctx, p, start.in(p), end); err != nil {
		return err
	}
	if r.unreadable > 0 {
		return fmt.Errorf("%d records could not be read", r.unreadable)
	}
	return nil
}

// read prints the records from an offset up to an end, and returns where it came to.
func (r *reading) read(ctx context.Context, p client.PartitionStats, offset, end int64) (int64, error) {
	for offset < end && !r.enough() {
		m, err := r.client.Replay(ctx, r.topic, p.Index, offset)
		switch {
		case ctx.Err() != nil:
			return offset, nil
		case errors.Is(err, client.ErrEmpty):
			return offset, nil
		case errors.Is(err, client.ErrOffsetGone):
			if offset, err = r.beyond(ctx, p.Index, offset); err != nil {
				return offset, err
			}
			continue
		case err != nil:
			return offset, err
		}
		if err := r.app.printMessage(m, r.raw); err != nil {
			return offset, err
		}
		r.printed++
		offset = m.Offset + 1
	}
	return offset, nil
}

// beyond returns where to go on behind an offset that is gone: at the oldest record, when retention took it, or at the next one.
func (r *reading) beyond(ctx context.Context, index int, offset int64) (int64, error) {
	p, err := r.partition(ctx, index)
	if err != nil {
		return offset, err
	}
	if p.Oldest > offset {
		return p.Oldest, nil
	}
	r.unreadable++
	r.app.note("[p%d @%d] cannot be read", index, offset)
	return offset + 1, nil
}

func (r *reading) enough() bool { return r.most > 0 && r.printed >= r.most }

// peek prints the records of the subscription's partitions, and new ones as they come, without consuming them.
func (s *subscription) peek(ctx context.Context, start startPoint) error {
	r := reading{app: s.app, client: s.client, topic: s.topic, raw: s.raw, most: s.count}
	next := map[int]int64{}
	for !r.enough() && ctx.Err() == nil {
		t, err := s.client.Topic(ctx, s.topic)
		if err != nil {
			return untilDone(ctx, err)
		}
		if s.partition != nil && *s.partition >= t.Partitions {
			return fmt.Errorf("topic %s has no partition %d, it has %d of them", s.topic, *s.partition, t.Partitions)
		}
		for _, p := range t.PartitionStats {
			if s.partition != nil && p.Index != *s.partition || p.Status != "ok" {
				continue
			}
			offset, known := next[p.Index]
			if !known {
				offset = start.in(p)
			}
			if next[p.Index], err = r.read(ctx, p, max(offset, p.Oldest), p.HighWatermark); err != nil {
				return untilDone(ctx, err)
			}
		}
		if !r.enough() {
			pause(ctx, peekEvery)
		}
	}
	return nil
}

// untilDone is nil for what failed because of an interrupt.
func untilDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// asError is errors.As for errors of the client.
func asError(err error, e **client.Error) bool { return errors.As(err, e) }
