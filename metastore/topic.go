package metastore

import "fmt"

// check returns an error that wraps ErrInvalid unless t is a topic that may exist.
func (t *Topic) check() error {
	if err := ValidateName(t.Name); err != nil {
		return err
	}
	switch {
	case !validID(t.ID):
		return fmt.Errorf("%w topic: id %q is not 16 lower-case hexadecimal digits", ErrInvalid, t.ID)
	case t.Partitions <= 0:
		return fmt.Errorf("%w topic: %d partitions", ErrInvalid, t.Partitions)
	case t.RetentionMs < 0:
		return fmt.Errorf("%w topic: retention of %d ms", ErrInvalid, t.RetentionMs)
	case t.VisibilityMs <= 0:
		return fmt.Errorf("%w topic: visibility timeout of %d ms", ErrInvalid, t.VisibilityMs)
	case t.MaxInFlight <= 0 || t.MaxAckedAhead <= 0:
		return fmt.Errorf("%w topic: caps %d and %d", ErrInvalid, t.MaxInFlight, t.MaxAckedAhead)
	}
	if t.Owner == "" {
		return nil
	}
	return ValidateUserName(t.Owner)
}

// checkReplacement returns an error that wraps ErrInvalid unless the incarnation to may follow t under its name.
func (t *Topic) checkReplacement(to *Topic) error {
	same := *to
	same.ID = t.ID
	if to.ID == t.ID || same != *t {
		return fmt.Errorf("%w topic: a replacement differs in its id and in nothing else", ErrInvalid)
	}
	return to.check()
}

// checkChange returns an error that wraps ErrInvalid unless a topic may turn from t into to.
func (t *Topic) checkChange(to *Topic) error {
	switch {
	case to.Name != t.Name || to.ID != t.ID || to.CreatedAt != t.CreatedAt || to.Owner != t.Owner:
		return fmt.Errorf("%w topic: name, id, creation time and owner cannot change", ErrInvalid)
	case to.VisibilityMs != t.VisibilityMs:
		return fmt.Errorf("%w topic: the visibility timeout cannot change", ErrInvalid)
	case to.Partitions < t.Partitions:
		return fmt.Errorf("%w topic: partitions cannot shrink from %d to %d", ErrInvalid, t.Partitions, to.Partitions)
	}
	return to.check()
}
