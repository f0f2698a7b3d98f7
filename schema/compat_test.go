package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompatible(t *testing.T) {
	for _, c := range []struct {
		name, older, newer string
		want               bool
	}{
		{"the same", `{"type":"string"}`, `{"type":"string"}`, true},
		{"anything to anything", `true`, `{}`, true},
		{"anything to a type", `true`, `{"type":"string"}`, false},
		{"a type to anything", `{"type":"string"}`, `true`, true},
		{"another draft", `{}`, `{"$schema":"http://json-schema.org/draft-07/schema#","minimum":1}`, false},
		{"more types", `{"type":"string"}`, `{"type":["string","null"]}`, true},
		{"fewer types", `{"type":["string","null"]}`, `{"type":"string"}`, false},
		{"integer to number", `{"type":"integer"}`, `{"type":"number"}`, true},
		{"number to integer", `{"type":"number"}`, `{"type":"integer"}`, false},
		{"enum grows", `{"enum":[1,"a"]}`, `{"enum":["a",1.0,2]}`, true},
		{"enum shrinks", `{"enum":[1,2]}`, `{"enum":[1]}`, false},
		{"enum appears", `{}`, `{"enum":[1]}`, false},
		{"const to enum", `{"const":1}`, `{"enum":[1,2]}`, true},
		{"enum to const", `{"enum":[1,2]}`, `{"const":1}`, false},
		{"lower minimum", `{"minimum":2}`, `{"minimum":1}`, true},
		{"higher minimum", `{"minimum":1}`, `{"minimum":2}`, false},
		{"minimum to exclusive below", `{"minimum":2}`, `{"exclusiveMinimum":1}`, true},
		{"minimum to exclusive same", `{"minimum":2}`, `{"exclusiveMinimum":2}`, false},
		{"exclusive to inclusive", `{"exclusiveMinimum":2}`, `{"minimum":2}`, true},
		{"higher maximum", `{"maximum":1}`, `{"maximum":2}`, true},
		{"maximum to exclusive same", `{"maximum":2}`, `{"exclusiveMaximum":2}`, false},
		{"maximum to exclusive above", `{"maximum":2}`, `{"exclusiveMaximum":2.5}`, true},
		{"maximum appears", `{}`, `{"maximum":2}`, false},
		{"draft 4 exclusive", `{"$schema":"http://json-schema.org/draft-04/schema#","maximum":2}`, `{"$schema":"http://json-schema.org/draft-04/schema#","maximum":2,"exclusiveMaximum":true}`, false},
		{"minLength appears as 0", `{}`, `{"minLength":0,"minItems":0,"minProperties":0}`, true},
		{"minLength appears as 1", `{}`, `{"minLength":1}`, false},
		{"maxItems grows", `{"maxItems":1}`, `{"maxItems":2}`, true},
		{"maxItems shrinks", `{"maxItems":2}`, `{"maxItems":1}`, false},
		{"maxProperties appears", `{}`, `{"maxProperties":0}`, false},
		{"divisor", `{"multipleOf":6}`, `{"multipleOf":1.5}`, true},
		{"no divisor", `{"multipleOf":6}`, `{"multipleOf":4}`, false},
		{"pattern dropped", `{"pattern":"a"}`, `{}`, true},
		{"pattern changed", `{"pattern":"a"}`, `{"pattern":"a|b"}`, false},
		{"format dropped", `{"format":"date"}`, `{}`, true},
		{"format appears", `{}`, `{"format":"date"}`, false},
		{"unknown format changed", `{"format":"x"}`, `{"format":"y"}`, false},
		{"format beside an old reference", `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","definitions":{"a":{}},"format":"date"}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":["string","null"],"format":"date"}`, false},
		{"unique relaxed", `{"uniqueItems":true}`, `{"uniqueItems":false}`, true},
		{"unique appears", `{}`, `{"uniqueItems":true}`, false},
		{"required shrinks", `{"required":["a","b"]}`, `{"required":["a"]}`, true},
		{"required grows", `{"required":["a"]}`, `{"required":["a","b"]}`, false},
		{"optional property of an open object", `{"properties":{"a":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, true},
		{"required property of an open object", `{"properties":{"a":{}}}`, `{"properties":{"a":{},"b":{"type":"string"}},"required":["b"]}`, false},
		{"property that was required but not described", `{"required":["b"]}`, `{"required":["b"],"properties":{"b":{"type":"string"}}}`, false},
		{"optional property of a closed object", `{"additionalProperties":false}`, `{"properties":{"b":{"type":"string"}},"additionalProperties":false}`, true},
		{"property that only a branch knew", `{"anyOf":[{"properties":{"b":{"const":1}}}]}`, `{"properties":{"b":{"const":2}},"anyOf":[{"properties":{"b":{"const":1}}}]}`, false},
		{"property that only a branch required", `{"anyOf":[{"required":["b"]}]}`, `{"properties":{"b":{"const":2}}}`, false},
		{"another property beside branches", `{"anyOf":[{"properties":{"b":{"const":1}}}]}`, `{"properties":{"c":{"const":2}},"anyOf":[{"properties":{"b":{"const":1}}}]}`, true},
		{"branches become one", `{"anyOf":[{"properties":{"b":{"const":1}}},{"properties":{"b":{"const":2}}}]}`, `{"anyOf":[{"properties":{"b":{"const":1}}}]}`, false},
		{"property narrower than the additional ones", `{"additionalProperties":{"type":"number"}}`, `{"properties":{"b":{"type":"integer"}},"additionalProperties":{"type":"number"}}`, false},
		{"property wider than the additional ones", `{"additionalProperties":{"type":"integer"}}`, `{"properties":{"b":{"type":"number"}},"additionalProperties":{"type":"integer"}}`, true},
		{"property removed", `{"properties":{"a":{}}}`, `{"properties":{}}`, false},
		{"property removed and closed", `{"properties":{"a":{}}}`, `{"additionalProperties":false}`, false},
		{"property widened", `{"properties":{"a":{"type":"integer"}}}`, `{"properties":{"a":{"type":"number"}}}`, true},
		{"property narrowed", `{"properties":{"a":{"type":"number"}}}`, `{"properties":{"a":{"type":"integer"}}}`, false},
		{"additional properties open", `{"additionalProperties":false}`, `{"additionalProperties":{"type":"string"}}`, true},
		{"additional properties close", `{}`, `{"additionalProperties":false}`, false},
		{"pattern dropped from a closed object", `{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, `{"additionalProperties":false}`, false},
		{"pattern dropped from an open object", `{"patternProperties":{"^x":{"type":"string"}}}`, `{}`, true},
		{"pattern added", `{}`, `{"patternProperties":{"^x":{"type":"string"}}}`, false},
		{"pattern widened", `{"patternProperties":{"^x":{"type":"integer"}}}`, `{"patternProperties":{"^x":{"type":"number"}}}`, false},
		{"property that a pattern bounds", `{"patternProperties":{"^x":{"type":"string"}}}`, `{"patternProperties":{"^x":{"type":"string"}},"properties":{"xa":{"type":"number"}}}`, false},
		{"items widen", `{"items":{"type":"integer"}}`, `{"items":{"type":"number"}}`, true},
		{"items narrow", `{"items":{"type":"number"}}`, `{"items":{"type":"integer"}}`, false},
		{"items appear", `{}`, `{"items":{"type":"integer"}}`, false},
		{"items drop", `{"items":{"type":"integer"}}`, `{}`, true},
		{"prefix dropped, the rest is narrower", `{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, `{"items":{"type":"integer"}}`, false},
		{"prefix added", `{"items":{"type":"integer"}}`, `{"prefixItems":[{"type":"number"}],"items":{"type":"integer"}}`, true},
		{"anyOf gains a branch", `{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`, true},
		{"anyOf loses a branch", `{"anyOf":[{"type":"null"},{"type":"string"}]}`, `{"anyOf":[{"type":"string"}]}`, false},
		{"anyOf around what was", `{"type":"string"}`, `{"anyOf":[{"type":"null"},{"type":"string"}]}`, true},
		{"allOf implied", `{"type":"integer","minimum":3}`, `{"allOf":[{"type":"number"},{"minimum":1}]}`, true},
		{"allOf not implied", `{"type":"integer"}`, `{"allOf":[{"type":"number"},{"minimum":1}]}`, false},
		{"oneOf dropped", `{"oneOf":[{"type":"string"}]}`, `{}`, true},
		{"oneOf changed", `{"oneOf":[{"type":"string"}]}`, `{"oneOf":[{"type":"string"},{"type":"null"}]}`, false},
		{"not changed", `{"not":{"type":"string"}}`, `{"not":{"type":["string","null"]}}`, false},
		{"not annotated", `{"not":{"type":"string"}}`, `{"not":{"type":"string","title":"no text"}}`, true},
		{"not through a reference that changed", `{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"string"}}}`, `{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":["string","null"]}}}`, false},
		{"if changed", `{"if":{"type":"string"},"then":{"minLength":1}}`, `{"if":{"type":"string"},"then":{"minLength":0}}`, false},
		{"minContains changed", `{"contains":{"type":"string"}}`, `{"contains":{"type":"string"},"minContains":2}`, false},
		{"dependentRequired dropped", `{"dependentRequired":{"a":["b"]}}`, `{}`, true},
		{"dependentRequired changed", `{"dependentRequired":{"a":["b"]}}`, `{"dependentRequired":{"a":["c"]}}`, false},
		{"reference widened", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}}`, `{"$ref":"#/$defs/b","$defs":{"b":{"type":"number"}}}`, true},
		{"recursion widened", `{"type":"object","properties":{"n":{"$ref":"#"},"v":{"type":"integer"}}}`, `{"type":"object","properties":{"n":{"$ref":"#"},"v":{"type":"number"}}}`, true},
		{"recursion narrowed", `{"type":"object","properties":{"n":{"$ref":"#"},"v":{"type":"number"}}}`, `{"type":"object","properties":{"n":{"$ref":"#"},"v":{"type":"integer"}}}`, false},
		{"unevaluated unchanged", `{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"properties":{"a":{}},"unevaluatedProperties":false}`, true},
		{"unevaluated beside a change", `{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"properties":{"a":{},"b":{}},"unevaluatedProperties":false}`, false},
		{"unevaluated dropped", `{"unevaluatedProperties":false}`, `{}`, true},
		{"unevaluated dropped beside something", `{"unevaluatedProperties":false}`, `{"type":["object","array"]}`, false},
		{"dynamic reference unchanged", `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, `{"title":"t","$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, true},
		{"dynamic reference beside a change", `{"$dynamicAnchor":"n","type":"object","properties":{"a":{"$dynamicRef":"#n"}}}`, `{"$dynamicAnchor":"n","type":["object","null"],"properties":{"a":{"$dynamicRef":"#n"}}}`, false},
		{"nothing accepted any more", `{"properties":{"a":true}}`, `{"properties":{"a":false}}`, false},
		{"unknown keyword", `{"type":"string","x-unit":"m"}`, `{"type":"string","x-unit":"cm"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Compatible([]byte(c.older), []byte(c.newer))
			if c.want {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrIncompatible)
			}
		})
	}
}

// Large changes that leave most where it was are compared.
func TestCompatibleIsQuickEnough(t *testing.T) {
	branches := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"properties":{"kind":{"const":%d}}}`, i))
		}
		return `{"anyOf":[` + strings.Join(all, ",") + `]}`
	}
	require.NoError(t, Compatible([]byte(branches(1000)), []byte(branches(1001))))
	require.ErrorIs(t, Compatible([]byte(branches(1001)), []byte(branches(1000))), ErrIncompatible)
	require.NoError(t, Compatible([]byte(manyProperties(2000)), []byte(manyProperties(2001))))
}

// TestCompatibleIsSound is the proof of rule S4: if the comparison accepts a change, then no instance that the older schema accepts is
// refused by the newer. Schemas, changes and instances are drawn from few values, so that they meet.
func TestCompatibleIsSound(t *testing.T) {
	seeds := uint64(3000)
	if os.Getenv("NARAD_LONG") != "" {
		seeds = 300_000
	}
	changed, accepted, judged := 0, 0, 0
	for seed := range seeds {
		draw := &drawer{rand.New(rand.NewPCG(seed, 0))}
		older := draw.document()
		newer := draw.change(older).(map[string]any)
		a, errA := compile("older", 1, encode(older), true)
		b, errB := compile("newer", 1, encode(newer), true)
		if errA != nil || errB != nil {
			continue // out of bounds, as some recursions are
		}
		c := newComparison(a, b)
		c.strict = true
		if changed++; !c.covers(a.root(), b.root()) {
			continue
		}
		accepted++
		was, err := Compile("older", 1, encode(older))
		require.NoError(t, err)
		is, err := Compile("newer", 1, encode(newer))
		require.NoError(t, err)
		for range 24 {
			instance := encode(draw.instanceOf(older, older, 4))
			if was.Validate(instance) != nil {
				continue
			}
			judged++
			if err := is.Validate(instance); err != nil {
				t.Fatalf("seed %d:\n%s\nis said to cover\n%s\nbut refuses %s: %v", seed, encode(newer), encode(older), instance, err)
			}
		}
	}
	t.Logf("%d changes, %d accepted, %d instances judged", changed, accepted, judged)
	require.Greater(t, accepted, changed/10)
	require.Greater(t, judged, accepted)
}

// drawer draws JSON values that look like schemas, and values for them.
type drawer struct{ *rand.Rand }

func (d *drawer) n(below int) int         { return d.IntN(below) }
func (d *drawer) chance(percent int) bool { return d.n(100) < percent }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var someValues = []any{nil, true, 0, 1, 2, 1.5, -3, 6, "", "a", "b", "ab", []any{}, []any{1}, map[string]any{}, map[string]any{"a": 1}}

func (d *drawer) value() any { return someValues[d.n(len(someValues))] }

var someNames = []string{"a", "b", "xa", "xb"}

func (d *drawer) name() string { return someNames[d.n(len(someNames))] }

func (d *drawer) document() map[string]any {
	doc := d.object(3)
	if doc["$defs"] = map[string]any{"d": d.object(2), "e": d.object(1)}; d.chance(50) {
		delete(doc, "$ref")
	}
	return doc
}

func (d *drawer) sub(depth int) any {
	switch {
	case d.chance(8):
		return d.chance(70)
	case d.chance(15):
		return map[string]any{"$ref": d.reference()}
	default:
		return d.object(depth)
	}
}

func (d *drawer) reference() string {
	return []string{"#", "#/$defs/d", "#/$defs/e"}[d.n(3)]
}

func (d *drawer) object(depth int) map[string]any {
	s := map[string]any{}
	from := keywords
	if d.chance(50) { // what belongs together meets more often
		from = families[d.n(len(families))]
	}
	for range 1 + d.n(3) {
		k := from[d.n(len(from))]
		s[k] = d.keyword(k, depth)
	}
	return s
}

var keywords = []string{
	"type", "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
	"pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "required", "properties", "properties",
	"patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems", "contains", "minContains", "maxContains", "anyOf", "allOf",
	"oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "$ref", "title",
}

var families = [][]string{
	{"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	{"properties", "patternProperties", "additionalProperties", "required"},
	{"anyOf", "properties", "$ref", "items"},
}

// twins are keywords that are easily taken for each other.
var twins = map[string]string{
	"minimum": "exclusiveMinimum", "exclusiveMinimum": "minimum", "maximum": "exclusiveMaximum", "exclusiveMaximum": "maximum",
	"items": "contains", "minItems": "minContains", "const": "enum",
}

func (d *drawer) keyword(k string, depth int) any {
	inner := func() any {
		if depth <= 0 {
			return d.chance(70)
		}
		return d.sub(depth - 1)
	}
	list := func() []any {
		var all []any
		for range 1 + d.n(2) {
			all = append(all, inner())
		}
		return all
	}
	named := func(names []string) map[string]any {
		all := map[string]any{}
		for range 1 + d.n(2) {
			all[names[d.n(len(names))]] = inner()
		}
		return all
	}
	switch k {
	case "type":
		types := []any{"null", "boolean", "integer", "number", "string", "array", "object"}
		first := d.n(len(types))
		if d.chance(50) {
			return types[first]
		}
		return []any{types[first], types[(first+1+d.n(len(types)-1))%len(types)]}
	case "enum":
		first := d.n(len(someValues) - 2)
		return slices.Clone(someValues[first : first+1+d.n(2)])
	case "const":
		return d.value()
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return []any{-3, 0, 1, 1.5, 2, 6}[d.n(6)]
	case "multipleOf":
		return []any{0.5, 1, 1.5, 2, 3, 6}[d.n(6)]
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		return d.n(3)
	case "pattern":
		return []any{"a", "^a$", "b"}[d.n(3)]
	case "format":
		return []any{"date", "ipv4", "unknown"}[d.n(3)]
	case "uniqueItems":
		return d.chance(70)
	case "required":
		return []any{d.name()}
	case "properties", "dependentSchemas":
		return named(someNames)
	case "patternProperties":
		return named([]string{"^x", "a$"})
	case "prefixItems", "anyOf", "allOf", "oneOf":
		return list()
	case "dependentRequired":
		return map[string]any{d.name(): []any{d.name()}}
	case "$ref":
		return d.reference()
	case "title":
		return "a title"
	default:
		return inner()
	}
}

// change returns a copy of a schema in which few things are different, most of them wider.
func (d *drawer) change(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, 0, len(v)+1)
		for _, item := range v {
			out = append(out, d.change(item))
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = d.change(v[k])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains(keywords, k) && d.chance(12) {
				twin := twins[k]
				switch {
				case d.chance(30):
					delete(out, k)
				case twin != "" && d.chance(30):
					delete(out, k)
					if out[twin] = v[k]; twin == "enum" {
						out[twin] = []any{v[k]}
					}
				case d.chance(60):
					out[k] = d.wider(k, out[k])
				default:
					out[k] = d.keyword(k, 1)
				}
			}
		}
		if d.chance(6) {
			k := keywords[d.n(len(keywords))]
			out[k] = d.keyword(k, 1)
		}
		if d.chance(4) && out["$defs"] == nil {
			return map[string]any{"anyOf": []any{d.sub(0), out}}
		}
		return out
	default:
		return v
	}
}

// wider is often wider, and sometimes not: what is accepted must be.
func (d *drawer) wider(k string, v any) any {
	switch value := v.(type) {
	case []any:
		if more, ok := d.keyword(k, 1).([]any); ok {
			return append(slices.Clone(value), more...)
		}
	case map[string]any:
		if k == "properties" || k == "patternProperties" {
			more := d.keyword(k, 1).(map[string]any)
			maps.Copy(more, value)
			if d.chance(40) {
				delete(more, slices.Sorted(maps.Keys(more))[0])
			}
			return more
		}
	case int:
		if k == "multipleOf" {
			return value * (1 + d.n(3))
		}
		return value - 1 + d.n(3)
	case string:
		if k == "type" {
			return []any{"integer", "number", []any{value, "null"}}[d.n(3)]
		}
	case bool:
		return d.chance(70)
	}
	return v
}

// instanceOf returns a value that often matches a schema of the document.
func (d *drawer) instanceOf(document map[string]any, schema any, depth int) any {
	s, ok := schema.(map[string]any)
	if !ok || depth <= 0 || d.chance(10) {
		return d.value()
	}
	if ref, ok := s["$ref"].(string); ok && d.chance(70) {
		switch ref {
		case "#":
			return d.instanceOf(document, document, depth-1)
		default:
			return d.instanceOf(document, document["$defs"].(map[string]any)[ref[len("#/$defs/"):]], depth-1)
		}
	}
	for _, k := range []string{"anyOf", "oneOf", "allOf"} {
		if branches, ok := s[k].([]any); ok && d.chance(60) {
			return d.instanceOf(document, branches[d.n(len(branches))], depth-1)
		}
	}
	if v, ok := s["const"]; ok {
		return v
	}
	if values, ok := s["enum"].([]any); ok {
		return values[d.n(len(values))]
	}
	kind := d.n(4)
	switch s["type"] {
	case "null", "boolean", "integer", "number", "string":
		kind = 0
	case "array":
		kind = 1
	case "object":
		kind = 2
	}
	switch kind {
	case 1:
		list := []any{}
		for i := range d.n(4) {
			sub := s["items"]
			if prefix, ok := s["prefixItems"].([]any); ok && i < len(prefix) {
				sub = prefix[i]
			}
			list = append(list, d.instanceOf(document, sub, depth-1))
		}
		return list
	case 2, 3:
		obj := map[string]any{}
		properties, _ := s["properties"].(map[string]any)
		for range d.n(4) {
			name := d.name()
			sub, known := properties[name]
			if !known {
				sub = s["additionalProperties"]
			}
			obj[name] = d.instanceOf(document, sub, depth-1)
		}
		return obj
	default:
		return d.value()
	}
}

// FuzzCompatible wants the comparison to end, to accept every document after itself, and never to panic.
func FuzzCompatible(f *testing.F) {
	for _, seed := range []string{
		`{"properties":{"a":{"$ref":"#"}}}`, `{"anyOf":[{"type":"string"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"items":{"$ref":"#"}}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","maximum":2,"exclusiveMaximum":true}`,
		`{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, older, newer []byte) {
		if _, err := Compile("t", 1, older); err != nil {
			reasonOf(t, err)
			return
		}
		require.NoError(t, Compatible(older, older), "%s", older)
		_ = Compatible(older, newer)
	})
}

// FuzzMessages wants checks to end with a verdict, whatever the schema and the message are, and that what encoding/json takes for
// one value is not called malformed, bounds aside.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"type":"string"}},"items":{"uniqueItems":true}}`), []byte(`{"a":1,"a":"x"}`))
	f.Add([]byte(`true`), []byte(`[1e5,"\ud800",{"":null}]`))
	f.Add([]byte(`{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}`), []byte(`1.60e1`))
	f.Fuzz(func(t *testing.T, document, message []byte) {
		s, err := Compile("t", 1, document)
		if err != nil {
			reasonOf(t, err)
			return
		}
		reason := reasonOf(t, s.Validate(message))
		if reason == "" && !json.Valid(message) {
			t.Fatalf("%q is no JSON", message)
		}
	})
}

func ExampleCompatible() {
	fmt.Println(Compatible([]byte(`{"type":"integer"}`), []byte(`{"type":"number"}`)))
	fmt.Println(Compatible([]byte(`{"type":"number"}`), []byte(`{"type":"integer"}`)))
	// Output:
	// <nil>
	// schema: the new version may refuse messages that the newest version accepts: #: type is new or narrower
}
