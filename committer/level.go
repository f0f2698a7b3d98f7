package committer

import (
	"errors"
	"fmt"
	"io/fs"

	"narad/vfs"
)

// levelStep levels consumer.offset of a quiet partition.
func (c *Committer) levelStep(p *part) {
	c.withPart(p, func(p *part) {
		if p.levelable() {
			c.level(p)
		}
	})
}

// level brings consumer.offset to the durable frontier, durably, inside the pinned directory.
func (c *Committer) level(p *part) {
	ev := Levelled{Key: p.key, Frontier: p.durable}
	done, err := c.levelQuickly(p)
	if !done {
		ev.Created, err = c.levelPinned(p)
	}
	if err == errStrands {
		c.strand(p)
		return
	}
	ev.End = c.env.Now()
	if err != nil {
		ev.Err = fmt.Errorf("committer: level %v: %w", p.key, err)
		c.fail(ev.Err)
		c.change(p, func() { p.recheck, p.leveledAt = true, ev.End })
	} else {
		c.change(p, func() { p.leveledTo(ev.Frontier, ev.End) })
	}
	c.o.Event(ev)
}

// levelQuickly is levelPinned for the usual case, where the file system pins a directory and opens a file in it at once. It is not done
// when there is anything else to do than to overwrite the file that is there.
func (c *Committer) levelQuickly(p *part) (done bool, err error) {
	w, ok := c.o.Root.(vfs.Walker)
	if !ok || p.unnamed {
		return false, nil
	}
	f, dir, err := w.OpenWithin(p.path, OffsetFile)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if dir != p.dir || c.same(p.path, p.dir) != nil {
		return false, nil
	}
	if size, err := f.Size(); err != nil || size != offsetSize {
		return false, nil
	}
	return true, overwrite(f, p.durable)
}

func (c *Committer) levelPinned(p *part) (created bool, err error) {
	dir, err := c.pin(p.path)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	return c.levelIn(p, dir)
}

func (c *Committer) levelIn(p *part, dir vfs.Dir) (created bool, err error) {
	if dir.ID() != p.dir {
		return false, errStrands
	}
	f, err := dir.Open(OffsetFile)
	exists := err == nil
	if exists {
		defer f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := c.same(p.path, p.dir); err != nil {
		return false, err
	}
	if exists {
		size, err := f.Size()
		if err != nil {
			return false, err
		}
		if size == offsetSize && !p.unnamed {
			return false, overwrite(f, p.durable)
		}
	}
	// A size that grows apart from its contents would show a frontier of zero: replace the whole file.
	turn := c.o.Naming(p.key)
	turn.Lock()
	defer turn.Unlock()
	err = vfs.ReplaceFile(dir, OffsetFile, encodeOffset(p.durable))
	p.unnamed = err != nil
	return true, err
}

// overwrite sets consumer.offset in place, by one write within one sector.
func overwrite(f vfs.File, frontier int64) error {
	if _, err := f.WriteAt(encodeOffset(frontier), 0); err != nil {
		return err
	}
	return f.Sync()
}
