package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "narad"

// nodeMetrics are the series of the node that are not of one topic.
type nodeMetrics struct {
	walSync, walRecords, walBytes prometheus.Histogram
	commitSeconds, commitRecords  prometheus.Histogram
	retentionRun                  prometheus.Histogram
	tick                          prometheus.Histogram
	trail                         *prometheus.HistogramVec
	trailCache, trailDisk         prometheus.Observer
	missed                        *prometheus.CounterVec
	missedTick, missedWriteout    prometheus.Counter
	idle, swept                   prometheus.Counter
	hung, behind, discarded, held prometheus.Counter
	stranded                      prometheus.Counter
	poller                        *prometheus.GaugeVec
	boot                          prometheus.Gauge
	errors                        *prometheus.CounterVec
	inFlight                      prometheus.Gauge
	bodyBudget                    prometheus.Counter
	requests                      *prometheus.CounterVec
	requestSeconds                *prometheus.HistogramVec
	requestIn, requestOut         *prometheus.CounterVec
	schemaSeconds                 prometheus.Histogram
	schemaInFlight                prometheus.Gauge
	schemaRejections              *prometheus.CounterVec
	logDropped, logSuppressed     prometheus.Counter
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

func newNodeMetrics() *nodeMetrics {
	counts := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	m := &nodeMetrics{
		walSync:    histogram("ingress_wal_sync_seconds", "Time of one sync of the ingress log; every produce waits for one.", diskBounds),
		walRecords: histogram("ingress_wal_batch_records", "Messages that shared one sync of the ingress log.", counts),
		walBytes: histogram("ingress_wal_batch_bytes", "Bytes that one sync of the ingress log made durable.",
			prometheus.ExponentialBuckets(256, 4, 9)),
		commitSeconds: histogram("dispatch_commit_seconds", "Time of one commit of messages from the ingress log to a partition.", diskBounds),
		commitRecords: histogram("dispatch_commit_records", "Messages of one commit to a partition.", counts),
		retentionRun: histogram("storage_retention_run_duration_seconds", "Time of one round of retention over all partitions.",
			[]float64{.001, .01, .1, 1, 10, 60}),
		tick: histogram("committer_tick_seconds", "Time that the consumer offset committer took for one tick with work.", diskBounds),
		trail: histograms("committer_trail_seconds", "How far persisted consumer state trailed the oldest ack that it brought over, by stage: page cache or disk.",
			[]float64{.01, .05, .1, .15, .2, .5, 1, 1.25, 2, 5, 15, 60}, "stage"),
		missed:    counters("committer_missed_deadlines_total", "Ticks that took longer than their interval, and writeouts later than twice theirs.", "kind"),
		idle:      counter("idle_logs_evicted_total", "Partitions that were closed because nobody used them."),
		swept:     counter("cold_retention_swept_total", "Closed partitions that retention had to open to remove what had expired."),
		hung:      counter("dispatch_hung_commits_total", "Commits that took more than a second."),
		behind:    counter("dispatch_passed_over_total", "Times that a partition could not take its messages, which then wait in the ingress log alone."),
		discarded: counter("dispatch_discarded_records_total", "Messages that were discarded because their topic was deleted before they got there."),
		held:      counter("dispatch_held_records_total", "Messages of the ingress log that fit no topic and are kept."),
		stranded:  counter("committer_stranded_partitions_total", "Partitions whose directory was removed or replaced under their consumer state."),
		poller: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "poller_last_success_timestamp_seconds",
			Help: "When a poller loop last read all its sources in time."}, []string{"loop"}),
		boot:       gauge("boot_duration_seconds", "Time from the start of the process until the engine served."),
		errors:     counters("errors_total", "Errors, by where and what.", "component", "kind"),
		inFlight:   gauge("http_requests_in_flight", "Requests that are being served, parked consumes among them."),
		bodyBudget: counter("http_batch_body_budget_rejections_total", "Batches that were refused because the bodies being read were at their limit."),
		requests:   counters("http_requests_total", "Requests, by pattern of their route.", "route", "method", "status"),
		requestSeconds: histograms("http_request_duration_seconds", "Time of a request, the wait of a consume included.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "route", "method", "status"),
		requestIn:        counters("http_request_bytes_in_total", "Bytes of request bodies that were read.", "route"),
		requestOut:       counters("http_response_bytes_out_total", "Bytes of response bodies.", "route"),
		schemaSeconds:    histogram("schema_validation_seconds", "Time of checking one payload against the schema of its topic.", diskBounds),
		schemaInFlight:   gauge("schema_validations_in_flight", "Payloads that are being checked."),
		schemaRejections: counters("schema_rejections_total", "Payloads and documents that were refused, by reason.", "reason"),
		logDropped:       counter("log_lines_dropped_total", "Log lines of events that were lost because the log could not be written fast enough."),
		logSuppressed:    counter("log_lines_suppressed_total", "Log lines of events that were left out because they repeated others; a later line has their number."),
	}
	m.trailCache, m.trailDisk = m.trail.WithLabelValues("cache"), m.trail.WithLabelValues("disk")
	m.missedTick, m.missedWriteout = m.missed.WithLabelValues("tick"), m.missed.WithLabelValues("writeout")
	for _, kind := range errorKinds {
		m.errors.WithLabelValues(kind.component, kind.kind)
	}
	return m
}

func (m *nodeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.walSync, m.walRecords, m.walBytes, m.commitSeconds, m.commitRecords, m.retentionRun, m.tick, m.trail, m.missed, m.idle, m.swept,
		m.hung, m.behind, m.discarded, m.held, m.stranded, m.poller, m.boot, m.errors, m.inFlight, m.bodyBudget,
		m.requests, m.requestSeconds, m.requestIn, m.requestOut, m.schemaSeconds, m.schemaInFlight, m.schemaRejections, m.logDropped, m.logSuppressed,
	}
}

// errorKind is a value of the labels of errors_total.
type errorKind struct{ component, kind string }

// The kinds. All of them are exported from the start, so that an alert on an increase sees the first one.
var (
	errHTTP          = errorKind{"http", "5xx"}
	errPoisoned      = errorKind{"storage", "fsync_poisoned"}
	errCommit        = errorKind{"storage", "commit"}
	errCorruptRead   = errorKind{"storage", "corrupt_read"}
	errUnlink        = errorKind{"storage", "retention_unlink"}
	errGap           = errorKind{"storage", "recovered_gap"}
	errTidy          = errorKind{"storage", "tidy"}
	errClamped       = errorKind{"storage", "frontier_clamped"}
	errWAL           = errorKind{"ingress", "wal_failed"}
	errRoll          = errorKind{"ingress", "roll"}
	errCheckpoint    = errorKind{"ingress", "checkpoint"}
	errPrepare       = errorKind{"ingress", "prepare"}
	errCompaction    = errorKind{"ingress", "compaction"}
	errDispatch      = errorKind{"dispatcher", "commit"}
	errStalled       = errorKind{"dispatcher", "stalled"}
	errOffsetsPrime  = errorKind{"committer", "prime"}
	errOffsetsWrite  = errorKind{"committer", "write"}
	errOffsetsSync   = errorKind{"committer", "sync"}
	errOffsetsLevel  = errorKind{"committer", "level"}
	errOffsetsReopen = errorKind{"committer", "reopen"}
	errOffsetsClose  = errorKind{"committer", "close"}

	errorKinds = []errorKind{
		errHTTP, errPoisoned, errCommit, errCorruptRead, errUnlink, errGap, errTidy, errClamped, errWAL, errRoll, errCheckpoint, errPrepare,
		errCompaction, errDispatch, errStalled, errOffsetsPrime, errOffsetsWrite, errOffsetsSync, errOffsetsLevel, errOffsetsReopen, errOffsetsClose,
	}
)

// fail counts an error. It is not for what happens all the time: it looks the labels up.
func (m *nodeMetrics) fail(k errorKind) { m.errors.WithLabelValues(k.component, k.kind).Inc() }
