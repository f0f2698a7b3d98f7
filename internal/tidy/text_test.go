package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// isDocumented wants a comment glued to the package clause of one file of each package, as go doc shows it.
func isDocumented(m *module) (broken []string) {
	names, files := m.packages()
	for _, name := range names {
		considered := slices.DeleteFunc(slices.Clone(files[name]), (*file).test)
		if len(considered) == 0 {
			considered = files[name] // a package of tests only
		}
		want := "Package " + considered[0].ast.Name.Name
		if considered[0].ast.Name.Name == "main" {
			want = "Command " + path.Base(name)
		}
		if !slices.ContainsFunc(considered, func(f *file) bool { return startsWith(f.ast.Doc.Text(), want) }) {
			broken = append(broken, fmt.Sprintf("package %s has no comment that starts with %q, glued to its package "+
				"clause, so go doc shows none: write it in doc.go", name, want))
		}
	}
	return broken
}

// startsWith wants a whole word at the end of the prefix.
func startsWith(text, prefix string) bool {
	rest, ok := strings.CutPrefix(text, prefix)
	return ok && rest != "" && strings.ContainsRune(" \n.,:", rune(rest[0]))
}

func isFormatted(m *module) (broken []string) {
	for _, f := range m.golang() {
		if formatted, err := format.Source(f.src); err != nil || !bytes.Equal(formatted, f.src) {
			broken = append(broken, fmt.Sprintf("%s: gofmt would change it", f.path))
		}
	}
	return broken
}

// The marks are put together here, so that this file does not carry them.
var (
	marks  = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	places = regexp.MustCompile(`(^|[\s"'` + "`" + `(])(/wo` + `rk/|/ho` + `me/\w|/ro` + `ot/)`)
)

func isFinished(m *module) (broken []string) {
	return grep(m, marks, "is a mark of unfinished work: finish it, or write down in prose what is not done")
}

func namesNoPlace(m *module) (broken []string) {
	return grep(m, places, "is a path of one machine: nobody else has it")
}

func grep(m *module, pattern *regexp.Regexp, why string) (broken []string) {
	for _, f := range m.files {
		for i, line := range bytes.Split(f.src, []byte("\n")) {
			if found := pattern.Find(line); found != nil {
				broken = append(broken, fmt.Sprintf("%s:%d: %q %s", f.path, i+1, bytes.TrimSpace(found), why))
			}
		}
	}
	return broken
}

// saysWhyItSkips finds skipped tests that do not tell their reader why.
func saysWhyItSkips(m *module) (broken []string) {
	for _, f := range m.golang() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && skipsSilently(call) {
				broken = append(broken, fmt.Sprintf("%s: a test is skipped without a reason: say what is missing here", m.at(call)))
			}
			return true
		})
	}
	return broken
}

func skipsSilently(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if x, ok := sel.X.(*ast.Ident); !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
		return false
	}
	switch sel.Sel.Name {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(call.Args) == 0 {
			return true
		}
		text, ok := call.Args[0].(*ast.BasicLit)
		return ok && strings.Trim(text.Value, "\"` ") == ""
	}
	return false
}

func TestPackageComments(t *testing.T) { hold(t, isDocumented) }
func TestFormatted(t *testing.T)       { hold(t, isFormatted) }
func TestFinished(t *testing.T)        { hold(t, isFinished) }
func TestNamesNoPlace(t *testing.T)    { hold(t, namesNoPlace) }
func TestSkips(t *testing.T)           { hold(t, saysWhyItSkips) }

func TestPackageCommentsAreSeenMissing(t *testing.T) {
	rule(isDocumented).check(t, []planted{
		{"none", inFile("wal/a.go", "package wal\n"), []string{`package wal has no comment that starts with "Package wal"`}},
		{"not glued", inFile("wal/a.go", "// Package wal is a log.\n\npackage wal\n"), []string{"glued"}},
		{"of another name", inFile("wal/a.go", "// Package walrus is a log.\npackage wal\n"), []string{"Package wal"}},
		{"only in a test", map[string]string{
			"wal/a.go": "package wal\n", "wal/a_test.go": "// Package wal is a log.\npackage wal\n",
		}, []string{"Package wal"}},
		{"a program's", inFile("cmd/narad/a.go", "// Package main runs.\npackage main\n"), []string{`"Command narad"`}},
		{"in one file of two", map[string]string{"wal/a.go": "package wal\n", "wal/doc.go": "// Package wal is a log.\npackage wal\n"}, nil},
		{"of a program", inFile("cmd/narad/a.go", "// Command narad runs.\npackage main\n"), nil},
		{"of a package of tests", inFile("fuzz/a_test.go", "// Package fuzz has targets.\npackage fuzz\n"), nil},
	})
}

func TestFormattedIsSeenBroken(t *testing.T) {
	rule(isFormatted).check(t, []planted{
		{"spaces", inFile("wal/a.go", "package wal\n\nvar  x int\n"), []string{"wal/a.go: gofmt"}},
		{"a test too", inFile("wal/a_test.go", "package wal\nvar x int\n"), []string{"gofmt"}},
		{"clean", inFile("wal/a.go", "package wal\n\nvar x int\n"), nil},
	})
}

func TestFinishedIsSeenBroken(t *testing.T) {
	rule(isFinished).check(t, []planted{
		{"marks", inFile("wal/a.go", "package wal\n\n// TO"+"DO: sync\n// FIX"+"ME\nvar s = \"X"+"XX\"\n"),
			[]string{"wal/a.go:3", "wal/a.go:4", "wal/a.go:5"}},
		{"in a page", inFile("docs/a.md", "# TO"+"DO\n"), []string{"docs/a.md:1"}},
		{"words that contain one", inFile("wal/a.go", "package wal\n\nvar mTO"+"DOs, xX"+"XXx int\n"), nil},
	})
}

func TestNamesNoPlaceIsSeenBroken(t *testing.T) {
	rule(namesNoPlace).check(t, []planted{
		{"in a string", inFile("wal/a.go", "package wal\n\nvar s = \"/wo"+"rk/main\"\n"), []string{"wal/a.go:3"}},
		{"in a page", inFile("docs/a.md", "see /wo"+"rk/shared\n"), []string{"docs/a.md:1"}},
		{"at home", inFile("wal/a.go", "package wal\n\n// see /ho"+"me/me/x\n"), []string{"wal/a.go:3"}},
		{"a path within", inFile("wal/a.go", "package wal\n\nvar s = \"a/wo"+"rk/b\"\n"), nil},
	})
}

func TestSkipsAreSeen(t *testing.T) {
	test := func(call string) map[string]string {
		return inFile("wal/a_test.go", "package wal\n\nfunc TestX(t *testing.T) { "+call+" }\n")
	}
	rule(saysWhyItSkips).check(t, []planted{
		{"no reason", test("t.Skip()"), []string{"wal/a_test.go:3"}},
		{"an empty reason", test(`t.Skip("")`), []string{"without a reason"}},
		{"SkipNow", test("t.SkipNow()"), []string{"without a reason"}},
		{"a reason", test(`t.Skip("no disk here")`), nil},
		{"another Skip", test("decoder.Skip()"), nil},
	})
}
