package report

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency is the distribution of a set of durations.
type Latency struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
	// Curve is duration in nanoseconds by percentile, for plots.
	Curve [][2]float64 `json:"curve,omitempty"`
}

// Histogram bounds: what is shorter or longer counts as the bound.
const (
	shortest = int64(time.Microsecond / 10)
	longest  = int64(10 * time.Minute)
)

// Distribution sorts durations, in nanoseconds, into a high dynamic range histogram of three digits.
func Distribution(samples ...[]int64) Latency {
	h := hdrhistogram.New(shortest, longest, 3)
	for _, list := range samples {
		for _, v := range list {
			h.RecordValue(min(max(v, shortest), longest)) // cannot fail within the bounds
		}
	}
	if h.TotalCount() == 0 {
		return Latency{}
	}
	l := Latency{
		Count: h.TotalCount(), Mean: time.Duration(h.Mean()),
		P50: at(h, 50), P90: at(h, 90), P99: at(h, 99), P999: at(h, 99.9), Max: time.Duration(h.Max()),
	}
	for _, q := range []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99} {
		l.Curve = append(l.Curve, [2]float64{1 / (1 - q/100), float64(at(h, q))})
	}
	return l
}

func at(h *hdrhistogram.Histogram, q float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(q))
}

// Milliseconds returns the duration as a number for a plot.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Median returns the middle of the list, NaN when it is empty. It does not change the list.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}
