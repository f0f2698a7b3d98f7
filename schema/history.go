package schema

import (
	"fmt"
)

// Bounds of the history of one topic.
const (
	VersionsMax     = 1000
	HistoryBytesMax = 4 << 20
)

// Next decides about a document that is to become the newest version of a topic's schema, after a history of versions 1, 2
// and so on. It returns the document as it is to be stored, nil when it says the same as the newest but for annotations:
// then nothing is to be stored. base is the version that the change was made for, nil when that does not matter. Errors: [*Error] of
// the document, and errors that wrap [ErrVersion], [ErrIncompatible] or [ErrFull].
func Next(topic string, history [][]byte, base *int64, document []byte) ([]byte, error) {
	if base != nil && *base != int64(len(history)) {
		return nil, fmt.Errorf("%w: it is %d, not %d", ErrVersion, len(history), *base)
	}
	if len(document) > DocumentBytesMax {
		return nil, refuse(ReasonMalformed, "the document is larger than %d bytes", DocumentBytesMax)
	}
	if v, err := decode(document, documentNestingMax, "document"); err != nil {
		return nil, err
	} else if len(history) > 0 && saysTheSame(history[len(history)-1], v) {
		return nil, nil
	}
	newer, refused := compile(topic, len(history)+1, document, true)
	if refused != nil {
		return nil, refused
	}
	if len(history) > 0 {
		older, refused := compile(topic, len(history), history[len(history)-1], false)
		if refused != nil {
			return nil, fmt.Errorf("%w: the newest version cannot be compared: %v", ErrIncompatible, refused)
		}
		if err := compatible(older, newer); err != nil {
			return nil, err
		}
	}
	compact, err := Compact(document)
	if err != nil {
		return nil, err
	}
	return compact, checkRoom(history, compact)
}

// saysTheSame compares a stored document with a new one.
func saysTheSame(stored []byte, v any) bool {
	newest, err := decode(stored, documentNestingMax, "document")
	return err == nil && sameDocument(newest, v)
}

func checkRoom(history [][]byte, document []byte) error {
	size := len(document)
	for _, version := range history {
		size += len(version)
	}
	switch {
	case len(history) >= VersionsMax:
		return fmt.Errorf("%w: it has %d versions", ErrFull, VersionsMax)
	case size > HistoryBytesMax:
		return fmt.Errorf("%w: its versions would take more than %d bytes", ErrFull, HistoryBytesMax)
	}
	return nil
}
