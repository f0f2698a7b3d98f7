package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is a server process that this one started, or a URL of one that somebody else did.
type Server struct {
	Host string // host:port
	cmd  *exec.Cmd
	log  lastBytes
	gone chan struct{}
}

// patience bounds the start and the stop of a server.
const patience = 30 * time.Second

// FindServer returns the path of the narad command: the one given, the one beside this program, or one that is built into
// dir from the source that the working directory is in.
func FindServer(given, dir string) (string, error) {
	if given != "" {
		return given, nil
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "narad")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path := filepath.Join(dir, "narad")
	if out, err := exec.Command("go", "build", "-o", path, "narad/cmd/narad").CombinedOutput(); err != nil {
		return "", fmt.Errorf("no --narad was given and none could be built: %w: %s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

// FreePort returns a loopback address that nobody listens on.
func FreePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// StartNarad starts the narad command as a development server (no authentication) with its data in dir.
func StartNarad(path, dir string, more ...string) (*Server, error) {
	host, err := FreePort()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(host)
	args := append([]string{"server", "start", "--dev", "--port", port, "--data-dir", dir, "--log-level", "warn"}, more...)
	return Start(host, "/healthz", exec.Command(path, args...))
}

// Start starts a server that will listen on host and waits until health answers.
func Start(host, health string, cmd *exec.Cmd) (*Server, error) {
	s := &Server{Host: host, cmd: cmd, gone: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(s.gone)
	}()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get("http://" + host + health)
		if err == nil {
			r.Body.Close()
			if r.StatusCode < 500 {
				return s, nil
			}
		}
		select {
		case <-s.gone:
			return nil, fmt.Errorf("the server %v did not start: %s", cmd.Args, s.log.String())
		default:
		}
		if time.Since(begin) > patience {
			cmd.Process.Kill()
			return nil, fmt.Errorf("the server %v does not answer: %s", cmd.Args, s.log.String())
		}
	}
}

// Remote is a server that runs already, named by a URL like http://127.0.0.1:7942.
func Remote(url string) (*Server, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/")
	if _, _, err := net.SplitHostPort(host); err != nil || strings.Contains(host, "/") {
		return nil, fmt.Errorf("--url is %q, it must be like http://127.0.0.1:7942", url)
	}
	return &Server{Host: host}, nil
}

// Stop ends the process; it must end by itself when it is told to.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.gone:
	case <-time.After(patience):
		s.cmd.Process.Kill()
		<-s.gone
		return errors.New("load: the server did not stop")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("load: the server ended with status %d: %s", code, s.log.String())
	}
	return nil
}

// CPU is what the process has burnt so far; known says whether that can be told.
func (s *Server) CPU() (t time.Duration, known bool) {
	if s.cmd == nil {
		return 0, false
	}
	return processCPU(s.cmd.Process.Pid)
}

// Settle waits until the process does next to nothing, at most for limit, and returns how long that took. What it had put
// off is then no burden on what is measured next.
func (s *Server) Settle(limit time.Duration) time.Duration {
	begin := time.Now()
	last, known := s.CPU()
	for known && time.Since(begin) < limit {
		time.Sleep(50 * time.Millisecond)
		at, _ := s.CPU()
		if at-last <= 10*time.Millisecond {
			break
		}
		last = at
	}
	return time.Since(begin)
}

var errTaken = errors.New("there is such a topic already")

func isTaken(err error) bool { return errors.Is(err, errTaken) }

// CreateTopic creates a topic with caps that do not get in the way.
func (s *Server) CreateTopic(name string, partitions int) error {
	body, err := json.Marshal(map[string]any{"name": name, "partitions": partitions, "max_in_flight_per_partition": 1 << 16})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Host+"/v1/topics", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusCreated && a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(a.Body, 500))
		if a.StatusCode == http.StatusConflict {
			return fmt.Errorf("load: %w: %s", errTaken, name)
		}
		return fmt.Errorf("load: creating topic %s was answered %d: %s", name, a.StatusCode, text)
	}
	return nil
}

// lastBytes keeps the end of what a process wrote.
type lastBytes struct {
	mu sync.Mutex
	b  []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if over := len(l.b) - 4096; over > 0 {
		l.b = append(l.b[:0], l.b[over:]...)
	}
	return len(p), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}
