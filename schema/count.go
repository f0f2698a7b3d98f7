package schema

import "strconv"

// The time to compile a document grows with the square of these, so they are bounded before it is compiled.
const (
	subschemasMax = 8192 // subschemas of one document
	straysMax     = 256  // references to places where no keyword has a subschema, such as #/components/a
)

// checkCounts refuses a document that would take seconds to compile.
func checkCounts(document any) *Error {
	c := &counter{places: map[string]bool{}}
	c.subschema("#", document)
	if len(c.places) > subschemasMax {
		return refuse(ReasonPaths, "the document has more than %d subschemas", subschemasMax)
	}
	strays := map[string]bool{}
	references(document, func(target string) {
		if !c.places[target] {
			strays[target] = true
		}
	})
	if len(strays) > straysMax {
		return refuse(ReasonPaths, "the document has more than %d references to places other than $defs or another keyword's", straysMax)
	}
	return nil
}

// counter finds the places of all subschemas.
type counter struct{ places map[string]bool }

func (c *counter) subschema(at string, v any) {
	c.places[at] = true
	obj, ok := v.(map[string]any)
	if !ok {
		return
	}
	for keyword, value := range obj {
		below := at + "/" + escapeToken(keyword)
		switch value := value.(type) {
		case map[string]any:
			if holdsNamed[keyword] {
				for name, sub := range value {
					c.subschema(below+"/"+escapeToken(name), sub)
				}
			} else if holdsOne[keyword] {
				c.subschema(below, value)
			}
		case []any:
			if holdsMany[keyword] {
				for i, sub := range value {
					c.subschema(below+"/"+strconv.Itoa(i), sub)
				}
			}
		case bool:
			if holdsOne[keyword] {
				c.subschema(below, value)
			}
		}
	}
}

// references visits every $ref, wherever it is.
func references(v any, visit func(target string)) {
	switch v := v.(type) {
	case map[string]any:
		if target, ok := v["$ref"].(string); ok {
			visit(target)
		}
		for _, value := range v {
			references(value, visit)
		}
	case []any:
		for _, value := range v {
			references(value, visit)
		}
	}
}
