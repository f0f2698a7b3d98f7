package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"narad/bench"
	"narad/bench/floor"
	"narad/bench/load"
	"narad/bench/report"
)

const floorTitle = "Produce over HTTP against the floor"

// floorBytes is the size of the floor's file.
const floorBytes = 128 << 20

func (a *app) floorCommand() *cobra.Command {
	var server serverFlags
	var size, partitions int
	c := &cobra.Command{
		Use: "floor", Short: "Produces against the smallest server that keeps the same promise", Args: cobra.NoArgs,
		Long: `Starts a narad server and the floor: the smallest server of the same HTTP library that appends each body to one file,
prewritten with zeros, by group commit, and answers 202. Both take turns under the same load; the ratio is the median of the turns.
Then the same for produces of an embedded engine, by one writer, and a bare loop of write and sync; and for batches.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.report(cmd.Context(), "floor", func(dir string) ([]report.Section, error) {
				http, err := a.floorHTTP(dir, server, size, partitions)
				if err != nil {
					return nil, err
				}
				raw, err := bench.RawLoop(a.options(dir), size)
				if err != nil {
					return nil, err
				}
				batches, err := bench.RawBatches(a.options(dir))
				return []report.Section{http, raw, batches}, err
			})
		},
	}
	server.add(c)
	c.Flags().IntVar(&size, "size", 1024, "bytes of a message")
	c.Flags().IntVar(&partitions, "partitions", 12, "of narad's topic")
	return c
}

// floorServeCommand is the floor's process.
func (a *app) floorServeCommand() *cobra.Command {
	var addr, file string
	c := &cobra.Command{
		Use: "floor-serve", Short: "Run the floor server", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveFloor(cmd.Context(), addr, file) },
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "address to listen on")
	c.Flags().StringVar(&file, "file", "", "file to make and append to")
	c.MarkFlagRequired("file")
	return c
}

func serveFloor(ctx context.Context, addr, file string) error {
	l, err := floor.Open(file, floorBytes)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	srv := &http.Server{Handler: l}
	go func() {
		<-ctx.Done()
		srv.Shutdown(context.Background())
	}()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil // the process ends, and appends may be under way: the file is left to the system
}

// committerRest is how long the syncs of consumer state go on after the last ack.
const committerRest = 1200 * time.Millisecond

// contest is one number of clients at both servers.
type contest struct {
	Clients int             `json:"clients"`
	Narad   []load.Result   `json:"narad"` // by turn
	Floor   []load.RawStats `json:"floor"`
	Ratio   report.Ratio    `json:"ratio"` // of rates, median of the turns
}

func (a *app) floorHTTP(dir string, flags serverFlags, size, partitions int) (s report.Section, err error) {
	s = report.Section{Title: floorTitle, Table: report.Table{Columns: []string{
		"clients", "narad/s", "floor/s", "narad ÷ floor", "narad p50", "p99", "floor p50", "p99", "narad CPU µs", "floor CPU µs", "narad's work put off",
	}}}
	s.Notes = []string{"Medians of turns. Narad's CPU counts until the work that it had put off is done: dispatch to partitions and their syncs."}
	narad, err := a.server(dir, flags)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, narad.Stop()) }()
	low, err := startFloor(filepath.Join(dir, "floor.log"))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, low.Stop()) }()
	plot := report.Plot{Title: "Produce over HTTP, " + fmt.Sprint(size) + " B", X: "clients", Y: "a second", LogX: true}
	ratio := report.Plot{Title: "Narad ÷ floor", X: "clients", Y: "ratio", LogX: true}
	var all []contest
	clients, turns, length := []int{1, 16, 64, 256}, 3, time.Second
	if a.quick {
		clients, turns, length = []int{1, 16}, 1, 150*time.Millisecond
	}
	for _, n := range clients {
		c := contest{Clients: n}
		for turn := range turns {
			a.progress("floor: %d clients, turn %d", n, turn+1)
			f, err := load.Raw(low, n, size, length)
			if err != nil {
				return s, err
			}
			r, err := load.RunServer(load.Spec{Mode: load.Produce, Clients: n, Size: size, Partitions: partitions, Duration: length}, narad)
			if err != nil {
				return s, err
			}
			narad.Settle(2 * time.Second)
			if !a.quick {
				time.Sleep(committerRest)
			}
			c.Narad, c.Floor = append(c.Narad, r), append(c.Floor, f)
		}
		all = append(all, c.row(&s.Table))
		last := &all[len(all)-1]
		plot.Add("narad", float64(n), last.median(func(i int) float64 { return last.Narad[i].Produced }))
		plot.Add("floor", float64(n), last.median(func(i int) float64 { return last.Floor[i].Rate }))
		ratio.Add("narad ÷ floor", float64(n), float64(last.Ratio))
	}
	s.Data, s.Plots = all, []report.Plot{plot, ratio}
	return s, nil
}

func (c *contest) median(of func(turn int) float64) float64 {
	list := make([]float64, len(c.Narad))
	for i := range list {
		list[i] = of(i)
	}
	return report.Median(list)
}

// row fills in the ratio and adds a row to the table.
func (c contest) row(t *report.Table) contest {
	c.Ratio = report.Ratio(c.median(func(i int) float64 { return c.Narad[i].Produced / c.Floor[i].Rate }))
	middle := func(of func(i int) time.Duration) time.Duration {
		return time.Duration(c.median(func(i int) float64 { return float64(of(i)) }))
	}
	t.Add(c.Clients, c.median(func(i int) float64 { return c.Narad[i].Produced }), c.median(func(i int) float64 { return c.Floor[i].Rate }), c.Ratio,
		middle(func(i int) time.Duration { return c.Narad[i].Produce.P50 }), middle(func(i int) time.Duration { return c.Narad[i].Produce.P99 }),
		middle(func(i int) time.Duration { return c.Floor[i].Latency.P50 }), middle(func(i int) time.Duration { return c.Floor[i].Latency.P99 }),
		c.median(func(i int) float64 { return c.Narad[i].CPU }), c.median(func(i int) float64 { return c.Floor[i].CPU }),
		middle(func(i int) time.Duration { return c.Narad[i].Settle }))
	return c
}

func startFloor(file string) (*load.Server, error) {
	host, err := load.FreePort()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return load.Start(host, "/", exec.Command(self, "floor-serve", "--addr", host, "--file", file))
}
