package mutants

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// Every patch must apply to the source as it is now, and what it makes must be Go.
func TestPatchesApply(t *testing.T) {
	all, err := Load()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			changed, err := m.Mutated(root)
			require.NoError(t, err)
			for name, text := range changed {
				_, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
				require.NoError(t, err)
				require.False(t, strings.HasSuffix(name, "_test.go"), "a mutant changes production source")
				require.False(t, strings.HasPrefix(name, "sim/"), "a mutant must not weaken what watches it")
			}
		})
	}
}

func TestStalePatchIsAnError(t *testing.T) {
	m, err := Parse("stale", []byte(`mutant: x
symptom: x
rule: WAL-02
expect: INV-03

--- a/go.mod
+++ b/go.mod
@@ -1,1 +1,1 @@
-module other
+module another
`))
	require.NoError(t, err)
	_, err = m.Mutated(root)
	require.ErrorContains(t, err, "stale")
}

// The output of go test is read as it is: a failure is a catch, a build that fails and a name that matches nothing are not.
func TestJudgeOfTests(t *testing.T) {
	m := Mutant{Name: "m", Package: "./wal", Tests: []string{"TestX", "TestY"}}
	run := func(script string) (o Outcome, err error) {
		out, runErr := exec.Command("sh", "-c", script).CombinedOutput()
		return o, o.judge(m, string(out), runErr)
	}
	o, err := run(`printf -- '--- FAIL: TestY (0.00s)\n    x_test.go:1: INV-12: no\nFAIL\n'; exit 1`)
	require.NoError(t, err)
	require.True(t, o.Caught)
	require.Equal(t, "TestY", o.By)
	require.Contains(t, o.Error, "INV-12")
	o, err = run(`echo ok`)
	require.NoError(t, err)
	require.False(t, o.Caught)
	_, err = run(`echo 'FAIL narad/wal [build failed]'; exit 1`)
	require.ErrorContains(t, err, "does not build")
	_, err = run(`echo 'ok narad/wal 0.1s [no tests to run]'`)
	require.ErrorContains(t, err, "names no test")
	o, err = run(`echo 'panic: boom'; exit 2`)
	require.NoError(t, err)
	require.True(t, o.Caught)
	_, _, err = parseTests("TestX")
	require.Error(t, err)
	pkg, tests, err := parseTests("./wal TestX TestY")
	require.NoError(t, err)
	require.Equal(t, m.Package, pkg)
	require.Equal(t, m.Tests, tests)
}

// Every test that a mutant names is there.
func TestNamedTestsExist(t *testing.T) {
	all, err := Load()
	require.NoError(t, err)
	for _, m := range all {
		for _, name := range m.Tests {
			files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
			require.NoError(t, err)
			found := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				found = found || bytes.Contains(text, []byte("func "+name+"(t *testing.T)"))
			}
			require.True(t, found, "%s: %s has no test %s", m.Name, m.Package, name)
		}
	}
}

func TestHeaderIsRequired(t *testing.T) {
	_, err := Parse("bare", []byte("--- a/go.mod\n+++ b/go.mod\n@@ -1,1 +1,1 @@\n-module narad\n+module another\n"))
	require.ErrorContains(t, err, "header needs")
}
