package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/internal/testprog"

	"narad/config"
	"narad/engine"
	"narad/server"
)

// result is one command line that has run in this process.
type result struct {
	status         int
	stdout, stderr string
}

func narad(stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(args, strings.NewReader(stdin), &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// served returns the -s flag of a server that runs in this process.
func served(t *testing.T) string {
	t.Helper()
	e, err := engine.Open(t.TempDir(), engine.Options{})
	require.NoError(t, err)
	web := httptest.NewServer(server.New(e, server.Options{}))
	t.Cleanup(func() {
		web.Close()
		e.Close()
	})
	return "--server=" + web.URL
}

func TestTopicCommands(t *testing.T) {
	s := served(t)
	require.Equal(t, result{0, "TOPIC  PARTS  RETENTION  VISIBILITY\n", ""}, narad("", s, "topic", "ls"))
	require.Equal(t, result{0, "created topic orders with 3 partitions\n", ""}, narad("", s, "topic", "add", "orders"))
	r := narad("", s, "topic", "add", "kept", "--partitions=5", "--retention=0", "--visibility=1500ms", "--max-in-flight=7", "--max-acked-ahead=8")
	require.Equal(t, result{0, "created topic kept with 5 partitions\n", ""}, r)
	require.Equal(t, result{0, "TOPIC   PARTS  RETENTION  VISIBILITY\n" +
		"kept    5      for ever   1.5s\n" +
		"orders  3      168h0m0s   30s\n", ""}, narad("", s, "topics", "ls"))

	var topics []map[string]any
	require.NoError(t, json.Unmarshal([]byte(narad("", s, "topic", "ls", "--json").stdout), &topics))
	require.Equal(t, "kept", topics[0]["name"])
	require.Equal(t, 7.0, topics[0]["max_in_flight_per_partition"])
	require.Equal(t, 8.0, topics[0]["max_acked_ahead_per_partition"])

	r = narad("", s, "topic", "info", "orders")
	require.Equal(t, 0, r.status, r.stderr)
	require.Contains(t, r.stdout, "retention        168h0m0s\n")
	require.Contains(t, r.stdout, "PARTITION  OLDEST  NEXT  SIZE  STATUS\n0          0       0     0 B   ok\n")

	r = narad("", s, "topic", "add", "ORDERS")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "409")
	require.Contains(t, r.stderr, "orders")
	require.Equal(t, 1, narad("", s, "topic", "info", "absent").status)
	require.Equal(t, 1, narad("", s, "topic", "add", "x", "--retention=1s").status)
}

func TestPubAndSub(t *testing.T) {
	s := served(t)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders", "--visibility=1h").status)
	file := filepath.Join(t.TempDir(), "message")
	require.NoError(t, os.WriteFile(file, []byte("from a file"), 0o600))
	for _, c := range []struct {
		stdin string
		args  []string
		size  string
	}{
		{"", []string{"hello", "-k", "some key"}, "5"},
		{`{"from": "stdin"}`, nil, "17"},
		{"\xff\x00", []string{"-f", "-"}, "2"},
		{"", []string{"-f", file}, "11"},
	} {
		r := narad(c.stdin, append([]string{s, "pub", "orders", "--partition=1"}, c.args...)...)
		require.Equal(t, result{0, "", "accepted (" + c.size + " bytes)\n"}, r)
	}
	r := narad("", s, "sub", "orders", "--count=1", "--no-ack")
	require.Equal(t, 0, r.status, r.stderr)
	require.Regexp(t, `^\[p1 @0\] key=some key \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ hello\n$`, r.stdout)
	r = narad("", s, "sub", "orders", "--count=3", "--raw", "--partition=1")
	require.Equal(t, result{0, "{\"from\": \"stdin\"}\n\xff\x00\nfrom a file\n", ""}, r)

	require.Equal(t, 1, narad("", s, "pub", "absent", "x").status)
	require.Equal(t, 1, narad("", s, "pub", "orders", "x", "--partition=9").status)
	require.Equal(t, 1, narad("", s, "pub", "orders").status, "an empty message")
	require.Equal(t, 1, narad(strings.Repeat("x", 1<<20+1), s, "pub", "orders").status)
	require.Equal(t, 1, narad("", s, "pub", "orders", "-f", file+".absent").status)
	require.Equal(t, 1, narad("", s, "sub", "absent").status)
}

func TestKeyText(t *testing.T) {
	require.Equal(t, "", keyText(nil))
	require.Equal(t, "key=k ", keyText([]byte("k")))
	require.Equal(t, "key=ff00 (binary) ", keyText([]byte("\xff\x00")))
}

// sub stops at an interrupt. What it printed is acknowledged; what it could not print is given back.
func TestSubEnds(t *testing.T) {
	s := served(t)
	require.Equal(t, 0, narad("", s, "topic", "add", "orders", "--visibility=1h").status)
	require.Equal(t, 0, narad("", s, "pub", "orders", "printed").status)
	path, err := testprog.Narad()
	require.NoError(t, err)
	cmd := exec.Command(path, s, "sub", "orders", "--raw")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line := make([]byte, len("printed\n"))
	_, err = io.ReadFull(out, line)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())

	require.Equal(t, 0, narad("", s, "pub", "orders", "unprinted").status)
	var stderr bytes.Buffer
	require.Equal(t, 1, run([]string{s, "sub", "orders", "--raw", "--count=1"}, nil, brokenPipe{}, &stderr))
	require.Equal(t, "unprinted\n", narad("", s, "sub", "orders", "--raw", "--count=1").stdout, "and the first message is settled")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// Wrong usage is status 2 and says what is right.
func TestUsage(t *testing.T) {
	t.Setenv("NARAD_CONFIG_DIR", t.TempDir())
	for _, c := range []struct {
		args string
		want string
	}{
		{"nonsense", "unknown"},
		{"--nonsense", "unknown flag"},
		{"topic nonsense", "unknown"},
		{"topic add", "takes the name of one topic"},
		{"topic add a b", "takes the name of one topic"},
		{"topic add a --partitions=x", "invalid argument"},
		{"topic add a --visibility=1us", "1ms"},
		{"topic add a --visibility=0s", "1ms"},
		{"topic add a --retention=1h0.5ms", "whole milliseconds"},
		{"topic edit a", "nothing is to be changed"},
		{"topic edit a --visibility=1m", "cannot be changed"},
		{"topic edit a --schema-base-version=1", "goes with --schema"},
		{"topic wait a b", "one of them"},
		{"topic wait a b --lag-zero --source-drained", "one of them"},
		{"topic wait a b --lag-zero --interval=0s", "--interval"},
		{"topic skip a b --partition=1", "--partition and --offset"},
		{"pub t m --count=0", "--count"},
		{"pub t m --rate=-1", "--rate"},
		{"sub t --from=3", "--from goes with --peek"},
		{"sub t --peek --no-ack", "leave out --no-ack"},
		{"sub t --peek --from=3", "needs --partition"},
		{"sub t --peek --partition=1 --from=-3", "allowed are oldest, newest, and an offset"},
		{"replay t", "needs --partition"},
		{"replay t --partition=1 --from=x", "allowed are oldest"},
		{"bench t --count=0", "--count"},
		{"bench t --size=0", "--size"},
		{"bench t --size=1048577", "--size"},
		{"bench t --workers=0", "--workers"},
		{"bench t --batch=1001", "--batch"},
		{"user add u --grant=produce", "needs topics"},
		{"user add u --grant=destroy:x", "allowed are produce:TOPICS"},
		{"user add u --grant=admin:x", "admin takes no topics"},
		{"user grant u --grant=:x", "allowed are"},
		{"user grant u consume:x", "what it may do as --grant"},
		{"completion sh", "unknown argument"},
		{"ctx add c", "needs --server"},
		{"ctx add c -s nowhere", "is not the URL"},
		{"ctx add", "takes one name"},
		{"--ctx=absent topic ls", "no context"},
		{"-p x --password-stdin topic ls", "not both"},
		{"cluster decommission n --dry-run --cancel", "not both"},
		{"cluster moves abort t", "a topic and a partition"},
		{"remote add r --ca-file=x --no-ca", "not both"},
		{"pub", "takes a topic"},
		{"pub t m -f x", "not both"},
		{"sub", "takes the name"},
		{"sub t --count=-1", "--count"},
		{"--server=nowhere sub t", "is not the URL"},
		{"serve extra", "unknown"},
		{"serve --addr=7942", "http.addr is \"7942\" (from the flag --addr): allowed is host:port"},
		{"serve --data-dir=", "storage.data_dir"},
		{"serve --log-level=loud", "log.level is \"loud\" (from the flag --log-level): allowed is one of debug, info, warn, error"},
		{"serve --log-format=xml", "log.format"},
		{"serve --consumer-offset-commit-interval=9ms", "from 10 to 60000"}, // CFG-01
		{"serve --consumer-offset-commit-interval=61s", "from 10 to 60000"},
		{"serve --consumer-offset-commit-interval=0s", "from 10 to 60000"},
		{"serve --consumer-offset-commit-interval=10.5ms", "whole milliseconds"},
		{"serve --config=absent.json", "the configuration file absent.json cannot be read: no such file or directory"},
		{"serve --config=.", "the configuration file . cannot be read"},
		{"server start --dev --port=70000", "allowed is a port"},
		{"server start --dev --log-level=loud", "log.level"},
	} {
		r := narad("", strings.Fields(c.args)...)
		require.Equal(t, exitUsage, r.status, "%s: %s", c.args, r.stderr)
		require.Empty(t, r.stdout, c.args)
		require.Contains(t, r.stderr, c.want, c.args)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range []string{"", "help", "--help", "serve --help", "server", "topic", "server start --help", "user", "ctx", "cluster", "remote", "completion"} {
		r := narad("", strings.Fields(args)...)
		require.Equal(t, 0, r.status, "%s: %s", args, r.stderr)
		require.Contains(t, r.stdout, "Usage:", args)
		require.NotContains(t, r.stdout, os.Getenv("HOME")+"/", args)
	}
	require.Contains(t, narad("", "help").stdout, exitSection)
	require.Contains(t, narad("", "serve", "--help").stdout, exitSection)
	require.True(t, strings.HasPrefix(narad("", "version").stdout, "narad "))
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := narad("", "completion", shell)
		require.Equal(t, 0, r.status)
		require.Contains(t, r.stdout, "narad")
	}
}

// endsWith runs the server command to its end, in dir, and returns its status and what it said.
func endsWith(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	path, err := testprog.Narad()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s", out)
	return exit.ExitCode(), string(out)
}

// What an operator does wrong is said in one line, in the operator's own words for the path, before any data is touched.
func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	running := start(t, dir).serving()
	const free = "--addr=127.0.0.1:0"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--addr=" + taken.Addr().String(), "--data-dir=untouched"}, taken.Addr().String() + " is in use by another process"},
		{[]string{"serve", free, "--data-dir=data"}, "the data directory data is in use by another narad process"},
		{[]string{"serve", free, "--data-dir=file"}, "the data directory file, or a part of that path, is not a directory"},
		{[]string{"serve", free, "--data-dir=file/below"}, "the data directory file/below, or a part of that path, is not a directory"},
		{[]string{"server", "start", "--dev", "--port=0", "--data-dir=~/file"}, "the data directory ~/file, or a part of that path, is not a directory"},
	} {
		status, said := endsWith(t, dir, c.args...)
		require.Equal(t, exitFailed, status, said)
		require.Equal(t, "narad: "+c.want+"\n", said)
	}
	require.NoDirExists(t, filepath.Join(dir, "untouched"))
	require.NoError(t, running.client().Produce(t.Context(), message(t, running)), "the running server is not disturbed")
}

func TestUnwritableDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sealed"), 0o500))
	status, said := endsWith(t, dir, "serve", "--addr=127.0.0.1:0", "--data-dir=sealed")
	require.Equal(t, exitFailed, status)
	require.Equal(t, "narad: the data directory sealed cannot be written: permission denied\n", said)
}

// The texts of TestUnwritableDirectory and of what has no text of its own, without a disk.
func TestOpenError(t *testing.T) {
	const dir = "/srv/someone/.narad/data"
	n := &node{config: &config.Loaded{Config: config.Config{Storage: config.Storage{DataDir: dir}}}, shownDir: "~/.narad/data"}
	sealed := &os.PathError{Op: "mkdir", Path: dir, Err: syscall.EACCES}
	require.EqualError(t, n.openError(sealed), "the data directory ~/.narad/data cannot be written: permission denied")
	other := &os.PathError{Op: "open", Path: dir + "/topics", Err: syscall.EIO}
	require.EqualError(t, n.openError(other), "the data directory ~/.narad/data could not be opened: open ~/.narad/data/topics: input/output error")
}

// SIGTERM and SIGINT stop a server with status 0; its log names no path but the one that it was given.
func TestSignalsStop(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, dir).serving()
		p.signal(s)
		require.Equal(t, exitOK, p.exit(), p.log())
		require.Contains(t, p.log(), `"stopped; consumer state is durable"`)
		require.NotContains(t, p.log(), dir)
	}
	p := start(t, dir).serving()
	p.kill()
	p = start(t, dir).serving()
	require.Eventually(t, func() bool { return strings.Contains(p.log(), `"clean_stop":false`) }, patience, time.Millisecond)
}

// sending returns a connection on which the server reads the body of a produce, of 8 bytes.
func (p *process) sending(t *testing.T) net.Conn {
	t.Helper()
	m := message(t, p)
	c, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, "POST /v1/topics/"+m.Topic+"/produce HTTP/1.1\r\nHost: x\r\nX-Narad-Client: x\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
	require.NoError(t, err)
	head := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	_, err = io.ReadFull(c, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", string(head), "the body is being read")
	return c
}

// A stop that waits for a slow client is cut short by a second signal.
func TestSecondSignal(t *testing.T) {
	p := start(t, t.TempDir()).serving()
	p.sending(t)
	start := time.Now()
	p.signal(syscall.SIGTERM)
	require.Eventually(t, func() bool { // the listener is closed: the stop has begun
		c, err := net.Dial("tcp", p.addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	}, patience, 5*time.Millisecond)
	time.Sleep(2 * signalEcho)
	p.signal(syscall.SIGTERM)
	require.Equal(t, exitSecond, p.exit(), p.log())
	require.Less(t, time.Since(start), 9*time.Second)
	require.Contains(t, p.log(), "stopped at once by a second signal")
}

// A signal that comes twice at once, as that of timeout(1) does, is one: the stop is graceful.
func TestSignalEcho(t *testing.T) {
	p := start(t, t.TempDir()).serving()
	c := p.sending(t)
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGTERM)
	_, err := io.WriteString(c, "8 bytes.")
	require.NoError(t, err)
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "202 Accepted")
	require.Zero(t, p.exit(), p.log())
}

// A data directory that cannot be closed properly is not a successful stop.
func TestCloseFails(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir).serving()
	require.NoError(t, p.client().Produce(t.Context(), message(t, p)))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "data")))
	p.signal(syscall.SIGTERM)
	require.Equal(t, exitFailed, p.exit(), p.log())
	require.Contains(t, p.log(), "narad: the data directory was not closed cleanly")
}

// The development server is what the manual says: loopback, text logs, data below the home directory.
func TestDevelopmentServer(t *testing.T) {
	path, err := testprog.Narad()
	require.NoError(t, err)
	home := t.TempDir()
	cmd := exec.Command(path, "server", "start", "--dev", "--port=0")
	cmd.Env = []string{"HOME=" + home}
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	var said bytes.Buffer
	for !strings.Contains(said.String(), "msg=serving") {
		_, err := io.CopyN(&said, pipe, 1)
		require.NoError(t, err, said.String())
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(pipe)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	log := said.String() + string(rest)
	require.Contains(t, log, "addr=127.0.0.1:")
	require.Contains(t, log, "data_dir=~/.narad/data")
	require.NotContains(t, log, home)
	require.DirExists(t, filepath.Join(home, ".narad", "data", "topics"))
}
