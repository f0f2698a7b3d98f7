package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// The requirements, and which of them a test, a checker or a mutant cites. Run with -v for the table:
//
//	go test ./internal/tidy -run TestCited -v

// requirement is one line of docs/requirements.md.
type requirement struct {
	id   string
	area string
	n    int
	open bool // it has a box that is not ticked
}

var (
	defined = regexp.MustCompile(`^- (?:\[.\] )?\*\*([A-Z]+)-(\d+)\b`)
	goals   = regexp.MustCompile(`\bS-(\d+)\b`)
	// cites finds an ID, or the first and the last of several: COM-01..COM-03, COM-01…03.
	cites = regexp.MustCompile(`\b([A-Z]{1,4})-(\d+)(?:(?:\.\.|…|–)(?:[A-Z]{1,4}-)?(\d+))?`)
)

// requirements reads all lines that define an ID, in the order of areas and numbers.
func requirements(text string) (all []requirement) {
	add := func(area, number string, open bool) {
		n, _ := strconv.Atoi(number)
		all = append(all, requirement{area + "-" + number, area, n, open})
	}
	for line := range strings.Lines(text) {
		if m := defined.FindStringSubmatch(line); m != nil {
			add(m[1], m[2], strings.HasPrefix(line, "- [ ]"))
		} else if strings.HasPrefix(line, "- S-") {
			for _, m := range goals.FindAllStringSubmatch(line, -1) {
				add("S", m[1], false)
			}
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		if all[i].area != all[j].area {
			return all[i].area < all[j].area
		}
		return all[i].n < all[j].n
	})
	return slices.CompactFunc(all, func(a, b requirement) bool { return a.id == b.id })
}

// proves reports whether a file is one that citing in counts: a test, or what watches simulated worlds.
func proves(path string) bool {
	switch {
	case strings.HasSuffix(path, "_test.go"):
		return true
	case strings.HasPrefix(path, "sim/"), strings.HasPrefix(path, "fuzz/"), strings.HasPrefix(path, "bench/"):
		return strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".patch")
	}
	return false
}

// cited returns the area and number of every ID in a text, ranges spelled out.
func cited(text string, note func(area string, n int)) {
	for _, m := range cites.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		for n := first; n <= last && n < first+200; n++ {
			note(m[1], n)
		}
	}
}

// citations walks over the module. An ID that only mutants cite is there with false: a mutant may plant a bug of several nodes in the form
// that it has on one.
func citations(t *testing.T, root string) map[string]map[int]bool {
	found := map[string]map[int]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && strings.HasPrefix(d.Name(), ".git") {
				return filepath.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || !proves(filepath.ToSlash(rel)) || filepath.Base(rel) == "cited_test.go" {
			return err
		}
		text, err := os.ReadFile(path)
		cited(string(text), func(area string, n int) {
			if found[area] == nil {
				found[area] = map[int]bool{}
			}
			found[area][n] = found[area][n] || filepath.Ext(path) != ".patch"
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// notYet is the heading of the section whose table lists what cannot be met, and so cannot be cited, by one node.
const notYet = "\n## Not at this stage\n"

// excused returns the lines that the table lists in its first column.
func excused(text string) map[string]map[int]bool {
	_, section, _ := strings.Cut(text, notYet)
	all := map[string]map[int]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			cited(cells[1], func(area string, n int) {
				if all[area] == nil {
					all[area] = map[int]bool{}
				}
				all[area][n] = true
			})
		}
	}
	return all
}

// TestCited: a test, a checker or a mutant cites every line but those that are listed as not met at this stage, and none of these.
func TestCited(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	found, later := citations(t, root), excused(string(text))
	have, total := map[string]int{}, map[string]int{}
	var areas []string
	for _, r := range requirements(string(text)) {
		if total[r.area]++; total[r.area] == 1 {
			areas = append(areas, r.area)
		}
		listed := later[r.area][r.n]
		if r.open && !listed {
			t.Errorf("%s is neither ticked nor listed as not met at this stage", r.id)
		}
		delete(later[r.area], r.n)
		switch tested, is := found[r.area][r.n]; {
		case tested && listed:
			t.Errorf("%s is cited, and listed as not met at this stage", r.id)
		case is:
			have[r.area]++
		case !listed:
			t.Errorf("no test, checker or mutant cites %s", r.id)
		}
	}
	for _, area := range areas {
		t.Logf("%-5s %3d/%3d", area, have[area], total[area])
	}
	for area, left := range later {
		for n := range left {
			t.Errorf("%s-%d is listed as not met at this stage, there is no such line", area, n)
		}
	}
}

// TestInvariantsNameTheirChecker: package sim/check documents where each invariant is checked that is not listed as of a later stage.
func TestInvariantsNameTheirChecker(t *testing.T) {
	text, err := os.ReadFile("../../docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../sim/check/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	later := excused(string(text))
	for _, r := range requirements(string(text)) {
		if r.area == "INV" && !later["INV"][r.n] && !strings.Contains(string(doc), "\n//\t"+r.id+" ") {
			t.Errorf("package sim/check does not say where %s is checked", r.id)
		}
	}
}

func TestCitedSeesWhatItShould(t *testing.T) {
	got := requirements("- [ ] **COM-02** x [scope: node] [check: unit]\n- [x] **COM-01** x [scope: cluster]\n- **INV-01 Name.** x INV-02\n- S-01 a. S-03 b.\n- **BUG-7** x COM-05\nCOM-09\n")
	want := []requirement{
		{"BUG-7", "BUG", 7, false}, {"COM-01", "COM", 1, false}, {"COM-02", "COM", 2, true}, {"INV-01", "INV", 1, false}, {"S-01", "S", 1, false},
		{"S-03", "S", 3, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	var ids []string
	cited("// COM-03, INV-12; REC-01..REC-03, INF-08…10 and BUG-99", func(area string, n int) { ids = append(ids, area+strconv.Itoa(n)) })
	if want := []string{"COM3", "INV12", "REC1", "REC2", "REC3", "INF8", "INF9", "INF10", "BUG99"}; !slices.Equal(ids, want) {
		t.Errorf("got %v", ids)
	}
	late := excused("| ZZ-09 | x |\n" + notYet + "ZZ-08\n\n| lines | why |\n|---|---|\n| ZZ-01..ZZ-03, YY-7 | not ZZ-05 |\n")
	if len(late) != 2 || len(late["ZZ"]) != 3 || !late["YY"][7] {
		t.Errorf("got %v", late)
	}
	for path, want := range map[string]bool{"wal/wal_test.go": true, "wal/wal.go": false, "sim/check/node.go": true, "sim/mutants/x.patch": true, "sim/mutants/README.md": false} {
		if proves(path) != want {
			t.Errorf("%s counts: %v", path, !want)
		}
	}
}
