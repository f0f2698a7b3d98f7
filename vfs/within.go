package vfs

import "errors"

// Walker is what a [Dir] may offer that can find a directory below it and an entry of that directory in one walk. Names are as
// for Stat and Open, and so are the errors; dir leads to a directory, and base has no slash.
type Walker interface {
	// StatWithin tells where dir leads now, and to what file base leads in that very directory.
	StatWithin(dir, base string) (d, f ID, err error)
	// OpenWithin opens the file base in the directory that dir leads to now, and tells which one that is.
	OpenWithin(dir, base string) (f File, d ID, err error)
}

// ErrElsewhere reports a path that leads to something else than it did.
var ErrElsewhere = errors.New("path leads elsewhere")

// SameWithin returns nil when dir below root leads to the directory d, and base in it to the file f; [ErrElsewhere] when one of
// them leads to something else. A symbolic link at the end of dir, which nobody but an operator puts there, is followed by a [Walker], and
// is something else for other directories.
func SameWithin(root Dir, dir string, d ID, base string, f ID) error {
	w, ok := root.(Walker)
	if !ok {
		if err := SameAt(root, dir, d); err != nil {
			return err
		}
		return SameAt(root, dir+"/"+base, f)
	}
	inDir, file, err := w.StatWithin(dir, base)
	if err == nil && (inDir != d || file != f) {
		err = ErrElsewhere
	}
	return err
}

// SameAt returns nil when name below root leads to id, [ErrElsewhere] when it leads to something else.
func SameAt(root Dir, name string, id ID) error {
	info, err := root.Stat(name)
	if err == nil && info.ID != id {
		err = ErrElsewhere
	}
	return err
}

// identifier is a [Dir] that can tell in one call what a name leads to, links on the way and at the end followed, out of the root too. That
// is enough to see that it still leads to what it did.
type identifier interface {
	identityAt(name string) (ID, error)
}

// StillAt is [SameAt] where links do no harm: name led to id when a file was opened through it, the same file as ever or one in a
// directory that is held.
func StillAt(root Dir, name string, id ID) error {
	r, ok := root.(identifier)
	if !ok {
		return SameAt(root, name, id)
	}
	now, err := r.identityAt(name)
	if err == nil && now != id {
		err = ErrElsewhere
	}
	return err
}

// OpenSameWithin opens the file at base in dir below root, like Open, when it is f and dir leads to the directory d, and
// returns [ErrElsewhere] otherwise.
func OpenSameWithin(root Dir, dir string, d ID, base string, f ID) (file File, err error) {
	file, err = root.Open(dir + "/" + base)
	if err != nil {
		return nil, err
	}
	if file.ID() != f {
		err = ErrElsewhere
	} else {
		err = StillAt(root, dir, d)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
