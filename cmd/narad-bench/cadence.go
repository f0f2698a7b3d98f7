package main

import (
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"narad/bench"
	"narad/bench/report"
)

func (a *app) cadenceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cadence", Short: "What a durability cadence costs, and what a crash brings back", Args: cobra.NoArgs,
		Long: `Sweeps the tick T, the durability interval D, the number of partitions that acks change, the size of produces and their
number at a time. Measures ticks, writeouts, how far persisted offsets trail acks, produces beside the committer, syncs and
bytes. Then kills a process, and cuts the power of a recorded run, and counts the acks that come back.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.report(cmd.Context(), "cadence", func(dir string) ([]report.Section, error) { return bench.Cadence(a.options(dir)) })
		},
	}
}

// trafficCommand is the process that the cadence benchmark kills.
func (a *app) trafficCommand() *cobra.Command {
	var data string
	var interval time.Duration
	c := &cobra.Command{
		Use: "traffic", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return bench.Traffic(data, interval, a.stdout) },
	}
	c.Flags().StringVar(&data, "data-dir", "", "directory of the data")
	c.Flags().DurationVar(&interval, "interval", time.Second, "durability interval")
	c.MarkFlagRequired("data-dir")
	return c
}

func trafficProcess(dir string, interval time.Duration) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.Command(self, "traffic", "--data-dir", dir, "--interval", interval.String())
}
