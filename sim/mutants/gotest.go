package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Hunt looks for the mutant where it can be seen: by its tests if it names some, otherwise by [Mutant.Run].
func (m Mutant) Hunt(root string, seeds int, first uint64) (Outcome, error) {
	if len(m.Tests) == 0 {
		return m.Run(root, seeds, first)
	}
	return m.runTests(root)
}

// parseTests reads "./package Test1 Test2".
func parseTests(value string) (pkg string, tests []string, err error) {
	words := strings.Fields(value)
	if len(words) < 2 || !strings.HasPrefix(words[0], "./") {
		return "", nil, fmt.Errorf("%q is not a package and names of its tests", value)
	}
	return words[0], words[1:], nil
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	// why is a line of a failing test that says something, not one of testify's frame.
	why = regexp.MustCompile(`(?m)^\s+(?:Error:|Messages:)?\s*((?:[A-Z]+-\d+|Not equal|"?\S).*)$`)
)

// runTests runs the mutant's tests with the bug in place. One that fails has caught it; a build that fails has not.
func (m Mutant) runTests(root string) (Outcome, error) {
	o := Outcome{Name: m.Name, Title: m.Title, Files: m.Files()}
	dir, err := os.MkdirTemp("", "narad-mutant-")
	if err != nil {
		return o, err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(root, dir)
	if err != nil {
		return o, err
	}
	test := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-timeout=5m",
		"-run", "^("+strings.Join(m.Tests, "|")+")$", m.Package)
	test.Dir = root
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	err = test.Run()
	if test.ProcessState != nil {
		o.CPUSeconds = (test.ProcessState.UserTime() + test.ProcessState.SystemTime()).Round(time.Millisecond).Seconds()
	}
	return o, o.judge(m, out.String(), err)
}

// judge says what the output of go test means.
func (o *Outcome) judge(m Mutant, out string, err error) error {
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return err
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("mutants: %s does not build:\n%s", m.Name, out)
	case err == nil && strings.Contains(out, "no tests to run"):
		return fmt.Errorf("mutants: %s names no test of %s: %s", m.Name, m.Package, strings.Join(m.Tests, " "))
	case err == nil:
		return nil
	}
	o.Caught, o.Expected, o.By = true, true, m.Tests[0]
	if failed := failedTest.FindStringSubmatch(out); failed != nil {
		o.By = failed[1]
	} else { // a panic or a hang ends the process before the verdict
		o.Error = firstLine(out)
		return nil
	}
	if text := why.FindStringSubmatch(out[strings.Index(out, "--- FAIL"):]); text != nil {
		o.Error = text[1]
	}
	return nil
}
