package observe

import (
	"sync"
	"sync/atomic"
	"time"
)

// The page draws the last rateSamples samples, one every rateStep.
const (
	rateStep    = 2 * time.Second
	rateSamples = 90
)

// ring is a run of samples, oldest first from at on.
type ring struct {
	values [rateSamples]float32
	at, n  int
}

func (r *ring) push(v float64) {
	r.values[(r.at+r.n)%rateSamples] = float32(v)
	if r.n < rateSamples {
		r.n++
	} else {
		r.at = (r.at + 1) % rateSamples
	}
}

// samples returns the run, oldest first.
func (r *ring) samples() []float32 {
	out := make([]float32, r.n)
	for i := range out {
		out[i] = r.values[(r.at+i)%rateSamples]
	}
	return out
}

func (r *ring) latest() float64 {
	if r.n == 0 {
		return 0
	}
	return float64(r.values[(r.at+r.n-1)%rateSamples])
}

// meter turns a counter into a ring of rates a second.
type meter struct {
	ring
	last uint64
}

// sample takes the counter's value after so many seconds. One that went back, as its topics went, counts as standing still.
func (m *meter) sample(value uint64, seconds float64) {
	rate := 0.0
	if value > m.last {
		rate = float64(value-m.last) / seconds
	}
	m.last = value
	m.push(rate)
}

// topicRates are the rates of one topic.
type topicRates struct{ in, out, acked meter }

// rates samples what goes on, for the page.
type rates struct {
	o *Observer

	accepted  atomic.Uint64 // records of the ingress log
	syncs     atomic.Uint64
	syncNanos atomic.Uint64

	mu                         sync.Mutex // guards the fields below
	last                       time.Time
	in, stored, out, acked     meter
	syncing                    ring // milliseconds of a sync, on average
	backlog, lag, late         ring
	batch                      ring // messages a sync
	lastSyncs, lastNanos, seen uint64
	topics                     map[*topicSeries]*topicRates
}

func newRates(o *Observer) *rates { return &rates{o: o, topics: map[*topicSeries]*topicRates{}} }

func (r *rates) run(stop <-chan struct{}) {
	tick := time.NewTicker(rateStep)
	defer tick.Stop()
	r.sample(time.Now())
	for {
		select {
		case now := <-tick.C:
			r.sample(now)
		case <-stop:
			return
		}
	}
}

// sample reads all counters once.
func (r *rates) sample(now time.Time) {
	if e := r.o.engine.Load(); e != nil {
		r.o.vitals.ingress(e)
	}
	_, disk := r.o.unpersisted()
	r.mu.Lock()
	defer r.mu.Unlock()
	seconds := now.Sub(r.last).Seconds()
	first := r.last.IsZero()
	r.last = now
	r.sampleTopics(seconds, first)
	syncs, nanos, accepted := r.syncs.Load(), r.syncNanos.Load(), r.accepted.Load()
	if first {
		r.in.last = accepted
	} else {
		r.in.sample(accepted, seconds)
		r.syncing.push(ratio(nanos-r.lastNanos, syncs-r.lastSyncs) / 1e6)
		r.batch.push(ratio(accepted-r.seen, syncs-r.lastSyncs))
		r.backlog.push(float64(r.o.vitals.backlog.Load()))
		r.late.push(disk.Seconds())
		lag := int64(0)
		for _, t := range r.o.vitals.current() {
			for i := range t.Partitions {
				lag += t.Partitions[i].Lag()
			}
		}
		r.lag.push(float64(lag))
	}
	r.lastSyncs, r.lastNanos, r.seen = syncs, nanos, accepted
}

// sampleTopics needs r.mu.
func (r *rates) sampleTopics(seconds float64, first bool) {
	var stored, out, acked uint64
	live := make(map[*topicSeries]*topicRates, len(r.topics))
	for _, s := range r.o.topics.all() {
		var in, delivered, settled uint64
		for _, p := range *s.parts.Load() {
			in, delivered, settled = in+p.produced.Load(), delivered+p.consumed.Load(), settled+p.acked.Load()
		}
		stored, out, acked = stored+in, out+delivered, acked+settled
		t := r.topics[s]
		if t == nil {
			t = &topicRates{}
			t.in.last, t.out.last, t.acked.last = in, delivered, settled
		} else {
			t.in.sample(in, seconds)
			t.out.sample(delivered, seconds)
			t.acked.sample(settled, seconds)
		}
		live[s] = t
	}
	r.topics = live
	if first {
		r.stored.last, r.out.last, r.acked.last = stored, out, acked
		return
	}
	r.stored.sample(stored, seconds)
	r.out.sample(out, seconds)
	r.acked.sample(acked, seconds)
}

func ratio(sum, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}
