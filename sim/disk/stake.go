package disk

import (
	"bytes"
	"fmt"
	"strings"
)

// AtStake says what a power loss at this instant could take of the bytes [from, to) of the file at path, of what readers see, or of
// its name and those of the directories above it below the first one; "" when nothing. A negative from counts back from the end of the
// file, and a negative to is its end. Of a
// directory the names are what is asked for, and of a path that leads nowhere nothing is.
//
// Once the disk has broken a rule, by a write that it lost or put elsewhere or by a bit that turned over, nothing is said any more.
func (d *Disk) AtStake(path string, from, to int64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.untrue {
		return ""
	}
	n := d.node(rootIno)
	below := false
	for name := range strings.SplitSeq(path, "/") {
		child := get(n.entries, name)
		if !n.dir || child == 0 {
			return ""
		}
		if below && (get(n.durable, name) != child || d.lastOn(n.ino, name) != 0) { // the first one is not the process's to sync
			return fmt.Sprintf("the name %s in %s", name, n.name)
		}
		n, below = d.node(child), true
	}
	if n.dir {
		return ""
	}
	if to < 0 || to > n.size {
		to = n.size
	}
	if from < 0 {
		from = max(0, n.size+from)
	}
	if from < 0 {
		from = max(0, n.size+from)
	}
	return n.atStake(from, to)
}

func (n *inode) atStake(from, to int64) string {
	least := n.durableSize
	for _, op := range n.sizes {
		least = min(least, op.prev, op.size)
	}
	if least < to {
		return fmt.Sprintf("the size %d of %s, which may be %d", n.size, n.name, least)
	}
	for i := range n.dirty {
		e := &n.dirty[i]
		lo, hi := max(from, e.number*sectorSize), min(to, (e.number+1)*sectorSize)
		if lo >= hi {
			continue
		}
		for v := range e.newest() + 1 { // the last one is what readers see, unless the sector counts as clean
			if e.data(n, v).differs(n.content.sector(e.number), lo-e.number*sectorSize, hi-e.number*sectorSize) {
				return fmt.Sprintf("sector %d of %s", e.number, n.name)
			}
		}
	}
	return ""
}

// differs reports whether two sectors, nil for zeros, differ in the bytes [lo, hi).
func (s *sector) differs(other *sector, lo, hi int64) bool {
	if s == nil {
		s = &zeros
	}
	if other == nil {
		other = &zeros
	}
	return !bytes.Equal(s[lo:hi], other[lo:hi])
}

// MayReturn reports whether a power loss at this instant could bring back what had the name at path, which leads nowhere now. The
// directory that it is in must be there.
func (d *Disk) MayReturn(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, err := d.walk("stat", rootIno, path)
	if err != nil || at.ino != 0 || d.untrue {
		return false
	}
	if get(at.dir.durable, at.name) != 0 {
		return true
	}
	return d.lastOn(at.dir.ino, at.name) != 0
}
