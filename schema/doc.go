// Package schema checks JSON Schema documents, messages against them, and that a newer document of a topic accepts
// what the older one accepted.
//
// # Rules
//
//	S1  A document is bounded before it is compiled, so that no message can make its check cost more than a bounded number of
//	    visits to each of its values: see [Compile].
//	S2  A reference never leaves its document. Nothing is loaded from a file or over a network.
//	S3  A message is exactly one JSON text in UTF-8. Numbers are exact, the last of duplicate keys counts, format is asserted.
//	S4  A change is accepted only if it is known to be safe (fail closed): a message that the older version accepts is
//	    accepted by the newer. The one exception is deliberate: an optional property may be added to an object that was open.
//	S5  What a report takes is bounded while it is made: a container contributes few of its errors, and fewer the deeper
//	    it lies. A report that a client sees is at most 2 KiB.
//	S6  A check that may be expensive takes one of a few slots and waits for it 5 s at most. (BUSY)
//
// The validator is github.com/santhosh-tekuri/jsonschema. What it does per member of an array or object is done here instead, in
// members.go, because it collects an error per member; so are large enumerations and the search for duplicates,
// because it compares every pair.
//
// Errors that are the client's are of type [*Error]. Nothing in this package logs, and no error of it is logged by
// the server: it may quote a message.
//
// Files: decode.go (JSON texts), compile.go (documents), count.go, bounds.go and pattern.go (what S1 refuses), graph.go (the subschemas
// of a document), members.go (arrays, objects, enumerations), report.go (errors), history.go (versions), compat.go and same.go
// (S4), checker.go (slots and compiled schemas).
package schema
