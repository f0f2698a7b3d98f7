package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/config"
	"narad/engine"
	"narad/observe"
	"narad/record"
)

// Every key reaches the part that it is for. (CFG-01, CFG-06)
func TestConfigurationReachesTheParts(t *testing.T) {
	c, err := config.Load(config.Sources{Hostname: "n1", File: []byte(`{
		"http": {"read_timeout": "11s", "write_timeout": "31s", "idle_timeout": "61s", "shutdown_grace": "12s", "max_consume_wait": "5s",
			"max_header_bytes": 5000, "max_connections": 17, "max_consume_in_flight_per_identity": 18, "max_produce_in_flight_per_identity": 19,
			"max_batch_body_bytes_in_flight": 20, "metrics_addr": "127.0.0.1:0", "metrics_unauthenticated": true, "direct": false},
		"storage": {"codec": "zstd", "compression_level": "better", "idle_log_eviction_ms": 60001, "cold_retention_walk_ms": 120000,
			"consumer_offset_commit_interval_ms": 2000, "consumer_offset_writeout_interval_ms": 50, "ingress_wal_prealloc": true},
		"topic": {"default_partitions": 4, "max_partitions": 50, "default_retention_age_ms": 3600001, "default_visibility_timeout_ms": 1234,
			"default_max_in_flight_per_partition": 55, "default_max_acked_ahead_per_partition": 66}}`)})
	require.NoError(t, err)
	n := &node{config: c, logger: slog.New(slog.DiscardHandler)}
	n.observer, err = observe.New(observe.Config{})
	require.NoError(t, err)
	defer n.observer.Close()

	e := n.engineOptions()
	e.Listener, e.Metastore = nil, nil
	require.Equal(t, engine.Options{
		CommitInterval: 2 * time.Second, WriteoutInterval: 50 * time.Millisecond, WALPreallocate: true, IdleAfter: 60001 * time.Millisecond,
		ColdRetentionInterval: 2 * time.Minute, Codec: record.CodecZstd, CompressionLevel: record.LevelBetter, Coarse: e.Coarse,
		Tally: n.observer.Tally(), SharedReads: true,
	}, e)
	require.NoError(t, e.Validate())

	s := n.serverOptions()
	require.Equal(t, []time.Duration{11 * time.Second, 31 * time.Second, 61 * time.Second, 12 * time.Second, 5 * time.Second, 1234 * time.Millisecond},
		[]time.Duration{s.ReadTimeout, s.WriteTimeout, s.IdleTimeout, s.Grace, s.MaxConsumeWait, s.DefaultVisibility})
	require.Equal(t, []int{5000, 17, 18, 19, 4, 50, 55, 66}, []int{s.MaxHeaderBytes, s.MaxConnections, s.MaxConsumesPerIdentity, s.MaxProducesPerIdentity,
		s.DefaultPartitions, s.MaxPartitions, s.DefaultMaxInFlight, s.DefaultMaxAckedAhead})
	require.Equal(t, []int64{20, 3600001}, []int64{s.MaxBatchBodyBytes, s.DefaultRetentionMs})
	require.True(t, s.MetricsOpen && s.MetricsAway && s.NoDirect)
	require.Equal(t, "n1", s.NodeID)
}

// Zero turns a limit or an interval off; it is not the default.
func TestZeroIsOff(t *testing.T) {
	c, err := config.Load(config.Sources{Hostname: "n1", File: []byte(`{
		"http": {"max_consume_wait": "0s", "write_timeout": "31s", "shutdown_grace": "30s", "max_connections": 0, "max_consume_in_flight_per_identity": 0, "max_batch_body_bytes_in_flight": 0},
		"storage": {"idle_log_eviction_ms": 0, "cold_retention_walk_ms": 0}, "topic": {"default_retention_age_ms": 0}}`)})
	require.NoError(t, err)
	n := &node{config: c, logger: slog.New(slog.DiscardHandler)}
	n.observer, err = observe.New(observe.Config{})
	require.NoError(t, err)
	defer n.observer.Close()
	const years = 50 * 365 * 24 * time.Hour
	e, s := n.engineOptions(), n.serverOptions()
	require.Greater(t, e.IdleAfter, years)
	require.Greater(t, e.ColdRetentionInterval, years)
	require.NoError(t, e.Validate())
	require.Equal(t, 30*time.Second, s.MaxConsumeWait)
	require.Negative(t, s.MaxConsumesPerIdentity)
	require.Negative(t, s.MaxProducesPerIdentity)
	require.Negative(t, s.MaxBatchBodyBytes)
	require.Negative(t, s.DefaultRetentionMs)
	require.Greater(t, s.MaxConnections, 1<<24)
	require.False(t, s.NoDirect)
}
