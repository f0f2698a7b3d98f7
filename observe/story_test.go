package observe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"narad/committer"
	"narad/engine"
	"narad/inflight"
	"narad/segment"
	"narad/server"
	"narad/wal"
)

var planted = errors.New("planted")

// story is a node that has seen a bit of everything.
func story(t *testing.T) *rig {
	r := newRig(t, Config{
		AuthQueued: func() int { return 2 },
		Raft: func() RaftStatus {
			return RaftStatus{State: "leader", Term: 3, HasLeader: true, Voters: 1, LastIndex: 9, ApplyErrors: map[string]uint64{"storage": 1}}
		},
	})
	r.topic("orders", 3)
	r.produce("orders", 1, 5)
	d := r.consume("orders", 1)
	require.NoError(t, r.e.Ack("orders", d.Handle))
	require.ErrorIs(t, r.e.Ack("orders", d.Handle), engine.ErrLeaseGone)
	d = r.consume("orders", 1)
	require.NoError(t, r.e.Extend("orders", d.Handle))
	require.NoError(t, r.e.Nack("orders", d.Handle))
	r.consume("orders", 1)
	ahead := r.consume("orders", 1)
	require.NoError(t, r.e.Ack("orders", ahead.Handle))
	r.dispatched("orders", 1, 5)

	// What takes too long or a broken disk to happen.
	key, ckey := engine.Key{Topic: "orders", Partition: 1}, committer.Key{Topic: "orders", Partition: 1}
	for _, v := range []engine.Event{
		engine.LeasesExpired{Key: key, Count: 2}, engine.CorruptSkipped{Key: key, Offset: 4, Err: planted},
		engine.FrontierJumped{Key: key, From: 3, Oldest: 10}, engine.RetentionRemoved{Key: key, Records: 7, Bytes: 70, Segments: 1},
		engine.RetentionRun{Took: time.Second, Opened: 1}, engine.DispatchFailed{Key: key, Records: 1, Err: planted},
		engine.Withheld{Key: key, Outcome: inflight.AllReserved}, engine.Log{Key: key, Event: segment.Poisoned{Err: planted}},
		engine.WAL{Event: wal.RollFailed{Err: planted}}, engine.Consumer{Event: committer.Stranded{Key: ckey}},
		engine.Consumer{Event: committer.TickDone{Partitions: 1, Took: time.Second}},
	} {
		r.o.Listen(v)
	}
	r.o.Started()
	r.o.Finished(server.Request{Route: "POST /v1/topics/{topic}/produce", Method: "POST", Status: 503, Took: time.Millisecond, In: 10, Out: 20})
	for outcome := server.WaitHit; outcome <= server.WaitNone; outcome++ {
		r.o.Waited("orders", outcome, 20*time.Millisecond)
	}
	r.o.ProduceRefused("orders", "schema")
	r.o.BatchBodyRefused()
	r.o.SchemaStarted()
	r.o.SchemaFinished(time.Millisecond, "invalid")
	require.Eventually(t, func() bool { // acks reach the page cache and the disk
		m := gather(t, r)["narad_committer_trail_seconds"]
		return len(m.GetMetric()) == 2 && m.Metric[0].Histogram.GetSampleCount() > 0 && m.Metric[1].Histogram.GetSampleCount() > 0
	}, 20*time.Second, 20*time.Millisecond)
	r.poll()
	r.poll() // what the first round has learned
	r.o.node.boot.Set(0.1)
	return r
}

func gather(t *testing.T, r *rig) map[string]*dto.MetricFamily {
	families, err := r.o.registry.Gather()
	require.NoError(t, err)
	all := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "narad_") {
			all[f.GetName()] = f
		}
	}
	return all
}

// documented is a line of the table of docs/observability.md.
type documented struct {
	kind   string
	labels []string
	lines  string
}

// metricTable reads the table.
func metricTable(t *testing.T) map[string]documented {
	text, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	line := regexp.MustCompile("(?m)^\\| `(narad_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")
	all := map[string]documented{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		d := documented{kind: m[2]}
		for _, label := range regexp.MustCompile("[a-z_]+").FindAllString(m[3], -1) {
			d.labels = append(d.labels, label)
		}
		sort.Strings(d.labels)
		require.NotContains(t, all, m[1], "twice in the table")
		all[m[1]] = d
	}
	require.NotEmpty(t, all)
	return all
}

// The table of the documentation and what a node exports are the same, name, type and labels.
// OBS-01…OBS-04, OBS-09, OBS-10: the series that the contract names are among them, with the figures of the story.
func TestMetricsAreWhatIsDocumented(t *testing.T) {
	r := story(t)
	got, want := map[string]documented{}, metricTable(t)
	families := gather(t, r)
	for name, f := range families {
		d := documented{kind: strings.ToLower(f.GetType().String())}
		require.NotEmpty(t, f.GetMetric(), name)
		for _, l := range f.Metric[0].GetLabel() {
			d.labels = append(d.labels, l.GetName())
		}
		sort.Strings(d.labels)
		require.NotEmpty(t, f.GetHelp(), name)
		got[name] = d
	}
	require.Equal(t, want, got)

	for _, c := range []struct {
		name   string
		labels string
		value  float64
	}{
		{"narad_messages_produced_total", "partition=1 topic=orders", 5},
		{"narad_bytes_produced_total", "partition=1 topic=orders", 5 * 12},
		{"narad_messages_consumed_total", "partition=1 topic=orders", 4},
		{"narad_messages_acked_total", "partition=1 topic=orders", 2},
		{"narad_consumer_corrupt_skipped_total", "partition=1 topic=orders", 1},
		{"narad_consumer_retention_skipped_messages_total", "partition=1 topic=orders", 6},
		{"narad_storage_retention_messages_deleted_total", "partition=1 reason=age topic=orders", 7},
		{"narad_nack_total", "topic=orders", 1},
		{"narad_ack_extended_total", "topic=orders", 1},
		{"narad_ack_rejected_total", "reason=lease_gone topic=orders", 1},
		{"narad_leases_ended_total", "cause=expired topic=orders", 2},
		{"narad_reserve_withheld_total", "outcome=all_reserved topic=orders", 1},
		{"narad_consumer_lag_messages", "partition=1 topic=orders", 4},
		{"narad_consumer_lag_messages", "partition=0 topic=orders", 0},
		{"narad_inflight_size", "partition=1 topic=orders", 1},
		{"narad_acked_ahead_size", "partition=1 topic=orders", 1},
		{"narad_consumer_frontier", "partition=1 topic=orders", 0},
		{"narad_high_watermark", "partition=1 topic=orders", 5},
		{"narad_ingress_wal_failed", "", 0},
		{"narad_ingress_dispatch_backlog_records", "", 0},
		{"narad_topics_total", "", 1},
		{"narad_partitions_total", "", 3},
		{"narad_errors_total", "component=http kind=5xx", 1},
		{"narad_errors_total", "component=storage kind=fsync_poisoned", 1},
		{"narad_consume_empty_total", "topic=orders", 2},
		{"narad_raft_state", "state=leader", 1},
		{"narad_raft_state", "state=follower", 0},
		{"narad_http_requests_total", "method=POST route=POST /v1/topics/{topic}/produce status=503", 1},
		{"narad_produce_rejections_total", "reason=schema topic=orders", 1},
		{"narad_schema_rejections_total", "reason=invalid", 1},
	} {
		require.Equal(t, c.value, value(t, families, c.name, c.labels), "%s{%s}", c.name, c.labels)
	}
	require.Positive(t, value(t, families, "narad_data_dir_available_bytes", ""))
	require.Greater(t, value(t, families, "narad_data_dir_size_bytes", ""), 100.0)
	age := value(t, families, "narad_oldest_unconsumed_message_age_seconds", "partition=1 topic=orders")
	require.Greater(t, age, 0.0)
	require.Less(t, age, 120.0)
}

// value returns the one sample with these labels.
func value(t *testing.T, families map[string]*dto.MetricFamily, name, labels string) float64 {
	t.Helper()
	require.Contains(t, families, name)
	for _, m := range families[name].GetMetric() {
		var pairs []string
		for _, l := range m.GetLabel() {
			pairs = append(pairs, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(pairs, " ") != labels {
			continue
		}
		return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	t.Fatalf("%s has no series {%s}: %v", name, labels, families[name])
	return 0
}

// The series of a deleted topic end with it, and no late event brings them back (B202).
func TestSeriesEndWithTheirTopic(t *testing.T) {
	r := story(t)
	r.topic("kept", 3)
	require.NoError(t, r.e.DeleteTopic("orders"))
	late := engine.Key{Topic: "orders", Partition: 1}
	r.o.Listen(engine.Stored{Key: late, Records: 1})
	r.o.Listen(engine.LeaseEnded{Key: late, Cause: engine.CauseNack})
	r.o.Waited("orders", server.WaitHit, time.Second)
	r.o.ProduceRefused("orders", "schema")
	for range 2 { // at once, and after the next description
		for name, f := range gather(t, r) {
			for _, m := range f.GetMetric() {
				require.NotContains(t, fmt.Sprint(m.GetLabel()), "orders", name)
			}
		}
		r.poll()
	}
	require.Equal(t, 0.0, value(t, gather(t, r), "narad_messages_produced_total", "partition=0 topic=kept"))
}

// Whatever clients send, the number of series stays what it is (B202).
func TestSeriesAreBounded(t *testing.T) {
	r := story(t)
	series := func() (n int) {
		for _, f := range gather(t, r) {
			n += len(f.GetMetric())
		}
		return n
	}
	r.o.Finished(server.Request{Route: "unmatched", Method: "BREW", Status: 404})
	r.o.Finished(server.Request{Route: "unmatched", Method: "GET", Status: 9999})
	r.o.ProduceRefused("orders", "made up")
	before := series()
	for i := range 10_000 {
		r.o.Finished(server.Request{Route: "unmatched", Method: fmt.Sprint("M", i), Status: 404})
		r.o.Finished(server.Request{Route: "unmatched", Method: "GET", Status: 1000 + i})
		r.o.Waited(fmt.Sprint("topic", i), server.WaitHit, 0)
		r.o.ProduceRefused("orders", fmt.Sprint("reason", i))
		r.o.SchemaStarted()
		r.o.SchemaFinished(0, fmt.Sprint("reason", i))
	}
	require.Equal(t, before+1, series(), "one more: the other reason of a schema")
	require.Less(t, len(r.o.requests.byKey), 5)
}

// A name that was given to a new topic counts anew; one that was purged goes on.
func TestSeriesOfSuccessors(t *testing.T) {
	r := newRig(t, Config{})
	r.topic("t", 3)
	r.produce("t", 0, 3)
	r.dispatched("t", 0, 3)
	_, err := r.e.PurgeTopic("t")
	require.NoError(t, err)
	r.poll()
	require.Equal(t, 3.0, value(t, gather(t, r), "narad_messages_produced_total", "partition=0 topic=t"))
	require.NoError(t, r.e.DeleteTopic("t"))
	r.topic("t", 4)
	r.poll()
	require.Equal(t, 0.0, value(t, gather(t, r), "narad_messages_produced_total", "partition=0 topic=t"))
	require.Equal(t, 0.0, value(t, gather(t, r), "narad_messages_produced_total", "partition=3 topic=t"))
}

// After a restart the lag of partitions that nobody has opened is there, without a consumer and without open logs (OBS-10).
func TestLagOfClosedPartitions(t *testing.T) {
	r := newRig(t, Config{})
	r.topic("t", 3)
	r.produce("t", 2, 4)
	r.dispatched("t", 2, 4)
	require.NoError(t, r.e.Close())
	r.open(engine.Options{})
	r.poll()
	r.poll()
	families := gather(t, r)
	require.Equal(t, 4.0, value(t, families, "narad_consumer_lag_messages", "partition=2 topic=t"))
	require.Equal(t, 0.0, value(t, families, "narad_open_partition_logs", ""))
	require.Greater(t, value(t, families, "narad_oldest_unconsumed_message_age_seconds", "partition=2 topic=t"), 0.0)
	require.Equal(t, -1.0, value(t, families, "narad_consumer_frontier", "partition=2 topic=t"))
}

// Prometheus' own rules for names and texts.
func TestLint(t *testing.T) {
	r := story(t)
	s := r.serve(server.Options{MetricsOpen: true})
	answer, err := http.Get(s.URL + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, 200, answer.StatusCode)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	problems, err := promlint.New(strings.NewReader(string(body))).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		// Names of the interface that dashboards ask for already (narad-facts 3).
		if p.Metric == "narad_topics_total" || p.Metric == "narad_partitions_total" {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, name := range []string{"go_goroutines", "process_open_fds"} {
		require.Contains(t, string(body), "\n"+name+" ")
	}
}

// Every metric that the dashboard and the alerts ask for exists, with the labels that they use.
func TestDashboard(t *testing.T) {
	metrics := metricTable(t)
	files, err := filepath.Glob("../deploy/grafana/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "../docs/observability.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		used := 0
		for _, name := range regexp.MustCompile(`narad_[a-z0-9_]+`).FindAllString(string(text), -1) {
			if known(metrics, name) {
				used++
				continue
			}
			t.Errorf("%s: there is no metric %s", file, name)
		}
		require.Greater(t, used, 20, file)
	}
}

// known also knows the series that a histogram or summary has.
func known(metrics map[string]documented, name string) bool {
	if _, ok := metrics[name]; ok {
		return true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut && (metrics[base].kind == "histogram" || metrics[base].kind == "summary") {
			return true
		}
	}
	return false
}
