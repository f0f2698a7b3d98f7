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

// level brings consumer.offset to the durable frontier inside the pinned directory.
//
// Nobody needs it on the disk while the broker runs: every reader takes consumer.ahead's frontier when that is larger, and it is (COM-32). So
// the file of a partition in use, which is overwritten again in half a minute, is left to the page cache, and synced is what says
// that already: the last level of a partition that became quiet, half a minute after it, and every one at Close.
func (c *Committer) level(p *part) {
	ev := Levelled{Key: p.key, Frontier: p.durable, Durable: c.force || p.leveled}
	done, err := c.levelQuickly(p, ev.Durable)
	if !done {
		ev.Created, err = c.levelPinned(p, ev.Durable)
		ev.Durable = ev.Durable || ev.Created
	}
	if err == errStrands {
		c.strand(p)
		return
	}
	ev.End = c.env.Now()
	if err != nil {
		ev.Err = fmt.Errorf("committer: level %v: %w", p.key, err)
		c.fail(ev.Err)
		c.change(p, func() {
			p.recheck = true
			p.levelFailed(ev.End)
		})
	} else {
		c.change(p, func() { p.leveledTo(ev.Frontier, ev.Durable, ev.End) })
	}
	c.o.Event(ev)
}

// levelQuickly is levelPinned for the usual case, where the file system pins a directory and opens a file in it at once. It is not done
// when there is anything else to do than to overwrite the file that is there.
func (c *Committer) levelQuickly(p *part, durably bool) (done bool, err error) {
	w, ok := c.o.Root.(vfs.Walker)
	if !ok || p.unnamed {
		return false, nil
	}
	f, dir, err := w.OpenWithin(p.path, OffsetFile)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if dir != p.dir || vfs.StillAt(c.o.Root, p.path, p.dir) != nil {
		return false, nil
	}
	if size, err := f.Size(); err != nil || size != offsetSize {
		return false, nil
	}
	return true, overwrite(f, p.durable, durably)
}

func (c *Committer) levelPinned(p *part, durably bool) (created bool, err error) {
	dir, err := c.pin(p.path)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	return c.levelIn(p, dir, durably)
}

func (c *Committer) levelIn(p *part, dir vfs.Dir, durably bool) (created bool, err error) {
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
			return false, overwrite(f, p.durable, durably)
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
func overwrite(f vfs.File, frontier int64, durably bool) error {
	_, err := f.WriteAt(encodeOffset(frontier), 0)
	if err == nil && durably {
		err = f.Sync()
	}
	return err
}
