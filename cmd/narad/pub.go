package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"narad/client"
)

// payloadMax is the largest payload that a server takes, in bytes.
const payloadMax = 1 << 20

func (a *app) pubCommand() *cobra.Command {
	var key, file string
	var partition int
	var count int64
	var rate float64
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE]",
		Short: "Produce a message, once or many times",
		Long:  "Produce a message: the argument, a file with -f, or else the standard input, byte for byte.",
		Args:  args(1, 2, "a topic and at most one message"),
		RunE: func(cmd *cobra.Command, words []string) error {
			switch {
			case len(words) == 2 && file != "":
				return usagef("give a message or a file, not both")
			case count < 1:
				return usagef("--count is %d, allowed is 1 and more", count)
			case rate < 0:
				return usagef("--rate is %v, allowed is 0 (as fast as possible) and more", rate)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			m := client.Outgoing{Topic: words[0], Key: []byte(key), Partition: given(cmd.Flags(), "partition", partition)}
			if len(words) == 2 {
				m.Payload = []byte(words[1])
			} else if m.Payload, err = a.read(file); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.publish(ctx, c, m, count, rate)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&key, "key", "k", "", "key; messages of one key go to one partition")
	f.IntVar(&partition, "partition", 0, "partition (default: by key, or in turn)")
	f.StringVarP(&file, "file", "f", "", "file to read the message from, - for the standard input")
	f.Int64Var(&count, "count", 1, "how often")
	f.Float64Var(&rate, "rate", 0, "messages a second at most; 0 for as fast as possible")
	return cmd
}

// publish produces one message count times: one of them as it is, several in batches.
func (a *app) publish(ctx context.Context, c *client.Client, m client.Outgoing, count int64, rate float64) error {
	if count == 1 {
		if err := c.Produce(ctx, m); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stderr, "accepted (%d bytes)\n", len(m.Payload))
		return err
	}
	accepted, err := a.publishMany(ctx, c, m, count, rate)
	fmt.Fprintf(a.stderr, "accepted %d messages (%d bytes each)\n", accepted, len(m.Payload))
	if err == nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}

// publishMany returns how many messages were accepted, and the first error, which ends it.
func (a *app) publishMany(ctx context.Context, c *client.Client, m client.Outgoing, count int64, rate float64) (int64, error) {
	var mu sync.Mutex // guards the fields below
	var accepted int64
	var failed error
	progress := newProgress(a.stderr)
	defer progress.clear()
	b := c.NewBatcher(client.BatcherOptions{})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			accepted++
			progress.count("messages", accepted, count)
		case failed == nil:
			failed = err
			stop()
		}
	}
	pace := newPace(rate)
	for range count {
		if !pace.wait(ctx) || b.Send(ctx, m, done) != nil {
			break
		}
	}
	err := b.Close(context.WithoutCancel(ctx))
	mu.Lock()
	defer mu.Unlock()
	return accepted, errors.Join(failed, err)
}

// pace lets so many through a second. What a pause was too long for may catch up.
type pace struct {
	every time.Duration
	next  time.Time
}

func newPace(rate float64) *pace {
	p := &pace{next: time.Now()}
	if rate > 0 {
		p.every = time.Duration(float64(time.Second) / rate)
	}
	return p
}

// wait waits for the next turn; it returns false when the context ended.
func (p *pace) wait(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if p.every > 0 {
		timer := time.NewTimer(time.Until(p.next))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
		p.next = p.next.Add(p.every)
	}
	return true
}

// read returns what a file holds, one byte more than a payload may have at most.
func (a *app) read(file string) ([]byte, error) {
	in := a.stdin
	if file != "" && file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, payloadMax+1))
}
