package observe

import (
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"narad/engine"
)

// Config says what is observed. The zero value of every field means its default.
type Config struct {
	// DataDir is the data directory of the engine, for its size and the free space of its disk. Empty: neither is shown.
	DataDir string
	// CommitInterval is the durability interval of consumer state that the engine has. Default 1 s.
	CommitInterval time.Duration
	// WriteoutInterval bounds how often consumer state goes to the page cache, as in the engine's options. Default 100 ms.
	WriteoutInterval time.Duration
	// Logger gets the log lines of events. Default: discarded.
	Logger *slog.Logger
	// Version and Node are shown on the status page.
	Version, Node string
	// Raft reads the state of the metastore's Raft; it must not wait. Nil: there is none, and its series are absent.
	Raft func() RaftStatus
	// AuthQueued is how many logins wait for a slot to be verified. Nil: there are none.
	AuthQueued func() int
	// Started is when the process began to start, for boot_duration_seconds. Default: when New is called.
	Started time.Time
	// Collectors are of other parts of the node, with metrics of their own.
	Collectors []prometheus.Collector

	poll time.Duration // of both loops; 0: pollEvery
}

// Observer is the eyes of one node. It implements server.Observer. All methods may be called from any number of goroutines.
//
// Give Listen, Coarse and Tally to the engine's options, call Start with the opened engine, and give the observer, Handler and
// ServeStatus to the server's options.
type Observer struct {
	config   Config
	registry *prometheus.Registry
	handler  http.Handler
	node     *nodeMetrics
	topics   topicTable
	requests requestTable
	log      *EventLog
	debug    bool    // the events of every message are logged
	trace    *tracer // nil: off
	rates    *rates
	fresh    freshViews

	engine   atomic.Pointer[engine.Engine]
	vitals   vitals
	loops    []*loop
	stopping chan struct{}
	stop     sync.Once
	running  sync.WaitGroup
}

// New returns an observer that hears events from now on. Traces are on when the environment asks for them (see
// docs/observability.md); it is an error when it asks for what cannot be done.
func New(c Config) (*Observer, error) {
	if c.CommitInterval == 0 {
		c.CommitInterval = time.Second
	}
	if c.WriteoutInterval == 0 {
		c.WriteoutInterval = 100 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	if c.poll == 0 {
		c.poll = pollEvery
	}
	trace, err := newTracer(c)
	if err != nil {
		return nil, err
	}
	o := &Observer{config: c, registry: prometheus.NewRegistry(), trace: trace, stopping: make(chan struct{})}
	o.node = newNodeMetrics()
	o.topics.byName = map[string]*topicSeries{}
	o.requests.byKey = map[requestKey]*requestSeries{}
	o.log = NewEventLog(c.Logger,
		func(n int64) { o.node.logSuppressed.Add(float64(n)) }, func(n int64) { o.node.logDropped.Add(float64(n)) })
	o.debug = o.log.debug()
	o.rates = newRates(o)
	o.vitals.o = o
	o.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	o.registry.MustRegister(o.node.collectors...)
	o.registry.MustRegister(&topicCollector{o}, &vitalsCollector{o}, &requestCollector{&o.requests})
	if c.Raft != nil {
		o.registry.MustRegister(&raftCollector{c.Raft})
	}
	o.registry.MustRegister(c.Collectors...)
	o.handler = promhttp.HandlerFor(o.registry, promhttp.HandlerOpts{ErrorLog: promLog{c.Logger}, MaxRequestsInFlight: 4, EnableOpenMetrics: true})
	return o, nil
}

// Handler serves the metrics in the format of Prometheus.
func (o *Observer) Handler() http.Handler { return o.handler }

// Coarse is what engine.Options.Coarse should be: the details are heard only by debug lines and traces.
func (o *Observer) Coarse() bool { return o.trace == nil && !o.debug }

// Tally is what engine.Options.Tally should be: nil where Listen hears of each message.
func (o *Observer) Tally() engine.Tally {
	if !o.Coarse() {
		return nil
	}
	return tally{o}
}

// Start begins to poll the engine, which serves from now on.
func (o *Observer) Start(e *engine.Engine) {
	o.engine.Store(e)
	o.node.boot.Set(time.Since(o.config.Started).Seconds())
	o.reconcile(e)
	o.loops = o.newLoops(e)
	for _, l := range o.loops {
		o.running.Go(func() { l.run(o.stopping) })
	}
	o.running.Go(func() { o.rates.run(o.stopping) })
}

// Close ends the loops, writes the log lines that wait and sends the traces that wait. Call it after the engine was
// closed, so that its last events are heard.
func (o *Observer) Close() error {
	o.stop.Do(func() { close(o.stopping) })
	o.running.Wait()
	err := o.trace.close()
	o.log.Close()
	return err
}

// promLog is where the metrics handler complains.
type promLog struct{ logger *slog.Logger }

func (l promLog) Println(v ...any) { l.logger.Warn("metrics could not be collected", "error", v) }
