package disk

import (
	"encoding/binary"

	"narad/vfs"
)

const (
	sectorSize     = vfs.SectorSize
	pageSize       = 4096
	pageSectors    = pageSize / sectorSize
	leafPages      = 64 // pages of a leaf: 256 KiB
	_              = uint(64 - leafPages)
	pageSizeMask   = pageSize - 1
	sectorSizeMask = sectorSize - 1
)

type (
	sector [sectorSize]byte
	page   [pageSize]byte
)

// zeroPage stands in files for pages that were written with zeros. Nobody writes to it.
var zeroPage page

// content is the bytes of a file: a table of leaves of pages, each made when it is first written.
// A missing page reads as zeros. Leaves and pages are shared between clones until they change.
type content struct {
	leaves []*leaf
}

type leaf struct {
	owner *owner // whoever may change the leaf
	owned uint64 // bit i: page i belongs to this leaf alone
	pages [leafPages]*page
}

// page returns page i for reading, nil when it was never written.
func (c *content) page(i int64) *page {
	if i/leafPages >= int64(len(c.leaves)) {
		return nil
	}
	l := c.leaves[i/leafPages]
	if l == nil {
		return nil
	}
	return l.pages[i%leafPages]
}

// leaf returns the leaf of page i for changing by o.
func (c *content) leaf(o *owner, i int64) *leaf {
	at := i / leafPages
	for int64(len(c.leaves)) <= at {
		c.leaves = append(c.leaves, nil)
	}
	l := c.leaves[at]
	if l == nil {
		l = &leaf{owner: o}
		c.leaves[at] = l
	} else if l.owner != o {
		l = &leaf{owner: o, pages: l.pages}
		c.leaves[at] = l
	}
	return l
}

// writable returns page i for changing by o.
func (c *content) writable(o *owner, i int64) *page {
	l := c.leaf(o, i)
	bit := uint64(1) << (i % leafPages)
	p := l.pages[i%leafPages]
	if l.owned&bit != 0 {
		return p
	}
	own := new(page)
	if p != nil && p != &zeroPage {
		*own = *p
	}
	l.pages[i%leafPages] = own
	l.owned |= bit
	return own
}

// write copies p to off.
func (c *content) write(o *owner, p []byte, off int64) {
	for len(p) > 0 {
		i, in := off/pageSize, int(off&pageSizeMask)
		n := min(len(p), pageSize-in)
		if old := c.page(i); (old == nil || old == &zeroPage) && isZero(p[:n]) {
			if old == nil {
				c.leaf(o, i).pages[i%leafPages] = &zeroPage
			}
		} else {
			copy(c.writable(o, i)[in:], p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// read fills p from off.
func (c *content) read(p []byte, off int64) {
	for len(p) > 0 {
		in := int(off & pageSizeMask)
		n := min(len(p), pageSize-in)
		if pg := c.page(off / pageSize); pg != nil {
			copy(p[:n], pg[in:])
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// sector returns sector s for reading, nil when its page was never written.
func (c *content) sector(s int64) *sector {
	p := c.page(s / pageSectors)
	if p == nil || p == &zeroPage {
		return nil
	}
	return p.sector(int(s % pageSectors))
}

func (p *page) sector(i int) *sector { return (*sector)(p[i*sectorSize:]) }

// setSector makes sector s hold data; nil is zeros.
func (c *content) setSector(o *owner, s int64, data *sector) {
	if data == nil {
		if c.sector(s) == nil {
			return
		}
		data = &sector{}
	}
	*c.writable(o, s/pageSectors).sector(int(s % pageSectors)) = *data
}

// cut drops all bytes from size on.
func (c *content) cut(o *owner, size int64) {
	keep := (size + pageSizeMask) / pageSize
	leaves := (keep + leafPages - 1) / leafPages
	if leaves < int64(len(c.leaves)) {
		clear(c.leaves[leaves:])
		c.leaves = c.leaves[:leaves]
	}
	if in := keep % leafPages; in != 0 && leaves <= int64(len(c.leaves)) && c.leaves[leaves-1] != nil {
		c.cutLeaf(o, keep, int(in))
	}
	if in := size & pageSizeMask; in != 0 {
		if p := c.page(size / pageSize); p != nil && !isZero(p[in:]) {
			clear(c.writable(o, size/pageSize)[in:])
		}
	}
}

// cutLeaf drops the pages from keep on of the leaf that keep is in, where it is page number in.
func (c *content) cutLeaf(o *owner, keep int64, in int) {
	l := c.leaves[keep/leafPages]
	for i := in; i < leafPages; i++ {
		if l.pages[i] != nil {
			l = c.leaf(o, keep)
			clear(l.pages[in:])
			l.owned &= 1<<in - 1
			return
		}
	}
}

// count returns the number of written pages from page `from` on.
func (c *content) count(from int64) (n int64) {
	for at := from / leafPages; at < int64(len(c.leaves)); at++ {
		l := c.leaves[at]
		if l == nil {
			continue
		}
		for i, p := range l.pages {
			if p != nil && at*leafPages+int64(i) >= from {
				n++
			}
		}
	}
	return n
}

func isZero(p []byte) bool {
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
