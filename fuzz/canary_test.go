package fuzz

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/sim/mutants"
	"narad/vfs"
)

// canaryVariable makes FuzzCanary run.
const canaryVariable = "NARAD_CANARY"

// FuzzCanary is FuzzEngine on files whose ingress log is never synced. A fuzzer that does not find that finds nothing. What it
// begins with, a message that is produced, consumed and acked, shows nothing.
func FuzzCanary(f *testing.F) {
	if os.Getenv(canaryVariable) == "" {
		f.Skip("it fails, as it should; TestCanary runs it")
	}
	f.Add([]byte{0, 0, 1, 1, 3, 0, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := runProgram(t, b, func(files vfs.FS) vfs.FS { return forgetful{files} }); err != nil {
			t.Fatal(err)
		}
	})
}

// forgetful does not sync the ingress log of an engine that was not opened for the first time.
type forgetful struct{ vfs.FS }

func (f forgetful) OpenRoot(name string, create bool) (vfs.Dir, error) {
	d, err := f.FS.OpenRoot(name, create)
	return forgetfulDir{d}, err
}

type forgetfulDir struct{ vfs.Dir }

func (d forgetfulDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	return forgetfulDir{sub}, err
}

func (d forgetfulDir) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	if err == nil && strings.HasSuffix(name, ".wal") {
		return forgetfulFile{f}, nil
	}
	return f, err
}

type forgetfulFile struct{ vfs.File }

func (forgetfulFile) Sync() error { return nil }

// The fuzzer finds the canary's bug in seconds.
func TestCanary(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds an instrumented test")
	}
	out := fuzzElsewhere(t, "FuzzCanary", "60s", nil)
	require.Contains(t, out, "INV-", "the fuzzer did not find it")
	require.Contains(t, out, "Failing input written to", out)
}

// FuzzWorld finds a bug of the engine.
func TestCanaryWorld(t *testing.T) {
	if os.Getenv("NARAD_LONG") == "" {
		t.Skip("it builds the engine with a bug; NARAD_LONG=1 runs it")
	}
	all, err := mutants.Load()
	require.NoError(t, err)
	for _, m := range all {
		if m.Name != "bug-138-answer-before-fsync" {
			continue
		}
		overlay, err := m.Overlay("..", t.TempDir())
		require.NoError(t, err)
		out := fuzzElsewhere(t, "FuzzWorld", "120s", []string{"-overlay", overlay})
		require.Contains(t, out, "INV-", "the fuzzer did not find it")
		require.Contains(t, out, "narad-sim -plan", out)
		return
	}
	t.Fatal("no such mutant")
}

// fuzzElsewhere builds a target with coverage and runs it in a directory of its own, where it may leave what it finds.
func fuzzElsewhere(t *testing.T, target, budget string, build []string) string {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "fuzz.test")
	args := append([]string{"test", "-c", "-fuzz", "^" + target + "$", "-o", binary}, build...)
	out, err := exec.Command("go", append(args, ".")...).CombinedOutput()
	require.NoError(t, err, string(out))
	run := exec.Command(binary, "-test.run", "^$", "-test.fuzz", "^"+target+"$", "-test.fuzztime", budget, "-test.fuzzminimizetime", "1x", "-test.fuzzcachedir", filepath.Join(dir, "cache"))
	run.Dir = dir
	run.Env = append(os.Environ(), canaryVariable+"=1")
	began := time.Now()
	out, err = run.CombinedOutput()
	t.Logf("%s ran for %v", target, time.Since(began).Round(time.Second))
	require.Error(t, err, "nothing was found:\n%s", out)
	return string(out)
}
