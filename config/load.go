package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
)

// Flag is a value of the command line.
type Flag struct {
	Key   string // the key that it sets; "http.port" and "cluster.port" replace the port of the address
	Name  string // as the user knows it: "--addr"
	Value string
}

// Sources are where values come from.
type Sources struct {
	Hostname string            // default of cluster.node_id
	Mode     map[string]string // defaults of a mode, such as the development server, by key
	ModeName string            // as the user knows it: "server start --dev"
	FileName string
	File     []byte   // nil: there is none
	Environ  []string // NAME=value
	Flags    []Flag
}

// Loaded is a checked configuration and where each value came from.
type Loaded struct {
	Config
	Warnings []string // what an operator should know, a line each
	origins  map[string]string
}

// Origin returns where the value of a key came from: "the default", "the file narad.json, line 3" and so on.
func (l *Loaded) Origin(key string) string {
	if origin, ok := l.origins[key]; ok {
		return origin
	}
	return "the default"
}

// IsDefault reports whether nobody set the key.
func (l *Loaded) IsDefault(key string) bool {
	_, set := l.origins[key]
	return !set
}

// Line is one key as it is in effect.
type Line struct {
	Key, Value, Origin string
}

// Lines returns every key with its value and its origin. Secrets are shown as set or not.
func (l *Loaded) Lines() []Line {
	var lines []Line
	for _, s := range settings {
		lines = append(lines, Line{s.name(), s.get(&l.Config), l.Origin(s.name())})
	}
	return lines
}

// name is the key, or the variable of what has none.
func (s setting) name() string {
	if s.key == "" {
		return s.env
	}
	return s.key
}

// loader is one Load.
type loader struct {
	loaded   *Loaded
	problems []Problem
	byKey    map[string]setting
	byEnv    map[string]setting
}

// Load puts a configuration together and checks it. The error is an [*Error] with everything that is wrong.
func Load(from Sources) (*Loaded, error) {
	l := &loader{loaded: &Loaded{origins: map[string]string{}}, byKey: map[string]setting{}, byEnv: map[string]setting{}}
	for _, s := range settings {
		l.byKey[s.key], l.byEnv[s.env] = s, s
		s.set(&l.loaded.Config, s.initial) // a default that is not allowed, such as no name of the node, is found by the rules
	}
	delete(l.byKey, "")
	delete(l.byEnv, "")
	if isNodeID(from.Hostname) {
		l.loaded.Cluster.NodeID = from.Hostname
	}
	for _, key := range slices.Sorted(maps.Keys(from.Mode)) {
		l.apply(l.byKey[key], from.Mode[key], from.ModeName)
	}
	if from.File != nil {
		l.file(from)
	}
	l.environ(from.Environ)
	for _, f := range from.Flags {
		l.flag(f)
	}
	l.unsupported()
	if len(l.problems) == 0 {
		l.rules()
	}
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	return l.loaded, nil
}

// apply sets one value.
func (l *loader) apply(s setting, value, origin string) {
	l.loaded.origins[s.name()] = origin
	if s.set(&l.loaded.Config, value) {
		return
	}
	shown := fmt.Sprintf("%q", value)
	if s.key == "" {
		shown = "" // a secret
	} else if s.kind == numberKind || s.kind == booleanKind {
		shown = value
	}
	l.refuse(s.name(), shown, origin, "allowed is "+s.allowed)
}

func (l *loader) refuse(key, value, origin, trouble string) {
	l.problems = append(l.problems, Problem{key, value, origin, trouble})
}

func (l *loader) warn(format string, args ...any) {
	l.loaded.Warnings = append(l.loaded.Warnings, fmt.Sprintf(format, args...))
}

func (l *loader) file(from Sources) {
	entries, err := parseFile(from.File)
	if err != nil {
		l.refuse("", "", "the file "+from.FileName, err.Error())
		return
	}
	for _, e := range entries {
		origin := fmt.Sprintf("the file %s, line %d", from.FileName, e.line)
		s, known := l.byKey[e.key]
		constant, internal := constants[strings.TrimSuffix(e.key, "_ms")]
		switch {
		case inert[e.key]:
			l.warn("%s (from %s) has no effect", e.key, origin)
		case internal:
			l.refuse(e.key, compact(e.value), origin, "it is an internal constant ("+constant+") and cannot be set")
		case !known:
			l.refuse(e.key, "", origin, "there is no such key"+l.similar(e.key))
		default:
			l.fromFile(s, e, origin)
		}
	}
}

func (l *loader) fromFile(s setting, e entry, origin string) {
	value, wrong := s.kind.textOf(e.value)
	if wrong != "" {
		l.loaded.origins[s.key] = origin
		l.refuse(e.key, compact(e.value), origin, fmt.Sprintf("it must be %s: allowed is %s", wrong, s.allowed))
		return
	}
	l.apply(s, value, origin)
}

// compact is a JSON value for an error message.
func compact(raw json.RawMessage) string {
	const most = 80
	text := strings.Join(strings.Fields(string(raw)), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// similar names the keys that end like an unknown one.
func (l *loader) similar(key string) string {
	tail := key[strings.LastIndexByte(key, '.')+1:]
	for _, s := range settings {
		if s.key != "" && (strings.HasSuffix(s.key, "."+tail) || strings.HasPrefix(s.key, key) || strings.HasPrefix(key, s.key)) {
			return "; is " + s.key + " meant?"
		}
	}
	return ""
}

// prefix is of every variable that may be ours.
const prefix = "NARAD_"

func (l *loader) environ(environ []string) {
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || !strings.HasPrefix(name, prefix) || foreign[name] {
			continue
		}
		if s, known := l.byEnv[name]; known {
			l.apply(s, value, "the environment variable "+name)
		} else {
			l.warn("the environment variable %s is not one that narad knows; it has no effect", name)
		}
	}
}

func (l *loader) flag(f Flag) {
	origin := "the flag " + f.Name
	address, isPortFlag := map[string]string{"http.port": "http.addr", "cluster.port": "cluster.addr"}[f.Key]
	if !isPortFlag {
		l.apply(l.byKey[f.Key], f.Value, origin)
		return
	}
	s := l.byKey[address]
	if !isPort(f.Value, 0) {
		l.refuse(f.Key, f.Value, origin, "allowed is a port from 0 to 65535")
		return
	}
	host, _, err := net.SplitHostPort(s.get(&l.loaded.Config))
	if err == nil {
		l.apply(s, net.JoinHostPort(host, f.Value), origin)
	}
}

// unsupported refuses what this version cannot do. Asking for the default is no demand.
func (l *loader) unsupported() {
	for _, s := range settings {
		if s.missing == "" || s.get(&l.loaded.Config) == s.initial || l.refused(s.key) {
			continue
		}
		l.refuse(s.key, fmt.Sprintf("%q", s.get(&l.loaded.Config)), l.loaded.Origin(s.key),
			fmt.Sprintf("this version does not support %s; remove the key, or set it to its default %q", s.missing, s.initial))
	}
}

// refused reports whether the key has a problem already.
func (l *loader) refused(key string) bool {
	return slices.ContainsFunc(l.problems, func(p Problem) bool { return p.Key == key })
}
