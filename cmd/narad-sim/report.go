package main

import (
	"bytes"
	"fmt"
	"os"

	"narad/sim"
	story "narad/sim/report"
	"narad/sim/shrink"
	"narad/sim/workload"
)

// show runs the world and tells of it what the flags ask for: the state at an instant, the story, the report.
func show(c workload.Case, a failureFlags) error {
	o := c.Options()
	o.Watch = &workload.Watch{Until: a.until}
	r := story.Record(c, o)
	r.PlanFile = a.plan
	if a.shrink {
		r.PlanFile = planPath(c, a)
	}
	if a.until == 0 {
		if err := r.Explore(); err != nil {
			return err
		}
	}
	if a.until != 0 {
		fmt.Print(r.State)
	}
	if a.explain {
		r.Explain(os.Stdout)
	}
	if a.report == "" {
		return nil
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		return err
	}
	if err := os.WriteFile(a.report, page.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("wrote %s, %d KB\n", a.report, page.Len()/1024)
	return nil
}

// divergence runs a world twice in step and describes the first difference.
func divergence(seed uint64, p workload.Profile) string {
	d := shrink.Compare(func(t *sim.Trace) {
		workload.Run(workload.Options{Seed: seed, Profile: p, Watch: &workload.Watch{Trace: *t}})
	})
	if d == nil {
		return fmt.Sprintf("seed %d: two further runs were equal\n", seed)
	}
	return fmt.Sprintf("seed %d: %v", seed, d)
}
