package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"narad/client"
)

// subWait is how long one request of sub waits for a message.
const subWait = 10 * time.Second

// subscription is one run of the sub command.
type subscription struct {
	app       *app
	client    *client.Client
	topic     string
	partition *int
	noAck     bool
	raw       bool
	count     int
}

func (a *app) subCommand() *cobra.Command {
	s := subscription{app: a}
	var partition int
	var peek bool
	var from string
	cmd := &cobra.Command{
		Use:   "sub TOPIC",
		Short: "Consume messages and print them",
		Long: `Consume messages until interrupted, print each as

    [p<partition> @<offset>] key=<key> <time> <payload>

and acknowledge it once it is printed.

With --peek nothing is consumed: the records of all partitions, or of one, are read as they are, from --from on, and new ones as
they come.`,
		Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			switch {
			case s.count < 0:
				return usagef("--count is %d, allowed is 0 and more", s.count)
			case cmd.Flags().Changed("from") && !peek:
				return usagef("--from goes with --peek")
			case peek && s.noAck:
				return usagef("--peek acknowledges nothing: leave out --no-ack")
			}
			s.topic, s.partition = names[0], given(cmd.Flags(), "partition", partition)
			start, err := startOf(from, s.partition != nil)
			if err != nil {
				return err
			}
			if s.client, err = a.client(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if peek {
				return s.peek(ctx, start)
			}
			return s.run(ctx)
		},
	}
	f := cmd.Flags()
	f.IntVar(&partition, "partition", 0, "take from this partition only")
	f.BoolVar(&s.noAck, "no-ack", false, "do not acknowledge: the messages come again when their lease ends")
	f.BoolVar(&s.raw, "raw", false, "print the payloads only, each as it is and a line feed")
	f.IntVar(&s.count, "count", 0, "stop after that many messages (default: never)")
	f.BoolVar(&peek, "peek", false, "look at messages without consuming them")
	f.StringVar(&from, "from", "oldest", "with --peek: oldest, newest, or an offset of --partition")
	return cmd
}

// run consumes until the count is reached or the context ends.
func (s *subscription) run(ctx context.Context) error {
	for n := 0; s.count == 0 || n < s.count; {
		m, err := s.client.Consume(ctx, s.topic, client.ConsumeOptions{Wait: subWait, Partition: s.partition})
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case errors.Is(err, client.ErrEmpty):
			continue
		case err != nil:
			return err
		}
		if err := s.handle(m); err != nil {
			return err
		}
		n++
	}
	return nil
}

// handle prints a message and then acknowledges it, also when an interrupt has come meanwhile: it was printed. One that cannot be
// printed is given back.
func (s *subscription) handle(m *client.Message) error {
	if err := s.app.printMessage(m, s.raw); err != nil {
		if nack := s.client.Nack(context.Background(), s.topic, m.Handle); nack != nil {
			s.app.note("[p%d @%d] could not be given back, and comes again when its lease ends: %v", m.Partition, m.Offset, nack)
		}
		return err
	}
	if s.noAck {
		return nil
	}
	err := s.client.Ack(context.Background(), s.topic, m.Handle)
	if errors.Is(err, client.ErrLeaseLost) {
		s.app.note("the lease of [p%d @%d] ended before its acknowledgement; the message may come again", m.Partition, m.Offset)
		return nil
	}
	return err
}

func (a *app) printMessage(m *client.Message, raw bool) error {
	if raw {
		_, err := a.stdout.Write(append(m.Payload, '\n'))
		return err
	}
	return a.print("[p%d @%d] %s%s %s\n", m.Partition, m.Offset, keyText(m.Key), m.Time.UTC().Format(time.RFC3339), m.Payload)
}

func keyText(key []byte) string {
	switch {
	case len(key) == 0:
		return ""
	case utf8.Valid(key):
		return fmt.Sprintf("key=%s ", key)
	default:
		return fmt.Sprintf("key=%s (binary) ", hex.EncodeToString(key))
	}
}
