package schema

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compareMax bounds the comparison of two documents, in pairs of subschemas. Beyond it a change is refused.
const compareMax = 100_000

// Compatible returns nil if every message that the older document accepts is accepted by the newer one, as far as that can be told
// from the rules below, and otherwise an error that wraps [ErrIncompatible] and says where and why.
//
// A newer subschema may
//
//   - allow more types (number for integer), more values of enum, or wider bounds; drop any of them
//   - have a minLength, minItems or minProperties of 0 that was not there
//   - have a multipleOf that divides the old one
//   - drop pattern, format, uniqueItems; require less
//   - add optional properties, and open additionalProperties; never remove a property
//   - widen items and prefixItems
//   - cover every branch of an old anyOf; every part of its allOf must be implied by the old subschema
//   - drop oneOf, not, if, contains, propertyNames, dependencies, patternProperties, but not change them
//
// A subschema with an unevaluated… keyword or a $dynamicRef must stay as it is, with all that it applies.
//
// One exception is deliberate: an optional property that is added where unknown properties were allowed is accepted, although
// a message may have used its name for something else.
func Compatible(older, newer []byte) error {
	a, err := compile("older", 1, older, false)
	if err != nil {
		return err
	}
	b, err := compile("newer", 1, newer, false)
	if err != nil {
		return err
	}
	return compatible(a, b)
}

func compatible(older, newer *compiled) error {
	if older.root().DraftVersion != newer.root().DraftVersion {
		return fmt.Errorf("%w: $schema is of another draft", ErrIncompatible)
	}
	c := newComparison(older, newer)
	if c.covers(older.root(), newer.root()) {
		return nil
	}
	if c.left <= 0 {
		return fmt.Errorf("%w: they are too large to be compared", ErrIncompatible)
	}
	return fmt.Errorf("%w: %s", ErrIncompatible, truncate(c.why, 512))
}

// comparison looks for proof that newer subschemas cover older ones.
//
// A verdict of a pair that is being compared is assumed to be true (a message is finite, and no subschema leads back to itself
// for the same value, so the proof is by induction on the message). A verdict that rests on an assumption that
// turns out to be false is forgotten with it; false verdicts never rest on one.
type comparison struct {
	older, newer *compiled
	same         *sameness
	verdicts     map[pair]bool
	trail        []pair // true verdicts in the order in which they were reached
	left         int
	required     map[*jsonschema.Schema]map[string]bool // names that a subschema requires, once they were asked for
	strict       bool                                   // without the deliberate exception, for tests of the rest
	why          string                                 // the first thing that was in the way
}

func newComparison(older, newer *compiled) *comparison {
	c := &comparison{older: older, newer: newer, verdicts: map[pair]bool{}, left: compareMax,
		required: map[*jsonschema.Schema]map[string]bool{}}
	c.same = &sameness{older: older, newer: newer, assumed: map[pair]bool{}, left: &c.left}
	return c
}

func (c *comparison) refuse(at *jsonschema.Schema, format string, args ...any) bool {
	if c.why == "" {
		c.why = placeOf(at) + ": " + fmt.Sprintf(format, args...)
	}
	return false
}

// covers reports whether every value that older accepts is known to be accepted by newer.
func (c *comparison) covers(older, newer *jsonschema.Schema) bool {
	p := pair{older, newer}
	if verdict, known := c.verdicts[p]; known {
		return verdict
	}
	if c.left -= 1 + len(valuesOf(older)) + len(valuesOf(newer)); c.left <= 0 {
		return false
	}
	c.verdicts[p] = true
	mark := len(c.trail)
	c.trail = append(c.trail, p)
	if c.compare(older, newer) {
		return true
	}
	for _, rests := range c.trail[mark:] {
		delete(c.verdicts, rests)
	}
	c.trail = c.trail[:mark]
	c.verdicts[p] = false
	return false
}

func (c *comparison) compare(older, newer *jsonschema.Schema) bool {
	switch {
	case acceptsAll(newer) || acceptsNone(older):
		return true
	case acceptsNone(newer):
		return c.refuse(newer, "it accepts nothing any more")
	case older.Bool == nil && older.DraftVersion != newer.DraftVersion:
		return c.refuse(newer, "it is of another draft")
	}
	olds, news := conjuncts(older), conjuncts(newer)
	for _, s := range slices.Concat(olds, news) {
		c.left -= (len(s.Properties) + len(s.PatternProperties) + len(s.Required)) / 16 // they take their time
	}
	if slices.ContainsFunc(olds, isFragile) || slices.ContainsFunc(news, isFragile) {
		if !c.same.same(older, newer) {
			return c.refuse(newer, "a subschema with unevaluated… or a dynamic reference must stay as it is")
		}
		return true
	}
	for _, n := range news {
		if !c.implied(older, olds, n) {
			return false
		}
	}
	return c.keepsProperties(newer, olds, news)
}

func acceptsAll(s *jsonschema.Schema) bool  { return s.Bool != nil && *s.Bool }
func acceptsNone(s *jsonschema.Schema) bool { return s.Bool != nil && !*s.Bool }

// isFragile reports whether what s accepts depends on more than its own keywords and subschemas one by one.
func isFragile(s *jsonschema.Schema) bool {
	return s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil || s.DynamicRef != nil || s.RecursiveRef != nil
}

// conjuncts returns the subschemas all of which a value must match in order to match s: s itself, without what it refers
// to, and those that it refers to or lists in allOf. That ends, since none leads back to itself.
func conjuncts(s *jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{s: true}
	all := []*jsonschema.Schema{s}
	for i := 0; i < len(all); i++ {
		for _, part := range append(slices.Clone(all[i].AllOf), all[i].Ref) {
			if part != nil && !seen[part] {
				seen[part] = true
				all = append(all, part)
			}
		}
	}
	return all
}

// implied reports whether each assertion of n follows from one of the old conjuncts.
func (c *comparison) implied(older *jsonschema.Schema, olds []*jsonschema.Schema, n *jsonschema.Schema) bool {
	by := func(follows func(o *jsonschema.Schema) bool) bool { return slices.ContainsFunc(olds, follows) }
	if n.Bool != nil {
		return *n.Bool || by(acceptsNone) || c.refuse(n, "it accepts nothing any more")
	}
	for _, a := range scalars {
		if a.asserted(n) && !by(func(o *jsonschema.Schema) bool { return a.follows(o, n) }) {
			return c.refuse(n, "%s is new or narrower", a.keyword)
		}
	}
	return c.impliedText(by, n) && c.impliedSame(by, n) && c.impliedRequired(olds, n) && c.impliedAnyOf(older, olds, n) &&
		c.impliedItems(by, n) && c.impliedProperties(olds, n)
}

// scalar is an assertion that is compared by its own value.
type scalar struct {
	keyword  string
	asserted func(n *jsonschema.Schema) bool
	follows  func(o, n *jsonschema.Schema) bool
}

var scalars = []scalar{
	{"type",
		func(n *jsonschema.Schema) bool { return n.Types != nil && !n.Types.IsEmpty() },
		func(o, n *jsonschema.Schema) bool {
			return o.Types != nil && !o.Types.IsEmpty() && typesWithin(o.Types.ToStrings(), n.Types.ToStrings())
		}},
	{"enum", func(n *jsonschema.Schema) bool { return n.Enum != nil },
		func(o, n *jsonschema.Schema) bool { return valuesWithin(valuesOf(o), n.Enum.Values) }},
	{"const", func(n *jsonschema.Schema) bool { return n.Const != nil },
		func(o, n *jsonschema.Schema) bool { return valuesWithin(valuesOf(o), []any{*n.Const}) }},
	{"multipleOf", func(n *jsonschema.Schema) bool { return n.MultipleOf != nil },
		func(o, n *jsonschema.Schema) bool {
			return o.MultipleOf != nil && n.MultipleOf.Sign() != 0 && new(big.Rat).Quo(o.MultipleOf, n.MultipleOf).IsInt()
		}},
	{"minimum", func(n *jsonschema.Schema) bool { return n.Minimum != nil },
		func(o, n *jsonschema.Schema) bool {
			return atLeast(o.Minimum, n.Minimum, 0) || atLeast(o.ExclusiveMinimum, n.Minimum, 0)
		}},
	{"exclusiveMinimum", func(n *jsonschema.Schema) bool { return n.ExclusiveMinimum != nil },
		func(o, n *jsonschema.Schema) bool {
			return atLeast(o.ExclusiveMinimum, n.ExclusiveMinimum, 0) || atLeast(o.Minimum, n.ExclusiveMinimum, 1)
		}},
	{"maximum", func(n *jsonschema.Schema) bool { return n.Maximum != nil },
		func(o, n *jsonschema.Schema) bool {
			return atLeast(n.Maximum, o.Maximum, 0) || atLeast(n.Maximum, o.ExclusiveMaximum, 0)
		}},
	{"exclusiveMaximum", func(n *jsonschema.Schema) bool { return n.ExclusiveMaximum != nil },
		func(o, n *jsonschema.Schema) bool {
			return atLeast(n.ExclusiveMaximum, o.ExclusiveMaximum, 0) || atLeast(n.ExclusiveMaximum, o.Maximum, 1)
		}},
	least("minLength", func(s *jsonschema.Schema) *int { return s.MinLength }),
	least("minItems", func(s *jsonschema.Schema) *int { return s.MinItems }),
	least("minProperties", func(s *jsonschema.Schema) *int { return s.MinProperties }),
	most("maxLength", func(s *jsonschema.Schema) *int { return s.MaxLength }),
	most("maxItems", func(s *jsonschema.Schema) *int { return s.MaxItems }),
	most("maxProperties", func(s *jsonschema.Schema) *int { return s.MaxProperties }),
	{"pattern", func(n *jsonschema.Schema) bool { return n.Pattern != nil },
		func(o, n *jsonschema.Schema) bool {
			return o.Pattern != nil && o.Pattern.String() == n.Pattern.String()
		}},
	{"uniqueItems", func(n *jsonschema.Schema) bool { return n.UniqueItems },
		func(o, n *jsonschema.Schema) bool { return o.UniqueItems }},
}

// atLeast reports whether both bounds are there and a ≥ b, for by 1 a > b.
func atLeast(a, b *big.Rat, by int) bool { return a != nil && b != nil && a.Cmp(b) >= by }

func least(keyword string, of func(*jsonschema.Schema) *int) scalar {
	return scalar{keyword, func(n *jsonschema.Schema) bool { return of(n) != nil && *of(n) > 0 },
		func(o, n *jsonschema.Schema) bool { return of(o) != nil && *of(o) >= *of(n) }}
}

func most(keyword string, of func(*jsonschema.Schema) *int) scalar {
	return scalar{keyword, func(n *jsonschema.Schema) bool { return of(n) != nil },
		func(o, n *jsonschema.Schema) bool { return of(o) != nil && *of(o) <= *of(n) }}
}

func typesWithin(old, allowed []string) bool {
	for _, t := range old {
		if !slices.Contains(allowed, t) && !(t == "integer" && slices.Contains(allowed, "number")) {
			return false
		}
	}
	return true
}

// valuesOf returns the values that enum and const allow, nil for no bound.
func valuesOf(s *jsonschema.Schema) []any {
	switch {
	case s.Const != nil:
		return []any{*s.Const}
	case s.Enum != nil:
		return s.Enum.Values
	default:
		return nil
	}
}

func valuesWithin(old, allowed []any) bool {
	if len(old) == 0 {
		return false
	}
	known := make(map[string]bool, len(allowed))
	for _, v := range allowed {
		known[canonical(v)] = true
	}
	return !slices.ContainsFunc(old, func(v any) bool { return !known[canonical(v)] })
}

// impliedText compares format by its text: one that the validator does not know today it may know tomorrow.
func (c *comparison) impliedText(by func(func(*jsonschema.Schema) bool) bool, n *jsonschema.Schema) bool {
	format, ok := c.text(c.newer, n, "format")
	if !ok || by(func(o *jsonschema.Schema) bool {
		old, ok := c.text(c.older, o, "format")
		return ok && old == format
	}) {
		return true
	}
	return c.refuse(n, "format is new or another")
}

func (c *comparison) text(of *compiled, s *jsonschema.Schema, keyword string) (string, bool) {
	if s.Bool != nil {
		return "", false
	}
	raw, ok := rawOf(of.document, s).(map[string]any)
	if !ok || s.DraftVersion < 2019 && s.Ref != nil { // what stands beside a reference does not count there
		return "", false
	}
	text, ok := raw[keyword].(string)
	return text, ok
}

// impliedSame compares what may be dropped but not changed.
func (c *comparison) impliedSame(by func(func(*jsonschema.Schema) bool) bool, n *jsonschema.Schema) bool {
	for _, keywords := range [][]string{
		{"oneOf"}, {"not"}, {"if", "then", "else"}, {"contains", "minContains", "maxContains"}, {"propertyNames"},
		{"dependencies"}, {"dependentSchemas"}, {"dependentRequired"},
	} {
		if !c.asserts(c.newer, n, keywords[0]) {
			continue
		}
		if !by(func(o *jsonschema.Schema) bool { return c.sameKeywords(o, n, keywords) }) {
			return c.refuse(n, "%s is new or another", keywords[0])
		}
	}
	return true
}

// asserts reports whether the validator took a keyword of a subschema.
func (c *comparison) asserts(of *compiled, s *jsonschema.Schema, keyword string) bool {
	switch keyword {
	case "oneOf":
		return len(s.OneOf) > 0
	case "not":
		return s.Not != nil
	case "if":
		return s.If != nil
	case "contains":
		return s.Contains != nil
	case "propertyNames":
		return s.PropertyNames != nil
	case "dependencies":
		return len(s.Dependencies) > 0
	case "dependentSchemas":
		return len(s.DependentSchemas) > 0
	default:
		return len(s.DependentRequired) > 0
	}
}

// sameKeywords reports whether two subschemas agree in some keywords, with all that these apply.
func (c *comparison) sameKeywords(o, n *jsonschema.Schema, keywords []string) bool {
	if !c.asserts(c.older, o, keywords[0]) {
		return false
	}
	mine := func(all []edge) []edge {
		return slices.DeleteFunc(all, func(e edge) bool { return !slices.Contains(keywords, e.keyword) })
	}
	olds, news := mine(edges(o)), mine(edges(n))
	if len(olds) != len(news) {
		return false
	}
	oldText, newText := ownKeywords(c.older, o), ownKeywords(c.newer, n)
	for _, k := range keywords {
		if oldText[k] != newText[k] {
			return false
		}
	}
	for i := range olds {
		if olds[i].keyword != news[i].keyword || olds[i].name != news[i].name || !c.same.same(olds[i].to, news[i].to) {
			return false
		}
	}
	return true
}

func (c *comparison) impliedRequired(olds []*jsonschema.Schema, n *jsonschema.Schema) bool {
	for _, name := range n.Required {
		if !c.requires(olds, name) {
			return c.refuse(n, "%q is required and was not", truncate(name, 64))
		}
	}
	return true
}

func (c *comparison) requires(all []*jsonschema.Schema, name string) bool {
	return slices.ContainsFunc(all, func(s *jsonschema.Schema) bool {
		names, known := c.required[s]
		if !known {
			names = make(map[string]bool, len(s.Required))
			for _, name := range s.Required {
				names[name] = true
			}
			c.required[s] = names
		}
		return names[name]
	})
}

// impliedAnyOf wants every branch of an old anyOf within a new branch, or all of the old subschema within one.
func (c *comparison) impliedAnyOf(older *jsonschema.Schema, olds []*jsonschema.Schema, n *jsonschema.Schema) bool {
	if len(n.AnyOf) == 0 {
		return true
	}
	within := func(i int, old *jsonschema.Schema) bool {
		if i < len(n.AnyOf) && c.covers(old, n.AnyOf[i]) { // most changes leave branches where they are
			return true
		}
		return slices.ContainsFunc(n.AnyOf, func(branch *jsonschema.Schema) bool { return c.covers(old, branch) })
	}
	why := c.why // the branches that do not fit are no reason to refuse if another does
	for _, o := range olds {
		covered := len(o.AnyOf) > 0
		for i := 0; i < len(o.AnyOf) && covered; i++ {
			covered = within(i, o.AnyOf[i])
		}
		if covered {
			c.why = why
			return true
		}
	}
	if within(0, older) {
		c.why = why
		return true
	}
	if why == "" {
		c.why = ""
	}
	return c.refuse(n, "anyOf does not cover all that was accepted")
}

// impliedItems compares what applies at each index.
func (c *comparison) impliedItems(by func(func(*jsonschema.Schema) bool) bool, n *jsonschema.Schema) bool {
	prefix, rest := itemsOf(n)
	if len(prefix) == 0 && rest == nil {
		return true
	}
	why := c.why
	if by(func(o *jsonschema.Schema) bool { return c.itemsWithin(o, prefix, rest) }) {
		c.why = why
		return true
	}
	return c.refuse(n, "items are narrower")
}

func (c *comparison) itemsWithin(o *jsonschema.Schema, prefix []*jsonschema.Schema, rest any) bool {
	oldPrefix, oldRest := itemsOf(o)
	at := func(i int, prefix []*jsonschema.Schema, rest any) any {
		if i < len(prefix) {
			return prefix[i]
		}
		return rest
	}
	for i := 0; i <= max(len(prefix), len(oldPrefix)); i++ { // the last one stands for all behind both
		if !c.within(at(i, oldPrefix, oldRest), at(i, prefix, rest)) {
			return false
		}
	}
	return true
}

// within is covers for what may also be absent, which accepts everything, or a boolean.
func (c *comparison) within(older, newer any) bool {
	old, new := orBoolean(older), orBoolean(newer)
	switch {
	case acceptsAll(new) || acceptsNone(old):
		return true
	case acceptsAll(old) && acceptsNone(new):
		return false
	case acceptsNone(new):
		return false
	}
	return c.covers(old, new)
}

var everything, nothing = true, false

// anything and never stand for keywords that are absent or a boolean. They are in no document.
var (
	anything = &jsonschema.Schema{Bool: &everything}
	never    = &jsonschema.Schema{Bool: &nothing}
)

func orBoolean(v any) *jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return v
	case bool:
		if !v {
			return never
		}
	}
	return anything
}

// impliedProperties compares what applies to each property.
func (c *comparison) impliedProperties(olds []*jsonschema.Schema, n *jsonschema.Schema) bool {
	for _, e := range edges(n) {
		switch e.keyword {
		case "properties":
			if !c.impliedProperty(olds, n, e.name, e.to) {
				return false
			}
		case "patternProperties":
			if !slices.ContainsFunc(olds, func(o *jsonschema.Schema) bool {
				return slices.ContainsFunc(patternMembers(o), func(p patternMember) bool {
					return p.pattern == e.name && c.same.same(p.schema, e.to)
				})
			}) {
				return c.refuse(n, "patternProperties has a pattern that is new or another")
			}
		}
	}
	if n.AdditionalProperties == nil || acceptsAll(orBoolean(n.AdditionalProperties)) {
		return true
	}
	why := c.why
	if slices.ContainsFunc(olds, func(o *jsonschema.Schema) bool { return c.additionalWithin(o, n) }) {
		c.why = why
		return true
	}
	return c.refuse(n, "additionalProperties is narrower")
}

// impliedProperty reports whether what was accepted under a name is accepted still.
func (c *comparison) impliedProperty(olds []*jsonschema.Schema, n *jsonschema.Schema, name string, newer *jsonschema.Schema) bool {
	why := c.why
	known := false
	for _, o := range olds {
		within, knows := c.propertyWithin(o, name, newer)
		if within {
			c.why = why
			return true
		}
		known = known || knows
	}
	if !known && !c.strict && !c.requires([]*jsonschema.Schema{n}, name) && !c.mentioned(olds, name) {
		c.why = why
		return true // the deliberate exception: a new optional property of an open object
	}
	return c.refuse(n, "property %q is narrower", truncate(name, 64))
}

// mentioned reports whether any of these, or what they apply to the same value, requires a property or says what it must
// be. Then it is not new.
func (c *comparison) mentioned(olds []*jsonschema.Schema, name string) bool {
	seen := map[*jsonschema.Schema]bool{}
	for pending := slices.Clone(olds); len(pending) > 0; c.left-- {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.Properties[name] != nil || c.matches(s, name) || c.requires([]*jsonschema.Schema{s}, name) {
			return true
		}
		for _, e := range edges(s) {
			if inPlace[e.keyword] {
				pending = append(pending, e.to)
			}
		}
	}
	return false
}

// propertyWithin reports whether what o accepts under a name is within newer, and whether o says anything about the name.
func (c *comparison) propertyWithin(o *jsonschema.Schema, name string, newer *jsonschema.Schema) (within, knows bool) {
	if old, ok := o.Properties[name]; ok {
		knows = true
		if c.covers(old, newer) {
			return true, true
		}
	}
	for _, p := range patternMembers(o) {
		if p.regexp.MatchString(name) {
			knows = true
			if c.covers(p.schema, newer) {
				return true, true
			}
		}
	}
	if knows {
		return false, true
	}
	old := orBoolean(o.AdditionalProperties)
	return c.within(old, newer), !acceptsAll(old)
}

// additionalWithin reports whether each property that is additional for n was within what n allows such a property.
func (c *comparison) additionalWithin(o, n *jsonschema.Schema) bool {
	for name, old := range o.Properties {
		if _, named := n.Properties[name]; !named && !c.matches(n, name) && !c.within(old, n.AdditionalProperties) {
			return false
		}
	}
	for _, p := range patternMembers(o) {
		kept := slices.ContainsFunc(patternMembers(n), func(q patternMember) bool { return q.pattern == p.pattern })
		if !kept && !c.within(p.schema, n.AdditionalProperties) {
			return false
		}
	}
	return c.within(orBoolean(o.AdditionalProperties), n.AdditionalProperties)
}

func (c *comparison) matches(s *jsonschema.Schema, name string) bool {
	return slices.ContainsFunc(patternMembers(s), func(p patternMember) bool { return p.regexp.MatchString(name) })
}

// keepsProperties refuses a newer version that forgets a property: a later version could then give the name another meaning.
func (c *comparison) keepsProperties(newer *jsonschema.Schema, olds, news []*jsonschema.Schema) bool {
	for _, o := range olds {
		for _, e := range edges(o) {
			if e.keyword == "properties" && !slices.ContainsFunc(news, func(n *jsonschema.Schema) bool { return n.Properties[e.name] != nil }) {
				return c.refuse(newer, "property %q is removed", strings.ToValidUTF8(truncate(e.name, 64), ""))
			}
		}
	}
	return true
}
