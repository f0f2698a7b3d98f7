package observe

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"narad/engine"
	"narad/inflight"
	"narad/server"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Series of topics and partitions. They are made at each scrape from what there is then.
var (
	byPartition = []string{"topic", "partition"}

	descProduced      = describe("messages_produced_total", "Messages committed to the partition, by this node as its owner.", byPartition...)
	descProducedBytes = describe("bytes_produced_total", "Bytes of keys and payloads of these messages.", byPartition...)
	descConsumed      = describe("messages_consumed_total", "Messages handed out under a lease, redeliveries included, replays not.", byPartition...)
	descConsumedBytes = describe("bytes_consumed_total", "Bytes of keys and payloads of these messages.", byPartition...)
	descAcked         = describe("messages_acked_total", "Messages acked.", byPartition...)
	descCorrupt       = describe("consumer_corrupt_skipped_total", "Messages lost: unreadable for good, and skipped.", byPartition...)
	descJumps         = describe("consumer_retention_jumps_total", "Times that the frontier fell behind retention and was moved to the oldest message.", byPartition...)
	descJumped        = describe("consumer_retention_skipped_messages_total", "Messages that retention removed before they were settled: offsets that the frontier jumped over.", byPartition...)
	descExpired       = describe("storage_retention_messages_deleted_total", "Messages removed by retention, settled or not.", "topic", "partition", "reason")
	descExpiredBytes  = describe("storage_retention_bytes_deleted_total", "Bytes of segments removed by retention.", "topic", "partition", "reason")
	descFlushBytes    = describe("storage_flush_bytes_total", "Bytes of frames written to the partition log.", byPartition...)
	descFsync         = describe("storage_fsync_duration_seconds", "Time of one sync of the partition log.", byPartition...)
	descFlush         = describe("storage_flush_duration_seconds", "Time of one commit to the partition log: write, sync and read back.", byPartition...)

	descExtended = describe("ack_extended_total", "Leases that were extended.", "topic")
	descNack     = describe("nack_total", "Messages given back: nacks of consumers, and what was left out of a batch answer.", "topic")
	descEnded    = describe("leases_ended_total", "Leases that ended without an ack, by cause; each is a redelivery to come.", "topic", "cause")
	descWithheld = describe("reserve_withheld_total", "Times that a partition had nothing to hand out although messages in it are not settled, by reason.", "topic", "outcome")
	descRejected = describe("produce_rejections_total", "Messages refused for a reason of their topic.", "topic", "reason")
	descWait     = describe("consume_wait_seconds", "Time that a consume took until its answer, by outcome.", "topic", "outcome")
	descEmpty    = describe("consume_empty_total", "Consumes that were answered with nothing.", "topic")
	descAckBad   = describe("ack_rejected_total", "Acks, extends and nacks whose handle named no live lease.", "topic", "reason")
	descUnstored = describe("dispatch_failed_total", "Commits to a partition that were not confirmed; they are tried again.", "topic")

	descLag      = describe("consumer_lag_messages", "High watermark minus frontier: messages that are not settled, or settled ahead of one that is not.", byPartition...)
	descAge      = describe("oldest_unconsumed_message_age_seconds", "Age of the lowest message that is not settled; 0 without one.", byPartition...)
	descDropped  = describe("consumer_dropped_messages", "Messages between the frontier and the start of the log: removed by retention before they were consumed.", byPartition...)
	descInflight = describe("inflight_size", "Messages under a lease.", byPartition...)
	descAhead    = describe("acked_ahead_size", "Messages acked above one that is not.", byPartition...)
	descHW       = describe("high_watermark", "The next offset of the partition.", byPartition...)
	descFrontier = describe("consumer_frontier", "The offset up to which everything is settled; -1 for none.", byPartition...)
	descSize     = describe("partition_size_bytes", "Bytes of the partition's segments.", byPartition...)
	descSegments = describe("segments", "Segments of the partition.", byPartition...)

	descTopicBytes = describe("topic_bytes", "Bytes of the topic's segments on this node.", "topic")
	descParked     = describe("parked_consumers", "Consumes that wait for a message.", "topic")
)

// topicCollector makes the series of topics and partitions.
type topicCollector struct{ o *Observer }

// Describe implements prometheus.Collector.
func (c *topicCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descProduced, descProducedBytes, descConsumed, descConsumedBytes, descAcked, descCorrupt, descJumps, descJumped, descExpired,
		descExpiredBytes, descFlushBytes, descFsync, descFlush, descExtended, descNack, descEnded, descWithheld, descRejected, descWait,
		descEmpty, descAckBad, descUnstored, descLag, descAge, descDropped, descInflight, descAhead, descHW, descFrontier, descSize, descSegments,
		descTopicBytes, descParked,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *topicCollector) Collect(to chan<- prometheus.Metric) {
	for _, t := range c.o.topics.all() {
		t.collect(to)
	}
	heads, nowMs := c.o.vitals.headsNow(), time.Now().UnixMilli()
	for _, view := range c.o.vitals.current() {
		if c.o.topics.topic(view.Topic.Name) != nil { // deleted since it was described
			collectView(to, &view, heads, nowMs)
		}
	}
}

func count(to chan<- prometheus.Metric, d *prometheus.Desc, value uint64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func level(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// spread exports a histogram that has something in it.
func spread(to chan<- prometheus.Metric, d *prometheus.Desc, h *hist, labels ...string) {
	if n, sum, buckets := h.read(); n > 0 {
		to <- prometheus.MustNewConstHistogram(d, n, sum, buckets, labels...)
	}
}

func (t *topicSeries) collect(to chan<- prometheus.Metric) {
	for i, p := range *t.parts.Load() {
		p.collect(to, t.name, strconv.Itoa(i))
	}
	count(to, descExtended, t.extended.Load(), t.name)
	count(to, descNack, t.ended[engine.CauseNack].Load()+t.ended[engine.CauseCut].Load(), t.name)
	for i, cause := range endingNames {
		count(to, descEnded, t.ended[i].Load(), t.name, cause)
	}
	for i := range t.withheld {
		count(to, descWithheld, t.withheld[i].Load(), t.name, (inflight.InFlightCap + inflight.Outcome(i)).String())
	}
	for i, reason := range produceRefusals {
		if n := t.refused[i].Load(); n > 0 || i == 0 {
			count(to, descRejected, n, t.name, reason)
		}
	}
	for i, h := range t.waits {
		spread(to, descWait, h, t.name, server.WaitOutcome(i).String())
	}
	count(to, descEmpty, t.empty.Load(), t.name)
	count(to, descAckBad, t.handles.Load(), t.name, "lease_gone")
	count(to, descUnstored, t.dispatchs.Load(), t.name)
}

func (p *partSeries) collect(to chan<- prometheus.Metric, topic, partition string) {
	count(to, descProduced, p.produced.Load(), topic, partition)
	count(to, descProducedBytes, p.producedBytes.Load(), topic, partition)
	count(to, descConsumed, p.consumed.Load(), topic, partition)
	count(to, descConsumedBytes, p.consumedBytes.Load(), topic, partition)
	count(to, descAcked, p.acked.Load(), topic, partition)
	count(to, descCorrupt, p.corrupt.Load(), topic, partition)
	count(to, descJumps, p.jumps.Load(), topic, partition)
	count(to, descJumped, p.jumped.Load(), topic, partition)
	count(to, descExpired, p.expired.Load(), topic, partition, "age")
	count(to, descExpiredBytes, p.expiredBytes.Load(), topic, partition, "age")
	count(to, descFlushBytes, p.flushedBytes.Load(), topic, partition)
	spread(to, descFsync, p.fsync, topic, partition)
	spread(to, descFlush, p.flush, topic, partition)
}

// collectView exports what is known of a topic. What is not known has no series.
func collectView(to chan<- prometheus.Metric, v *engine.TopicView, heads map[engine.Key]head, nowMs int64) {
	name, bytes := v.Topic.Name, int64(0)
	for i := range v.Partitions {
		p := &v.Partitions[i]
		partition := strconv.Itoa(int(p.Partition))
		level(to, descInflight, float64(p.Leases), name, partition)
		if p.LogKnown {
			bytes += p.Bytes
			level(to, descHW, float64(p.HighWatermark), name, partition)
			level(to, descSize, float64(p.Bytes), name, partition)
			level(to, descSegments, float64(p.Segments), name, partition)
		}
		if p.ConsumerKnown {
			level(to, descFrontier, float64(p.Committed), name, partition)
			level(to, descAhead, float64(p.AckedAhead), name, partition)
		}
		if !p.LogKnown || !p.ConsumerKnown {
			continue
		}
		level(to, descLag, float64(p.Lag()), name, partition)
		level(to, descDropped, float64(p.Missed()), name, partition)
		if seconds, ok := ageOf(p, heads[engine.Key{Topic: name, Partition: p.Partition}], nowMs); ok {
			level(to, descAge, seconds, name, partition)
		}
	}
	level(to, descTopicBytes, float64(bytes), name)
	level(to, descParked, float64(v.Parked), name)
}

// ageOf returns the age of the lowest unsettled message of a partition.
func ageOf(p *engine.PartitionView, h head, nowMs int64) (seconds float64, ok bool) {
	if p.Lag() == 0 {
		return 0, true
	}
	return float64(max(nowMs-h.ms, 0)) / 1000, h.ms != 0
}

// Series of the node that are read when they are scraped, or were read by a loop.
var (
	descWALFailed  = describe("ingress_wal_failed", "1 when the ingress log has failed: every produce is answered 500 until a restart.")
	descBacklog    = describe("ingress_dispatch_backlog_records", "Durable next record minus stored checkpoint of the ingress log: accepted messages that wait for their partition.")
	descOpenLogs   = describe("open_partition_logs", "Partitions whose log is open.")
	descAvailable  = describe("data_dir_available_bytes", "Bytes that the process can still write to the disk of the data directory.")
	descDataDir    = describe("data_dir_size_bytes", "Bytes of all files of the data directory.")
	descOrphans    = describe("orphan_topic_dirs", "Directories of topics that are gone which still wait to be removed.")
	descTopics     = describe("topics_total", "Topics that there are.")
	descPartitions = describe("partitions_total", "Partitions that there are.")
	descWaiting    = describe("committer_oldest_unpersisted_ack_seconds", "Age of the oldest ack that is not in the page cache, or not on the disk; a power loss brings back acks of this age.", "stage")
	descAuthQueued = describe("auth_verify_queued", "Logins that wait to be verified.")
)

// vitalsCollector exports what the loops have read.
type vitalsCollector struct{ o *Observer }

// Describe implements prometheus.Collector.
func (c *vitalsCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descWALFailed, descBacklog, descOpenLogs, descAvailable, descDataDir, descOrphans, descTopics, descPartitions, descWaiting, descAuthQueued,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *vitalsCollector) Collect(to chan<- prometheus.Metric) {
	v := &c.o.vitals
	failed := 0.0
	if v.walFailed.Load() {
		failed = 1
	}
	level(to, descWALFailed, failed)
	level(to, descBacklog, float64(v.backlog.Load()))
	open, partitions := 0, 0
	views := v.current()
	for _, t := range views {
		partitions += len(t.Partitions)
		for i := range t.Partitions {
			if t.Partitions[i].Open {
				open++
			}
		}
	}
	level(to, descOpenLogs, float64(open))
	level(to, descTopics, float64(len(views)))
	level(to, descPartitions, float64(partitions))
	cache, disk := c.o.unpersisted()
	level(to, descWaiting, cache.Seconds(), "cache")
	level(to, descWaiting, disk.Seconds(), "disk")
	if ask := c.o.config.AuthQueued; ask != nil {
		level(to, descAuthQueued, float64(ask()))
	}
	v.space.Lock()
	if v.space.known {
		level(to, descAvailable, float64(v.space.available))
	}
	v.space.Unlock()
	v.tree.Lock()
	defer v.tree.Unlock()
	if v.tree.known {
		level(to, descDataDir, float64(v.tree.bytes))
		level(to, descOrphans, float64(v.tree.orphans))
	}
}

// unpersisted is how long the oldest ack of the node has waited for the page cache and for the disk.
func (o *Observer) unpersisted() (cache, disk time.Duration) {
	e := o.engine.Load()
	if e == nil {
		return 0, 0
	}
	now := e.Now()
	for _, t := range o.topics.all() {
		for _, p := range *t.parts.Load() {
			c, d := p.late.waiting(now)
			cache, disk = max(cache, c), max(disk, d)
		}
	}
	return cache, disk
}
