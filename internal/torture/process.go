package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Patience bounds every wait for something that must happen; nothing is judged by it but a hang.
const Patience = 60 * time.Second

// Process is a running server.
type Process struct {
	cmd  *exec.Cmd
	addr string        // once it serves
	up   chan struct{} // closed when addr is known
	gone chan struct{} // closed when it has ended

	mu     sync.Mutex // guards stderr
	stderr bytes.Buffer
}

// Start runs "narad serve" in dir, with data below it, on a free port. environ is added to a minimal environment, more to
// the arguments.
func Start(binary, dir string, environ []string, more ...string) (*Process, error) {
	p := &Process{up: make(chan struct{}), gone: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"serve", "--addr", "127.0.0.1:0", "--data-dir", "data"}, more...)...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, environ...)
	pipe, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	go func() {
		defer close(p.gone)
		lines := bufio.NewScanner(pipe)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.read(lines.Bytes())
		}
		p.cmd.Wait() // the exit code says it
	}()
	return p, nil
}

// read takes in one line of the log.
func (p *Process) read(line []byte) {
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

// Serving waits until the server serves and returns its address, host:port.
func (p *Process) Serving() (string, error) {
	select {
	case <-p.up:
		return p.addr, nil
	case <-p.gone:
		return "", fmt.Errorf("torture: the server did not start:\n%s", p.Log())
	case <-time.After(Patience):
		return "", fmt.Errorf("torture: the server does not serve after %v:\n%s", Patience, p.Log())
	}
}

// Kill ends the server by SIGKILL, if it is still there, and waits for its end.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("torture: %w", err)
	}
	_, err := p.Wait()
	return err
}

// Signal sends one signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end and returns the exit status.
func (p *Process) Wait() (int, error) {
	select {
	case <-p.gone:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(Patience):
		return 0, fmt.Errorf("torture: the server does not end within %v:\n%s", Patience, p.Log())
	}
}

// Log returns what the server logged so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// Listener returns the address of a listener beside the main one, empty when there is none.
func (p *Process) Listener(name string) string {
	for line := range strings.Lines(p.Log()) {
		var entry struct{ Msg, Listener, Addr string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" && entry.Listener == name {
			return entry.Addr
		}
	}
	return ""
}

// ErrorLines returns the lines of level error, and those that are no log entry, such as a panic.
func (p *Process) ErrorLines() (lines []string) {
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, `"level":"ERROR"`) || !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return lines
}
