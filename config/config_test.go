package config

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load puts sources together that have a host name.
func load(from Sources) (*Loaded, error) {
	from.Hostname, from.FileName = "node-1", "narad.json"
	return Load(from)
}

func file(text string) Sources { return Sources{File: []byte(text)} }

// problems returns what is wrong, a text each.
func problems(t *testing.T, from Sources) []string {
	t.Helper()
	_, err := load(from)
	var e *Error
	require.ErrorAs(t, err, &e)
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
		require.Contains(t, err.Error(), texts[i])
	}
	return texts
}

// narad-facts 2.2: every key with its default. (CFG-01, CFG-03, CFG-04, CFG-05, CFG-06, CFG-07, RET-02)
func TestDefaults(t *testing.T) {
	l, err := load(Sources{})
	require.NoError(t, err)
	require.Empty(t, l.Warnings)
	require.Equal(t, Config{
		HTTP: HTTP{
			Addr: ":7942", ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, ShutdownGrace: 10 * time.Second,
			MaxConsumeWait: 10 * time.Second, MaxHeaderBytes: 65536, MaxConnections: 4096, Direct: true, MaxConsumes: 1024, MaxBatchBytes: 268435456,
		},
		Cluster: Cluster{NodeID: "node-1", Addr: ":7943", SnapshotThreshold: 8192, SnapshotInterval: 2 * time.Minute, TrailingLogs: 10240},
		Storage: Storage{
			DataDir: "data", Codec: "none", CompressionLevel: "fastest", IdleEviction: 30 * time.Minute, ColdWalk: 5 * time.Minute,
			CommitInterval: time.Second, WriteoutInterval: 100 * time.Millisecond, WALPrealloc: true,
		},
		Topic: Topic{
			DefaultPartitions: 3, MaxPartitions: 108, DefaultRetentionMs: 604800000, DefaultVisibilityMs: 30000,
			DefaultMaxInFlight: 1024, DefaultMaxAckedAhead: 1024,
		},
		Fanout:   Fanout{4096, 4194304, 25},
		Log:      Log{"info", "json"},
		Security: Security{Enabled: true},
		Remotes:  Remotes{AllowedPorts: []string{"443"}, MaxHeldBytes: 268435456},
	}, l.Config)
	for _, line := range l.Lines() {
		require.Equal(t, "the default", line.Origin, line.Key)
	}
}

func TestPrecedence(t *testing.T) {
	from := file("{\"http\": {\n\"addr\": \":1\"}}")
	for _, step := range []struct {
		add        func()
		addr, from string
	}{
		{func() { from.Mode, from.ModeName = map[string]string{"http.addr": ":0"}, "server start --dev" }, ":1", "the file narad.json, line 2"},
		{func() { from.Environ = []string{"NARAD_HTTP_ADDR=:2", "PATH=x"} }, ":2", "the environment variable NARAD_HTTP_ADDR"},
		{func() { from.Environ = append(from.Environ, "NARAD_DATA_DIR=") }, ":2", "the environment variable NARAD_HTTP_ADDR"},
		{func() { from.Flags = []Flag{{"http.addr", "--addr", "[::1]:3"}} }, "[::1]:3", "the flag --addr"},
		{func() { from.Flags = append(from.Flags, Flag{"http.port", "--port", "4"}) }, "[::1]:4", "the flag --port"},
	} {
		step.add()
		l, err := load(from)
		require.NoError(t, err)
		require.Equal(t, step.addr, l.HTTP.Addr)
		require.Equal(t, step.from, l.Origin("http.addr"))
		require.Equal(t, "data", l.Storage.DataDir, "an empty variable is one that is not set")
	}
	from = Sources{Mode: map[string]string{"http.addr": "127.0.0.1:7"}, ModeName: "the mode"}
	l, err := load(from)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7", l.HTTP.Addr)
	require.Equal(t, "the mode", l.Origin("http.addr"))
	require.False(t, l.IsDefault("http.addr"))
	require.True(t, l.IsDefault("log.level"))
}

// Every key can be set in the file, and by its variable when it has one, and is then what is shown.
func TestEveryKey(t *testing.T) {
	other := map[string]string{ // a value that is no default, where adding one to it will not do
		"http.addr": ":1", "http.write_timeout": "40s", "http.shutdown_grace": "11s", "http.max_consume_wait": "9s", "http.metrics_addr": ":2",
		"http.pprof_addr": "localhost:3", "cluster.node_id": "other", "cluster.addr": ":4", "storage.data_dir": "/x", "storage.codec": "zstd",
		"storage.compression_level": "best", "topic.max_partitions": "107", "log.level": "warn", "log.format": "text",
		"storage.consumer_offset_writeout_interval_ms": "99", "http.read_timeout": "1s", "http.idle_timeout": "1s", "cluster.raft_snapshot_interval": "1s",
	}
	for _, s := range settings {
		if s.key == "" || s.missing != "" {
			continue
		}
		value := other[s.key]
		if value == "" && s.kind == numberKind {
			var n int64
			_, err := fmt.Sscan(s.initial, &n)
			require.NoError(t, err)
			value = fmt.Sprint(max(n, 1<<20) + 1)
			if !s.set(new(Config), value) {
				value = fmt.Sprint(n + 1)
			}
		} else if s.kind == booleanKind {
			value = map[string]string{"true": "false", "false": "true"}[s.initial]
		}
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		if s.kind == numberKind || s.kind == booleanKind {
			raw = []byte(value)
		}
		section, name, _ := strings.Cut(s.key, ".")
		sources := []Sources{file(fmt.Sprintf(`{%q:{%q:%s}}`, section, name, raw))}
		if s.env != "" {
			sources = append(sources, Sources{Environ: []string{s.env + "=" + value}})
		}
		for _, from := range sources {
			l, err := load(from)
			require.NoError(t, err, s.key)
			require.False(t, l.IsDefault(s.key), s.key)
			require.Contains(t, l.Lines(), Line{s.key, value, l.Origin(s.key)})
		}
	}
}

// Every value out of its range is refused, with key, value, origin and range.
func TestRanges(t *testing.T) {
	for _, c := range []struct{ key, good, bad, says string }{
		{"storage.consumer_offset_commit_interval_ms", "10 100 60000", "9 60001 0 -1 1.5 1e3", "a whole number from 10 to 60000"}, // CFG-01
		{"storage.consumer_offset_writeout_interval_ms", "10 100", "9 101", "from 10 to 100"},
		{"storage.idle_log_eviction_ms", "0 60000", "59999 -1", "0 (never), or a whole number from 60000"},
		{"storage.cold_retention_walk_ms", "0 60000", "59999", "0 (never)"},
		{"storage.codec", `"zstd"`, `"gzip" "" "ZSTD"`, "one of none, zstd"},
		{"storage.compression_level", `"best"`, `"worst"`, "one of fastest, default, better, best"},
		{"storage.data_dir", `"x"`, `""`, "the path of a directory"},
		{"topic.default_retention_age_ms", "0 3600000", "3599999 -1", "0 (for ever), or a whole number from 3600000"}, // CFG-07
		{"topic.default_partitions", "3 108", "2 109", "from 3 to 108"},
		{"topic.max_partitions", "3 108", "2 109", "from 3 to 108"},
		{"http.addr", `":1" "localhost:0" "[::]:65535"`, `"7942" ":65536" "http://x:1" "" "a@b:1"`, "host:port"},
		{"http.max_header_bytes", "4096", "4095 0", "from 4096"},
		{"http.max_connections", "0 1", "-1", "0 (no limit), or"},
		{"http.max_consume_wait", `"0s" "10s"`, `"31s" "-1s" "10"`, `"0s" (30s), or a duration like "10s"`},
		{"http.read_timeout", `"1ms"`, `"0s" "x" ""`, `a duration like "10s", from 1ms to 24h`},
		{"cluster.raft_snapshot_interval", `"5ms"`, `"4ms"`, "from 5ms"},
		{"cluster.node_id", `"a.b-c_D9"`, `"" "a@b" "ä"`, "1 to 255 of A-Z a-z 0-9 . _ -"},
		{"log.level", `"debug"`, `"loud"`, "one of debug, info, warn, error"},
		{"log.format", `"text"`, `"xml"`, "one of json, text"},
		{"security.enabled", "true false", `"yes" 1 null`, "true or false"},
	} {
		section, name, _ := strings.Cut(c.key, ".")
		text := func(value string) string { return fmt.Sprintf("{%q:{%q:%s}}", section, name, value) }
		grace := `,"http":{"write_timeout":"1h","shutdown_grace":"1h"}}`
		for _, value := range strings.Fields(c.good) {
			from := text(value)
			if section != "http" {
				from = strings.TrimSuffix(from, "}") + grace
			} else if name != "read_timeout" {
				from = strings.TrimSuffix(from, "}}") + `,"write_timeout":"1h","shutdown_grace":"1h"}}`
			}
			if name == "max_partitions" {
				from = strings.Replace(from, `{"max`, `{"default_partitions":3,"max`, 1)
			}
			_, err := load(file(from))
			require.NoError(t, err, "%s: %s", c.key, value)
		}
		for _, value := range strings.Split(c.bad, " ") {
			found := problems(t, file(text(value)))
			require.Len(t, found, 1, value)
			require.Contains(t, found[0], c.key+" is "+value+" (from the file narad.json, line 1): ")
			require.Contains(t, found[0], c.says)
		}
	}
	require.Equal(t, []string{"http.port is 65536 (from the flag --port): allowed is a port from 0 to 65535"},
		problems(t, Sources{Flags: []Flag{{"http.port", "--port", "65536"}}}))
	require.Equal(t, []string{`http.max_connections is -5 (from the environment variable NARAD_HTTP_MAX_CONNECTIONS): allowed is 0 (no limit), or a whole number from 1 to 1048576`},
		problems(t, Sources{Environ: []string{"NARAD_HTTP_MAX_CONNECTIONS=-5"}}))
}

func TestFileIsStrict(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`{"http":{"adr":":1"}}`, "http.adr (from the file narad.json, line 1): there is no such key"},
		{"{\"http\":{\n\n\"max_consume\":1}}", "line 3): there is no such key; is http.max_consume_wait meant?"},
		{`{"addr":":1"}`, "addr (from the file narad.json, line 1): there is no such key; is http.addr meant?"},
		{`{"http":{"addr":":1","addr":":2"}}`, "http.addr is given twice"},
		{`{"http":{},"http":{}}`, "http is given twice"},
		{`{"http":":1"}`, "http must be an object"},
		{`{"http":{"addr":{"x":1}}}`, "it must be a string"},
		{`{"http":{"addr":7942}}`, "http.addr is 7942 (from the file narad.json, line 1): it must be a string"},
		{`{"http":{"max_connections":"7"}}`, "it must be a number"},
		{`{"http":{"read_timeout":10}}`, "it must be a string: allowed is a duration like"},
		{`[]`, "is a JSON object"},
		{``, "ends too early"},
		{`{"http":{"addr":":1"}`, "ends too early"},
		{`{"http":{"addr":":1"}}{}`, "there is more behind"},
		{"{\"http\":\n{\"addr\":\":1\",}}", "the file narad.json: line 2: "},
		{`{"storage":{"segment_bytes":1}}`, "storage.segment_bytes is 1 (from the file narad.json, line 1): it is an internal constant (64 MiB) and cannot be set"},
		{`{"storage":{"flush_interval_ms":100}}`, "internal constant (100 ms)"},
		{`{"storage":{"fsync_mode":"batched"}}`, "internal constant (batched)"},
		{`{"cluster":{"peers":["a","b"]}}`, "three or more id@host:port"},
	} {
		found := problems(t, file(c.text))
		require.Len(t, found, 1, "%s: %q", c.text, found)
		require.Contains(t, found[0], c.says)
	}
	l, err := load(file(`{"storage":{"high_watermark_sync_interval_ms":5}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"storage.high_watermark_sync_interval_ms (from the file narad.json, line 1) has no effect"}, l.Warnings)
}

// All that is wrong is said at once.
func TestAllAtOnce(t *testing.T) {
	from := file(`{"http":{"addr":"x","nonsense":1},"log":{"level":"loud"}}`)
	from.Environ = []string{"NARAD_SECURITY_ENABLED=perhaps"}
	from.Flags = []Flag{{"storage.data_dir", "--data-dir", ""}}
	require.Len(t, problems(t, from), 5)
}

func TestContradictions(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`{"http":{"write_timeout":"10s"}}`, "http.write_timeout is 10s (from the file narad.json, line 1): allowed is more than http.max_consume_wait, which is 10s (from the default)"},
		{`{"http":{"max_consume_wait":"0s","shutdown_grace":"30s"}}`, "http.write_timeout is 30s (from the default): allowed is more than http.max_consume_wait, which is 30s"},
		{`{"http":{"shutdown_grace":"9s"}}`, "allowed is at least http.max_consume_wait"},
		{`{"topic":{"default_partitions":9,"max_partitions":8}}`, "at most topic.max_partitions, which is 8"},
		{`{"http":{"addr":":7943"}}`, "cluster.addr is :7943 (from the default): it must differ from http.addr"},
		{`{"http":{"metrics_addr":"127.0.0.1:7942"}}`, "must differ from http.addr"},
		{`{"http":{"metrics_addr":"127.0.0.1:1","pprof_addr":"127.0.0.1:1"}}`, "must differ from http.metrics_addr"},
	} {
		found := problems(t, file(c.text))
		require.Len(t, found, 1, "%s: %q", c.text, found)
		require.Contains(t, found[0], c.says)
	}
	for _, fine := range []string{`{"http":{"addr":"127.0.0.1:0","metrics_addr":"127.0.0.1:0"}}`, `{"http":{"metrics_addr":"127.0.0.1:1","pprof_addr":"127.0.0.2:1"}}`} {
		_, err := load(file(fine))
		require.NoError(t, err)
	}
}

// What this version cannot do is refused when it is asked for, and taken when it is not.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`{"cluster":{"peers":["a@h:1","b@h:2","c@h:3"]}}`, "this version does not support more than one node"},
		{`{"cluster":{"peers":"a@h:1, b@h:2, c@h:3"}}`, "does not support more than one node"},
		{`{"cluster":{"advertise_addr":"h:1"}}`, "does not support more than one node"},
		{`{"security":{"cluster_tls_ca_file":"x"}}`, "does not support more than one node"},
		{`{"security":{"allow_plaintext_raft":true}}`, "does not support more than one node"},
		{`{"fanout":{"linger_ms":26}}`, "does not support fan-out"},
		{`{"remotes":{"allowed_ports":[443,8443]}}`, "does not support links to other clusters"},
	} {
		found := problems(t, file(c.text))
		require.Len(t, found, 1, "%s: %q", c.text, found)
		require.Contains(t, found[0], c.says)
	}
	_, err := load(file(`{"fanout":{"linger_ms":25},"remotes":{"allowed_ports":[443]},"cluster":{"peers":[]},"security":{"allow_plaintext_raft":false}}`))
	require.NoError(t, err)
}

func TestWarnings(t *testing.T) {
	l, err := load(Sources{Environ: []string{
		"NARAD_HTP_ADDR=x", "NARAD_ADDR=http://x", "NARAD_SERVICE_HOST=10.0.0.1", "NARAD_CLUSTER_SECRET=s3cret", "NARAD_SECURITY_ENABLED=false",
	}})
	require.NoError(t, err)
	require.Len(t, l.Warnings, 4)
	require.Contains(t, l.Warnings[0], "NARAD_HTP_ADDR")
	require.Contains(t, l.Warnings[1], "NARAD_SERVICE_HOST")
	require.Contains(t, l.Warnings[2], "cluster secret")
	require.Contains(t, l.Warnings[3], "security is off (from the environment variable NARAD_SECURITY_ENABLED)")
}

// A secret is shown nowhere, also when it is refused.
func TestSecrets(t *testing.T) {
	const password = "correct horse"
	l, err := load(Sources{Environ: []string{"NARAD_ADMIN_PASSWORD=" + password}})
	require.NoError(t, err)
	require.Equal(t, password, string(l.Secrets.AdminPassword))
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %v", l.Config, l.Config, l.Config, l.Lines()), password)
	require.Contains(t, l.Lines(), Line{"NARAD_ADMIN_PASSWORD", "(set)", "the environment variable NARAD_ADMIN_PASSWORD"})

	long := strings.Repeat("x", 73)
	_, err = load(Sources{Environ: []string{"NARAD_ADMIN_PASSWORD=" + long}})
	require.ErrorContains(t, err, "1 to 72 bytes")
	require.NotContains(t, err.Error(), long)
}

// The page for operators has every key with its variable, its default and its meaning, and no other key.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/operators.md")
	require.NoError(t, err)
	require.Contains(t, string(page), Table(), "the table of docs/operators.md must be this:\n%s", Table())
}

// The example is a file that a server takes, and everything in it is a default.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../deploy/narad.json")
	require.NoError(t, err)
	l, err := load(Sources{File: text})
	require.NoError(t, err)
	for _, s := range settings {
		if s.key != "" && s.missing == "" && s.key != "cluster.node_id" {
			require.False(t, l.IsDefault(s.key), "the example lacks %s", s.key)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"http":{"addr":":1"},"cluster":{"peers":["a@b:1"]}}`))
	f.Add([]byte(`{"http":{"addr":[1,{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if text == nil {
			text = []byte{}
		}
		l, err := load(Sources{File: text})
		if err == nil {
			require.NotNil(t, l)
			return
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		require.NotEmpty(t, e.Problems)
	})
}
