package disk

import (
	"fmt"
	"io"
	"strings"
)

// DurableFile returns what the file at path would hold if nothing unsynced survived a power loss, and
// whether it would be there.
func (d *Disk) DurableFile(path string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.node(rootIno)
	for name := range strings.SplitSeq(path, "/") {
		if !n.dir {
			return nil, false
		}
		i := get(n.durable, name)
		if i == 0 {
			return nil, false
		}
		n = d.node(i)
	}
	if n.dir {
		return nil, false
	}
	b := make([]byte, n.durableSize)
	n.content.read(b, 0)
	for i := range n.dirty {
		e := &n.dirty[i]
		if off := e.number * sectorSize; off < n.durableSize {
			to := b[off:min(off+sectorSize, n.durableSize)]
			clear(to)
			if e.base != nil {
				copy(to, e.base[:])
			}
		}
	}
	return b, true
}

// Durable returns the disk as it would be after a power loss that nothing unsynced survives.
func (d *Disk) Durable() *Disk {
	c := d.Clone()
	c.PowerLoss(new(script)) // all zeros: loseAll
	return c
}

// Dump writes the names, visible and durable, what is unsynced of each file, and the pending operations.
func (d *Disk) Dump(w io.Writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(w, "%s disk, operation %d, generation %d, %d pages used\n", d.personality, d.stamp, d.generation, d.usedPages)
	for i := range d.table {
		d.table[i].node.dump(w, d.holds[d.table[i].ino])
	}
	for i := range d.pending {
		fmt.Fprintf(w, "pending %s\n", &d.pending[i])
	}
}

func (n *inode) dump(w io.Writer, holds int) {
	state := "unlinked"
	switch {
	case n.linked && n.durableLinked:
		state = "linked"
	case n.linked:
		state = "linked, name unsynced"
	case n.durableLinked:
		state = "unlinked, removal unsynced"
	}
	if holds > 0 {
		state = fmt.Sprintf("%s, open %d times", state, holds)
	}
	if n.dir {
		fmt.Fprintf(w, "inode %d directory %q: %s\n", n.ino, n.name, state)
		for _, e := range n.entries {
			fmt.Fprintf(w, "  visible %q -> %d\n", e.name, e.ino)
		}
		for _, e := range n.durable {
			fmt.Fprintf(w, "  durable %q -> %d\n", e.name, e.ino)
		}
		return
	}
	fmt.Fprintf(w, "inode %d file %q: %s, size %d, durable size %d\n", n.ino, n.name, state, n.size, n.durableSize)
	for _, op := range n.sizes {
		fmt.Fprintf(w, "  operation %d size %d -> %d explicit=%t\n", op.stamp, op.prev, op.size, op.explicit)
	}
	for i := range n.dirty {
		e := &n.dirty[i]
		kind := "dirty"
		if e.clean {
			kind = "clean but not on disk"
		}
		fmt.Fprintf(w, "  sector %d %s: operation %d, %d contents before\n", e.number, kind, e.stamp, len(e.mid)+1)
	}
}

// String describes the operation.
func (op *nameOp) String() string {
	var s string
	switch op.kind {
	case opLink:
		s = fmt.Sprintf("link %d:%q -> %d", op.dir, op.name, op.ino)
	case opUnlink:
		s = fmt.Sprintf("unlink %d:%q, was %d", op.dir, op.name, op.replaced)
	case opRename:
		s = fmt.Sprintf("rename %d:%q to %d:%q -> %d, replacing %d", op.dir, op.name, op.toDir, op.toName, op.ino, op.replaced)
	case opSize:
		s = fmt.Sprintf("size of %d", op.ino)
	}
	return fmt.Sprintf("operation %d %s, after %v", op.stamp, s, op.deps)
}
