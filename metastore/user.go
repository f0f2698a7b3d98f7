package metastore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Actions that a grant may allow.
const (
	ActionProduce = "produce"
	ActionConsume = "consume"
	ActionCreate  = "create"
	ActionAdmin   = "admin" // everything; it has no patterns
)

// Bounds of a user.
const (
	UserNameLengthMax = 64
	PatternLengthMax  = 255
	passwordHashMax   = 1 << 10
)

// Grant allows an action on the topics whose names match a pattern: the name itself, or its beginning followed by one *.
type Grant struct {
	Action   string   `json:"action"`
	Patterns []string `json:"patterns,omitempty"`
}

// User is what the store knows of a user. Neither its JSON nor its text shows the password hash.
type User struct {
	Name         string  `json:"username"`
	PasswordHash []byte  `json:"-"` // opaque to the store
	Grants       []Grant `json:"grants,omitempty"`
	Root         bool    `json:"root,omitempty"` // never changes; such a user cannot be deleted, nor its grants changed
	CreatedAtMs  int64   `json:"created_at_ms"`  // unix milliseconds
	UpdatedAtMs  int64   `json:"updated_at_ms"`
}

// String returns the name.
func (u User) String() string { return u.Name }

// GoString returns the name.
func (u User) GoString() string { return fmt.Sprintf("metastore.User(%q)", u.Name) }

// userRecord is a user as the files have it.
type userRecord struct {
	Name         string  `json:"name"`
	PasswordHash []byte  `json:"password_hash,omitempty"`
	Grants       []Grant `json:"grants,omitempty"`
	Root         bool    `json:"root,omitempty"`
	CreatedAtMs  int64   `json:"created_at_ms,omitempty"`
	UpdatedAtMs  int64   `json:"updated_at_ms,omitempty"`
}

// clone returns a user that shares no memory with u.
func (u User) clone() User {
	u.PasswordHash = bytes.Clone(u.PasswordHash)
	u.Grants = cloneGrants(u.Grants)
	return u
}

func cloneGrants(grants []Grant) []Grant {
	grants = slices.Clone(grants)
	for i := range grants {
		grants[i].Patterns = slices.Clone(grants[i].Patterns)
	}
	return grants
}

// ValidateUserName returns an error that wraps ErrInvalid unless name is 1 … 64 characters out of A-Z a-z 0-9 . _ - and neither
// "." nor "..".
func ValidateUserName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || !allNameBytes(name):
		return fmt.Errorf("%w user: name %q is not of the characters A-Z a-z 0-9 . _ -", ErrInvalid, name)
	case len(name) > UserNameLengthMax:
		return fmt.Errorf("%w user: name of %d characters, at most %d are allowed", ErrInvalid, len(name), UserNameLengthMax)
	}
	return nil
}

// check returns an error that wraps ErrInvalid unless u is a user that may exist.
func (u *userRecord) check() error {
	if err := ValidateUserName(u.Name); err != nil {
		return err
	}
	if err := checkHash(u.PasswordHash); err != nil {
		return err
	}
	return ValidateGrants(u.Grants)
}

func checkHash(hash []byte) error {
	if len(hash) == 0 || len(hash) > passwordHashMax {
		return fmt.Errorf("%w user: password hash of %d bytes, allowed are 1 to %d", ErrInvalid, len(hash), passwordHashMax)
	}
	return nil
}

// ValidateGrants returns an error that wraps ErrInvalid unless a user may have these grants.
func ValidateGrants(grants []Grant) error {
	for _, g := range grants {
		switch g.Action {
		case ActionProduce, ActionConsume, ActionCreate:
		case ActionAdmin:
			if len(g.Patterns) > 0 {
				return fmt.Errorf("%w grant: admin takes no patterns", ErrInvalid)
			}
		default:
			return fmt.Errorf("%w grant: action %q is not produce, consume, create or admin", ErrInvalid, g.Action)
		}
		for _, p := range g.Patterns {
			if err := checkPattern(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPattern(p string) error {
	if p == "" || len(p) > PatternLengthMax || !allNameBytes(strings.TrimSuffix(p, "*")) {
		return fmt.Errorf("%w grant: pattern %q is not 1 to %d characters A-Z a-z 0-9 . _ -, the last of which may be *", ErrInvalid, p, PatternLengthMax)
	}
	return nil
}
