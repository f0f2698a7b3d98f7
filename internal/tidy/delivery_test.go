package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/delivery.md promises something in each row, and names what holds it: an invariant that is checked in every simulated world,
// and tests.

var (
	invariants = regexp.MustCompile(`\bINV-\d+`)
	inPackage  = regexp.MustCompile("`([^`]+)`((?: Test\\w+,?)*)")
	namedTest  = regexp.MustCompile(`Test\w+`)
)

// clause is a row of the table.
type clause struct {
	text       string
	invariants []string
	tests      [][2]string // package, test
	profiles   []string    // of the simulator
}

// clauses reads the rows of the contract.
func clauses(text string) (all []clause) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 4 || strings.TrimSpace(cells[0]) == "clause" {
			continue
		}
		c := clause{text: strings.TrimSpace(cells[0]), invariants: invariants.FindAllString(cells[2], -1)}
		for _, m := range inPackage.FindAllStringSubmatch(cells[3], -1) {
			if profile, ok := strings.CutPrefix(m[1], "narad-sim -profile "); ok {
				c.profiles = append(c.profiles, profile)
			}
			for _, name := range namedTest.FindAllString(m[2], -1) {
				c.tests = append(c.tests, [2]string{m[1], name})
			}
		}
		all = append(all, c)
	}
	return all
}

// contains reports whether a file of the pattern has the text.
func contains(t *testing.T, pattern, text string) bool {
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(content), text)
	})
}

func TestDeliveryContract(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "delivery.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := clauses(string(text))
	if len(all) < 25 {
		t.Errorf("the table has %d rows", len(all))
	}
	for _, c := range all {
		if len(c.tests) == 0 {
			t.Errorf("%q names no test", c.text)
		}
		for _, v := range c.tests {
			if !contains(t, filepath.Join(root, v[0], "*_test.go"), "func "+v[1]+"(t *testing.T)") {
				t.Errorf("%q names %s of package %s, which is not there", c.text, v[1], v[0])
			}
		}
		for _, inv := range c.invariants {
			if !contains(t, filepath.Join(root, "sim", "check", "*.go"), inv) && !contains(t, filepath.Join(root, "sim", "model", "*.go"), inv) {
				t.Errorf("%q names %s, which no checker of simulated worlds has", c.text, inv)
			}
		}
		for _, p := range c.profiles {
			if !contains(t, filepath.Join(root, "sim", "workload", "*.go"), `Profile = "`+p+`"`) {
				t.Errorf("%q names the profile %s, which is not there", c.text, p)
			}
		}
	}
}

func TestDeliveryContractIsReadRight(t *testing.T) {
	got := clauses("| clause | window | invariant | test |\n|---|---|---|---|\n| a b | none | INV-01, INV-02 x | `wal` TestA, TestB; `sim/check` TestC, `narad-sim -profile rot` |\n| c | – | – | – |\n")
	if len(got) != 2 || got[0].text != "a b" || len(got[1].tests) != 0 {
		t.Fatalf("got %+v", got)
	}
	if !slices.Equal(got[0].invariants, []string{"INV-01", "INV-02"}) || !slices.Equal(got[0].profiles, []string{"rot"}) ||
		!slices.Equal(got[0].tests, [][2]string{{"wal", "TestA"}, {"wal", "TestB"}, {"sim/check", "TestC"}}) {
		t.Errorf("got %+v", got[0])
	}
}
