package schema

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMembersAgreeWithTheValidator compares what is done here per member with what the validator does by itself, on drawn
// schemas and instances of all drafts.
func TestMembersAgreeWithTheValidator(t *testing.T) {
	addresses := []string{
		"https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#",
	}
	valid, invalid := 0, 0
	for seed := range uint64(2000) {
		draw := &drawer{rand.New(rand.NewPCG(seed, 1))}
		document := draw.document()
		document["$schema"] = addresses[seed%4]
		if draw.chance(30) { // large enough to be hashed
			document["enum"] = append(someValues, 1.0, 10, 11)
		}
		text := encode(document)
		plain, refused := compile("t", 1, text, true)
		if refused != nil {
			continue
		}
		ours, err := Compile("t", 1, text)
		require.NoError(t, err)
		for range 12 {
			instance := encode(draw.instanceOf(document, document, 4))
			v, refused := decode(instance, payloadNestingMax, "message")
			require.Nil(t, refused)
			want := plain.root().Validate(v)
			got := ours.Validate(instance)
			require.Equal(t, want == nil, got == nil, "seed %d: %s\nfor %s\nthe validator: %v\nhere: %v", seed, text, instance, want, got)
			if got == nil {
				valid++
			} else {
				invalid++
			}
		}
	}
	t.Logf("%d valid, %d invalid", valid, invalid)
	require.Greater(t, valid, 1000)
	require.Greater(t, invalid, 1000)
}

// BenchmarkValidate is a message of 1 KiB against a schema as people write them.
func BenchmarkValidate(b *testing.B) {
	document := `{"type":"object","required":["id","items"],"additionalProperties":false,"properties":{
		"id":{"type":"string","pattern":"^[0-9a-f]{8}$"},"at":{"type":"string","format":"date-time"},
		"items":{"type":"array","items":{"type":"object","required":["sku","n"],"properties":{"sku":{"type":"string","maxLength":20},"n":{"type":"integer","minimum":1}}}}}}`
	item := `{"sku":"0123456789","n":3},`
	message := []byte(`{"id":"0123abcd","at":"2026-10-07T12:00:00Z","items":[` + strings.Repeat(item, 37) + `{"sku":"x","n":1}]}`)
	run := func(name string, validate func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			b.ReportAllocs()
			for b.Loop() {
				if err := validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	s := mustCompile(b, document)
	run("whole", func() error { return s.Validate(message) })
	v, _ := decode(message, payloadNestingMax, "message")
	run("decoded", func() error { return s.root.Validate(v) })
	plain, _ := compile("t", 1, []byte(document), true)
	run("validator", func() error { return plain.root().Validate(v) })
}

// BenchmarkCompile is a document of as many subschemas as it may have.
func BenchmarkCompile(b *testing.B) {
	document := []byte(manyProperties(subschemasMax - 1))
	for b.Loop() {
		if _, err := Compile("t", 1, document); err != nil {
			b.Fatal(err)
		}
	}
}

func manyProperties(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"p%d":true`, i))
	}
	return `{"properties":{` + strings.Join(all, ",") + `}}`
}

func TestCounts(t *testing.T) {
	strays := func(n int) string {
		var places, references []string
		for i := range n {
			places = append(places, fmt.Sprintf(`"a%d":{}`, i))
			references = append(references, fmt.Sprintf(`"p%d":{"$ref":"#/components/a%d"}`, i, i))
		}
		return `{"components":{` + strings.Join(places, ",") + `},"properties":{` + strings.Join(references, ",") + `}}`
	}
	check := func(document string) Reason {
		v, err := decode([]byte(document), documentNestingMax, "document")
		require.Nil(t, err)
		if err := checkCounts(v); err != nil {
			return reasonOf(t, err)
		}
		return ""
	}
	require.Empty(t, check(manyProperties(subschemasMax-1)))
	require.Equal(t, ReasonPaths, check(manyProperties(subschemasMax)))
	require.Empty(t, check(strays(straysMax)))
	require.Equal(t, ReasonPaths, check(strays(straysMax+1)))
	require.Empty(t, check(strings.ReplaceAll(strays(straysMax+1), "components", "$defs")))
	mustCompile(t, strays(straysMax))
	_, err := Compile("t", 1, []byte(manyProperties(subschemasMax)))
	require.Equal(t, ReasonPaths, reasonOf(t, err))
}
