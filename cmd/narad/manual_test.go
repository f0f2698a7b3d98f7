package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the reference in docs/cli.md anew")

const manual, reference = "../../docs/cli.md", "\n## Reference\n"

// The manual has every command with every flag, in the words of the program's own help.
func TestManual(t *testing.T) {
	text, err := os.ReadFile(manual)
	require.NoError(t, err)
	prose, _, found := strings.Cut(string(text), reference)
	require.True(t, found)
	want := prose + reference + referenceOf(new(app).root())
	if *update {
		require.NoError(t, os.WriteFile(manual, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(text), "go test ./cmd/narad -run TestManual -update writes it anew")
}

func referenceOf(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("\nFlags of every command:\n\n")
	writeFlags(&b, root.PersistentFlags())
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Name() == "help" || c.Name() == "completion" {
				continue
			}
			if c.HasSubCommands() && !c.HasLocalFlags() {
				walk(c)
				continue
			}
			fmt.Fprintf(&b, "\n### %s\n\n%s.\n", c.CommandPath()+strings.TrimPrefix(c.Use, c.Name()), c.Short)
			writeFlags(&b, c.LocalFlags())
			walk(c)
		}
	}
	walk(root)
	return b.String()
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		if first {
			b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
			first = false
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		initial := f.DefValue
		if initial == "[]" || initial == "false" || initial == "0" || initial == "0s" {
			initial = ""
		}
		if initial != "" {
			initial = "`" + initial + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, initial, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}
