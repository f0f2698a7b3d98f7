package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// payloadCheap is the size of a message above which its check takes a slot.
const payloadCheap = 16 << 10

// drafts are the values that $schema may have, without the # that may end them.
var drafts = map[string]bool{
	"https://json-schema.org/draft/2020-12/schema": true, "https://json-schema.org/draft/2019-09/schema": true,
	"http://json-schema.org/draft-07/schema": true, "http://json-schema.org/draft-06/schema": true,
	"http://json-schema.org/draft-04/schema": true,
}

// Schema is a compiled document. It may be used by any number of goroutines at once.
type Schema struct {
	root   *jsonschema.Schema
	costly bool
}

// Compile compiles version n of the schema of a topic. It returns an [*Error] unless the document is
//
//   - an object, or true, of at most 256 KiB, nested at most 64 deep, with exponents of at most ±1000
//   - a JSON Schema of draft 2020-12 (which is assumed), 2019-09, 7, 6 or 4
//   - without references out of the document
//   - such that at most 64 ways lead to each subschema for one value, in a recursion too, and at most 256 subschemas
//     apply each other to one value
//   - with at most 8192 subschemas, and at most 256 references to places that are no subschema's
//   - without recursion through not, or for the same value
//   - with patterns of RE2 syntax, each of which takes at most 32 steps per byte
func Compile(topic string, n int, document []byte) (*Schema, error) {
	s, err := compileMembers(topic, n, document, true)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Restore compiles a document that an earlier release accepted. What is only a bound of cost does not fail it, but
// makes its checks take a slot.
func Restore(topic string, n int, document []byte) (*Schema, error) {
	s, err := compileMembers(topic, n, document, true)
	if err != nil && (err.Reason == ReasonPaths || err.Reason == ReasonPattern) {
		s, err = compileMembers(topic, n, document, false)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func compileMembers(topic string, n int, document []byte, bounded bool) (*Schema, *Error) {
	c, err := compile(topic, n, document, bounded)
	if err != nil {
		return nil, err
	}
	for _, s := range c.graph.nodes {
		if m := takeMembers(s); m != nil {
			s.Extensions = append(s.Extensions, m)
		}
		if s.Format != nil && s.Format.Name == "regex" {
			s.Format = &regexFormat // of a message only the syntax counts, it is not executed
		}
	}
	return &Schema{root: c.graph.nodes[0], costly: c.costly}, nil
}

var regexFormat = jsonschema.Format{Name: "regex", Validate: func(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := syntax.Parse(text, syntax.Perl)
	return err
}}

// compiled is a document as the validator compiled it.
type compiled struct {
	document any
	graph    *graph
	costly   bool
}

func (c *compiled) root() *jsonschema.Schema { return c.graph.nodes[0] }

func compile(topic string, n int, document []byte, bounded bool) (*compiled, *Error) {
	if len(document) > DocumentBytesMax {
		return nil, refuse(ReasonMalformed, "the document is larger than %d bytes", DocumentBytesMax)
	}
	v, err := decode(document, documentNestingMax, "document")
	if err != nil {
		return nil, err
	}
	if err := checkShape(v); err != nil {
		return nil, err
	}
	if err := checkCounts(v); err != nil && bounded {
		return nil, err
	}
	root, err := compileWith(addressOf(topic, n), v, bounded)
	if err != nil {
		return nil, err
	}
	c := &compiled{document: v, graph: newGraph(root)}
	if err := c.checkNodes(addressOf(topic, n) + "#"); err != nil {
		return nil, err
	}
	if c.costly, err = checkBounds(c.graph); err != nil && bounded {
		return nil, err
	}
	c.costly = c.costly || !bounded
	return c, nil
}

func addressOf(topic string, n int) string { return fmt.Sprintf("narad://schema/%s/%d", topic, n) }

func checkShape(v any) *Error {
	switch v := v.(type) {
	case bool:
		if !v {
			return refuse(ReasonMalformed, "the document is false, which no message would match")
		}
		return nil
	case map[string]any:
		if id, ok := v["$schema"]; ok {
			return checkDraft(id)
		}
		return nil
	default:
		return refuse(ReasonMalformed, "the document is neither an object nor true")
	}
}

func checkDraft(id any) *Error {
	if text, ok := id.(string); !ok || !drafts[strings.TrimSuffix(text, "#")] {
		return refuse(ReasonMalformed, "$schema is not the address of draft 2020-12, 2019-09, 07, 06 or 04")
	}
	return nil
}

// noLoader refuses to fetch what is not in the document.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a reference must stay inside the document")
}

func compileWith(address string, v any, bounded bool) (*jsonschema.Schema, *Error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(anyRegexp)
	if bounded {
		c.UseRegexpEngine(boundedRegexp)
	}
	if err := c.AddResource(address, v); err != nil {
		return nil, refuse(ReasonMalformed, "%v", err)
	}
	root, err := c.Compile(address)
	if err == nil {
		return root, nil
	}
	var pattern *errPattern
	var invalid *jsonschema.SchemaValidationError
	var report *jsonschema.ValidationError
	switch {
	case errors.As(err, &pattern):
		return nil, refuse(ReasonPattern, "%v", pattern)
	case errors.As(err, &invalid) && errors.As(invalid.Err, &report):
		// With format asserted, a pattern that is refused shows here, in the words of the engine.
		if expensive(report) {
			return nil, refuse(ReasonPattern, "%s", shown(report))
		}
		return nil, refuse(ReasonMalformed, "the document is not a JSON Schema: %s", shown(report))
	default:
		return nil, refuse(ReasonMalformed, "the document is not a JSON Schema: %v", err)
	}
}

// checkNodes checks what needs both sides of each subschema, the compiled one and its text.
func (c *compiled) checkNodes(address string) *Error {
	dynamic, resources := false, 0
	for _, s := range c.graph.nodes {
		if !strings.HasPrefix(s.Location, address) {
			return refuse(ReasonMalformed, "a reference must stay inside the document, %s does not", s.Location)
		}
		raw, ok := rawOf(c.document, s).(map[string]any)
		if !ok {
			continue
		}
		if id, ok := raw["$schema"]; ok {
			if err := checkDraft(id); err != nil {
				return err
			}
		}
		if s.ID != "" && s != c.root() {
			resources++
		}
		dynamic = dynamic || s.DynamicRef != nil || s.RecursiveRef != nil
		if err := checkIntegers(s, raw); err != nil {
			return err
		}
	}
	if dynamic && resources > 0 {
		return refuse(ReasonMalformed, "$dynamicRef and $recursiveRef are not supported together with embedded $id")
	}
	return nil
}

var integerKeywords = []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}

// checkIntegers refuses what the validator would silently take for another number.
func checkIntegers(s *jsonschema.Schema, raw map[string]any) *Error {
	for _, keyword := range integerKeywords {
		if n, ok := raw[keyword].(json.Number); ok {
			if r := numberOf(n); !r.IsInt() || !r.Num().IsInt64() {
				return refuse(ReasonMalformed, "%s at %s is not an integer of 64 bits", keyword, placeOf(s))
			}
		}
	}
	return nil
}

// Costly reports whether the check of a message of n bytes needs a slot.
func (s *Schema) Costly(n int) bool { return s.costly || n > payloadCheap }

// Validate checks a message, which must be exactly one JSON text in UTF-8, nested at most 256 deep. Its errors are
// of type [*Error]. It takes no slot; see [Checker].
func (s *Schema) Validate(payload []byte) error {
	v, err := decode(payload, payloadNestingMax, "message")
	if err != nil {
		return err
	}
	var invalid *jsonschema.ValidationError
	switch err := s.root.Validate(v); {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return report(invalid)
	default:
		return refuse(ReasonInvalid, "%v", err)
	}
}

// Compact returns a document without insignificant space, as it is stored.
func Compact(document []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, document); err != nil {
		return nil, refuse(ReasonMalformed, "the document is not JSON: %v", err)
	}
	return b.Bytes(), nil
}
