package workload

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list of points is what the source has: one that is not listed would not be missed when no world passes it.
func TestPointsAreListed(t *testing.T) {
	call := regexp.MustCompile(`\.Point\("([^"]+)"\)`)
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "sim" || entry.Name() == "env" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return nil
	}))
	for _, p := range Points() {
		require.True(t, found[p], "no code has the point %q: take it from points.go", p)
	}
	for p := range found { // order-free: each on its own
		require.True(t, slices.Contains(slices.Concat(Points(), elsewhere), p), "the point %q is new: add it to points.go", p)
	}
	for _, p := range slices.Concat(lingerAt, lifecyclePoints) {
		require.True(t, found[p], "worlds are to linger at %q, which no code has", p)
	}
}

// Every point is passed in the worlds that are made for it, and cut: by others that run there, and by crashes.
func TestPointsArePassed(t *testing.T) {
	passed := map[string]int64{}
	cut := 0
	for _, c := range []Campaign{{First: 1, Seeds: 40}, {Profile: ChurnProfile, First: 1, Seeds: 20}, {Profile: DiskFaultProfile, First: 1, Seeds: 20}, {Profile: GapProfile, First: 1, Seeds: 10}} {
		s := c.Run(func(r Result) { require.NoError(t, r.Err, "%s seed %d", c.Profile, r.Seed) })
		for p, n := range s.Total.Stats.Points { // order-free: sums
			passed[p] += n.Passed
			if n.Switched > 0 && n.Crashed[0]+n.Crashed[1] > 0 {
				cut++
			}
		}
	}
	never := 0
	for _, p := range Points() {
		if passed[p] == 0 {
			never++
			t.Logf("never passed: %s", p)
		}
	}
	require.Less(t, never, 6, "of %d points", len(Points()))
	require.Greater(t, cut, len(Points()))
}
