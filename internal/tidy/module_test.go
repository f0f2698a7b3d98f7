package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "narad"

// module is the parsed sources of the module, or of a planted one.
type module struct {
	fset  *token.FileSet
	files []*file // ordered by path
}

type file struct {
	path string // slash-separated, below the root of the module
	src  []byte
	ast  *ast.File // nil for what is not Go
}

// pkg is the path of the file's package below the module's, "." at the root.
func (f *file) pkg() string { return path.Dir(f.path) }

func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// production returns the Go files that are not tests.
func (m *module) production() []*file {
	return slices.DeleteFunc(m.golang(), (*file).test)
}

func (m *module) golang() []*file {
	return slices.DeleteFunc(slices.Clone(m.files), func(f *file) bool { return f.ast == nil })
}

// packages returns the files of each package, with the packages in order.
func (m *module) packages() (names []string, files map[string][]*file) {
	files = map[string][]*file{}
	for _, f := range m.golang() {
		files[f.pkg()] = append(files[f.pkg()], f)
	}
	return slices.Sorted(maps.Keys(files)), files
}

// at names a place.
func (m *module) at(n ast.Node) string {
	p := m.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

func (m *module) add(name string, src []byte) error {
	f := &file{path: name, src: src}
	if strings.HasSuffix(name, ".go") {
		parsed, err := parser.ParseFile(m.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f.ast = parsed
	}
	m.files = append(m.files, f)
	return nil
}

// read parses the module that the test runs in.
func read(t *testing.T) *module {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	m := &module{fset: token.NewFileSet()}
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if hidden := strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "vendor"; d.IsDir() {
			if hidden && p != root {
				return filepath.SkipDir
			}
			return nil
		}
		if ext := filepath.Ext(p); ext != ".go" && ext != ".md" {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		return m.add(filepath.ToSlash(rel), src)
	}))
	slices.SortFunc(m.files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
	require.NotEmpty(t, m.production())
	return m
}

// plant makes a module of sources by path.
func plant(t *testing.T, sources map[string]string) *module {
	t.Helper()
	m := &module{fset: token.NewFileSet()}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		require.NoError(t, m.add(name, []byte(sources[name])))
	}
	return m
}

// rule returns what breaks it, a line each.
type rule func(m *module) []string

func hold(t *testing.T, r rule) {
	t.Helper()
	for _, broken := range r(read(t)) {
		t.Error(broken)
	}
}

// planted is a source in which a rule must find exactly what is wanted: one violation that contains each text.
type planted struct {
	name    string
	sources map[string]string
	want    []string
}

func (r rule) check(t *testing.T, cases []planted) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := r(plant(t, c.sources))
			require.Len(t, found, len(c.want), "%q", found)
			for i, want := range c.want {
				require.Contains(t, found[i], want)
			}
		})
	}
}

// inFile is a planted module of one file.
func inFile(name, src string) map[string]string { return map[string]string{name: src} }
