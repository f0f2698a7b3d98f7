package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
)

// orderFree is the mark of a walk over a map whose order cannot be seen. A reason follows it.
const orderFree = "order-free:"

// ordersMaps finds the walks over maps: by range, and by an iterator of package maps that nothing sorts.
func ordersMaps(m *module) (broken []string) {
	c := newChecker(m)
	for _, name := range simulated {
		for _, f := range c.sources(name) {
			broken = append(broken, c.walks(f, c.check(name).info)...)
		}
	}
	return broken
}

func (c *checker) walks(f *file, info *types.Info) (broken []string) {
	marked, names := markedLines(c.m, f), localNames(f)
	say := func(n ast.Node, what string) {
		if line := c.m.fset.Position(n.Pos()).Line; !marked[line] && !marked[line-1] {
			broken = append(broken, fmt.Sprintf("%s: %s: the order differs from run to run; sort the keys "+
				"(slices.Sorted(maps.Keys(m))), or say on the line why nobody can see it: // %s why", c.m.at(n), what, orderFree))
		}
	}
	sorted := map[ast.Node]bool{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			switch t := info.TypeOf(n.X); {
			case t == nil || t == types.Typ[types.Invalid]:
				say(n, "range over a value whose type this test cannot tell")
			case hasMap(t):
				say(n, "range over a map")
			case isChannel(t):
				say(n, "range over a channel")
			}
		case *ast.CallExpr:
			switch fn := called(n, names); {
			case strings.HasPrefix(fn, "slices.Sorted"):
				for _, arg := range n.Args {
					sorted[arg] = true
				}
			case (fn == "maps.Keys" || fn == "maps.Values" || fn == "maps.All") && !sorted[n]:
				say(n, fn+" without slices.Sorted around it")
			}
		}
		return true
	})
	return broken
}

// hasMap looks through names and type parameters: a value that may be a map counts as one.
func hasMap(t types.Type) bool {
	if p, ok := t.(*types.TypeParam); ok {
		return mayBe(p, hasMap)
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func isChannel(t types.Type) bool {
	_, ok := t.Underlying().(*types.Chan)
	return ok
}

func mayBe(p *types.TypeParam, is func(types.Type) bool) bool {
	constraint, ok := p.Constraint().Underlying().(*types.Interface)
	if !ok {
		return false
	}
	for embedded := range constraint.EmbeddedTypes() {
		union, ok := embedded.(*types.Union)
		if !ok {
			if is(embedded) {
				return true
			}
			continue
		}
		for term := range union.Terms() {
			if is(term.Type()) {
				return true
			}
		}
	}
	return false
}

// called names a call to a function of an imported package, "" for any other.
func called(n *ast.CallExpr, imported map[string]string) string {
	fun := n.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok && imported[x.Name] != "" {
			return imported[x.Name] + "." + sel.Sel.Name
		}
	}
	return ""
}

// markedLines returns the lines with a mark and a reason.
func markedLines(m *module, f *file) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.ast.Comments {
		for _, comment := range group.List {
			if _, reason, ok := strings.Cut(comment.Text, orderFree); ok && strings.TrimSpace(reason) != "" {
				lines[m.fset.Position(comment.Pos()).Line] = true
			}
		}
	}
	return lines
}

// checker finds the types in the module's packages. Packages of the standard library are read from their
// sources; those of other modules are taken as unknown, so a walk over a value of theirs is reported.
type checker struct {
	m       *module
	std     types.Importer
	context build.Context
	done    map[string]*checked
}

// standard keeps what it has read, for all checkers.
var standard = importer.ForCompiler(token.NewFileSet(), "source", nil)

type checked struct {
	pkg  *types.Package
	info *types.Info
}

func newChecker(m *module) *checker {
	c := &checker{m: m, std: standard, context: build.Default, done: map[string]*checked{}}
	c.context.OpenFile = func(p string) (io.ReadCloser, error) {
		i := slices.IndexFunc(m.files, func(f *file) bool { return f.path == p })
		return io.NopCloser(bytes.NewReader(m.files[i].src)), nil
	}
	c.context.JoinPath = path.Join
	return c
}

// sources returns the files of a package that are built on this system.
func (c *checker) sources(name string) (found []*file) {
	for _, f := range c.m.production() {
		if f.pkg() != name {
			continue
		}
		if ok, err := c.context.MatchFile(name, path.Base(f.path)); ok && err == nil {
			found = append(found, f)
		}
	}
	return found
}

func (c *checker) check(name string) *checked {
	if done := c.done[name]; done != nil {
		return done
	}
	var parsed []*ast.File
	for _, f := range c.sources(name) {
		parsed = append(parsed, f.ast)
	}
	config := types.Config{
		Importer:         c,
		IgnoreFuncBodies: !slices.Contains(simulated, name),
		Error:            func(error) {}, // what does not compile fails elsewhere
	}
	done := &checked{info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}}
	done.pkg, _ = config.Check(modulePath+"/"+name, c.m.fset, parsed, done.info)
	c.done[name] = done
	return done
}

// Import implements types.Importer.
func (c *checker) Import(p string) (*types.Package, error) {
	if name, ours := strings.CutPrefix(p, modulePath+"/"); ours {
		return c.check(name).pkg, nil
	}
	if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
		return nil, fmt.Errorf("%s is of another module", p)
	}
	return c.std.Import(p)
}

func TestMapOrder(t *testing.T) { hold(t, ordersMaps) }

func TestMapOrderIsSeenBroken(t *testing.T) {
	body := func(imports, body string) map[string]string {
		src := "package wal\n"
		for _, p := range strings.Fields(imports) {
			src += "import " + p + "\n"
		}
		return inFile("wal/a.go", src+"type set map[int]bool\ntype state struct{ parts set }\nfunc all() map[int]int { return nil }\n"+
			"func f(m map[int]int, s *state) {\n"+body+"\n}\n")
	}
	rule(ordersMaps).check(t, []planted{
		{"a parameter", body("", "for range m {}"), []string{"wal/a.go:6: range over a map"}},
		{"a named type in a field", body("", "for k := range s.parts { _ = k }"), []string{"range over a map"}},
		{"a result", body("", "for range all() {}"), []string{"range over a map"}},
		{"a local", body("", "x := make(set); for range x {}"), []string{"range over a map"}},
		{"a result of the standard library", body(`"maps"`, "for range maps.Clone(m) {}"), []string{"range over a map"}},
		{"within a function literal", body("", "func() { for range m {} }()"), []string{"range over a map"}},
		{"a type parameter", inFile("wal/a.go", "package wal\nfunc f[M ~map[int]int](m M) {\nfor range m {}\n}\n"), []string{"range over a map"}},
		{"a map of another package", map[string]string{
			"record/a.go": "package record\nvar All map[int]int\n",
			"wal/a.go":    "package wal\nimport \"narad/record\"\nfunc f() {\nfor range record.All {}\n}\n",
		}, []string{"wal/a.go:4: range over a map"}},
		{"an unknown type", body(`"example.com/x"`, "for range x.All() {}"), []string{"cannot tell"}},
		{"a channel", body("", "var c chan int; for range c {}"), []string{"range over a channel"}},
		{"an iterator", body(`"maps"`, "for range maps.Keys(m) {}\nfor range maps.Values(m) {}\nfor range maps.All(m) {}"),
			[]string{"maps.Keys without", "maps.Values without", "maps.All without"}},
		{"a sorted iterator", body(`"maps" "slices"`, "for range slices.Sorted(maps.Keys(m)) {}"), nil},
		{"a collected iterator", body(`"maps" "slices"`, "_ = slices.Collect(maps.Keys(m))"), []string{"maps.Keys without"}},
		{"slices, strings, numbers, functions", body("", "for range []int{} {}\nfor range \"x\" {}\nfor range 3 {}\nfor range func(func() bool) {} {}"), nil},
		{"marked on the line", body("", "for range m { // order-free: counts\n}"), nil},
		{"marked on the line above", body("", "// order-free: counts\nfor range m {}"), nil},
		{"marked without a reason", body("", "for range m { // order-free:\n}"), []string{"range over a map"}},
		{"marked two lines above", body("", "// order-free: counts\n\nfor range m {}"), []string{"range over a map"}},
		{"a package that is real", inFile("server/a.go", "package server\nfunc f(m map[int]int) { for range m {} }\n"), nil},
		{"a file of another system", inFile("wal/a_plan9.go", "package wal\nfunc f(m map[int]int) { for range m {} }\n"), nil},
	})
}
