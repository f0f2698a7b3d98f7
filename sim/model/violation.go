package model

import "fmt"

// Violation is something that the contract forbids.
type Violation struct {
	Invariant string // "INV-05"
	Detail    string
}

func (v *Violation) Error() string { return v.Invariant + ": " + v.Detail }

// Violate returns a violation of the invariant with a formatted detail.
func Violate(invariant, format string, args ...any) error {
	return &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...)}
}
