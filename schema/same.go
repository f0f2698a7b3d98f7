package schema

import (
	"maps"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// annotations are the keywords that say nothing about which messages match. A change of them alone makes no version.
var annotations = map[string]bool{
	"title": true, "description": true, "examples": true, "$comment": true, "default": true, "deprecated": true,
	"readOnly": true, "writeOnly": true,
}

// Where subschemas are in the text of a subschema.
var (
	holdsOne = map[string]bool{
		"not": true, "if": true, "then": true, "else": true, "items": true, "contains": true, "propertyNames": true,
		"additionalProperties": true, "additionalItems": true, "unevaluatedProperties": true, "unevaluatedItems": true,
		"contentSchema": true,
	}
	holdsMany  = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "prefixItems": true, "items": true}
	holdsNamed = map[string]bool{
		"properties": true, "patternProperties": true, "$defs": true, "definitions": true, "dependentSchemas": true,
		"dependencies": true,
	}
)

// withoutAnnotations returns a copy of a subschema's text without annotations, at all depths. A property that is called
// "title" is none.
func withoutAnnotations(v any) any {
	obj, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(obj))
	for keyword, value := range obj {
		if annotations[keyword] {
			continue
		}
		switch value := value.(type) {
		case map[string]any:
			if holdsOne[keyword] {
				out[keyword] = withoutAnnotations(value)
				continue
			}
			if holdsNamed[keyword] {
				named := make(map[string]any, len(value))
				for name, sub := range value {
					named[name] = withoutAnnotations(sub)
				}
				out[keyword] = named
				continue
			}
		case []any:
			if holdsMany[keyword] {
				list := make([]any, len(value))
				for i, sub := range value {
					list[i] = withoutAnnotations(sub)
				}
				out[keyword] = list
				continue
			}
		}
		out[keyword] = value
	}
	return out
}

// sameDocument reports whether two documents are the same JSON value but for annotations.
func sameDocument(a, b any) bool {
	return canonical(withoutAnnotations(a)) == canonical(withoutAnnotations(b))
}

// sameness compares subschemas of two documents with all that they refer to.
type sameness struct {
	older, newer *compiled
	assumed      map[pair]bool
	left         *int // what the comparison may still spend
}

type pair struct{ older, newer *jsonschema.Schema }

// same reports whether two subschemas say the same, but for annotations. A pair that is being compared is taken to be the
// same: a difference shows elsewhere.
func (c *sameness) same(older, newer *jsonschema.Schema) bool {
	p := pair{older, newer}
	if c.assumed[p] {
		return true
	}
	c.assumed[p] = true
	if *c.left -= 1 + len(valuesOf(older)); *c.left <= 0 {
		return c.differ()
	}
	if !reflect.DeepEqual(ownKeywords(c.older, older), ownKeywords(c.newer, newer)) {
		return c.differ()
	}
	a, b := edges(older), edges(newer)
	if len(a) != len(b) {
		return c.differ()
	}
	for i := range a {
		if a[i].keyword != b[i].keyword || a[i].name != b[i].name || !c.same(a[i].to, b[i].to) {
			return c.differ()
		}
	}
	return true
}

// differ forgets everything, since some of it may rest on the assumption that turned out wrong.
func (c *sameness) differ() bool {
	clear(c.assumed)
	return false
}

// ownKeywords returns what a subschema says itself, without its subschemas and annotations, each value as a canonical text.
func ownKeywords(c *compiled, s *jsonschema.Schema) map[string]string {
	raw := rawOf(c.document, s)
	obj, ok := raw.(map[string]any)
	if !ok {
		return map[string]string{"": canonical(raw)}
	}
	own := make(map[string]string, len(obj))
	for keyword, value := range obj {
		switch {
		case annotations[keyword] || keyword == "$defs" || keyword == "definitions":
		case keyword == "dependencies":
			own[keyword] = canonical(onlyLists(value))
		case holdsOne[keyword] && isSchema(value), holdsMany[keyword] && isList(value), holdsNamed[keyword]:
			own[keyword] = shape(value)
		default:
			own[keyword] = canonical(value)
		}
	}
	return own
}

// shape tells a list of subschemas from a single one, and a boolean one from an object.
func shape(v any) string {
	switch v := v.(type) {
	case []any:
		return "list"
	case bool:
		return canonical(v)
	default:
		return "one"
	}
}

func isSchema(v any) bool {
	_, object := v.(map[string]any)
	_, boolean := v.(bool)
	return object || boolean
}

func isList(v any) bool { _, ok := v.([]any); return ok }

// onlyLists returns the members of a dependencies keyword that are lists of names.
func onlyLists(v any) any {
	obj, ok := v.(map[string]any)
	if !ok {
		return v
	}
	lists := maps.Clone(obj)
	for _, name := range slices.Collect(maps.Keys(obj)) {
		if !isList(obj[name]) {
			lists[name] = "subschema"
		}
	}
	return lists
}
