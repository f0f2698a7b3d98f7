package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decodeExact decodes JSON with numbers as they are written.
func decodeExact(text []byte) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

// match returns how got differs from want, "" when it does not. Fields that want does not name are ignored.
func match(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %s, not an object", at, show(got))
		}
		for _, name := range slices.Sorted(maps.Keys(w)) {
			v, present := g[name]
			if w[name] == "<absent>" {
				if present {
					return fmt.Sprintf("%s.%s is there", at, name)
				}
				continue
			}
			if !present {
				return fmt.Sprintf("%s.%s is missing", at, name)
			}
			if diff := match(at+"."+name, w[name], v); diff != "" {
				return diff
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s is %s, not an array of %d", at, show(got), len(w))
		}
		for i := range w {
			if diff := match(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); diff != "" {
				return diff
			}
		}
		return ""
	case string:
		if matchText(w, got) {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, not %s", at, show(got), show(want))
}

var (
	hex16  = regexp.MustCompile(`^[0-9a-f]{16}$`)
	handle = regexp.MustCompile(`^(0|[1-9][0-9]*):(0|[1-9][0-9]*):[1-9][0-9]*$`)
	number = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
)

// matchText matches a value against a string or a pattern.
func matchText(want string, got any) bool {
	text, isText := got.(string)
	n, isNumber := got.(json.Number)
	switch {
	case want == "<any>":
		return true
	case want == "<string>":
		return isText
	case want == "<int>":
		return isNumber && number.MatchString(n.String())
	case want == "<hex16>":
		return isText && hex16.MatchString(text)
	case want == "<handle>":
		return isText && handle.MatchString(text)
	case want == "<seconds>":
		s, err := strconv.ParseInt(n.String(), 10, 64)
		return isNumber && err == nil && time.Since(time.Unix(s, 0)).Abs() < time.Hour
	case len(want) > 1 && want[0] == '/' && want[len(want)-1] == '/':
		return isText && regexp.MustCompile(want[1:len(want)-1]).MatchString(text)
	}
	return isText && text == want
}

func show(v any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.300s", strings.TrimSpace(text.String()))
}

// lookUp returns the value at a path like "messages.0.key".
func lookUp(v any, path string) (any, bool) {
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			next, ok := in[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}
