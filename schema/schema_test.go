package schema

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func mustCompile(t testing.TB, document string) *Schema {
	t.Helper()
	s, err := Compile("orders", 1, []byte(document))
	require.NoError(t, err)
	return s
}

func reasonOf(t testing.TB, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *Error
	require.ErrorAs(t, err, &e)
	require.LessOrEqual(t, len(e.Text), textMax)
	require.True(t, utf8.ValidString(e.Text))
	return e.Reason
}

func nested(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }

func TestDocuments(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 62) + `{"enum":[0]}` + strings.Repeat(`}`, 62) // 62 + object + array
	ways := func(n int) string {
		return `{"$defs":{"a":{"type":"string"}},"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/a"},`, n), ",") + `]}`
	}
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
		}
		fmt.Fprintf(&b, `"%d":{}}}`, n)
		return b.String()
	}
	properties := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"properties":{"x":{"$ref":"#/$defs/a"}}}},"properties":{`)
		for i := range n {
			fmt.Fprintf(&b, `"p%d":{"$ref":"#/$defs/a"},`, i)
		}
		return strings.TrimSuffix(b.String(), ",") + `}}`
	}
	for _, c := range []struct {
		name, document string
		want           Reason
	}{
		{"true", `true`, ""},
		{"empty", `{}`, ""},
		{"false", `false`, ReasonMalformed},
		{"null", `null`, ReasonMalformed},
		{"array", `[]`, ReasonMalformed},
		{"nothing", ``, ReasonMalformed},
		{"two values", `{} {}`, ReasonMalformed},
		{"not UTF-8", "{\"title\":\"\xff\"}", ReasonMalformed},
		{"type of no name", `{"type":"strin"}`, ReasonMalformed},
		{"largest", `{"title":"` + strings.Repeat("a", DocumentBytesMax-12) + `"}`, ""},
		{"too large", `{"title":"` + strings.Repeat("a", DocumentBytesMax-11) + `"}`, ReasonMalformed},
		{"nested 64", deep, ""},
		{"nested 65", `{"not":` + deep + `}`, ReasonDepth},
		{"draft 2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, ""},
		{"draft 2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema#"}`, ""},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#"}`, ""},
		{"draft 6", `{"$schema":"http://json-schema.org/draft-06/schema#"}`, ""},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, ""},
		{"draft 3", `{"$schema":"http://json-schema.org/draft-03/schema#"}`, ReasonMalformed},
		{"newest draft", `{"$schema":"http://json-schema.org/schema#"}`, ReasonMalformed},
		{"draft of no text", `{"$schema":7}`, ReasonMalformed},
		{"nested draft", `{"$defs":{"a":{"$id":"urn:a","$schema":"https://example.com/meta"}},"$ref":"#/$defs/a"}`, ReasonMalformed},
		{"reference inside", `{"$ref":"#/$defs/a","$defs":{"a":{}}}`, ""},
		{"reference to an anchor", `{"$ref":"#a","$defs":{"x":{"$anchor":"a"}}}`, ""},
		{"reference by id", `{"$id":"https://example.com/o","$ref":"https://example.com/o#/$defs/a","$defs":{"a":{}}}`, ""},
		{"reference to the web", `{"$ref":"https://example.com/other"}`, ReasonMalformed},
		{"reference to a file", `{"$ref":"file:///etc/passwd"}`, ReasonMalformed},
		{"reference to a meta-schema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, ReasonMalformed},
		{"reference to nothing", `{"$ref":"#/$defs/a"}`, ReasonMalformed},
		{"reference to itself", `{"$ref":"#"}`, ReasonPaths},
		{"reference through another to itself", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"}]}}}`, ReasonPaths},
		{"64 ways", ways(64), ""},
		{"65 ways", ways(65), ReasonPaths},
		{"65 properties of one kind", properties(65), ""},
		{"256 references to references", chain(255), ""},
		{"258 references to references", chain(257), ReasonPaths},
		{"recursion", `{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}`, ""},
		{"recursion of patterns and the rest", `{"patternProperties":{"^x":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}`, ""},
		{"recursion with two ways to a property", `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, ReasonPaths},
		{"recursion of two patterns", `{"patternProperties":{"^x":{"$ref":"#"},"y$":{"$ref":"#"}}}`, ReasonPaths},
		{"recursion of items and contains", `{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`, ReasonPaths},
		{"recursion of prefix and items", `{"prefixItems":[{"$ref":"#"}],"items":{"$ref":"#"}}`, ""},
		{"recursion through not", `{"properties":{"a":{"not":{"$ref":"#"}}}}`, ReasonPaths},
		{"not without recursion", `{"properties":{"a":{"not":{"$ref":"#/$defs/b"}}},"$defs":{"b":{"type":"null"}}}`, ""},
		{"pattern", `{"pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"}`, ""},
		{"long anchored repetition", `{"pattern":"^[a-z]{1,500}$"}`, ""},
		{"long repetition anywhere", `{"pattern":"[a-z]{1,100}x"}`, ReasonPattern},
		{"nested repetition", `{"pattern":"^(a?){50}$"}`, ReasonPattern},
		{"pattern of names", `{"patternProperties":{"(a|aa|aaa){30}$":{}}}`, ReasonPattern},
		{"pattern with a look-ahead", `{"pattern":"(?=a)"}`, ReasonMalformed},
		{"exponent 1000", `{"minimum":1e1000,"maximum":1E+01000}`, ""},
		{"exponent 1001", `{"minimum":1e1001}`, ReasonMalformed},
		{"exponent -1001", `{"minimum":1e-1001}`, ReasonMalformed},
		{"exponent of many digits", `{"minimum":1e99999999999999999999}`, ReasonMalformed},
		{"length beyond 64 bits", `{"maxLength":9223372036854775808}`, ReasonMalformed},
		{"largest length", `{"maxLength":9223372036854775807}`, ""},
		{"dynamic reference", `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, ""},
		{"dynamic reference between resources", `{"$dynamicAnchor":"n","properties":{"a":{"$id":"urn:x","$dynamicRef":"#n","$dynamicAnchor":"n"}}}`, ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile("orders", 1, []byte(c.document))
			require.Equal(t, c.want, reasonOf(t, err), "%v", err)
		})
	}
}

func TestMessages(t *testing.T) {
	var values []string
	for i := range 20 {
		values = append(values, fmt.Sprintf(`%d.50e1`, i), fmt.Sprintf(`{"k":[%d],"a":null}`, i))
	}
	enum := `{"enum":[` + strings.Join(values, ",") + `]}`
	for _, c := range []struct {
		name, document, message string
		want                    Reason
	}{
		{"matching", `{"type":"object","required":["a"]}`, `{"a":1}`, ""},
		{"missing", `{"type":"object","required":["a"]}`, `{}`, ReasonInvalid},
		{"no JSON", `true`, `{`, ReasonMalformed},
		{"two texts", `true`, `1 2`, ReasonMalformed},
		{"trailing comma", `true`, `[1,]`, ReasonMalformed},
		{"space around", `true`, " 1\n", ""},
		{"not UTF-8", `true`, "\"\xff\"", ReasonMalformed},
		{"byte order mark", `true`, "\ufeff1", ReasonMalformed},
		{"nested 256", `true`, nested(256), ""},
		{"nested 257", `true`, nested(257), ReasonDepth},
		{"brackets in a string", `true`, `"` + strings.Repeat("[", 300) + `\"` + strings.Repeat("{", 300) + `"`, ""},
		{"exponent", `true`, `1e1001`, ReasonMalformed},
		{"e in a string", `true`, `"1e99999"`, ""},
		{"number of many digits", `true`, strings.Repeat("7", digitsMax+1), ReasonMalformed},
		{"exact integer", `{"const":9007199254740993}`, `9007199254740993`, ""},
		{"neighbour of an exact integer", `{"const":9007199254740993}`, `9007199254740992`, ReasonInvalid},
		{"exact multiple", `{"multipleOf":0.01}`, `0.07`, ""},
		{"integer with a fraction of zero", `{"type":"integer"}`, `1.0`, ""},
		{"last of duplicate keys, valid", `{"properties":{"a":{"type":"string"}}}`, `{"a":1,"a":"x"}`, ""},
		{"last of duplicate keys, invalid", `{"properties":{"a":{"type":"string"}}}`, `{"a":"x","a":1}`, ReasonInvalid},
		{"format is asserted", `{"format":"date-time"}`, `"yesterday"`, ReasonInvalid},
		{"format in draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","format":"ipv4"}`, `"300.1.1.1"`, ReasonInvalid},
		{"unknown format", `{"format":"colour"}`, `"x"`, ""},
		{"expensive pattern as a value", `{"format":"regex"}`, `"(a?){50}"`, ""},
		{"malformed pattern as a value", `{"format":"regex"}`, `"("`, ReasonInvalid},
		{"large enum, number", enum, `5`, ""},
		{"large enum, equal object", enum, `{"a":null,"k":[3.0]}`, ""},
		{"large enum, other", enum, `{"a":null,"k":["3"]}`, ReasonInvalid},
		{"unique", `{"uniqueItems":true}`, `[1,"1",true,[1],{"a":1}]`, ""},
		{"equal numbers", `{"uniqueItems":true}`, `[{"a":1,"b":2},{"b":2.0,"a":1e0}]`, ReasonInvalid},
		{"property of a wrong type", `{"properties":{"a":{"type":"string"}}}`, `{"a":1}`, ReasonInvalid},
		{"pattern property", `{"patternProperties":{"^a":{"type":"string"}}}`, `{"ab":1}`, ReasonInvalid},
		{"additional property", `{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"b":1}`, ReasonInvalid},
		{"additional property of a wrong type", `{"additionalProperties":{"type":"string"}}`, `{"b":1}`, ReasonInvalid},
		{"property name", `{"propertyNames":{"maxLength":2}}`, `{"abc":1}`, ReasonInvalid},
		{"unevaluated property", `{"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, ReasonInvalid},
		{"evaluated property", `{"allOf":[{"properties":{"a":{}}},{"patternProperties":{"^b":{}}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, ""},
		{"first item", `{"prefixItems":[{"type":"string"}]}`, `[1]`, ReasonInvalid},
		{"item behind the first", `{"prefixItems":[true],"items":{"type":"string"}}`, `[1,1]`, ReasonInvalid},
		{"no item behind the first", `{"prefixItems":[true],"items":false}`, `[1,1]`, ReasonInvalid},
		{"items of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":false}`, `[1,1]`, ReasonInvalid},
		{"additional items of draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"additionalItems":{"type":"string"}}`, `[1,1]`, ReasonInvalid},
		{"contains", `{"contains":{"const":1}}`, `[2,1]`, ""},
		{"contains none", `{"contains":{"const":1}}`, `[2]`, ReasonInvalid},
		{"contains few", `{"contains":{"const":1},"minContains":2}`, `[2,1]`, ReasonInvalid},
		{"contains many", `{"contains":{"const":1},"maxContains":1}`, `[1,1]`, ReasonInvalid},
		{"contains, none wanted", `{"contains":{"const":1},"minContains":0}`, `[]`, ""},
		{"contains evaluates", `{"contains":{"const":1},"unevaluatedItems":false}`, `[1]`, ""},
		{"contains does not evaluate", `{"contains":{"const":1},"unevaluatedItems":false}`, `[1,2]`, ReasonInvalid},
		{"negated members", `{"not":{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}}`, `{"a":1,"b":2}`, ""},
		{"negated matching members", `{"not":{"items":{"type":"string"}}}`, `["a"]`, ReasonInvalid},
		{"deep recursion", `{"additionalProperties":{"$ref":"#"},"type":["object","null"]}`, strings.Repeat(`{"a":`, 255) + `1` + strings.Repeat(`}`, 255), ReasonInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := mustCompile(t, c.document).Validate([]byte(c.message))
			require.Equal(t, c.want, reasonOf(t, err), "%v", err)
		})
	}
}

func TestReport(t *testing.T) {
	s := mustCompile(t, `{"properties":{"a/b":{"type":"string"},"c":{"items":{"minimum":3}}}}`)
	err := s.Validate([]byte(`{"a/b":1,"c":[5,2]}`))
	require.EqualError(t, err, "invalid argument: schema: jsonschema validation failed with 'narad://schema/orders/1#'\n"+
		"- at '/a~1b': got number, want string\n- at '/c/1': minimum: got 2, want 3")

	// However much is wrong, and however it is arranged, a report is short.
	wide := mustCompile(t, `{"items":{"anyOf":[{"type":"string"},{"type":"null"},{"const":"`+strings.Repeat("ä", 3000)+`"}]}}`)
	err = wide.Validate([]byte(`[` + strings.TrimSuffix(strings.Repeat(`0,`, 500_000), ",") + `]`))
	require.Equal(t, ReasonInvalid, reasonOf(t, err))
	require.True(t, strings.HasPrefix(err.Error(), "invalid argument: schema: jsonschema validation failed with 'narad://schema/orders/1#'"))
	require.Greater(t, len(err.Error()), 1900)
}

// A message cannot make its check hold much memory by being wrong everywhere.
func TestReportMemory(t *testing.T) {
	branches := strings.TrimSuffix(strings.Repeat(`{"type":"string"},`, 300), ",")
	s := mustCompile(t, `{"additionalProperties":{"$ref":"#"},"items":{"$ref":"#"},"anyOf":[`+branches+`]}`)
	message := []byte(`[` + strings.TrimSuffix(strings.Repeat(`[0,0,0,0,0,0,0,0,0],`, 5000), ",") + `]`)
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			require.Error(b, s.Validate(message))
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(64<<20))
}

func TestRestore(t *testing.T) {
	const tooExpensive = `{"pattern":"^(a?){50}$"}`
	_, err := Compile("orders", 1, []byte(tooExpensive))
	require.Error(t, err)
	s, err := Restore("orders", 1, []byte(tooExpensive))
	require.NoError(t, err)
	require.True(t, s.Costly(1))
	require.NoError(t, s.Validate([]byte(`"aaa"`)))
	require.Error(t, s.Validate([]byte(`"b"`)))

	_, err = Restore("orders", 1, []byte(`{"$ref":"file:///x"}`))
	require.Error(t, err)
}

func TestCostly(t *testing.T) {
	distinct := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"n%d"`, i))
		}
		return `{"required":[` + strings.Join(all, ",") + `]}`
	}
	patterns := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"^p%d$":true`, i))
		}
		return `{"patternProperties":{` + strings.Join(all, ",") + `}}`
	}
	applied := func(n int) string { // n subschemas and the root
		return `{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"null"},`, n), ",") + `]}}`
	}
	for _, c := range []struct {
		name, document string
		size           int
		want           bool
	}{
		{"small", `{}`, payloadCheap, false},
		{"large message", `{}`, payloadCheap + 1, true},
		{"1024 names", distinct(1024), 1, false},
		{"1025 names", distinct(1025), 1, true},
		{"64 patterns", patterns(64), 1, false},
		{"65 patterns", patterns(65), 1, true},
		{"64 applied", applied(63), 1, false},
		{"65 applied", applied(64), 1, true},
	} {
		require.Equal(t, c.want, mustCompile(t, c.document).Costly(c.size), c.name)
	}
}
