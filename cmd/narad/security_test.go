package main

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/internal/testprog"
)

// cli runs the real command against a process, with an environment of its own and lines on the standard input.
func (p *process) cli(stdin string, args ...string) result {
	p.t.Helper()
	path, err := testprog.Narad()
	require.NoError(p.t, err)
	cmd := exec.Command(path, append([]string{"--server=http://" + p.addr}, args...)...)
	cmd.Env = []string{"NARAD_CONFIG_DIR=" + p.t.TempDir()}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		require.IsType(p.t, &exec.ExitError{}, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A server without a word about security wants credentials. The root user's password is in a file that only the owner may read,
// and nowhere else; users do what their grants say; all of it is there after a restart.
func TestSecurityIsTheDefault(t *testing.T) {
	dir := t.TempDir()
	p := startWith(t, dir, nil).serving()
	resp, err := http.Get("http://" + p.addr + "/v1/topics")
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 401, resp.StatusCode)
	require.Equal(t, `Basic realm="narad"`, resp.Header.Get("WWW-Authenticate"))
	for _, path := range []string{"/healthz", "/readyz"} {
		resp, err := http.Get("http://" + p.addr + path)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, 200, resp.StatusCode, path)
	}

	file := filepath.Join(dir, "data", "admin-password")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	password := strings.TrimSpace(string(text))
	require.GreaterOrEqual(t, len(password), 24)
	require.Contains(t, p.log(), `"file":"data/admin-password"`)

	root := []string{"-u", "root", "--password-stdin"}
	as := func(p *process, stdin string, args ...string) result { return p.cli(stdin, args...) }
	require.Equal(t, 1, as(p, "wrong\n", append(root, "topic", "ls")...).status)
	require.Equal(t, 0, as(p, password, append(root, "topic", "add", "orders")...).status)
	r := as(p, password+"\nuser password\n", append(root, "user", "add", "worker", "--grant=produce:ord*", "--user-password-stdin")...)
	require.Equal(t, result{0, "created user worker\n", ""}, r)
	worker := []string{"-u", "worker", "--password-stdin"}
	require.Equal(t, 0, as(p, "user password\n", append(worker, "pub", "orders", "hello")...).status)
	r = as(p, "user password\n", append(worker, "sub", "orders", "--count=1")...)
	require.Equal(t, 1, r.status)
	require.Contains(t, r.stderr, "403")
	require.Equal(t, 1, as(p, "user password\n", append(worker, "user", "ls")...).status)
	require.Equal(t, 0, as(p, "user password\nnew password\n", append(worker, "user", "passwd", "--new-password-stdin")...).status)
	p.signal(syscall.SIGTERM)
	require.Equal(t, exitOK, p.exit(), p.log())

	q := startWith(t, dir, []string{"NARAD_ADMIN_PASSWORD=another"}).serving()
	require.Equal(t, 1, as(q, "another\n", append(root, "topic", "ls")...).status, "the password is set once")
	require.Equal(t, "hello\n", as(q, password, append(root, "sub", "orders", "--count=1", "--raw")...).stdout)
	require.Equal(t, 1, as(q, "user password\n", append(worker, "pub", "orders", "x")...).status)
	require.Equal(t, 0, as(q, "new password\n", append(worker, "pub", "orders", "x")...).status)
	for _, secret := range []string{password, "user password", "new password", "another"} {
		require.NotContains(t, p.log()+q.log(), secret)
	}
	left, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, left, "the file is never overwritten")
}

// The root user's password may be given.
func TestAdminPassword(t *testing.T) {
	dir := t.TempDir()
	p := startWith(t, dir, []string{"NARAD_ADMIN_PASSWORD=of the environment"}).serving()
	require.NoFileExists(t, filepath.Join(dir, "data", "admin-password"))
	require.Equal(t, 0, p.cli("of the environment", "-u", "root", "--password-stdin", "user", "ls").status)
	require.NotContains(t, p.log(), "of the environment")
}

// Metrics, health and the profiler have addresses of their own when they are told.
func TestOwnListeners(t *testing.T) {
	dir := t.TempDir()
	p := startWith(t, dir, []string{"NARAD_HTTP_METRICS_ADDR=127.0.0.1:0", "NARAD_HTTP_PPROF_ADDR=127.0.0.1:0", "NARAD_ADMIN_PASSWORD=x"}, "--log-level=info").serving()
	get := func(addr, path string) (int, string) {
		t.Helper()
		resp, err := http.Get("http://" + addr + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	metrics, profiler := p.listener("metrics"), p.listener("pprof")
	status, text := get(metrics, "/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, text, "narad_raft_has_leader 1")
	for _, path := range []string{"/healthz", "/readyz"} {
		status, _ = get(metrics, path)
		require.Equal(t, 200, status)
	}
	status, _ = get(metrics, "/v1/topics")
	require.Equal(t, 404, status)
	status, text = get(profiler, "/debug/pprof/goroutine?debug=1")
	require.Equal(t, 200, status)
	require.Contains(t, text, "goroutine profile")
	status, _ = get(p.addr, "/metrics")
	require.Contains(t, []int{401, 404}, status)
	status, _ = get(p.addr, "/debug/pprof/")
	require.Contains(t, []int{401, 404}, status)
}

// What a server creates is for its user alone, whatever the libraries below it choose.
func TestOwnFiles(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir).serving()
	require.NoError(t, p.client().Produce(t.Context(), message(t, p)))
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.exit(), p.log())
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.True(t, path == dir || info.Mode().Perm()&0o077 == 0, "%s is %s", path, info.Mode())
		return nil
	}))
}
