package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/client"
)

// patience bounds every wait for something that must happen; nothing is judged by it but a hang.
const patience = 60 * time.Second

// binary returns the narad command, built once a test run. NARAD_BINARY names one to use instead.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("NARAD_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "narad-test-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "narad")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

var builtIn string

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string        // once it serves
	up   chan struct{} // closed when addr is known
	gone chan struct{} // closed when it has ended

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
}

// start runs "narad serve" in dir, with data below it and more arguments, on a free port, without security.
func start(t *testing.T, dir string, more ...string) *process {
	t.Helper()
	return startWith(t, dir, []string{"NARAD_SECURITY_ENABLED=false"}, more...)
}

// startWith is start with an environment.
func startWith(t *testing.T, dir string, env []string, more ...string) *process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	p := &process{t: t, up: make(chan struct{}), gone: make(chan struct{})}
	p.cmd = exec.Command(path, append([]string{"serve", "--addr", "127.0.0.1:0", "--data-dir", "data"}, more...)...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	pipe, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.gone)
		lines := bufio.NewScanner(pipe)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.read(lines.Bytes())
		}
		p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.gone
	})
	return p
}

// read takes in one line of the log.
func (p *process) read(line []byte) {
	var entry struct{ Msg, Addr string }
	if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
		p.addr = entry.Addr
		close(p.up)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderr.Write(line)
	p.stderr.WriteByte('\n')
}

// listener returns the address of a listener beside the main one.
func (p *process) listener(name string) string {
	p.t.Helper()
	for line := range strings.Lines(p.log()) {
		var entry struct{ Msg, Listener, Addr string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" && entry.Listener == name {
			return entry.Addr
		}
	}
	require.Fail(p.t, "no such listener", p.log())
	return ""
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// serving waits until the server serves.
func (p *process) serving() *process {
	p.t.Helper()
	select {
	case <-p.up:
	case <-p.gone:
		require.Fail(p.t, "the server did not start", p.log())
	case <-time.After(patience):
		require.Fail(p.t, "the server does not serve", p.log())
	}
	return p
}

// client returns a client that never tries again.
func (p *process) client() *client.Client {
	p.t.Helper()
	c, err := client.New("http://"+p.addr, client.Options{Name: "test", Attempts: 1})
	require.NoError(p.t, err)
	return c
}

// kill ends the server by SIGKILL and waits for its end.
func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	p.exit()
}

// signal sends one signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		require.Fail(p.t, "the server does not end", p.log())
	}
	return p.cmd.ProcessState.ExitCode()
}

// errorLines returns the lines of level error.
func (p *process) errorLines() (lines []string) {
	for line := range strings.Lines(p.log()) {
		if strings.Contains(line, `"level":"ERROR"`) || !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return lines
}

// message creates a topic at the server, if need be, and returns a message for it.
func message(t *testing.T, p *process) client.Outgoing {
	t.Helper()
	_, err := p.client().CreateTopic(t.Context(), client.TopicSpec{Name: "orders"})
	if err != nil {
		require.ErrorIs(t, err, client.ErrExists)
	}
	return client.Outgoing{Topic: "orders", Payload: []byte("x")}
}
