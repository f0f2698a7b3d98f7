package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Bounds of reports, in bytes.
const (
	textMax   = 2 << 10  // of the text of an error
	reportMax = 32 << 20 // of the report that it is made from; a larger one is replaced by a summary
)

var printer = message.NewPrinter(language.English)

// report returns the error of a message, with the places that do not match in order. It is made only as far as it is shown.
func report(err *jsonschema.ValidationError) *Error {
	w := &writer{}
	if reportSize(err, reportMax) > reportMax {
		w.add(prefix + err.ErrorKind.LocalizedString(printer) + ": too much does not match to be listed")
	} else {
		w.add(prefix)
		w.show(err, 0)
	}
	return &Error{Reason: ReasonInvalid, Text: cut(w.text.String())}
}

// reportSize estimates what a report takes; it stops counting above enough.
func reportSize(err *jsonschema.ValidationError, enough int) int {
	size := 128
	for _, token := range err.InstanceLocation {
		size += 16 + len(token)
	}
	for _, cause := range err.Causes {
		if size > enough {
			break
		}
		size += reportSize(cause, enough-size)
	}
	return size
}

// writer collects text until there is more than will be shown.
type writer struct{ text strings.Builder }

func (w *writer) full() bool { return w.text.Len() > textMax }

func (w *writer) add(s string) {
	if !w.full() {
		w.text.WriteString(s)
	}
}

// show writes an error and its causes, one a line, each below what it is a cause of.
func (w *writer) show(err *jsonschema.ValidationError, depth int) {
	if w.full() {
		return
	}
	if _, reference := err.ErrorKind.(*kind.Reference); !reference || len(err.Causes) != 1 {
		if depth > 0 {
			w.add("\n" + strings.Repeat("  ", depth-1) + "- at '" + pointer(err.InstanceLocation) + "': ")
		}
		w.add(err.ErrorKind.LocalizedString(printer))
		depth++
	}
	slices.SortStableFunc(err.Causes, func(a, b *jsonschema.ValidationError) int {
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	})
	for _, cause := range err.Causes {
		w.show(cause, depth)
	}
}

// pointer returns a JSON pointer that is shown: control characters are written as escapes.
func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString("/" + escapeToken(token))
	}
	quoted := fmt.Sprintf("%q", b.String())
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func escapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// cut returns a text of at most textMax bytes, in UTF-8.
func cut(text string) string { return truncate(strings.ToValidUTF8(text, "\uFFFD"), textMax) }

// truncate cuts a text behind a whole character and says so.
func truncate(text string, most int) string {
	const more = "…"
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// shown returns the text of a report about a document.
func shown(err *jsonschema.ValidationError) string {
	w := &writer{}
	w.show(err, 0)
	return w.text.String()
}

// expensive reports whether a document was refused for a pattern that costs too much.
func expensive(err *jsonschema.ValidationError) bool {
	if format, ok := err.ErrorKind.(*kind.Format); ok {
		_, pattern := format.Err.(*errPattern)
		return pattern
	}
	return slices.ContainsFunc(err.Causes, expensive)
}
