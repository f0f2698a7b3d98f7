package metastore

import "fmt"

// NameLengthMax is the longest name of a topic, in bytes. Names derived from it must fit the 255 bytes of a file name.
const NameLengthMax = 200

// ValidateName returns an error that wraps ErrInvalid unless name is 1 … 200 characters out of A-Z a-z 0-9 . _ - and
// neither "." nor "..". Such a name is one element of a path.
func ValidateName(name string) error {
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("%w topic: name %q", ErrInvalid, name)
	}
	if len(name) > NameLengthMax {
		return fmt.Errorf("%w topic: name of %d characters, at most %d are allowed", ErrInvalid, len(name), NameLengthMax)
	}
	if !allNameBytes(name) {
		return fmt.Errorf("%w topic: name %q has a character outside A-Z a-z 0-9 . _ -", ErrInvalid, name)
	}
	return nil
}

func allNameBytes(s string) bool {
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return true
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

func validID(id string) bool {
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(id) == 16
}
