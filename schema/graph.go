package schema

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// edge leads from a subschema to one that it applies.
type edge struct {
	keyword string
	name    string // of a member: property, pattern, or index; of an applicator: its index or property
	to      *jsonschema.Schema
}

// inPlace tells keywords that apply a subschema to the same value from those that apply it to a member.
var inPlace = map[string]bool{
	"$ref": true, "$recursiveRef": true, "$dynamicRef": true, "allOf": true, "anyOf": true, "oneOf": true, "not": true,
	"if": true, "then": true, "else": true, "dependencies": true, "dependentSchemas": true,
}

// edges returns all subschemas that s applies, in a fixed order.
func edges(s *jsonschema.Schema) (all []edge) {
	one := func(keyword string, to *jsonschema.Schema) {
		if to != nil {
			all = append(all, edge{keyword, "", to})
		}
	}
	list := func(keyword string, to []*jsonschema.Schema) {
		for i, sub := range to {
			all = append(all, edge{keyword, strconv.Itoa(i), sub})
		}
	}
	named := func(keyword string, to map[string]*jsonschema.Schema) {
		for _, name := range slices.Sorted(maps.Keys(to)) {
			all = append(all, edge{keyword, name, to[name]})
		}
	}
	one("$ref", s.Ref)
	one("$recursiveRef", s.RecursiveRef)
	if s.DynamicRef != nil {
		one("$dynamicRef", s.DynamicRef.Ref)
	}
	list("allOf", s.AllOf)
	list("anyOf", s.AnyOf)
	list("oneOf", s.OneOf)
	one("not", s.Not)
	one("if", s.If)
	one("then", s.Then)
	one("else", s.Else)
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		if sub, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
			all = append(all, edge{"dependencies", name, sub})
		}
	}
	named("dependentSchemas", s.DependentSchemas)
	named("properties", s.Properties)
	for _, p := range patternMembers(s) {
		all = append(all, edge{"patternProperties", p.pattern, p.schema})
	}
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		one("additionalProperties", sub)
	}
	one("propertyNames", s.PropertyNames)
	one("unevaluatedProperties", s.UnevaluatedProperties)
	prefix, rest := itemsOf(s)
	list("prefixItems", prefix)
	if sub, ok := rest.(*jsonschema.Schema); ok {
		one("items", sub)
	}
	one("contains", s.Contains)
	one("unevaluatedItems", s.UnevaluatedItems)
	return all
}

// graph is all subschemas that a document can apply, the root first.
type graph struct {
	nodes   []*jsonschema.Schema
	edges   [][]edge
	indexOf map[*jsonschema.Schema]int
}

func newGraph(root *jsonschema.Schema) *graph {
	g := &graph{indexOf: map[*jsonschema.Schema]int{root: 0}, nodes: []*jsonschema.Schema{root}}
	for i := 0; i < len(g.nodes); i++ {
		out := edges(g.nodes[i])
		g.edges = append(g.edges, out)
		for _, e := range out {
			if _, known := g.indexOf[e.to]; !known {
				g.indexOf[e.to] = len(g.nodes)
				g.nodes = append(g.nodes, e.to)
			}
		}
	}
	return g
}

// rawOf returns the part of a document that a subschema was compiled from.
func rawOf(document any, s *jsonschema.Schema) any {
	_, fragment, _ := strings.Cut(s.Location, "#")
	path, err := url.PathUnescape(fragment)
	if err != nil {
		panic("schema: a location that does not decode: " + s.Location) // the validator encoded it
	}
	v := document
	for i, token := range strings.Split(path, "/") {
		if i == 0 {
			continue
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch container := v.(type) {
		case map[string]any:
			v = container[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(container) {
				panic("schema: no such place: " + s.Location)
			}
			v = container[n]
		}
	}
	return v
}

// placeOf names a subschema for an error.
func placeOf(s *jsonschema.Schema) string {
	_, fragment, _ := strings.Cut(s.Location, "#")
	return "#" + fragment
}
