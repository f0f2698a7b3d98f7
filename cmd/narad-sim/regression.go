package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"narad/sim/workload"
)

// regressionTest replays every plan of testdata/regressions.
const regressionTest = `package %s

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"narad/sim/workload"
)

// Every world that once failed must not fail any more.
func TestRegressions(t *testing.T) {
	plans, err := filepath.Glob("testdata/regressions/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, plans)
	for _, path := range plans {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			c, err := workload.ReadCase(f)
			require.NoError(t, err)
			require.NoError(t, workload.Run(c.Options()).Err, "it once failed with: %%s", c.Error)
		})
	}
}
`

// writeRegression writes the plan into testdata/regressions of a package, and the test that replays all plans there
// unless it exists.
func writeRegression(c workload.Case, dir string) error {
	if c.Error == "" {
		r := workload.Run(recording(c))
		if r.Err == nil {
			return errors.New("this world does not fail: it is no regression")
		}
		c = workload.NewCase(c.Options(), r)
		c.Commit = commit()
	}
	folder := filepath.Join(dir, "testdata", "regressions")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	plan := filepath.Join(folder, regressionName(c)+".json")
	if err := writeCase(c, plan); err != nil {
		return err
	}
	fmt.Println("wrote", plan)
	test := filepath.Join(dir, "regressions_test.go")
	if _, err := os.Stat(test); err == nil {
		return nil
	}
	name, err := packageName(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(test, fmt.Appendf(nil, regressionTest, name), 0o644); err != nil {
		return err
	}
	fmt.Println("wrote", test)
	return nil
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// regressionName makes a file name of what failed and the hash of the run.
func regressionName(c workload.Case) string {
	name := strings.Trim(notName.ReplaceAllString(strings.ToLower(c.Fingerprint), "-"), "-")
	return strings.Trim(name[:min(len(name), 60)], "-") + "-" + c.Hash[:min(len(c.Hash), 8)]
}

// packageName finds the package of the tests in a directory: an external one, unless the directory has none but tests.
func packageName(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		return strings.TrimSuffix(f.Name.Name, "_test") + "_test", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return notName.ReplaceAllString(strings.ToLower(filepath.Base(abs)), "") + "_test", nil
}
