// Package testprog gives the tests of a package the real narad command, built once a run.
package testprog

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var built string // the directory, once there is one

// Narad returns the path of the command. NARAD_BINARY names one to use instead. The package's TestMain must be [Main].
var Narad = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("NARAD_BINARY"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "narad-test-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "narad")
	if out, err := exec.Command("go", "build", "-o", path, "narad/cmd/narad").CombinedOutput(); err != nil {
		return "", fmt.Errorf("narad does not build: %w\n%s", err, out)
	}
	return path, nil
})

// Main runs the tests and removes what was built.
func Main(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}
