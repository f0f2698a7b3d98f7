package disk

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden tables from what the disk does; then review each row")

const goldenFile = "testdata/crashes.txt"

// The golden tables say, for small programs, exactly what each personality may leave after a power loss.
// Each has a reason to be checked by; see the head of the file.
func TestGolden(t *testing.T) {
	b, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(b), "\n== ")
	var out strings.Builder
	out.WriteString(head)
	for _, text := range strings.Split(rest, "\n== ") {
		c := parseCase(text)
		fmt.Fprintf(&out, "\n== %s\n", c.title)
		t.Run(c.title, func(t *testing.T) {
			for _, line := range c.lines {
				out.WriteString(line + "\n")
			}
			for _, p := range personalities {
				d := New(p)
				run(t, d, c.program...)
				got := states(d)
				fmt.Fprintf(&out, "-- %s: %d\n%s\n", p, len(got), strings.Join(got, "\n"))
				if !*update {
					require.Equal(t, c.want[p.String()], got, p.String())
				}
			}
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(out.String()), 0o644))
		return
	}
	require.Equal(t, string(b), out.String(), "the file is not in the form that -update writes")
}

type goldenCase struct {
	title   string
	lines   []string // comments and program, as they stand
	program []string
	want    map[string][]string
}

func parseCase(text string) goldenCase {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	c := goldenCase{title: lines[0], want: map[string][]string{}}
	section := ""
	for _, line := range lines[1:] {
		switch {
		case strings.HasPrefix(line, "-- "):
			section, _, _ = strings.Cut(line[3:], ":")
		case section != "":
			c.want[section] = append(c.want[section], line)
		default:
			c.lines = append(c.lines, line)
			if !strings.HasPrefix(line, "#") {
				c.program = append(c.program, line)
			}
		}
	}
	return c
}
