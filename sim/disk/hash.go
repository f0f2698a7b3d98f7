package disk

import (
	"encoding/binary"
	"math/bits"
)

// Hashes are sums over names and over sectors, so that they do not depend on any order and one sector can
// be exchanged in them.

const (
	hashKey  = 0x9e3779b97f4a7c15
	dataKey  = 0xa0761d6478bd642f
	nameKey  = 0xe7037ed1a0b428db
	noiseKey = 0x8ebc6af09c88c6e3
)

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^hashKey, b^dataKey)
	return high ^ low
}

// hashSector returns the share of a sector in the hash of a file; zeros have none.
func hashSector(s int64, data []byte) uint64 {
	if isZero(data) {
		return 0
	}
	h := uint64(s) + 1
	for len(data) >= 16 {
		h = mix(h^binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])+h)
		data = data[16:]
	}
	return mix(h, nameKey)
}

// hashSectorTo is hashSector of the contents below size only.
func hashSectorTo(s int64, data *sector, size int64) uint64 {
	end := size - s*sectorSize
	switch {
	case data == nil || end <= 0:
		return 0
	case end >= sectorSize:
		return hashSector(s, data[:])
	}
	var part sector
	copy(part[:end], data[:])
	return hashSector(s, part[:])
}

// hash returns the hash of all contents below size.
func (c *content) hash(size int64) (h uint64) {
	for i, l := range c.leaves {
		if l == nil {
			continue
		}
		for k, data := range l.sectors {
			if data != nil {
				h += hashSectorTo(int64(i)*leafSectors+int64(k), data, size)
			}
		}
	}
	return h
}

func hashName(parent uint64, name string) uint64 {
	h := mix(parent, nameKey)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return mix(h, uint64(len(name)))
}

func hashDir(path uint64) uint64 { return mix(path, 1) }

func hashFile(path uint64, size int64, content uint64) uint64 {
	return mix(mix(path, 2)+content, uint64(size)^hashKey)
}

// Hash returns a hash of what can be seen: names, sizes and contents. It is the same in every process.
func (d *Disk) Hash() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hash()
}

func (d *Disk) hash() uint64 {
	return d.hashTree(d.node(rootIno), nameKey, func(n *inode) []dirent { return n.entries },
		func(n *inode) (int64, uint64) { return n.size, n.content.hash(n.size) })
}

// DurableHash returns the hash of the disk as it would be if nothing unsynced survived.
func (d *Disk) DurableHash() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hashTree(d.node(rootIno), nameKey, func(n *inode) []dirent { return n.durable },
		func(n *inode) (int64, uint64) { return n.durableSize, n.durableContentHash(n.durableSize) })
}

// hashTree sums over all below dir.
func (d *Disk) hashTree(dir *inode, path uint64, entries func(*inode) []dirent, file func(*inode) (int64, uint64)) (h uint64) {
	for _, e := range entries(dir) {
		n, p := d.node(e.ino), hashName(path, e.name)
		if n.dir {
			h += hashDir(p) + d.hashTree(n, p, entries, file)
		} else {
			size, content := file(n)
			h += hashFile(p, size, content)
		}
	}
	return h
}

// cleanContentHash returns the hash of the contents below size that are the same in cache and on disk.
func (n *inode) cleanContentHash(size int64) uint64 {
	h := n.content.hash(size)
	for i := range n.dirty {
		s := n.dirty[i].number
		h -= hashSectorTo(s, n.content.sector(s), size)
	}
	return h
}

func (n *inode) durableContentHash(size int64) uint64 {
	h := n.cleanContentHash(size)
	for i := range n.dirty {
		h += hashSectorTo(n.dirty[i].number, n.dirty[i].base, size)
	}
	return h
}
