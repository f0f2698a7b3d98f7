package config

import "time"

// Bounds that several keys share.
const (
	year      = 365 * 24 * time.Hour
	yearMs    = int64(year / time.Millisecond)
	capMax    = 1 << 20 // of leases and of acks ahead, per partition
	moreNodes = "more than one node"
	fanOut    = "fan-out"
	remotes   = "links to other clusters"
)

// settings is every key, in the order in which it is documented and printed.
var settings = []setting{
	text("http.addr", "NARAD_HTTP_ADDR", func(c *Config) *string { return &c.HTTP.Addr }, ":7942", allowedAddr, isAddr).
		also("Where the HTTP interface listens."),
	duration("http.read_timeout", "NARAD_HTTP_READ_TIMEOUT", func(c *Config) *time.Duration { return &c.HTTP.ReadTimeout }, 10*time.Second, time.Millisecond, 24*time.Hour, "").
		also("How long a request may take to arrive, with its body."),
	duration("http.write_timeout", "NARAD_HTTP_WRITE_TIMEOUT", func(c *Config) *time.Duration { return &c.HTTP.WriteTimeout }, 30*time.Second, time.Millisecond, 24*time.Hour, "").
		also("How long an answer may take, from the end of the request's headers; more than `http.max_consume_wait`."),
	duration("http.idle_timeout", "NARAD_HTTP_IDLE_TIMEOUT", func(c *Config) *time.Duration { return &c.HTTP.IdleTimeout }, 60*time.Second, time.Millisecond, 24*time.Hour, "").
		also("How long a connection is kept between two requests."),
	duration("http.shutdown_grace", "NARAD_HTTP_SHUTDOWN_GRACE", func(c *Config) *time.Duration { return &c.HTTP.ShutdownGrace }, 10*time.Second, time.Millisecond, time.Hour, "").
		also("How long a stop waits for requests in flight; at least `http.max_consume_wait`."),
	duration("http.max_consume_wait", "NARAD_HTTP_MAX_CONSUME_WAIT", func(c *Config) *time.Duration { return &c.HTTP.MaxConsumeWait }, 10*time.Second, time.Millisecond, 30*time.Second, "30s").
		also("The longest wait of a consume."),
	number("http.max_header_bytes", "NARAD_HTTP_MAX_HEADER_BYTES", func(c *Config) *int { return &c.HTTP.MaxHeaderBytes }, 64<<10, 4096, 16<<20, "").
		also("Bound of a request's line and headers."),
	number("http.max_connections", "NARAD_HTTP_MAX_CONNECTIONS", func(c *Config) *int { return &c.HTTP.MaxConnections }, 4096, 1, 1<<20, "no limit").
		also("Open connections; more wait in the backlog of the system."),
	boolean("http.direct", "NARAD_HTTP_DIRECT", func(c *Config) *bool { return &c.HTTP.Direct }, true).
		also("Plain produces, consumes and acks are read and answered without net/http, which is quicker. Turn it off to rule it out when a client and the server disagree on HTTP."),
	number("http.max_consume_in_flight_per_identity", "NARAD_HTTP_MAX_CONSUME_IN_FLIGHT_PER_IDENTITY", func(c *Config) *int { return &c.HTTP.MaxConsumes }, 1024, 1, 1<<20, "no limit").
		also("Consumes of one user (one address, without security) at a time; more are answered 429."),
	number("http.max_produce_in_flight_per_identity", "NARAD_HTTP_MAX_PRODUCE_IN_FLIGHT_PER_IDENTITY", func(c *Config) *int { return &c.HTTP.MaxProduces }, 0, 1, 1<<20, "no limit").
		also("The same for produces."),
	number("http.max_batch_body_bytes_in_flight", "NARAD_HTTP_MAX_BATCH_BODY_BYTES_IN_FLIGHT", func(c *Config) *int64 { return &c.HTTP.MaxBatchBytes }, 256<<20, 1, 1<<40, "no limit").
		also("Memory for batch bodies above 1 MiB that are being read, of the node; more are answered 503."),
	text("http.metrics_addr", "NARAD_HTTP_METRICS_ADDR", func(c *Config) *string { return &c.HTTP.MetricsAddr }, "", allowedAddr+"; empty for none", isAddrOrEmpty).
		also("Own address of `/metrics`, `/healthz` and `/readyz`, without credentials; the main one has no `/metrics` then."),
	boolean("http.metrics_unauthenticated", "NARAD_HTTP_METRICS_UNAUTHENTICATED", func(c *Config) *bool { return &c.HTTP.MetricsOpen }, false).
		also("`/metrics` on the main address without credentials."),
	text("http.pprof_addr", "NARAD_HTTP_PPROF_ADDR", func(c *Config) *string { return &c.HTTP.PprofAddr }, "", allowedAddr+"; empty for none", isAddrOrEmpty).
		also("Own address of the Go profiler, without credentials: use a loopback address."),

	text("cluster.node_id", "NARAD_NODE_ID", func(c *Config) *string { return &c.Cluster.NodeID }, "", "1 to 255 of A-Z a-z 0-9 . _ -", isNodeID).
		also("Name of this node. It must not change while the data directory is in use. Default: the name of the host."),
	text("cluster.addr", "NARAD_CLUSTER_ADDR", func(c *Config) *string { return &c.Cluster.Addr }, ":7943", allowedAddr, isAddr).
		also("Where the other nodes reach this one. A node without peers opens no such port."),
	list("cluster.peers", "NARAD_CLUSTER_PEERS", func(c *Config) *[]string { return &c.Cluster.Peers }, "", "three or more id@host:port, or none", isPeer).
		needs(moreNodes),
	text("cluster.advertise_addr", "NARAD_CLUSTER_ADVERTISE_ADDR", func(c *Config) *string { return &c.Cluster.AdvertiseAddr }, "", "a host:port that peers can dial; empty for the one of this node's entry in cluster.peers", isAddrOrEmpty).
		needs(moreNodes),
	list("cluster.initial_members", "NARAD_CLUSTER_INITIAL_MEMBERS", func(c *Config) *[]string { return &c.Cluster.InitialMembers }, "", "names of nodes", isNodeID).
		needs(moreNodes),
	number("cluster.raft_snapshot_threshold", "NARAD_CLUSTER_RAFT_SNAPSHOT_THRESHOLD", func(c *Config) *int { return &c.Cluster.SnapshotThreshold }, 8192, 1, 1<<30, "").
		also("Changes of metadata between two snapshots."),
	duration("cluster.raft_snapshot_interval", "NARAD_CLUSTER_RAFT_SNAPSHOT_INTERVAL", func(c *Config) *time.Duration { return &c.Cluster.SnapshotInterval }, 120*time.Second, 5*time.Millisecond, 24*time.Hour, "").
		also("How often it is looked whether a snapshot is due."),
	number("cluster.raft_trailing_logs", "NARAD_CLUSTER_RAFT_TRAILING_LOGS", func(c *Config) *int { return &c.Cluster.TrailingLogs }, 10240, 0, 1<<30, "").
		also("Changes kept behind a snapshot."),

	text("storage.data_dir", "NARAD_DATA_DIR", func(c *Config) *string { return &c.Storage.DataDir }, "data", "the path of a directory", func(s string) bool { return s != "" }).
		also("Directory of all data."),
	choice("storage.codec", "", func(c *Config) *string { return &c.Storage.Codec }, "none", "zstd").
		also("How partition logs store what is committed from now on; what is there stays readable."),
	choice("storage.compression_level", "", func(c *Config) *string { return &c.Storage.CompressionLevel }, "fastest", "default", "better", "best").
		also("Level of zstd."),
	millis("storage.idle_log_eviction_ms", "", func(c *Config) *time.Duration { return &c.Storage.IdleEviction }, 1_800_000, 60_000, yearMs, "never").
		also("How long a partition goes unused before its files are closed."),
	millis("storage.cold_retention_walk_ms", "", func(c *Config) *time.Duration { return &c.Storage.ColdWalk }, 300_000, 60_000, yearMs, "never").
		also("How often closed partitions are looked at for expired records, in whole minutes."),
	millis("storage.consumer_offset_commit_interval_ms", "", func(c *Config) *time.Duration { return &c.Storage.CommitInterval }, 1000, 10, 60_000, "").
		also("Durability interval of consumer state: a power loss brings back about that much of acked messages."),
	millis("storage.consumer_offset_writeout_interval_ms", "", func(c *Config) *time.Duration { return &c.Storage.WriteoutInterval }, 100, 10, 100, "").
		also("How often consumer state is handed to the system: a killed process brings back about that much. The shorter of the two intervals counts."),
	boolean("storage.ingress_wal_prealloc", "", func(c *Config) *bool { return &c.Storage.WALPrealloc }, true).
		also("Prepare the files of the ingress log ahead: quicker produces for up to 128 MiB more disk."),

	number("topic.default_partitions", "NARAD_TOPIC_DEFAULT_PARTITIONS", func(c *Config) *int { return &c.Topic.DefaultPartitions }, 3, 3, 108, "").
		also("Partitions of a topic that asks for none."),
	number("topic.max_partitions", "NARAD_TOPIC_MAX_PARTITIONS", func(c *Config) *int { return &c.Topic.MaxPartitions }, 108, 3, 108, "").
		also("Most partitions of one topic."),
	number("topic.default_retention_age_ms", "NARAD_TOPIC_DEFAULT_RETENTION_AGE_MS", func(c *Config) *int64 { return &c.Topic.DefaultRetentionMs }, 604_800_000, 3_600_000, 100*yearMs, "for ever").
		also("Retention of a topic that asks for none."),
	number("topic.default_visibility_timeout_ms", "NARAD_TOPIC_DEFAULT_VISIBILITY_TIMEOUT_MS", func(c *Config) *int64 { return &c.Topic.DefaultVisibilityMs }, 30_000, 1, yearMs, "").
		also("How long a lease lasts in a topic that asks for nothing."),
	number("topic.default_max_in_flight_per_partition", "NARAD_TOPIC_DEFAULT_MAX_IN_FLIGHT_PER_PARTITION", func(c *Config) *int { return &c.Topic.DefaultMaxInFlight }, 1024, 1, capMax, "").
		also("Leases per partition of a topic that asks for nothing."),
	number("topic.default_max_acked_ahead_per_partition", "NARAD_TOPIC_DEFAULT_MAX_ACKED_AHEAD_PER_PARTITION", func(c *Config) *int { return &c.Topic.DefaultMaxAckedAhead }, 1024, 1, capMax, "").
		also("Acks above a gap, per partition, of a topic that asks for nothing."),

	number("fanout.max_batch_records", "NARAD_FANOUT_MAX_BATCH_RECORDS", func(c *Config) *int { return &c.Fanout.MaxBatchRecords }, 4096, 1, 1<<20, "").needs(fanOut),
	number("fanout.max_batch_bytes", "NARAD_FANOUT_MAX_BATCH_BYTES", func(c *Config) *int { return &c.Fanout.MaxBatchBytes }, 4<<20, 1, 1<<30, "").needs(fanOut),
	number("fanout.linger_ms", "NARAD_FANOUT_LINGER_MS", func(c *Config) *int { return &c.Fanout.LingerMs }, 25, 0, 60_000, "").needs(fanOut),

	choiceOr("info", "log.level", "NARAD_LOG_LEVEL", func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error").
		also("Least level that is logged."),
	choice("log.format", "NARAD_LOG_FORMAT", func(c *Config) *string { return &c.Log.Format }, "json", "text").
		also("Form of the log on the standard error."),

	boolean("security.enabled", "NARAD_SECURITY_ENABLED", func(c *Config) *bool { return &c.Security.Enabled }, true).
		also("Users, passwords and grants."),
	text("security.cluster_tls_cert_file", "NARAD_CLUSTER_TLS_CERT_FILE", func(c *Config) *string { return &c.Security.TLSCertFile }, "", "the path of a file", nil).needs(moreNodes),
	text("security.cluster_tls_key_file", "NARAD_CLUSTER_TLS_KEY_FILE", func(c *Config) *string { return &c.Security.TLSKeyFile }, "", "the path of a file", nil).needs(moreNodes),
	text("security.cluster_tls_ca_file", "NARAD_CLUSTER_TLS_CA_FILE", func(c *Config) *string { return &c.Security.TLSCAFile }, "", "the path of a file", nil).needs(moreNodes),
	boolean("security.allow_plaintext_raft", "NARAD_SECURITY_ALLOW_PLAINTEXT_RAFT", func(c *Config) *bool { return &c.Security.AllowPlaintextRaft }, false).needs(moreNodes),
	boolean("security.allow_insecure_cluster", "NARAD_SECURITY_ALLOW_INSECURE_CLUSTER", func(c *Config) *bool { return &c.Security.AllowInsecureCluster }, false).needs(moreNodes),
	boolean("security.allow_legacy_cluster_auth", "NARAD_SECURITY_ALLOW_LEGACY_CLUSTER_AUTH", func(c *Config) *bool { return &c.Security.AllowLegacyClusterAuth }, false).needs(moreNodes),

	list("remotes.allowed_hosts", "NARAD_REMOTES_ALLOWED_HOSTS", func(c *Config) *[]string { return &c.Remotes.AllowedHosts }, "", "names of hosts", notEmpty).needs(remotes),
	list("remotes.allowed_ports", "NARAD_REMOTES_ALLOWED_PORTS", func(c *Config) *[]string { return &c.Remotes.AllowedPorts }, "443", "ports from 1 to 65535", func(s string) bool { return isPort(s, 1) }).needs(remotes),
	list("remotes.allow_addresses", "NARAD_REMOTES_ALLOW_ADDRESSES", func(c *Config) *[]string { return &c.Remotes.AllowAddresses }, "", "addresses or networks", notEmpty).needs(remotes),
	number("remotes.max_held_bytes", "NARAD_REMOTES_MAX_HELD_BYTES", func(c *Config) *int64 { return &c.Remotes.MaxHeldBytes }, 256<<20, 1<<20, 1<<40, "").needs(remotes),
	boolean("remotes.api_hop_encrypted", "NARAD_REMOTES_API_HOP_ENCRYPTED", func(c *Config) *bool { return &c.Remotes.APIHopEncrypted }, false).needs(remotes),

	secret("NARAD_ADMIN_PASSWORD", func(c *Config) *Secret { return &c.Secrets.AdminPassword }, "1 to 72 bytes", func(s string) bool { return len(s) <= 72 }).
		also("Password of the user `root`, read when the data directory has no users yet."),
	secret("NARAD_CLUSTER_SECRET", func(c *Config) *Secret { return &c.Secrets.ClusterSecret }, "any text", notEmpty).
		also("Shared by the nodes of a cluster; of no use to one node."),
	secret("NARAD_CLUSTER_SECRET_PREVIOUS", func(c *Config) *Secret { return &c.Secrets.ClusterSecretPrevious }, "any text", notEmpty).
		also("The same, while it is being replaced."),
}

// choiceOr is a choice with a default that is not its first word.
func choiceOr(initial, key, env string, field func(*Config) *string, words ...string) setting {
	s := choice(key, env, field, words...)
	s.initial = initial
	return s
}

func notEmpty(s string) bool { return s != "" }

// constants are internal: a file that sets one is refused. Each may also be written with "_ms" behind it.
var constants = map[string]string{
	"storage.fsync_mode":                "batched",
	"storage.flush_bytes":               "1 MiB",
	"storage.flush_records":             "1000",
	"storage.flush_interval":            "100 ms",
	"storage.sync_interval":             "1000 ms",
	"storage.sync_bytes":                "8 MiB",
	"storage.segment_bytes":             "64 MiB",
	"storage.retention_check":           "60 s",
	"storage.retention_check_interval":  "60 s",
	"storage.ingress_wal_sync_interval": "10 ms",
}

// inert keys of old files are taken, and do nothing.
var inert = map[string]bool{"storage.high_watermark_sync_interval_ms": true}

// foreign are variables of the environment that are not the server's: those of the command line and of this project's tests.
var foreign = map[string]bool{
	"NARAD_ADDR": true, "NARAD_USER": true, "NARAD_PASS": true, "NARAD_CONFIG_DIR": true,
	"NARAD_KILLS": true, "NARAD_LONG": true, "NARAD_BINARY": true, "NARAD_CONFORMANCE_URL": true,
}
