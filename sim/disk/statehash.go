package disk

import (
	"cmp"
	"slices"
)

// StateHash returns a hash of all that the disk's behaviour rests on from now on: what can be seen, what is durable, what is unsynced
// and in which order it came, and what is held open. Two disks of one personality with the same hash behave alike, whatever they went
// through. Left out are times, the capacity, and the numbers of inodes and operations but for their order.
func (d *Disk) StateHash() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := stateHash{disk: d, sum: uint64(d.personality)}
	h.rankStamps()
	for i := range d.table {
		h.inode(d.table[i].node)
	}
	for i := range d.pending {
		h.nameOp(&d.pending[i])
	}
	h.stamp(d.moves)
	return h.sum
}

type stateHash struct {
	disk   *Disk
	sum    uint64
	stamps []uint64 // of all that is unsynced, in order
}

func (h *stateHash) rankStamps() {
	d := h.disk
	for i := range d.pending {
		h.stamps = append(append(h.stamps, d.pending[i].stamp), d.pending[i].deps...)
	}
	for i := range d.table {
		n := d.table[i].node
		for _, op := range n.sizes {
			h.stamps = append(h.stamps, op.stamp)
		}
		for k := range n.dirty {
			h.stamps = append(h.stamps, n.dirty[k].stamp)
			for _, v := range n.dirty[k].mid {
				h.stamps = append(h.stamps, v.stamp)
			}
		}
	}
	slices.Sort(h.stamps)
	h.stamps = slices.Compact(h.stamps)
}

func (h *stateHash) add(values ...uint64) {
	for _, v := range values {
		h.sum = mix(h.sum^v, h.sum+nameKey)
	}
}

func (h *stateHash) bools(values ...bool) {
	for _, v := range values {
		if v {
			h.add(1)
		} else {
			h.add(0)
		}
	}
}

// stamp adds an operation by its place in the order; one that is durable, or is of no file any more, has none.
func (h *stateHash) stamp(stamp uint64) {
	at, ok := slices.BinarySearch(h.stamps, stamp)
	if !ok {
		at = -1
	}
	h.add(uint64(at + 1))
}

// number adds an inode by its place in the order.
func (h *stateHash) number(i Ino) {
	at, ok := slices.BinarySearchFunc(h.disk.table, i, func(s slot, i Ino) int { return cmp.Compare(s.ino, i) })
	if !ok {
		at = -1
	}
	h.add(uint64(at + 1))
}

func (h *stateHash) name(name string) { h.add(hashName(0, name)) }

func (h *stateHash) inode(n *inode) {
	h.bools(n.dir, n.linked, n.durableLinked)
	h.add(uint64(n.refs), uint64(h.disk.holds[n.ino]))
	h.bools(h.disk.locks[n.ino])
	if n.dir {
		h.number(n.parent)
		for _, entries := range [][]dirent{n.entries, n.durable} {
			h.add(uint64(len(entries)))
			for _, e := range entries {
				h.name(e.name)
				h.number(e.ino)
			}
		}
		return
	}
	h.add(n.content.hash(n.size), uint64(n.size), uint64(n.durableSize), uint64(n.reserved), uint64(n.pages))
	h.add(uint64(len(n.sizes)))
	for _, op := range n.sizes {
		h.stamp(op.stamp)
		h.add(uint64(op.prev), uint64(op.size))
		h.bools(op.explicit)
	}
	h.add(uint64(len(n.dirty)))
	for i := range n.dirty {
		e := &n.dirty[i]
		h.add(uint64(e.number), e.base.hash(), uint64(len(e.mid)))
		h.bools(e.clean, e.cut)
		h.stamp(e.stamp)
		for _, v := range e.mid {
			h.add(v.data.hash())
			h.stamp(v.stamp)
			h.bools(v.cut)
		}
	}
}

func (s *sector) hash() uint64 {
	if s == nil {
		return 0
	}
	return hashSector(0, s[:])
}

func (h *stateHash) nameOp(op *nameOp) {
	h.add(uint64(op.kind), uint64(op.synced), uint64(op.hard), uint64(len(op.deps)))
	h.bools(op.isDir, op.stuck)
	h.stamp(op.stamp)
	for _, i := range [...]Ino{op.dir, op.ino, op.toDir, op.replaced} {
		h.number(i)
	}
	h.name(op.name)
	h.name(op.toName)
	for _, dep := range op.deps {
		h.stamp(dep)
	}
}
