package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Target is a server to play against.
type Target struct {
	URL            string
	User, Password string // of an administrator; empty when security is off
	Features       []string
	Client         *http.Client // nil: one of its own
}

// ErrSkipped reports a story that needs something which the target is not.
var ErrSkipped = errors.New("skipped")

// patience bounds every wait for something that must happen.
const patience = 20 * time.Second

// Run plays a story and returns where the answers differ from it first.
func Run(ctx context.Context, target Target, s Story) error {
	for _, need := range s.Needs {
		if !slices.Contains(target.Features, need) {
			return fmt.Errorf("%w: it needs %q", ErrSkipped, need)
		}
	}
	p := &player{target: target, vars: map[string]string{
		"t": "conf-" + strings.ToLower(rand.Text()[:12]), "user": target.User, "password": target.Password,
		"kib8": strings.Repeat("x", 8<<10), "kib60": strings.Repeat("x", 60<<10), "kib80": strings.Repeat("x", 80<<10),
	}}
	if p.target.Client == nil {
		p.target.Client = &http.Client{Transport: &http.Transport{}}
		defer p.target.Client.CloseIdleConnections()
	}
	p.target.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, step := range s.Steps {
		if err := p.step(ctx, step); err != nil {
			return fmt.Errorf("%s, step %d (%s %s): %w", s.Name, i, step.Do, step.About, err)
		}
	}
	return p.awaitParked()
}

// player is one story while it is told.
type player struct {
	target Target
	vars   map[string]string
	parked []chan error
}

func (p *player) awaitParked() error {
	for _, c := range p.parked {
		if err := <-c; err != nil {
			return fmt.Errorf("a parked request: %w", err)
		}
	}
	return nil
}

func (p *player) step(ctx context.Context, s Step) error {
	req, err := p.request(&s)
	if err != nil {
		return err
	}
	if s.Park {
		done := make(chan error, 1)
		p.parked = append(p.parked, done)
		go func() { done <- p.untilExpected(ctx, req, &s) }()
		return nil
	}
	for range max(s.Times, 1) {
		if err := p.untilExpected(ctx, req, &s); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) untilExpected(ctx context.Context, req *request, s *Step) error {
	deadline := time.Now().Add(patience)
	for {
		err := p.once(ctx, req, s)
		if err == nil || !s.Retry || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// request is what a step sends, with everything filled in.
type request struct {
	method, path string
	body         []byte
	header       http.Header
	chunks       bool
}

var variable = regexp.MustCompile(`\$\{[a-z_0-9]+\}`)

// fill replaces variables.
func (p *player) fill(text string) (string, error) {
	var missing string
	text = variable.ReplaceAllStringFunc(text, func(v string) string {
		value, ok := p.vars[v[2:len(v)-1]]
		if !ok {
			missing = v
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("%s was never saved", missing)
	}
	return text, nil
}

func (p *player) request(s *Step) (*request, error) {
	line, err := p.fill(s.Do)
	if err != nil {
		return nil, err
	}
	r := &request{header: http.Header{"X-Narad-Client": {"conformance"}}, chunks: s.Chunks}
	r.method, r.path, _ = strings.Cut(line, " ")
	if r.body, err = p.body(s); err != nil {
		return nil, err
	}
	for name, value := range s.Headers {
		if value == nil {
			r.header.Del(name)
			continue
		}
		text, err := p.fill(*value)
		if err != nil {
			return nil, err
		}
		r.header.Set(name, text)
	}
	return r, p.authorize(s, r)
}

func (p *player) authorize(s *Step, r *request) error {
	user, password := p.target.User, p.target.Password
	if s.As != nil {
		as, err := p.fill(*s.As)
		if err != nil {
			return err
		}
		user, password, _ = strings.Cut(as, ":")
	}
	if user != "" {
		h := http.Request{Header: r.header}
		h.SetBasicAuth(user, password)
	}
	return nil
}

func (p *player) body(s *Step) (body []byte, err error) {
	text := ""
	switch {
	case s.JSON != nil:
		var compact bytes.Buffer
		if err := json.Compact(&compact, s.JSON); err != nil {
			return nil, err
		}
		text, err = p.fill(compact.String())
	case s.Text != nil:
		text, err = p.fill(*s.Text)
	case s.Base64 != nil:
		text = string(s.Base64)
	case s.Repeat != nil:
		var before, after string
		if before, err = p.fill(s.Repeat.Before); err == nil {
			after, err = p.fill(s.Repeat.After)
		}
		text = before + strings.Repeat(s.Repeat.Text, s.Repeat.Times) + after
	}
	if err != nil {
		return nil, err
	}
	return encode(s.Encode, []byte(text))
}

func encode(coding string, body []byte) ([]byte, error) {
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "":
		return body, nil
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zstd":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			return nil, err
		}
		w = z
	default:
		return nil, fmt.Errorf("unknown encoding %q", coding)
	}
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// once sends the request and judges the answer.
func (p *player) once(ctx context.Context, r *request, s *Step) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	var body io.Reader = bytes.NewReader(r.body)
	if r.chunks {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, p.target.URL+r.path, body)
	if err != nil {
		return err
	}
	req.Header = r.header.Clone()
	resp, err := p.target.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := p.judge(s, r.method, resp, text); err != nil {
		return fmt.Errorf("%w\nanswer: %d %v\n%.600s", err, resp.StatusCode, resp.Header, text)
	}
	return p.save(s, text)
}

func (p *player) judge(s *Step, method string, resp *http.Response, text []byte) error {
	if resp.StatusCode != s.Expect.Status {
		return fmt.Errorf("status %d, not %d", resp.StatusCode, s.Expect.Status)
	}
	if err := judgeForm(s, method, resp, text); err != nil {
		return err
	}
	if err := p.judgeHeaders(s, resp.Header); err != nil {
		return err
	}
	if s.Expect.Text != nil {
		want, err := p.fill(*s.Expect.Text)
		if err != nil {
			return err
		}
		if string(text) != want {
			return fmt.Errorf("the body is not %q", want)
		}
	}
	if s.Expect.JSON == nil {
		return nil
	}
	filled, err := p.fill(string(s.Expect.JSON))
	if err != nil {
		return err
	}
	want, err := decodeExact([]byte(filled))
	if err != nil {
		return err
	}
	got, err := decodeExact(text)
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if diff := match("body", want, got); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// judgeForm checks what all answers have in common (narad-facts 1.1).
func judgeForm(s *Step, method string, resp *http.Response, text []byte) error {
	kind := resp.Header.Get("Content-Type")
	switch status := resp.StatusCode; {
	case method == http.MethodHead:
	case status == http.StatusAccepted && len(text) == 0:
		if resp.Header.Get("Content-Length") != "0" {
			return errors.New("a bare 202 has no Content-Length of 0")
		}
	case status == http.StatusNoContent:
	case s.Expect.Plain:
		if !strings.HasPrefix(kind, "text/plain") {
			return fmt.Errorf("Content-Type %q, not text/plain", kind)
		}
	case kind != "application/json":
		if status < 400 && s.Expect.Headers["Content-Type"] != nil {
			return nil // metrics and pages
		}
		return fmt.Errorf("Content-Type %q, not application/json", kind)
	default:
		return judgeJSON(status, resp, text)
	}
	return nil
}

func judgeJSON(status int, resp *http.Response, text []byte) error {
	if resp.ContentLength != int64(len(text)) {
		return fmt.Errorf("Content-Length %d of %d bytes", resp.ContentLength, len(text))
	}
	v, err := decodeExact(text)
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	if status < 400 {
		return nil
	}
	if bytes.Count(text, []byte("\n")) > 1 {
		return errors.New("the error is more than one line")
	}
	if why, _ := lookUp(v, "error"); !matchText("/./", why) {
		return errors.New(`the body has no "error"`)
	}
	return nil
}

func (p *player) judgeHeaders(s *Step, header http.Header) error {
	for name, want := range s.Expect.Headers {
		got, present := header[http.CanonicalHeaderKey(name)]
		switch {
		case want == nil && present:
			return fmt.Errorf("header %s is there", name)
		case want == nil:
		case !present:
			return fmt.Errorf("header %s is missing", name)
		default:
			filled, err := p.fill(*want)
			if err != nil {
				return err
			}
			if !matchText(filled, got[0]) {
				return fmt.Errorf("header %s is %q, not %q", name, got[0], filled)
			}
		}
	}
	return nil
}

// save keeps parts of an answer for later steps.
func (p *player) save(s *Step, text []byte) error {
	if len(s.Save) == 0 {
		return nil
	}
	v, err := decodeExact(text)
	if err != nil {
		return err
	}
	for name, path := range s.Save {
		part, ok := lookUp(v, path)
		if !ok {
			return fmt.Errorf("the answer has no %s", path)
		}
		p.vars[name] = fmt.Sprint(part)
	}
	return nil
}
