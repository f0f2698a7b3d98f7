package metastore

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Bounds of schemas.
const (
	SchemaBytesMax      = 256 << 10 // of one document, without insignificant space
	SchemaVersionsMax   = 1000      // of one topic
	SchemaTopicBytesMax = 4 << 20   // of all versions of one topic
	SchemaTotalBytesMax = 256 << 20 // of all topics
)

// Schema is one version of a topic's schema.
type Schema struct {
	Version  int             `json:"version"`
	Document json.RawMessage `json:"schema"` // without insignificant space; shared with others, so not to be written to
}

// compactDocument returns a copy of a document without insignificant space.
func compactDocument(document json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, document); err != nil {
		return nil, fmt.Errorf("%w schema: %w", ErrInvalid, err)
	}
	return b.Bytes(), nil
}

// checkDocument returns an error that wraps ErrInvalid unless a document may be kept.
func checkDocument(document json.RawMessage) error {
	switch {
	case len(document) == 0 || len(document) > SchemaBytesMax:
		return fmt.Errorf("%w schema: %d bytes, allowed are 1 to %d", ErrInvalid, len(document), SchemaBytesMax)
	case !json.Valid(document):
		return fmt.Errorf("%w schema: it is not one JSON value", ErrInvalid)
	}
	return nil
}

func schemaBytes(schemas []Schema) (n int64) {
	for _, s := range schemas {
		n += int64(len(s.Document))
	}
	return n
}

// checkHistory returns an error that wraps ErrInvalid unless schemas are the versions of one topic.
func checkHistory(schemas []Schema) error {
	for i, s := range schemas {
		if s.Version != i+1 {
			return fmt.Errorf("%w schema: version %d where %d belongs", ErrInvalid, s.Version, i+1)
		}
		if err := checkDocument(s.Document); err != nil {
			return err
		}
	}
	return nil
}
