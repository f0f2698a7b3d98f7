package committer

import (
	"errors"
	"fmt"
	"io/fs"

	"narad/vfs"
)

// errStrands reports that a path is gone or leads to something else than the state held names. Every other
// error is an ordinary one.
var errStrands = errors.New("path is gone or leads elsewhere")

// same confirms that path leads to id now.
func (c *Committer) same(path string, id vfs.ID) error {
	return strands("stat", path, vfs.SameAt(c.o.Root, path, id))
}

// check confirms that p's paths still lead to the directory and the file of its prime.
func (c *Committer) check(p *part) error {
	return strands("stat", p.path, vfs.SameWithin(c.o.Root, p.path, p.dir, AheadFile, p.file))
}

// strands tells a path that is gone or leads elsewhere from one that cannot be looked at.
func strands(what, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, vfs.ErrElsewhere):
		return errStrands
	case err != nil:
		return fmt.Errorf("committer: %s %s: %w", what, path, err)
	}
	return nil
}

// pin opens the directory at path.
func (c *Committer) pin(path string) (vfs.Dir, error) {
	dir, err := c.o.Root.OpenDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errStrands
	case err != nil:
		return nil, fmt.Errorf("committer: open directory %s: %w", path, err)
	}
	return dir, nil
}

// access returns consumer.ahead of p for one operation: the held descriptor, or one opened by path, which must
// lead to the file and the directory of the prime. With verify a held one is checked the same way.
// The descriptor goes back with giveBack.
func (c *Committer) access(p *part, verify bool) (vfs.File, error) {
	if p.handle == nil {
		return c.reopen(p)
	}
	if verify {
		if err := c.check(p); err != nil {
			return nil, err
		}
	}
	return p.handle, nil
}

func (c *Committer) reopen(p *part) (vfs.File, error) {
	f, err := c.openSame(p)
	if err != nil {
		if err != errStrands {
			c.o.Event(Reopened{Key: p.key, Err: err})
		}
		return nil, err
	}
	p.confirmed = true
	held := c.keep(p, f)
	c.o.Event(Reopened{Key: p.key, OneOff: !held})
	return f, nil
}

// openSame opens consumer.ahead of p where it was at its prime.
func (c *Committer) openSame(p *part) (vfs.File, error) {
	f, err := vfs.OpenSameWithin(c.o.Root, p.path, p.dir, AheadFile, p.file)
	return f, strands("reopen", p.path, err)
}

// keep holds f for p if there is room, or closes another one for it.
func (c *Committer) keep(p *part, f vfs.File) bool {
	c.mu.Lock()
	held, victim, closing := c.roster.hold(p, f)
	c.mu.Unlock()
	if closing != nil {
		closing.Close()
		c.o.Event(Evicted{Key: victim.key})
	}
	return held
}

// giveBack closes f unless p holds it.
func (c *Committer) giveBack(p *part, f vfs.File) {
	if f != nil && f != p.handle {
		f.Close()
	}
}
