package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// enumHashed is the number of values from which an enumeration is looked up in a table.
const enumHashed = 16

// members replaces what the validator does per member of an array or object. The validator would collect an error for
// every member; here a container gives a few and ends.
type members struct {
	properties map[string]*jsonschema.Schema
	patterns   []patternMember
	additional any // nil, bool or *jsonschema.Schema
	names      *jsonschema.Schema

	prefix      []*jsonschema.Schema
	items       any // nil, bool or *jsonschema.Schema: those behind prefix
	contains    *jsonschema.Schema
	minContains *int
	maxContains *int
	marks       bool // contains marks what it matches as evaluated: from 2020-12 on
	unique      bool

	enum       map[string]bool // canonical texts
	enumValues []any
}

type patternMember struct {
	pattern string
	regexp  jsonschema.Regexp
	schema  *jsonschema.Schema
}

// takeMembers moves those checks out of s and returns them, nil when it has none.
func takeMembers(s *jsonschema.Schema) *members {
	m := &members{
		properties: s.Properties, additional: s.AdditionalProperties, names: s.PropertyNames, contains: s.Contains,
		minContains: s.MinContains, maxContains: s.MaxContains, marks: s.DraftVersion >= 2020, unique: s.UniqueItems,
	}
	m.patterns = patternMembers(s)
	m.prefix, m.items = itemsOf(s)
	if s.Enum != nil && len(s.Enum.Values) >= enumHashed {
		m.enum, m.enumValues = make(map[string]bool, len(s.Enum.Values)), s.Enum.Values
		for _, v := range m.enumValues {
			m.enum[canonical(v)] = true
		}
		s.Enum = nil
	}
	if m.properties == nil && m.patterns == nil && m.additional == nil && m.names == nil && m.prefix == nil && m.items == nil &&
		m.contains == nil && !m.unique && m.enum == nil {
		return nil
	}
	s.Properties, s.PatternProperties, s.AdditionalProperties, s.PropertyNames = nil, nil, nil, nil
	s.PrefixItems, s.Items2020, s.Items, s.AdditionalItems = nil, nil, nil, nil
	s.Contains, s.MinContains, s.MaxContains, s.UniqueItems = nil, nil, nil, false
	return m
}

func patternMembers(s *jsonschema.Schema) (all []patternMember) {
	for re, schema := range s.PatternProperties {
		all = append(all, patternMember{re.String(), re, schema})
	}
	slices.SortFunc(all, func(a, b patternMember) int { return strings.Compare(a.pattern, b.pattern) })
	return all
}

// itemsOf returns the schemas of the first items and of those behind them, for all drafts.
func itemsOf(s *jsonschema.Schema) (prefix []*jsonschema.Schema, rest any) {
	if s.DraftVersion >= 2020 {
		if s.Items2020 != nil {
			rest = s.Items2020
		}
		return s.PrefixItems, rest
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return nil, items
	case []*jsonschema.Schema:
		return items, s.AdditionalItems
	}
	return nil, nil
}

// Validate implements jsonschema.SchemaExt.
func (m *members) Validate(ctx *jsonschema.ValidatorContext, v any) {
	if m.enum != nil && !m.enum[canonical(v)] {
		ctx.AddError(&kind.Enum{Got: v, Want: m.enumValues})
		return
	}
	switch v := v.(type) {
	case map[string]any:
		m.object(ctx, v)
	case []any:
		m.array(ctx, v)
	}
}

// errorsOf counts the errors of one container. The deeper it lies the fewer it may give, so that a report is small
// whatever the message looks like.
type errorsOf struct {
	ctx  *jsonschema.ValidatorContext
	left int
}

func newErrorsOf(ctx *jsonschema.ValidatorContext) *errorsOf {
	return &errorsOf{ctx: ctx, left: max(8>>len(ctx.ValueLocation()), 1)}
}

// add reports whether the container has given enough.
func (e *errorsOf) add(err error) (enough bool) {
	if err == nil {
		return false
	}
	e.ctx.AddErr(err)
	e.left--
	// An error without a kind is of a caller who wants to know only whether there is one.
	return e.left <= 0 || err.(*jsonschema.ValidationError).ErrorKind == nil
}

func (m *members) object(ctx *jsonschema.ValidatorContext, obj map[string]any) {
	if m.properties == nil && m.patterns == nil && m.additional == nil && m.names == nil {
		return
	}
	found := newErrorsOf(ctx)
	var surplus []string
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if m.names != nil {
			if err := m.names.Validate(name); err != nil {
				named := err.(*jsonschema.ValidationError)
				named.InstanceLocation = slices.Clone(ctx.ValueLocation())
				named.ErrorKind = &kind.PropertyNames{Property: name}
				if found.add(named) {
					return
				}
			}
		}
		enough, extra := m.property(ctx, found, name, obj[name])
		if enough {
			return
		}
		if extra {
			surplus = append(surplus, name)
		}
	}
	if len(surplus) > 0 {
		ctx.AddError(&kind.AdditionalProperties{Properties: surplus})
	}
}

// property checks one property. surplus tells one that must not be there.
func (m *members) property(ctx *jsonschema.ValidatorContext, found *errorsOf, name string, v any) (enough, surplus bool) {
	evaluated := false
	if s, ok := m.properties[name]; ok {
		evaluated = true
		enough = found.add(ctx.Validate(s, v, []string{name}))
	}
	for i := 0; i < len(m.patterns) && !enough; i++ {
		if p := &m.patterns[i]; p.regexp.MatchString(name) {
			evaluated = true
			enough = found.add(ctx.Validate(p.schema, v, []string{name}))
		}
	}
	if !evaluated && m.additional != nil {
		evaluated = true
		switch additional := m.additional.(type) {
		case bool:
			surplus = !additional
		case *jsonschema.Schema:
			enough = found.add(ctx.Validate(additional, v, []string{name}))
		}
	}
	if evaluated {
		ctx.EvaluatedProp(name)
	}
	return enough, surplus
}

func (m *members) array(ctx *jsonschema.ValidatorContext, arr []any) {
	if m.unique {
		if i, j := duplicates(arr); i >= 0 {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	m.eachItem(ctx, arr)
	if m.contains != nil {
		m.matching(ctx, arr)
	}
}

func (m *members) eachItem(ctx *jsonschema.ValidatorContext, arr []any) {
	if m.prefix == nil && m.items == nil {
		return
	}
	found := newErrorsOf(ctx)
	rest, _ := m.items.(*jsonschema.Schema)
	for i, item := range arr {
		s := rest
		if i < len(m.prefix) {
			s = m.prefix[i]
		} else if s == nil {
			break
		}
		if found.add(ctx.Validate(s, item, []string{strconv.Itoa(i)})) {
			return
		}
	}
	if open, ok := m.items.(bool); ok && !open && len(arr) > len(m.prefix) {
		ctx.AddError(&kind.AdditionalItems{Count: len(arr) - len(m.prefix)})
	}
}

// matching counts the items that match contains. Why the others do not is no part of a report.
func (m *members) matching(ctx *jsonschema.ValidatorContext, arr []any) {
	const shown = 100 // indexes that a report may list
	var matched []int
	n := 0
	for i, item := range arr {
		if ctx.Validate(m.contains, item, []string{strconv.Itoa(i)}) != nil {
			continue
		}
		if n++; len(matched) < shown {
			matched = append(matched, i)
		}
		if m.marks {
			ctx.EvaluatedItem(i)
		}
	}
	switch {
	case m.minContains != nil && n < *m.minContains:
		ctx.AddError(&kind.MinContains{Got: matched, Want: *m.minContains})
	case m.minContains == nil && n == 0:
		ctx.AddError(&kind.Contains{})
	}
	if m.maxContains != nil && n > *m.maxContains {
		ctx.AddError(&kind.MaxContains{Got: matched, Want: *m.maxContains})
	}
}

// duplicates returns the first two equal items, or -1.
func duplicates(arr []any) (int, int) {
	seen := make(map[string]int, len(arr))
	for j, item := range arr {
		text := canonical(item)
		if i, ok := seen[text]; ok {
			return i, j
		}
		seen[text] = j
	}
	return -1, -1
}

// canonical returns a text that two JSON values share exactly if they are equal: keys are in order, and numbers are
// reduced fractions, so that 1, 1.0 and 10e-1 are the same.
func canonical(v any) string { return string(appendCanonical(nil, v)) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, canonicalNumber(v)...)
	case string:
		return strconv.AppendQuote(b, v)
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(appendCanonical(b, item), ',')
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = append(strconv.AppendQuote(b, name), ':')
			b = append(appendCanonical(b, v[name]), ',')
		}
		return append(b, '}')
	default:
		panic("schema: not a JSON value") // decode makes no other
	}
}

func canonicalNumber(n json.Number) string {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return strconv.FormatInt(i, 10)
	}
	return numberOf(n).RatString()
}

// numberOf returns the exact value of a number within the bounds of decode.
func numberOf(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic("schema: not a number") // the decoder let it pass
	}
	return r
}
