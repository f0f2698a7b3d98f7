package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"narad/client"
)

// payloadMax is the largest payload that a server takes, in bytes.
const payloadMax = 1 << 20

func (a *app) pubCommand() *cobra.Command {
	var key, file string
	var partition int
	cmd := &cobra.Command{
		Use:   "pub TOPIC [MESSAGE]",
		Short: "Produce a message",
		Long:  "Produce a message: the argument, a file with -f, or else the standard input, byte for byte.",
		Args:  args(1, 2, "a topic and at most one message"),
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 2 && file != "" {
				return usagef("give a message or a file, not both")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			m := client.Outgoing{Topic: words[0], Key: []byte(key), Partition: partitionFlag(cmd, partition)}
			if len(words) == 2 {
				m.Payload = []byte(words[1])
			} else if m.Payload, err = a.read(file); err != nil {
				return err
			}
			if err := c.Produce(cmd.Context(), m); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stderr, "accepted (%d bytes)\n", len(m.Payload))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&key, "key", "k", "", "key; messages of one key go to one partition")
	f.IntVar(&partition, "partition", 0, "partition (default: by key, or in turn)")
	f.StringVarP(&file, "file", "f", "", "file to read the message from, - for the standard input")
	return cmd
}

// partitionFlag returns the partition that was asked for, nil when none was.
func partitionFlag(cmd *cobra.Command, partition int) *int {
	if cmd.Flags().Changed("partition") {
		return &partition
	}
	return nil
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
