package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// print prints to the standard output.
func (a *app) print(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

// note says something beside the output.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "narad: "+format+"\n", args...)
}

func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// table prints aligned columns.
type table struct{ w *tabwriter.Writer }

func (a *app) table(heads ...string) table {
	t := table{tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)}
	if len(heads) > 0 {
		t.row(toAny(heads)...)
	}
	return t
}

func toAny(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) flush() error { return t.w.Flush() }

// lineMax bounds a line of the standard input, in bytes.
const lineMax = 4096

// readLine reads one line of the standard input and not a byte more, so that what follows is there for somebody else.
func (a *app) readLine() (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) <= lineMax; {
		n, err := a.stdin.Read(b)
		if n == 1 && b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, b[:n]...)
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return string(line), nil
		}
		if err != nil {
			return "", errors.New("the standard input has no line")
		}
	}
	return "", fmt.Errorf("the line of the standard input is longer than %d bytes", lineMax)
}

// askPassword asks at a terminal, without echo. Without a terminal there is no password.
func (a *app) askPassword(prompt string) (string, error) {
	f, ok := a.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return "", nil
	}
	fmt.Fprint(a.stderr, prompt)
	password, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(a.stderr)
	return string(password), err
}

// confirm asks a question, to which only "y" and "yes" say yes.
func (a *app) confirm(question string) (bool, error) {
	fmt.Fprint(a.stderr, question+" [y/N] ")
	answer, err := a.readLine()
	if err != nil {
		return false, fmt.Errorf("no answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// progress shows on a terminal how far a long work has come.
type progress struct {
	w     io.Writer // nil: nobody watches
	began time.Time
	last  time.Time
	shown bool
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

func newProgress(w io.Writer) *progress {
	p := &progress{began: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.w = w
	}
	return p
}

// due reports whether a line should be shown now, and how long the work has taken.
func (p *progress) due() (elapsed time.Duration, due bool) {
	now := time.Now()
	elapsed = now.Sub(p.began)
	if p.w == nil || elapsed < progressAfter || now.Sub(p.last) < progressEvery {
		return elapsed, false
	}
	p.last, p.shown = now, true
	return elapsed, true
}

// bytes shows how much of a number of bytes is read.
func (p *progress) bytes(done, total int64, file string) {
	elapsed, due := p.due()
	if !due {
		return
	}
	rate := float64(done) / (1 << 20) / elapsed.Seconds()
	fmt.Fprintf(p.w, "\r\x1b[K%3d%% of %.1f MiB, %.0f MiB/s, %.60s", done*100/max(total, 1), float64(total)/(1<<20), rate, file)
}

// count shows how many of a number of things are done; without a total, how many.
func (p *progress) count(what string, done, total int64) {
	elapsed, due := p.due()
	if !due {
		return
	}
	rate := float64(done) / elapsed.Seconds()
	if total <= 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%d %s, %.0f a second", done, what, rate)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%3d%% of %d %s, %.0f a second", done*100/total, total, what, rate)
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
