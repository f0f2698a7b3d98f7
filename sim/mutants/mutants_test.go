package mutants

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// Every patch must apply to the source as it is now, and what it makes must be Go.
func TestPatchesApply(t *testing.T) {
	all, err := Load()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			changed, err := m.Mutated(root)
			require.NoError(t, err)
			for name, text := range changed {
				_, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
				require.NoError(t, err)
				require.False(t, strings.HasSuffix(name, "_test.go"), "a mutant changes production source")
				require.False(t, strings.HasPrefix(name, "sim/"), "a mutant must not weaken what watches it")
			}
		})
	}
}

func TestStalePatchIsAnError(t *testing.T) {
	m, err := Parse("stale", []byte(`mutant: x
symptom: x
rule: WAL-02
expect: INV-03

--- a/go.mod
+++ b/go.mod
@@ -1,1 +1,1 @@
-module other
+module another
`))
	require.NoError(t, err)
	_, err = m.Mutated(root)
	require.ErrorContains(t, err, "stale")
}

func TestHeaderIsRequired(t *testing.T) {
	_, err := Parse("bare", []byte("--- a/go.mod\n+++ b/go.mod\n@@ -1,1 +1,1 @@\n-module narad\n+module another\n"))
	require.ErrorContains(t, err, "header needs")
}
