package disk

import (
	"encoding/binary"
	"math/bits"

	"narad/vfs"
)

const (
	sectorSize  = vfs.SectorSize
	pageSize    = 4096 // unit of space
	pageSectors = pageSize / sectorSize
	leafPages   = 8
	leafSectors = leafPages * pageSectors
)

// sector is the contents of one sector. It never changes once a file holds it: a write puts another one in
// its place, so whoever kept the old one has a snapshot.
type sector [sectorSize]byte

// content is the bytes of a file: a table of leaves, each made when something is first written there. A
// missing sector is zeros. Leaves are shared between clones until they change.
type content struct {
	leaves []*leaf
}

type leaf struct {
	owner   *owner // whoever may change the leaf
	pages   uint8  // bit i: page i of the leaf has disk space
	sectors [leafSectors]*sector
}

// sector returns sector s, nil for zeros.
func (c *content) sector(s int64) *sector {
	if l := c.at(s / leafSectors); l != nil {
		return l.sectors[s%leafSectors]
	}
	return nil
}

// at returns leaf i for reading, or nil.
func (c *content) at(i int64) *leaf {
	if i < int64(len(c.leaves)) {
		return c.leaves[i]
	}
	return nil
}

// own returns leaf i for changing by o.
func (c *content) own(o *owner, i int64) *leaf {
	for int64(len(c.leaves)) <= i {
		c.leaves = append(c.leaves, nil)
	}
	l := c.leaves[i]
	if l == nil {
		l = &leaf{owner: o}
		c.leaves[i] = l
	} else if l.owner != o {
		l = &leaf{owner: o, pages: l.pages, sectors: l.sectors}
		c.leaves[i] = l
	}
	return l
}

// set puts data, nil for zeros, in the place of sector s.
func (c *content) set(o *owner, s int64, data *sector) {
	if c.sector(s) != data {
		c.own(o, s/leafSectors).sectors[s%leafSectors] = data
	}
}

// hasPage reports whether page i has disk space.
func (c *content) hasPage(i int64) bool {
	l := c.at(i / leafPages)
	return l != nil && l.pages>>(i%leafPages)&1 == 1
}

// takePage gives disk space to page i.
func (c *content) takePage(o *owner, i int64) { c.own(o, i/leafPages).pages |= 1 << (i % leafPages) }

// read fills p from off.
func (c *content) read(p []byte, off int64) {
	const leafSize = leafSectors * sectorSize
	for len(p) > 0 {
		in := off % leafSize
		n := min(int64(len(p)), leafSize-in)
		if l := c.at(off / leafSize); l != nil {
			l.read(p[:n], in)
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+n
	}
}

// read fills p from byte off of the leaf.
func (l *leaf) read(p []byte, off int64) {
	for s, in := off/sectorSize, off%sectorSize; len(p) > 0; s, in = s+1, 0 {
		n := min(int64(len(p)), sectorSize-in)
		if data := l.sectors[s]; data != nil {
			copy(p[:n], data[in:])
		} else {
			clear(p[:n])
		}
		p = p[n:]
	}
}

// cut drops all bytes from size on.
func (c *content) cut(o *owner, size int64) {
	sectors, pages := (size+sectorSize-1)/sectorSize, pagesOf(size)
	leaves := (pages + leafPages - 1) / leafPages
	if leaves < int64(len(c.leaves)) {
		clear(c.leaves[leaves:])
		c.leaves = c.leaves[:leaves]
	}
	if leaves == 0 {
		return
	}
	sectors -= (leaves - 1) * leafSectors
	pages -= (leaves - 1) * leafPages
	if l := c.at(leaves - 1); l != nil && l.beyond(sectors, pages) {
		l = c.own(o, leaves-1)
		clear(l.sectors[sectors:])
		l.pages &= 1<<pages - 1
	}
	if size%sectorSize != 0 {
		c.set(o, size/sectorSize, c.sector(size/sectorSize).to(size%sectorSize))
	}
}

// beyond reports whether the leaf has anything from those sectors and pages on.
func (l *leaf) beyond(sectors, pages int64) bool {
	for _, data := range l.sectors[sectors:] {
		if data != nil {
			return true
		}
	}
	return l.pages>>pages != 0
}

// to returns the sector with zeros from byte `end` on.
func (s *sector) to(end int64) *sector {
	switch {
	case s == nil || end <= 0:
		return nil
	case end >= sectorSize || isZero(s[end:]):
		return s
	}
	part := new(sector)
	copy(part[:end], s[:])
	return part
}

// count returns the number of pages with disk space from page `from` on.
func (c *content) count(from int64) (n int64) {
	for i := from / leafPages; i < int64(len(c.leaves)); i++ {
		l := c.leaves[i]
		if l == nil {
			continue
		}
		pages := l.pages
		if first := from - i*leafPages; first > 0 {
			pages = pages >> first << first
		}
		n += int64(bits.OnesCount8(pages))
	}
	return n
}

func pagesOf(size int64) int64 { return (size + pageSize - 1) / pageSize }

var zeros sector

func isZero(p []byte) bool {
	if len(p) == sectorSize {
		return sector(p) == zeros
	}
	for len(p) >= 8 {
		if binary.LittleEndian.Uint64(p) != 0 {
			return false
		}
		p = p[8:]
	}
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
