package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"narad/bench/report"
	"narad/sim/workload"
)

// simSpeed is how fast worlds of one kind run.
type simSpeed struct {
	Profile   workload.Profile `json:"profile"`
	Workers   int              `json:"workers"`
	Seeds     int              `json:"seeds"`
	Steps     float64          `json:"steps_per_second"`
	Simulated float64          `json:"simulated_seconds_per_second"`
	PerMinute float64          `json:"seeds_per_minute"`
	Length    time.Duration    `json:"mean_length_ns"` // simulated
}

func (a *app) simCommand() *cobra.Command {
	var each time.Duration
	var all bool
	c := &cobra.Command{
		Use: "sim", Short: "The speed of the simulator", Args: cobra.NoArgs,
		Long: `Runs worlds of each kind for a while, on one core and on all: scheduler steps, simulated seconds and seeds in a real second.
Every world is checked as always; one that fails is an error.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.report(cmd.Context(), "sim", func(string) ([]report.Section, error) {
				s, err := a.simSpeeds(each, all)
				return []report.Section{s}, err
			})
		},
	}
	c.Flags().DurationVar(&each, "time", 6*time.Second, "real time for each row")
	c.Flags().BoolVar(&all, "all", false, "every kind of world, not only the common ones")
	return c
}

func (a *app) simSpeeds(each time.Duration, all bool) (report.Section, error) {
	s := report.Section{Title: "Simulator", Table: report.Table{Columns: []string{"world", "cores", "seeds", "steps/s", "simulated s/s", "seeds/min", "mean length"}}}
	kinds := []workload.Profile{workload.NodeProfile, workload.LongProfile, workload.ChurnProfile}
	if all {
		kinds = workload.Profiles()
	}
	if a.quick {
		each, kinds = 200*time.Millisecond, kinds[:1]
	}
	var data []simSpeed
	workers := []int{1}
	if n := runtime.NumCPU(); n > 1 {
		workers = append(workers, n)
	}
	for _, kind := range kinds {
		for _, n := range workers {
			a.progress("sim: %s on %d cores", kind, n)
			r, err := simSpeedOf(kind, n, each)
			if err != nil {
				return s, err
			}
			data = append(data, r)
			s.Table.Add(string(r.Profile), r.Workers, r.Seeds, r.Steps, r.Simulated, r.PerMinute, r.Length)
		}
	}
	s.Data = data
	s.Notes = []string{"A world of the long kind has three nodes and ten simulated minutes, without faults."}
	return s, nil
}

// simSpeedOf runs campaigns of growing size until the time is used.
func simSpeedOf(kind workload.Profile, workers int, each time.Duration) (simSpeed, error) {
	old := runtime.GOMAXPROCS(workers)
	defer runtime.GOMAXPROCS(old)
	r := simSpeed{Profile: kind, Workers: workers}
	var steps int64
	var simulated time.Duration
	begin := time.Now()
	for next := 2 * workers; time.Since(begin) < each; next *= 2 {
		left := float64(each-time.Since(begin)) / float64(time.Since(begin)+1) * float64(r.Seeds)
		if r.Seeds > 0 {
			next = max(workers, min(next, int(left)))
		}
		sum := workload.Campaign{Profile: kind, First: uint64(1 + r.Seeds), Seeds: next, Workers: workers}.Run(func(workload.Result) {})
		if len(sum.Failures) > 0 {
			return r, fmt.Errorf("seed %d of the %s profile fails: %w", sum.Failures[0].Seed, kind, sum.Failures[0].Err)
		}
		r.Seeds += sum.Seeds
		steps += int64(sum.Total.Stats.Steps)
		simulated += sum.Simulated
	}
	seconds := time.Since(begin).Seconds()
	r.Steps, r.Simulated, r.PerMinute = float64(steps)/seconds, simulated.Seconds()/seconds, float64(r.Seeds)/seconds*60
	r.Length = simulated / time.Duration(r.Seeds)
	return r, nil
}
