package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a server that answers as it is told and keeps what it was asked.
type recorder struct {
	url    string
	mu     sync.Mutex
	asked  []string // "METHOD path?query user:password body"
	answer func(method, path string) (int, string)
}

func newRecorder(t *testing.T, answer func(method, path string) (int, string)) *recorder {
	r := &recorder{answer: answer}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		user, password, _ := q.BasicAuth()
		r.mu.Lock()
		r.asked = append(r.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s:%s %s", q.Method, q.URL.RequestURI(), user, password, body)))
		r.mu.Unlock()
		status, text := r.answer(q.Method, q.URL.Path)
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(web.Close)
	t.Setenv("NARAD_CONFIG_DIR", t.TempDir())
	for _, v := range []string{envServer, envUser, envPassword} {
		t.Setenv(v, "")
	}
	r.url = web.URL
	return r
}

func always(status int, text string) func(string, string) (int, string) {
	return func(string, string) (int, string) { return status, text }
}

// last returns the last request.
func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[len(r.asked)-1]
}

// A topic is changed, described by its schemas, and deleted; a question precedes the end of it.
func TestTopicLife(t *testing.T) {
	s := served(t)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders").status)
	r := narad("", s, "topic", "edit", "orders", "--retention=2h", "--max-in-flight=5", "--partitions=4")
	require.Equal(t, result{0, "changed topic orders\n", ""}, r)
	info := narad("", s, "topic", "info", "orders", "--json").stdout
	require.Contains(t, info, `"partitions": 4`)
	require.Contains(t, info, `"retention_ms": 7200000`)
	require.Contains(t, info, `"max_in_flight_per_partition": 5`)
	require.Equal(t, 1, narad("", s, "topic", "edit", "orders", "--partitions=3").status, "a topic never shrinks")

	for answer, stays := range map[string]bool{"n\n": true, "\n": true, "": true, "yes please\n": true} {
		r := narad(answer, s, "topic", "rm", "orders")
		require.Equal(t, stays, r.status == 1, "%q", answer)
		require.Contains(t, r.stderr, "Delete topic orders with all its messages? [y/N]")
		require.Contains(t, r.stderr, "was not deleted")
	}
	require.Equal(t, "deleted topic orders\n", narad("y\n", s, "topic", "rm", "orders").stdout)
	require.Equal(t, 1, narad("", s, "topic", "info", "orders").status)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders").status)
	require.Equal(t, result{0, "deleted topic orders\n", ""}, narad("", s, "topic", "rm", "-f", "orders"))
	require.Equal(t, 1, narad("", s, "topic", "rm", "-f", "orders").status)
}

// A message is produced many times; peek and replay read it without consuming it.
func TestPubManyPeekReplay(t *testing.T) {
	s := served(t)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders").status)
	r := narad("", s, "pub", "orders", "hello", "--count=250", "--partition=1")
	require.Equal(t, result{0, "", "accepted 250 messages (5 bytes each)\n"}, r)
	begin := time.Now()
	r = narad("", s, "pub", "orders", "paced", "--count=5", "--rate=100", "--partition=2")
	require.Equal(t, 0, r.status, r.stderr)
	require.GreaterOrEqual(t, time.Since(begin), 40*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(narad("", s, "server", "report").stdout, "TOTAL (1 topics)  3      255 ")
	}, patience, 5*time.Millisecond)

	r = narad("", s, "sub", "orders", "--peek", "--count=3", "--partition=1", "--from=247")
	require.Equal(t, 0, r.status, r.stderr)
	require.Regexp(t, `^\[p1 @247\] \S+ hello\n\[p1 @248\] \S+ hello\n\[p1 @249\] \S+ hello\n$`, r.stdout)
	require.Equal(t, 255, strings.Count(narad("", s, "sub", "orders", "--peek", "--count=255", "--raw").stdout, "\n"))

	r = narad("", s, "replay", "orders", "--partition=1", "--from=5", "--to=7", "--raw")
	require.Equal(t, result{0, "hello\nhello\n", ""}, r)
	require.Equal(t, strings.Repeat("paced\n", 5), narad("", s, "replay", "orders", "--partition=2", "--raw").stdout)
	require.Equal(t, result{0, "", ""}, narad("", s, "replay", "orders", "--partition=0"))
	require.Equal(t, result{0, "", ""}, narad("", s, "replay", "orders", "--partition=1", "--from=newest"))
	require.Contains(t, narad("", s, "replay", "orders", "--partition=9").stderr, "has no partition 9")
	require.Equal(t, 255, strings.Count(narad("", s, "sub", "orders", "--count=255", "--raw").stdout, "\n"), "nothing of it was consumed")
	require.Equal(t, 1, narad("", s, "pub", "absent", "x", "--count=500").status)

	var report []topicReport
	require.NoError(t, json.Unmarshal([]byte(narad("", s, "server", "report", "--json").stdout), &report))
	require.Equal(t, int64(255), report[0].Messages)
}

// A record that cannot be read is reported and makes the status 1; one that retention took is not.
func TestReplayGaps(t *testing.T) {
	describe := `{"name":"t","partitions":1,"partition_stats":[{"index":0,"oldest_offset":%d,"high_watermark":4,"status":"ok"}]}`
	oldest := 2
	r := newRecorder(t, nil)
	calls := 0
	r.answer = func(_, path string) (int, string) {
		if strings.HasSuffix(path, "/consume") {
			calls++
			if calls == 1 {
				return 410, `{"error":"gone"}`
			}
			return 200, fmt.Sprintf(`{"topic":"t","partition":0,"offset":%d,"payload":{"n":%d}}`, calls, calls)
		}
		if calls == 0 {
			return 200, fmt.Sprintf(describe, 0)
		}
		return 200, fmt.Sprintf(describe, oldest)
	}
	got := narad("", "-s", r.url, "replay", "t", "--partition=0", "--raw")
	require.Equal(t, result{0, "{\"n\":2}\n{\"n\":3}\n", ""}, got)
	oldest, calls = 0, 0
	got = narad("", "-s", r.url, "replay", "t", "--partition=0", "--raw", "--to=1")
	require.Equal(t, 1, got.status)
	require.Contains(t, got.stderr, "[p0 @0] cannot be read")
	require.Contains(t, got.stderr, "1 records could not be read")

	r.answer = always(200, `{"name":"t","partitions":1,"partition_stats":[{"index":0,"status":"owner_unavailable"}]}`)
	require.Contains(t, narad("", "-s", r.url, "replay", "t", "--partition=0").stderr, "partition 0 of t is not available: owner_unavailable")
	require.Contains(t, narad("", "-s", r.url, "server", "report").stdout+"", "TOTAL")
}

func TestReportOfUnavailable(t *testing.T) {
	r := newRecorder(t, func(_, path string) (int, string) {
		switch path {
		case "/v1/topics":
			return 200, `{"topics":[{"name":"a"},{"name":"gone"},{"name":"b"}],"next_page_token":""}`
		case "/v1/topics/gone":
			return 404, `{"error":"x"}`
		case "/v1/topics/a":
			return 200, `{"name":"a","partitions":3,"role":"standalone","partition_stats":[
				{"index":0,"oldest_offset":5,"high_watermark":9,"size_bytes":2048,"owner_node":"n2","status":"ok"},
				{"index":1,"status":"owner_unavailable"},
				{"index":2,"oldest_offset":0,"high_watermark":1,"size_bytes":100,"owner_node":"n1","status":"ok"}]}`
		}
		return 200, `{"name":"b","partitions":1,"role":"standalone","partition_stats":[{"index":0,"high_watermark":7,"size_bytes":3145728,"status":"ok"}]}`
	})
	got := narad("", "-s", r.url, "server", "report")
	require.Equal(t, 0, got.status, got.stderr)
	require.Equal(t, ""+
		"TOPIC                              PARTS  MESSAGES  SIZE     OWNERS  ROLE\n"+
		"a [1 of 3 partitions unavailable]  3      5         2.1 KiB  n1,n2   standalone\n"+
		"b                                  1      7         3.0 MiB          standalone\n"+
		"TOTAL (2 topics)                   4      12        3.0 MiB\n",
		strings.ReplaceAll(got.stdout, "  \n", "\n"))
}

func TestBench(t *testing.T) {
	s := served(t)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders").status)
	for _, batch := range []string{"1", "30"} {
		r := narad("", s, "bench", "orders", "--count=200", "--size=64", "--workers=4", "--consume", "--batch="+batch)
		require.Equal(t, 0, r.status, r.stderr)
		require.Regexp(t, `^produce: 200 messages of 64 bytes in \S+: \d+ a second, \S+ MiB/s; request p50 \S+, p95 \S+, p99 \S+, max \S+\n`+
			`consume and ack: 200 messages of 64 bytes in `, r.stdout)
	}
	require.Equal(t, 1, narad("", s, "bench", "absent", "--count=5").status)
}

// Users have their grants in the words of the server; passwords come from the standard input, a line each.
func TestUserCommands(t *testing.T) {
	r := newRecorder(t, always(201, `{"username":"u","grants":[{"action":"produce","patterns":["a","b*"]},{"action":"admin"}]}`))
	root := []string{"-s", r.url, "-u", "root", "--password-stdin"}
	got := narad("rootpw\nuserpw\n", append(root, "user", "add", "u", "--grant=produce:a,b*", "--grant=admin", "--user-password-stdin")...)
	require.Equal(t, result{0, "created user u\n", ""}, got)
	require.Equal(t, `POST /v1/users root:rootpw {"username":"u","password":"userpw","grants":[{"action":"produce","patterns":["a","b*"]},{"action":"admin"}]}`, r.last())

	r.answer = always(200, `{"username":"u","grants":[{"action":"produce","patterns":["a","b*"]},{"action":"admin"}]}`)
	require.Equal(t, result{0, "user u may: produce:a,b* admin\n", ""}, narad("rootpw", append(root, "user", "grant", "u", "--grant=consume:x")...))
	require.Equal(t, `PUT /v1/users/u/grants root:rootpw {"grants":[{"action":"consume","patterns":["x"]}]}`, r.last())

	r.answer = always(200, `[{"username":"root","root":true,"created_at_ms":0},{"username":"u","grants":[{"action":"create","patterns":["*"]}]}]`)
	got = narad("rootpw\n", append(root, "user", "ls")...)
	require.Equal(t, "USER  CREATED               MAY\nroot  1970-01-01T00:00:00Z  root\nu     1970-01-01T00:00:00Z  create:*\n", got.stdout)
	var users []map[string]any
	require.NoError(t, json.Unmarshal([]byte(narad("x", append(root, "user", "ls", "--json")...).stdout), &users))
	require.Len(t, users, 2)

	r.answer = always(204, "")
	require.Equal(t, result{0, "deleted user u\n", ""}, narad("rootpw\n", append(root, "user", "rm", "u", "-f")...))
	require.Equal(t, 1, narad("rootpw\nno\n", append(root, "user", "rm", "u")...).status)
	require.Equal(t, 0, narad("rootpw\nyes\n", append(root, "user", "rm", "u")...).status)
	require.Equal(t, 0, narad("old\nnew\n", append(root, "user", "passwd", "--new-password-stdin")...).status)
	require.Equal(t, `PUT /v1/users/root/password root:old {"new_password":"new","current_password":"old"}`, r.last())
	require.Equal(t, 0, narad("old\nnew\n", append(root, "user", "passwd", "u", "--new-password-stdin")...).status)
	require.Equal(t, `PUT /v1/users/u/password root:old {"new_password":"new"}`, r.last())
	require.Equal(t, 2, narad("old\n", append(root, "user", "passwd", "u")...).status)
	require.Equal(t, 1, narad("old\n", append(root, "user", "add", "u", "--user-password-stdin")...).status)
}

// Which server, and as whom: a flag beats its variable, and that beats the context.
func TestPrecedence(t *testing.T) {
	page := always(200, `{"topics":[],"next_page_token":""}`)
	r := newRecorder(t, page)
	path := filepath.Join(os.Getenv("NARAD_CONFIG_DIR"), contextsFile)
	require.Equal(t, 0, narad("ctxpw\n", "ctx", "add", "prod", "-s", r.url, "-u", "ctx", "--password-stdin").status)
	require.Equal(t, 0, narad("", "ctx", "add", "other", "-s", "http://127.0.0.1:1").status)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	who := func(args ...string) string {
		t.Helper()
		got := narad("", append(args, "topic", "ls")...)
		require.Equal(t, 0, got.status, got.stderr)
		return strings.Fields(r.last())[2]
	}
	require.Equal(t, "ctx:ctxpw", who())
	require.Equal(t, "me:pw", who("-u", "me", "-p", "pw"))
	require.Equal(t, "ctx:pw", who("-p", "pw"))
	require.Equal(t, "me:", who("-u", "me"), "no password of the context for another user")
	require.Equal(t, ":", who("-s", r.url), "nothing of the context for a server that is named")

	r2 := newRecorder(t, page)
	t.Setenv("NARAD_CONFIG_DIR", filepath.Dir(path))
	t.Setenv(envServer, r2.url)
	got := narad("", "topic", "ls")
	require.Equal(t, 0, got.status)
	require.Equal(t, []string{"GET /v1/topics?limit=1000 :"}, r2.asked, "the variable beats the context, whose password it does not get")
	got = narad("", "--ctx=prod", "topic", "ls")
	require.Equal(t, 2, got.status)
	require.Contains(t, got.stderr, "NARAD_ADDR is set")
	t.Setenv(envUser, "envuser")
	t.Setenv(envPassword, "envpw")
	require.Equal(t, "flag:envpw", who("-s", r.url, "-u", "flag"))
	require.Equal(t, "envuser:envpw", who("-s", r.url))
}

func TestContexts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("NARAD_CONFIG_DIR", filepath.Join(dir, "new"))
	for _, v := range []string{envServer, envUser, envPassword} {
		t.Setenv(v, "")
	}
	require.Equal(t, "  CONTEXT  SERVER  USER\n", narad("", "ctx", "ls").stdout)
	require.Equal(t, 0, narad("", "ctx", "add", "a", "-s", "http://a:1", "-u", "ua", "-p", "secret").status)
	require.Equal(t, 0, narad("", "ctx", "add", "b", "-s", "http://b:1,http://c:1").status)
	require.Equal(t, "   CONTEXT  SERVER                 USER\n*  a        http://a:1             ua\n   b        http://b:1,http://c:1  \n", narad("", "ctx", "ls").stdout)
	require.Equal(t, 0, narad("", "ctx", "select", "b").status)
	r := narad("", "ctx", "ls", "--json")
	require.Contains(t, r.stdout, `"selected": true`)
	require.NotContains(t, r.stdout, "secret")
	require.Equal(t, 1, narad("", "ctx", "select", "absent").status)
	require.Equal(t, 1, narad("", "ctx", "rm", "absent").status)
	require.Equal(t, 0, narad("", "ctx", "rm", "b").status)
	require.NotContains(t, narad("", "ctx", "ls").stdout, "*")

	path := filepath.Join(dir, "new", contextsFile)
	require.NoError(t, os.Chmod(path, 0o644))
	require.Contains(t, narad("", "ctx", "ls").stderr, "others may read")
	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.Contains(t, narad("", "ctx", "ls").stderr, "is damaged")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file is left")
}

// Credentials go in clear text to another machine only after a warning.
func TestPlainWarning(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:1": false, "http://localhost:1": false, "http://[::1]:1": false, "https://narad.example": false,
		"http://narad.example": true, "http://10.0.0.1:7942": true, "http://127.0.0.1.evil.example": true,
	} {
		require.Equal(t, want, exposes(url), url)
	}
	t.Setenv("NARAD_CONFIG_DIR", t.TempDir())
	a := &app{stderr: new(strings.Builder)}
	_, err := a.clientOf(login{Server: "http://127.0.0.1:1,http://narad.example:1", User: "u", Password: "secret"})
	require.NoError(t, err)
	require.Equal(t, "narad: warning: user and password go unencrypted to http://narad.example:1\n", a.stderr.(*strings.Builder).String())
}

// What the server does not have is said clearly; a redirect is not followed.
func TestNotImplemented(t *testing.T) {
	r := newRecorder(t, always(501, `{"error":"fan-out is not part of this server"}`))
	for _, args := range []string{
		"topic attach a b --delay=1m", "topic detach a b", "topic pause a b", "topic resume a b", "topic skip a b --partition=0 --offset=3",
		"cluster decommission n1", "cluster moves abort t 0", "cluster members forget n1", "remote add r --url=https://x", "remote set r --compression=zstd",
		"remote rm r", "remote ls", "remote test r", "remote reencrypt", "topic wait a b --lag-zero",
	} {
		got := narad("", append([]string{"-s", r.url}, strings.Fields(args)...)...)
		require.Equal(t, 1, got.status, args)
		require.Contains(t, got.stderr, "the server answered 501: fan-out is not part of this server", args)
	}
	r.answer = always(200, `{"children":[]}`)
	require.Contains(t, narad("", "-s", r.url, "topic", "wait", "a", "b", "--lag-zero").stderr, "b is no child of a")
}

// topic wait tells caught up (0) from late (1) and from stuck (2).
func TestTopicWait(t *testing.T) {
	r := newRecorder(t, nil)
	for _, c := range []struct {
		answers []string
		status  int
		says    string
	}{
		{[]string{`"lag_messages":3,"lag_complete":true`, `"lag_messages":0,"lag_complete":false`, `"lag_messages":0,"lag_complete":true`}, 0, ""},
		{[]string{`"lag_messages":3,"lag_complete":true`}, 1, "3 messages are missing"},
		{[]string{`"lag_messages":3,"paused":true`}, 2, "is paused"},
		{[]string{`"lag_messages":3,"blocked_at":{"partition":1,"offset":5}`}, 2, "is stuck"},
	} {
		n := 0
		r.answer = func(string, string) (int, string) {
			text := c.answers[min(n, len(c.answers)-1)]
			n++
			return 200, `{"children":[{"name":"a",` + text + `},{"name":"b",` + text + `}]}`
		}
		got := narad("", "-s", r.url, "topic", "wait", "p", "b", "--lag-zero", "--interval=1ms", "--timeout=50ms")
		require.Equal(t, c.status, got.status, got.stderr)
		require.Contains(t, got.stderr, c.says)
	}
}

// A schema is given as text, as a file, or on the standard input, and printed as it was.
func TestSchemaCommands(t *testing.T) {
	r := newRecorder(t, always(201, `{"name":"t","partitions":3}`))
	file := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"object"}`), 0o600))
	for stdin, from := range map[string]string{"": "@" + file, `{"type":"object"}`: "-", " ": `{"type":"object"}`} {
		require.Equal(t, 0, narad(stdin, "-s", r.url, "topic", "add", "t", "--schema="+from).status)
		require.Equal(t, `POST /v1/topics : {"name":"t","schema":{"type":"object"}}`, r.last())
	}
	require.Contains(t, narad("", "-s", r.url, "topic", "add", "t", "--schema={").stderr, "is not JSON")
	require.Contains(t, narad("", "-s", r.url, "topic", "add", "t", "--schema=@absent").stderr, "no such file")
	r.answer = always(200, `{"name":"t"}`)
	require.Equal(t, 0, narad("", "-s", r.url, "topic", "edit", "t", "--schema=true", "--schema-base-version=0").status)
	require.Equal(t, `PATCH /v1/topics/t : {"schema":true,"schema_base_version":0}`, r.last())

	r.answer = always(200, `{"topic":"t","version":2,"versions":[{"version":1,"schema":true},{"version":2,"schema":{"a":1}}]}`)
	require.Equal(t, "version 1\ntrue\nversion 2\n{\n  \"a\": 1\n}\n", narad("", "-s", r.url, "topic", "schema", "t").stdout)
	require.Equal(t, "{\n  \"a\": 1\n}\n", narad("", "-s", r.url, "topic", "schema", "t", "--current").stdout)
	r.answer = always(200, `{"topic":"t","version":0,"versions":[]}`)
	require.Equal(t, "topic t has no schema\n", narad("", "-s", r.url, "topic", "schema", "t").stdout)
	require.Equal(t, 1, narad("", "-s", r.url, "topic", "schema", "t", "--current").status)
}

func TestPrintConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "narad.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"topic":{"default_partitions":7}}`), 0o600))
	t.Setenv("NARAD_HTTP_MAX_CONNECTIONS", "9")
	t.Setenv("NARAD_ADMIN_PASSWORD", "very secret")
	t.Setenv("NARAD_TYPO", "1")
	got := narad("", "serve", "--print-config", "--config", file, "--port=0", "--data-dir", filepath.Join(dir, "data"))
	require.Equal(t, 0, got.status, got.stderr)
	for _, line := range []string{
		`http.addr +:0 +the flag --port`, `http.max_connections +9 +the environment variable NARAD_HTTP_MAX_CONNECTIONS`,
		`topic.default_partitions +7 +the file .*narad.json, line 1`, `log.level +info +the default`, `NARAD_ADMIN_PASSWORD +\(set\)`,
	} {
		require.Regexp(t, line, got.stdout)
	}
	require.NotContains(t, got.stdout, "very secret")
	require.Contains(t, got.stderr, "warning: the environment variable NARAD_TYPO")
	require.NoDirExists(t, filepath.Join(dir, "data"), "nothing is opened")
	require.Equal(t, 0, narad("", "serve", "--check-config", "--config", file).status)
	require.NoError(t, os.WriteFile(file, []byte(`{"topic":{"default_partitions":2},"htp":{}}`), 0o600))
	got = narad("", "serve", "--check-config", "--config", file)
	require.Equal(t, 2, got.status)
	require.Contains(t, got.stderr, "2 problems")

	t.Setenv("NARAD_HTTP_ADDR", "0.0.0.0:1")
	got = narad("", "server", "start", "--dev")
	require.Equal(t, 2, got.status)
	require.Contains(t, got.stderr, "loopback address only")
}
