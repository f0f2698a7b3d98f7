package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Key     string // "http.addr", or the name of a variable that has no key
	Value   string // as it was written; empty for a secret
	Origin  string // "the file narad.json, line 3", "the environment variable NARAD_HTTP_ADDR", "the flag --addr"
	Trouble string // what is wrong, with what is allowed
}

func (p Problem) String() string {
	switch {
	case p.Key == "":
		return fmt.Sprintf("%s: %s", p.Origin, p.Trouble)
	case p.Value == "":
		return fmt.Sprintf("%s (from %s): %s", p.Key, p.Origin, p.Trouble)
	}
	return fmt.Sprintf("%s is %s (from %s): %s", p.Key, p.Value, p.Origin, p.Trouble)
}

// Error is everything that is wrong with a configuration.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return "the configuration is refused: " + lines[0]
	}
	return fmt.Sprintf("the configuration is refused, %d problems:\n  %s", len(lines), strings.Join(lines, "\n  "))
}
