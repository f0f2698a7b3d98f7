package config

import (
	"fmt"
	"strings"
)

// Table returns the documentation of every key in Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| key | variable | default | allowed | meaning |\n|---|---|---|---|---|\n")
	for _, s := range settings {
		doc := s.doc
		if s.missing != "" {
			doc = "Not in this version, which has no support for " + s.missing + ": only the default is taken."
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(s.key), code(s.env), code(s.initial), strings.ReplaceAll(s.allowed, "|", "\\|"), doc)
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
