package observe

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of histograms, in seconds.
var (
	waitBounds    = []float64{.001, .01, .1, .5, 1, 5, 10, 30, 60}
	diskBounds    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1}
	roundBounds   = []float64{.001, .01, .1, 1, 10, 60}
	trailBounds   = []float64{.01, .05, .1, .15, .2, .5, 1, 1.25, 2, 5, 15, 60}
	requestBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)

// hist is a histogram of whole numbers that costs two additions, and that can be part of something that goes.
type hist struct {
	scale  float64 // what one is, in the unit of the metric
	bounds []float64
	limits []int64 // the bounds, as whole numbers
	counts []atomic.Uint64
	sum    atomic.Int64
}

// newSeconds returns a histogram of durations with upper bounds in seconds.
func newSeconds(bounds []float64) *hist { return newHist(bounds, 1e-9) }

// newCounts returns a histogram of numbers.
func newCounts(bounds []float64) *hist { return newHist(bounds, 1) }

func newHist(bounds []float64, scale float64) *hist {
	h := &hist{scale: scale, bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
	for _, b := range bounds {
		h.limits = append(h.limits, int64(b/scale+0.5))
	}
	return h
}

func (h *hist) observe(v int64) {
	i := 0
	for i < len(h.limits) && v > h.limits[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

func (h *hist) took(d time.Duration) { h.observe(int64(d)) }

// read returns what Prometheus wants: cumulative counts.
func (h *hist) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.bounds))
	for i, bound := range h.bounds {
		count += h.counts[i].Load()
		buckets[bound] = count
	}
	count += h.counts[len(h.bounds)].Load()
	return count, float64(h.sum.Load()) * h.scale, buckets
}

// histCollector exports a histogram of the node.
type histCollector struct {
	desc   *prometheus.Desc
	h      *hist
	labels []string
}

// Describe implements prometheus.Collector.
func (c histCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c histCollector) Collect(to chan<- prometheus.Metric) {
	n, sum, buckets := c.h.read()
	to <- prometheus.MustNewConstHistogram(c.desc, n, sum, buckets, c.labels...)
}
