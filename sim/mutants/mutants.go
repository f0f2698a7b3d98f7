package mutants

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

//go:embed *.patch
var patches embed.FS

// Mutant is one bug.
type Mutant struct {
	Name    string   // of the patch file, without its extension
	Title   string   // what is wrong
	Symptom string   // what an observer sees
	Rule    string   // the requirements that it breaks
	Expect  []string // the checks that may catch it, the likeliest first
	Package string   // of the tests that catch what no world shows; empty: the simulator does
	Tests   []string
	Profile string // of the worlds that show it soonest; empty: the default one, which draws all kinds
	files   []*gitdiff.File
}

// Load reads all mutants, by name.
func Load() ([]Mutant, error) {
	names, err := fs.Glob(patches, "*.patch")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []Mutant
	for _, name := range names {
		text, err := patches.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := Parse(strings.TrimSuffix(name, ".patch"), text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Parse reads a mutant from the text of its patch.
func Parse(name string, text []byte) (Mutant, error) {
	m := Mutant{Name: name}
	files, header, err := gitdiff.Parse(bytes.NewReader(text))
	if err != nil {
		return m, fmt.Errorf("mutants: %s: %w", name, err)
	}
	for line := range strings.Lines(header) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "mutant":
			m.Title = value
		case "symptom":
			m.Symptom = value
		case "rule":
			m.Rule = value
		case "expect":
			m.Expect = strings.Fields(value)
		case "profile":
			m.Profile = value
		case "test":
			if m.Package, m.Tests, err = parseTests(value); err != nil {
				return m, fmt.Errorf("mutants: %s: %w", name, err)
			}
		case "":
		default:
			return m, fmt.Errorf("mutants: %s: unknown header line %q", name, strings.TrimSpace(line))
		}
	}
	m.files = files
	if m.Title == "" || m.Symptom == "" || m.Rule == "" || len(m.Expect)+len(m.Tests) == 0 || len(files) == 0 {
		return m, fmt.Errorf("mutants: %s: the header needs mutant, symptom, rule and expect or test, and a patch must follow", name)
	}
	return m, nil
}

// Files names the source files that the mutant changes, relative to the module's root.
func (m Mutant) Files() (names []string) {
	for _, f := range m.files {
		names = append(names, f.NewName)
	}
	return names
}

// Mutated returns the changed contents of the files, by name.
func (m Mutant) Mutated(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, f := range m.files {
		source, err := os.ReadFile(filepath.Join(root, f.OldName))
		if err != nil {
			return nil, fmt.Errorf("mutants: %s: %w", m.Name, err)
		}
		for _, fragment := range f.TextFragments {
			if source, err = apply(source, fragment); err != nil {
				return nil, fmt.Errorf("mutants: %s is stale: %s: %w", m.Name, f.OldName, err)
			}
		}
		changed[f.OldName] = source
	}
	return changed, nil
}

// apply replaces the lines that a fragment removes or keeps by those that it adds or keeps. They may have moved, but
// they must be there exactly as they are in the patch, and once.
func apply(source []byte, f *gitdiff.TextFragment) ([]byte, error) {
	var before, after bytes.Buffer
	for _, line := range f.Lines {
		if line.Op != gitdiff.OpAdd {
			before.WriteString(line.Line)
		}
		if line.Op != gitdiff.OpDelete {
			after.WriteString(line.Line)
		}
	}
	if n := bytes.Count(source, before.Bytes()); n != 1 {
		return nil, fmt.Errorf("the lines at %d of the patch are there %d times", f.OldPosition, n)
	}
	return bytes.Replace(source, before.Bytes(), after.Bytes(), 1), nil
}

// Overlay writes the changed files and the overlay file for "go build -overlay" into dir and returns the
// overlay's path. root is the module's root.
func (m Mutant) Overlay(root, dir string) (string, error) {
	changed, err := m.Mutated(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range changed { // order-free: builds a map
		copyName := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copyName, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = copyName
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}
