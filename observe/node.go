package observe

import (
	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "narad"

// nodeMetrics are the series of the node that are not of one topic.
type nodeMetrics struct {
	walSync, walRecords, walBytes *hist
	commitSeconds, commitRecords  *hist
	retentionRun, tick            *hist
	trailCache, trailDisk         *hist
	schemaSeconds                 *hist

	missedTick, missedWriteout    prometheus.Counter
	idle, swept                   prometheus.Counter
	hung, behind, discarded, held prometheus.Counter
	stranded                      prometheus.Counter
	bodyBudget                    prometheus.Counter
	logDropped, logSuppressed     prometheus.Counter
	boot                          prometheus.Gauge
	inFlight, schemaInFlight      prometheus.Gauge
	poller                        *prometheus.GaugeVec
	errors, schemaRejections      *prometheus.CounterVec

	collectors []prometheus.Collector
}

func newNodeMetrics() *nodeMetrics {
	m := &nodeMetrics{}
	m.addHists()
	missed := m.counters("committer_missed_deadlines_total", "Ticks that took longer than their interval, and writeouts later than twice theirs.", "kind")
	m.missedTick, m.missedWriteout = missed.WithLabelValues("tick"), missed.WithLabelValues("writeout")
	m.idle = m.counter("idle_logs_evicted_total", "Partitions that were closed because nobody used them.")
	m.swept = m.counter("cold_retention_swept_total", "Closed partitions that retention had to open to remove what had expired.")
	m.hung = m.counter("dispatch_hung_commits_total", "Commits that took more than a second.")
	m.behind = m.counter("dispatch_passed_over_total", "Times that a partition could not take its messages, which then wait in the ingress log alone.")
	m.discarded = m.counter("dispatch_discarded_records_total", "Messages that were discarded because their topic was deleted before they got there.")
	m.held = m.counter("dispatch_held_records_total", "Messages of the ingress log that fit no topic and are kept.")
	m.stranded = m.counter("committer_stranded_partitions_total", "Partitions whose directory was removed or replaced under their consumer state.")
	m.bodyBudget = m.counter("http_batch_body_budget_rejections_total", "Batches that were refused because the bodies being read were at their limit.")
	m.logDropped = m.counter("log_lines_dropped_total", "Log lines of events that were lost because the log could not be written fast enough.")
	m.logSuppressed = m.counter("log_lines_suppressed_total", "Log lines of events that were left out because they repeated others; a later line has their number.")
	m.boot = m.gauge("boot_duration_seconds", "Time from the start of the process until the engine served.")
	m.inFlight = m.gauge("http_requests_in_flight", "Requests that are being served, parked consumes among them.")
	m.schemaInFlight = m.gauge("schema_validations_in_flight", "Payloads that are being checked.")
	m.schemaRejections = m.counters("schema_rejections_total", "Payloads and documents that were refused, by reason.", "reason")
	m.errors = m.counters("errors_total", "Errors, by where and what.", "component", "kind")
	m.poller = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: "poller_last_success_timestamp_seconds",
		Help: "When a poller loop last read all its sources in time."}, []string{"loop"})
	m.collectors = append(m.collectors, m.poller)
	for _, kind := range errorKinds {
		m.errors.WithLabelValues(kind.component, kind.kind)
	}
	return m
}

func (m *nodeMetrics) addHists() {
	counts := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	m.walSync = m.hist("ingress_wal_sync_seconds", "Time of one sync of the ingress log; every produce waits for one.", newSeconds(diskBounds))
	m.walRecords = m.hist("ingress_wal_batch_records", "Messages that shared one sync of the ingress log.", newCounts(counts))
	m.walBytes = m.hist("ingress_wal_batch_bytes", "Bytes that one sync of the ingress log made durable.", newCounts(prometheus.ExponentialBuckets(256, 4, 9)))
	m.commitSeconds = m.hist("dispatch_commit_seconds", "Time of one commit of messages from the ingress log to a partition.", newSeconds(diskBounds))
	m.commitRecords = m.hist("dispatch_commit_records", "Messages of one commit to a partition.", newCounts(counts))
	m.retentionRun = m.hist("storage_retention_run_duration_seconds", "Time of one round of retention over all partitions.", newSeconds(roundBounds))
	m.tick = m.hist("committer_tick_seconds", "Time that the consumer offset committer took for one tick with work.", newSeconds(diskBounds))
	m.schemaSeconds = m.hist("schema_validation_seconds", "Time of checking one payload against the schema of its topic.", newSeconds(diskBounds))
	trail := describe("committer_trail_seconds", "How far persisted consumer state trailed the oldest ack that it brought over, by stage: page cache or disk.", "stage")
	m.trailCache, m.trailDisk = newSeconds(trailBounds), newSeconds(trailBounds)
	m.collectors = append(m.collectors, trailCollector{histCollector{trail, m.trailCache, []string{"cache"}}, histCollector{trail, m.trailDisk, []string{"disk"}}})
}

func (m *nodeMetrics) hist(name, help string, h *hist) *hist {
	m.collectors = append(m.collectors, histCollector{desc: describe(name, help), h: h})
	return h
}

func (m *nodeMetrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.collectors = append(m.collectors, c)
	return c
}

func (m *nodeMetrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.collectors = append(m.collectors, c)
	return c
}

func (m *nodeMetrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	m.collectors = append(m.collectors, g)
	return g
}

// trailCollector exports both stages of one metric.
type trailCollector struct{ cache, disk histCollector }

// Describe implements prometheus.Collector.
func (c trailCollector) Describe(to chan<- *prometheus.Desc) { c.cache.Describe(to) }

// Collect implements prometheus.Collector.
func (c trailCollector) Collect(to chan<- prometheus.Metric) {
	c.cache.Collect(to)
	c.disk.Collect(to)
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
