package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/client"
	"narad/internal/testprog"
	"narad/internal/torture"
)

// patience bounds every wait for something that must happen; nothing is judged by it but a hang.
const patience = torture.Patience

func TestMain(m *testing.M) { testprog.Main(m) }

// process is a running server of one test.
type process struct {
	*torture.Process
	t    *testing.T
	addr string // once it serves
}

// start runs "narad serve" in dir, with data below it and more arguments, on a free port, without security.
func start(t *testing.T, dir string, more ...string) *process {
	t.Helper()
	return startWith(t, dir, []string{"NARAD_SECURITY_ENABLED=false"}, more...)
}

// startWith is start with an environment.
func startWith(t *testing.T, dir string, env []string, more ...string) *process {
	t.Helper()
	path, err := testprog.Narad()
	require.NoError(t, err)
	p, err := torture.Start(path, dir, env, more...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Kill()) })
	return &process{Process: p, t: t}
}

// listener returns the address of a listener beside the main one.
func (p *process) listener(name string) string {
	p.t.Helper()
	addr := p.Listener(name)
	require.NotEmpty(p.t, addr, "no such listener: %s", p.Log())
	return addr
}

func (p *process) log() string { return p.Log() }

// serving waits until the server serves.
func (p *process) serving() *process {
	p.t.Helper()
	addr, err := p.Serving()
	require.NoError(p.t, err)
	p.addr = addr
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
	require.NoError(p.t, p.Kill())
}

// signal sends one signal.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.Signal(s))
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	code, err := p.Wait()
	require.NoError(p.t, err)
	return code
}

// errorLines returns the lines of level error.
func (p *process) errorLines() []string { return p.ErrorLines() }

// message creates a topic at the server, if need be, and returns a message for it.
func message(t *testing.T, p *process) client.Outgoing {
	t.Helper()
	_, err := p.client().CreateTopic(t.Context(), client.TopicSpec{Name: "orders"})
	if err != nil {
		require.ErrorIs(t, err, client.ErrExists)
	}
	return client.Outgoing{Topic: "orders", Payload: []byte("x")}
}
