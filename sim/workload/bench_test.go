package workload

import "testing"

// BenchmarkLong is a three-machine world of ten simulated minutes; sim-s/s is its ratio to real time.
func BenchmarkLong(b *testing.B) {
	var simulated float64
	for i := range b.N {
		r := Run(Options{Seed: uint64(i + 1), Profile: LongProfile})
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		simulated += r.Simulated.Seconds()
	}
	b.ReportMetric(simulated/b.Elapsed().Seconds(), "sim-s/s")
}

// BenchmarkNode is a world of the default profile.
func BenchmarkNode(b *testing.B) {
	for i := range b.N {
		if r := Run(Options{Seed: uint64(i + 1)}); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}
