package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/internal/testprog"
)

func stories(t *testing.T) []Story {
	t.Helper()
	all, err := Load(os.DirFS("testdata"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// play tells every story that the target is good for, at the same time, and returns how many.
func play(t *testing.T, target Target) (told int) {
	t.Helper()
	var mu sync.Mutex
	t.Run("stories", func(t *testing.T) {
		for _, s := range stories(t) {
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				err := Run(t.Context(), target, s)
				if errors.Is(err, ErrSkipped) {
					t.Skip(err)
				}
				require.NoError(t, err)
				mu.Lock()
				told++
				mu.Unlock()
			})
		}
	})
	return told
}

// TestURL plays against a server that is there already.
func TestURL(t *testing.T) {
	url := os.Getenv("NARAD_CONFORMANCE_URL")
	if url == "" {
		t.Skip("NARAD_CONFORMANCE_URL names no server")
	}
	target := Target{URL: strings.TrimSuffix(url, "/"), Features: []string{"open"},
		User: os.Getenv("NARAD_CONFORMANCE_USER"), Password: os.Getenv("NARAD_CONFORMANCE_PASSWORD")}
	if target.User != "" {
		target.Features = []string{"secured"}
	}
	require.NotZero(t, play(t, target))
}

// TestProcess plays against the program that is shipped.
func TestProcess(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      []string
		user     string
		features []string
	}{
		{"open", []string{"NARAD_SECURITY_ENABLED=false"}, "", []string{"open"}},
		{"small caps", []string{"NARAD_SECURITY_ENABLED=false", "NARAD_HTTP_MAX_CONSUME_IN_FLIGHT_PER_IDENTITY=2",
			"NARAD_HTTP_MAX_PRODUCE_IN_FLIGHT_PER_IDENTITY=2", "NARAD_HTTP_MAX_BATCH_BODY_BYTES_IN_FLIGHT=1"}, "", []string{"open", "small-caps"}},
		{"secured", []string{"NARAD_ADMIN_PASSWORD=" + adminPassword}, "root", []string{"secured"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.env...)
			target := Target{URL: "http://" + p.addr, Features: c.features}
			if c.user != "" {
				target.User, target.Password = c.user, adminPassword
			}
			if slices.Contains(c.features, "small-caps") {
				require.NoError(t, Run(t.Context(), target, storyOf(t, "caps")))
			} else {
				require.NotZero(t, play(t, target))
			}
			p.stop()
		})
	}
}

const adminPassword = "conformance-root-password"

func storyOf(t *testing.T, name string) Story {
	t.Helper()
	for _, s := range stories(t) {
		if s.Name == name {
			return s
		}
	}
	require.Fail(t, "no such story", name)
	return Story{}
}

// patienceWithProcess bounds every wait for the program; nothing is judged by it but a hang.
const patienceWithProcess = 60 * time.Second

func TestMain(m *testing.M) { testprog.Main(m) }

// process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	gone chan struct{}
	log  strings.Builder // valid once gone is closed
}

// start runs "narad serve" on a free port, in a directory of its own.
func start(t *testing.T, env ...string) *process {
	t.Helper()
	path, err := testprog.Narad()
	require.NoError(t, err)
	return startCommand(t, exec.Command(path, "serve", "--addr", "127.0.0.1:0", "--data-dir", "data"), env...)
}

func startCommand(t *testing.T, cmd *exec.Cmd, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, gone: make(chan struct{})}
	cmd.Dir = t.TempDir()
	// Raft's port is not opened by a node that is alone, but its address is checked.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}, env...)
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	up := make(chan string, 1)
	go func() {
		defer close(p.gone)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var entry struct{ Msg, Addr string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "serving" {
				up <- entry.Addr
			}
			p.log.WriteString(lines.Text() + "\n")
		}
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.gone
	})
	select {
	case p.addr = <-up:
	case <-p.gone:
		require.Fail(t, "the server did not start", p.log.String())
	case <-time.After(patienceWithProcess):
		require.Fail(t, "the server does not serve")
	}
	return p
}

// stop ends the server gracefully. It must have nothing to complain about: every answer of the fixtures was meant.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.gone:
	case <-time.After(patienceWithProcess):
		require.Fail(p.t, "the server does not end")
	}
	require.Zero(p.t, p.cmd.ProcessState.ExitCode(), p.log.String())
	require.NotContains(p.t, p.log.String(), `"level":"ERROR"`)
	require.NotContains(p.t, p.log.String(), adminPassword)
}
