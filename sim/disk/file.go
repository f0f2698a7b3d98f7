package disk

import (
	"cmp"
	"io"
	"math"
	"slices"
	"syscall"
)

// dirtySector is a sector whose durable contents differ, or may differ, from what the cache shows.
// Its contents over time are numbered: 0 is the durable one, then mid, and last what the cache holds.
type dirtySector struct {
	number int64
	// clean: no sync will write the sector although the disk holds base. It came from a failed sync or a
	// write that the disk lost; eviction or a power loss shows base again.
	clean bool
	cut   bool      // the newest contents came from cutting the file
	stamp uint64    // operation that made the newest contents
	base  *sector   // durable contents; nil is zeros
	mid   []version // contents in between, oldest first
}

// version is one contents a sector had. It may stand for a later one too: see shorten.
type version struct {
	stamp uint64 // operation that made it
	cut   bool
	data  *sector // never changes; nil is zeros
}

// newest returns the number of the newest contents that may be on the disk after a power loss.
func (s *dirtySector) newest() int {
	if s.clean {
		return 0
	}
	return len(s.mid) + 1
}

// stampOf returns the operation that made contents v.
func (s *dirtySector) stampOf(v int) uint64 {
	switch {
	case v == 0:
		return 0
	case v <= len(s.mid):
		return s.mid[v-1].stamp
	}
	return s.stamp
}

// data returns contents v of a sector of f.
func (s *dirtySector) data(f *inode, v int) *sector {
	switch {
	case v == 0:
		return s.base
	case v <= len(s.mid):
		return s.mid[v-1].data
	}
	return f.content.sector(s.number)
}

// upTo returns the newest contents made by an operation not later than stamp.
func (s *dirtySector) upTo(stamp uint64) int {
	v := s.newest()
	for v > 0 && s.stampOf(v) > stamp {
		v--
	}
	return v
}

// sizeOp is one unsynced change of a file's size.
type sizeOp struct {
	stamp      uint64
	prev, size int64 // before and after
	explicit   bool  // by Truncate or Preallocate, not by a write at the end: Ordered journals it at once
}

// ReadAt reads len(p) bytes at off from the page cache; io.EOF with a short count at the end of the file.
func (d *Disk) ReadAt(f Ino, p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file("read", f)
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, nameError("read", n.name, syscall.EINVAL)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off >= n.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > n.size-off
	if short {
		p = p[:n.size-off]
	}
	n.content.read(p, off)
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// WriteAt writes p at off into the page cache. On ENOSPC the prefix that had room was written.
func (d *Disk) WriteAt(f Ino, p []byte, off int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.write(f, p, off, false)
	return err
}

// write writes p at off and returns how many bytes it wrote. When lost, no sync will ever carry them to the
// disk.
func (d *Disk) write(f Ino, p []byte, off int64, lost bool) (int, error) {
	n, err := d.file("write", f)
	if err != nil {
		return 0, err
	}
	if off < 0 || off > math.MaxInt64-int64(len(p))-pageSize {
		return 0, nameError("write", n.name, syscall.EINVAL)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n = d.own(f)
	room := d.allocate(n, off, int64(len(p)))
	if room == 0 {
		return 0, nameError("write", n.name, syscall.ENOSPC)
	}
	part := p[:room]
	end := off + room
	d.stamp++
	d.touch(n, off/sectorSize, (end-1)/sectorSize, lost)
	d.put(n, part, off)
	if end > n.size {
		d.resize(n, end, false)
	}
	n.mtime = d.now()
	if len(part) < len(p) {
		return len(part), nameError("write", n.name, syscall.ENOSPC)
	}
	return len(part), nil
}

// allocate takes space for a write of length bytes at off and returns how many of them fit.
func (d *Disk) allocate(n *inode, off, length int64) int64 {
	free := d.freePages()
	for i := off / pageSize; i <= (off+length-1)/pageSize; i++ {
		if i < n.reserved || n.content.hasPage(i) {
			continue
		}
		if free == 0 {
			return max(0, i*pageSize-off)
		}
		free--
		n.content.takePage(d.owner, i)
		n.pages++
		d.usedPages++
	}
	return length
}

// put places p at off in the cache.
func (d *Disk) put(n *inode, p []byte, off int64) {
	for len(p) > 0 {
		s, in := off/sectorSize, int(off%sectorSize)
		size := min(len(p), sectorSize-in)
		old := n.content.sector(s)
		switch {
		case isZero(p[:size]) && (size == sectorSize || old == nil):
			n.content.set(d.owner, s, nil)
		default:
			data := d.newSector()
			if size < sectorSize && old != nil {
				*data = *old
			}
			copy(data[in:], p[:size])
			n.content.set(d.owner, s, data)
		}
		p, off = p[size:], off+int64(size)
	}
}

// newSector returns a sector of zeros.
func (d *Disk) newSector() *sector {
	if len(d.slab) == 0 {
		d.slab = make([]sector, 32)
	}
	data := &d.slab[0]
	d.slab = d.slab[1:]
	return data
}

// touch remembers the contents of sectors first to last before the current operation changes them.
func (d *Disk) touch(n *inode, first, last int64, lost bool) {
	at := n.findDirty(first)
	for s := first; s <= last; s++ {
		if at == len(n.dirty) || n.dirty[at].number != s {
			n.insertDirty(at, dirtySector{number: s, base: n.content.sector(s)})
		} else if e := &n.dirty[at]; !e.clean && !lost {
			e.mid = append(e.mid, version{stamp: e.stamp, cut: e.cut, data: n.content.sector(s)})
			e.shorten(d.personality)
		}
		e := &n.dirty[at]
		e.stamp, e.cut, e.clean = d.stamp, false, lost
		if lost {
			e.mid = nil
		}
		at++
	}
}

// findDirty returns the index of the first dirty sector not below s.
func (n *inode) findDirty(s int64) int {
	if l := len(n.dirty); l == 0 || n.dirty[l-1].number < s {
		return l
	}
	low, high := 0, len(n.dirty)
	for low < high {
		if m := (low + high) / 2; n.dirty[m].number < s {
			low = m + 1
		} else {
			high = m
		}
	}
	return low
}

func (n *inode) insertDirty(at int, s dirtySector) {
	if at == len(n.dirty) {
		n.dirty = append(n.dirty, s)
	} else {
		n.dirty = slices.Insert(n.dirty, at, s)
	}
}

// shorten forgets one contents in the middle when there are too many: the one after it takes its place,
// as though its operation had come at once. On an Ordered disk that never moves contents across a cut of the
// file, which must not be seen before the cut.
func (s *dirtySector) shorten(p Personality) {
	if len(s.mid)+2 <= versionsMax {
		return
	}
	for _, i := range [...]int{1, 2, 3, 0} {
		if p == Adversarial || !s.mid[i+1].cut {
			s.mid[i+1].stamp = s.mid[i].stamp
			s.mid[i+1].cut = s.mid[i].cut
			s.mid = slices.Delete(s.mid, i, i+1)
			return
		}
	}
}

// resize records a new visible size.
func (d *Disk) resize(n *inode, size int64, explicit bool) {
	n.sizes = append(n.sizes, sizeOp{stamp: d.stamp, prev: n.size, size: size, explicit: explicit})
	n.size = size
	if explicit && d.personality == Ordered {
		d.record(nameOp{kind: opSize, ino: n.ino})
	}
	if len(n.sizes) > pendingSizesMax {
		d.shortenSizes(n)
	}
}

// shortenSizes merges two neighbouring steps of growth, so that they survive only together. Where there
// are none, the oldest step becomes durable, as though the kernel had written it back.
func (d *Disk) shortenSizes(n *inode) {
	for i := 1; i+2 < len(n.sizes); i++ {
		a, b := &n.sizes[i], &n.sizes[i+1]
		if !a.explicit && !b.explicit {
			b.prev = a.prev
			n.sizes = slices.Delete(n.sizes, i, i+1)
			return
		}
	}
	if d.personality == Ordered && n.sizes[0].explicit {
		d.commit(n.sizes[0].stamp)
		return
	}
	d.settleSizes(n, 1)
}

// Truncate sets the size. What a later growth exposes reads as zeros.
func (d *Disk) Truncate(f Ino, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file("truncate", f)
	if err != nil {
		return err
	}
	if size < 0 || size > math.MaxInt64-pageSize {
		return nameError("truncate", n.name, syscall.EINVAL)
	}
	n = d.own(f)
	n.mtime = d.now()
	if size == n.size {
		return nil
	}
	d.stamp++
	if size < n.size {
		d.cut(n, size)
	}
	d.resize(n, size, true)
	return nil
}

// cut empties the cache from size on and remembers what it held.
func (d *Disk) cut(n *inode, size int64) {
	first := size / sectorSize
	at := n.findDirty(first)
	for i := at; i < len(n.dirty); i++ {
		e := &n.dirty[i]
		if !e.clean {
			e.mid = append(e.mid, version{stamp: e.stamp, cut: e.cut, data: n.content.sector(e.number)})
			e.shorten(d.personality)
		}
		e.stamp, e.cut, e.clean = d.stamp, true, false
	}
	known := n.dirty[at:]
	var fresh []dirtySector
	for s := first; s*sectorSize < n.size && s/leafSectors < int64(len(n.content.leaves)); s++ {
		data := n.content.sector(s)
		if data == nil {
			continue
		}
		for len(known) > 0 && known[0].number < s {
			known = known[1:]
		}
		if len(known) == 0 || known[0].number != s {
			fresh = append(fresh, dirtySector{number: s, base: data, stamp: d.stamp, cut: true})
		}
	}
	if len(fresh) > 0 {
		n.dirty = append(n.dirty, fresh...)
		slices.SortFunc(n.dirty[at:], func(a, b dirtySector) int { return cmp.Compare(a.number, b.number) })
	}
	n.content.cut(d.owner, size)
	n.reserved = min(n.reserved, pagesOf(size))
	d.recount(n)
}

// recount corrects the space of a file after pages came or went.
func (d *Disk) recount(n *inode) {
	was := n.pages
	n.pages = n.reserved + n.content.count(n.reserved)
	d.usedPages += n.pages - was
}

// Preallocate reserves space below size and grows the file to it when it is shorter.
func (d *Disk) Preallocate(f Ino, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file("preallocate", f)
	if err != nil {
		return err
	}
	if size < 0 || size > math.MaxInt64-pageSize {
		return nameError("preallocate", n.name, syscall.EINVAL)
	}
	reserve := max(n.reserved, pagesOf(size))
	if reserve+n.content.count(reserve)-n.pages > d.freePages() {
		return nameError("preallocate", n.name, syscall.ENOSPC)
	}
	n = d.own(f)
	n.reserved = reserve
	d.recount(n)
	n.mtime = d.now()
	if size > n.size {
		d.stamp++
		d.resize(n, size, true)
	}
	return nil
}

// Size returns the visible size.
func (d *Disk) Size(f Ino) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file("stat", f)
	if err != nil {
		return 0, err
	}
	return n.size, nil
}

// Sync makes contents and size of a file durable. On an Ordered disk it commits the journal too.
func (d *Disk) Sync(f Ino) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.file("sync", f)
	if err != nil {
		return err
	}
	if len(n.dirty) > 0 || len(n.sizes) > 0 {
		d.settleFile(d.own(f))
	}
	if d.personality == Ordered {
		d.commit(d.stamp)
	}
	return nil
}

// settleFile makes everything of a file durable but the sectors that a failed sync or a lost write left.
func (d *Disk) settleFile(n *inode) {
	keep := n.dirty[:0]
	for i := range n.dirty {
		if e := &n.dirty[i]; e.clean && e.number*sectorSize < n.size {
			keep = append(keep, *e)
		}
	}
	clear(n.dirty[len(keep):])
	n.dirty = keep
	n.sizes = n.sizes[:0]
	n.durableSize = n.size
}

// settleSizes makes the oldest count sizes of a file durable, with the data that Ordered ties to them.
func (d *Disk) settleSizes(n *inode, count int) {
	if count == 0 {
		return
	}
	if d.personality == Ordered {
		keep := n.dirty[:0]
		for i := range n.dirty {
			e := n.dirty[i]
			if e.settle(n, e.upTo(n.dataOf(count, e.number))) {
				keep = append(keep, e)
			}
		}
		clear(n.dirty[len(keep):])
		n.dirty = keep
	}
	n.durableSize = n.sizes[count-1].size
	n.sizes = slices.Delete(n.sizes, 0, count)
}

// settle makes contents v durable, with all before it, and reports whether the sector is still dirty.
func (s *dirtySector) settle(n *inode, v int) bool {
	switch {
	case v == 0:
		return true
	case v <= len(s.mid):
		s.base = s.mid[v-1].data
		s.mid = slices.Delete(s.mid, 0, v)
		return true
	}
	return false
}

// sizeAt returns the size after the oldest count unsynced changes.
func (n *inode) sizeAt(count int) int64 {
	if count == 0 {
		return n.durableSize
	}
	return n.sizes[count-1].size
}

// dataOf returns the last of the first count size changes that carries sector s with it on an Ordered
// disk: growth carries what was written, a cut carries the emptiness. 0 when none does.
func (n *inode) dataOf(count int, s int64) uint64 {
	for i := count - 1; i >= 0; i-- {
		op := &n.sizes[i]
		grew := !op.explicit && s >= op.prev/sectorSize && s*sectorSize < op.size
		cut := op.size < op.prev && s >= op.size/sectorSize && s*sectorSize < op.prev
		if grew || cut {
			return op.stamp
		}
	}
	return 0
}

// freedBy returns the first size change after the first count that frees the page of sector s: while it
// is not on the disk, nothing written later into that page can be found there. On an Ordered disk.
func (n *inode) freedBy(count int, s int64) uint64 {
	for i := count; i < len(n.sizes); i++ {
		op := &n.sizes[i]
		if op.size < op.prev && s/pageSectors >= pagesOf(op.size) && s*sectorSize < op.prev {
			return op.stamp
		}
	}
	return math.MaxUint64
}
