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
	cmd := &cobra.Command{
		Use:   "sub TOPIC",
		Short: "Consume messages and print them",
		Long: `Consume messages until interrupted, print each as

    [p<partition> @<offset>] key=<key> <time> <payload>

and acknowledge it once it is printed.`,
		Args: args(1, 1, "the name of one topic"),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			if s.client, err = a.client(); err != nil {
				return err
			}
			if s.count < 0 {
				return usagef("--count is %d, allowed is 0 and more", s.count)
			}
			s.topic, s.partition = names[0], partitionFlag(cmd, partition)
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return s.run(ctx)
		},
	}
	f := cmd.Flags()
	f.IntVar(&partition, "partition", 0, "take from this partition only")
	f.BoolVar(&s.noAck, "no-ack", false, "do not acknowledge: the messages come again when their lease ends")
	f.BoolVar(&s.raw, "raw", false, "print the payloads only, each as it is and a line feed")
	f.IntVar(&s.count, "count", 0, "stop after that many messages (default: never)")
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

// handle prints a message and then acknowledges it, also when an interrupt has come meanwhile: it was printed.
func (s *subscription) handle(m *client.Message) error {
	if err := s.print(m); err != nil {
		return err
	}
	if s.noAck {
		return nil
	}
	err := s.client.Ack(context.Background(), s.topic, m.Handle)
	if errors.Is(err, client.ErrLeaseLost) {
		fmt.Fprintf(s.app.stderr, "narad: the lease of [p%d @%d] ended before its acknowledgement; the message may come again\n", m.Partition, m.Offset)
		return nil
	}
	return err
}

func (s *subscription) print(m *client.Message) error {
	if s.raw {
		_, err := s.app.stdout.Write(append(m.Payload, '\n'))
		return err
	}
	return s.app.print("[p%d @%d] %s%s %s\n", m.Partition, m.Offset, keyText(m.Key), m.Time.UTC().Format(time.RFC3339), m.Payload)
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
