package main

import (
	"sync"

	"github.com/spf13/cobra"

	"narad/bench"
	"narad/bench/load"
	"narad/bench/report"
)

func (a *app) growthCommand() *cobra.Command {
	var big bool
	var only, narad string
	c := &cobra.Command{
		Use: "growth", Short: "How costs grow with topics, partitions, consumers and data", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.report(cmd.Context(), "growth", func(dir string) ([]report.Section, error) {
				o := a.options(dir)
				o.Big, o.Only = big, only
				find := sync.OnceValues(func() (string, error) { return load.FindServer(narad, dir) }) // most parts need none
				o.Server = func(data string) (*load.Server, error) {
					path, err := find()
					if err != nil {
						return nil, err
					}
					return load.StartNarad(path, data)
				}
				return bench.Growth(o)
			})
		},
	}
	c.Flags().BoolVar(&big, "big", false, "go on to ten million messages, which take 6 GiB and some minutes")
	c.Flags().StringVar(&only, "only", "", "one part: topics, partitions, disk, http, parked, backlog, ahead, memory, start")
	c.Flags().StringVar(&narad, "narad", "", "narad command to start servers with; default: the one beside this program, or one that is built")
	return c
}

func (a *app) engineCommand() *cobra.Command {
	return &cobra.Command{
		Use: "engine", Short: "The figures that the specification claims, each as a ratio of one run", Args: cobra.NoArgs,
		Long: `Runs the Go benchmarks of the claims (it needs the source and Go) and the committer on this disk, and says of each figure
whether it is reproduced.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.report(cmd.Context(), "engine", func(dir string) ([]report.Section, error) { return bench.Claims(a.options(dir)) })
		},
	}
}
