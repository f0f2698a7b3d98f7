package disk

// WriteShort writes only the first count bytes of p: a write cut short by the death of its process, or by
// the kernel. The error is that of writing so much.
func (d *Disk) WriteShort(f Ino, p []byte, off int64, count int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.write(f, p[:min(max(0, count), len(p))], off, false)
	return err
}

// SyncFails is a sync that failed with EIO, as Linux does it: the unsynced sectors count as clean from now
// on, so no later sync will write them (rule D4), although the disk still holds their old contents. With
// keepVisible readers see the new contents until Evict, otherwise the old ones at once. A write to such a
// sector makes the whole sector dirty again. Size and names stay unsynced.
//
// Sectors that the device did write before it failed can be had by a Background before.
func (d *Disk) SyncFails(f Ino, keepVisible bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.alive(f); n == nil || n.dir || len(n.dirty) == 0 {
		return
	}
	n := d.own(f)
	d.revert(n, func(e *dirtySector) bool {
		show := !e.clean && !keepVisible
		e.clean, e.mid = true, nil
		return show
	})
}

// SyncDirFails is a sync of a directory that failed: what happened to the names in it counts as done from now on, so no later sync
// makes it durable (rule D4), until the name is changed again and that is synced. A journal, as that of an Ordered disk, has no such
// state: there it does nothing.
func (d *Disk) SyncDirFails(dir Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.pending {
		if op := &d.pending[i]; d.personality == Adversarial && op.inDir(dir) {
			op.stuck = true
		}
	}
}

// Evict drops the clean pages of a file from the cache: readers see what the disk holds.
func (d *Disk) Evict(f Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.alive(f); n == nil || n.dir || len(n.dirty) == 0 {
		return
	}
	d.revert(d.own(f), func(e *dirtySector) bool { return e.clean })
}

// revert lets readers see the durable contents of those sectors for which show says so.
func (d *Disk) revert(n *inode, show func(*dirtySector) bool) {
	keep := n.dirty[:0]
	for i := range n.dirty {
		e := n.dirty[i]
		if !show(&e) {
			keep = append(keep, e)
			continue
		}
		if e.number*sectorSize < n.size {
			d.overwrite(n, e.number, e.base)
		}
		if (e.number+1)*sectorSize > n.size {
			keep = append(keep, e) // the disk holds more than readers may see
		}
	}
	clear(n.dirty[len(keep):])
	n.dirty = keep
}

// FlipBit is bit rot: the bit, counted from the start of the file, is inverted on the disk. Readers see it
// at once unless the cache holds other contents of that sector than the disk. Bits beyond the size are
// nobody's.
func (d *Disk) FlipBit(f Ino, bit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.alive(f)
	if n == nil || n.dir || bit < 0 || bit/8 >= max(n.size, n.durableSize) {
		return
	}
	d.untrue = true
	n = d.own(f)
	s := bit / 8 / sectorSize
	var rotten sector
	at := n.findDirty(s)
	known := at < len(n.dirty) && n.dirty[at].number == s
	was := n.content.sector(s)
	if known {
		was = n.dirty[at].base
	}
	if was != nil {
		rotten = *was
	}
	rotten[bit/8%sectorSize] ^= 1 << (bit % 8)
	if known {
		n.dirty[at].base = &rotten
		return
	}
	d.overwrite(n, s, &rotten)
}

// LoseWrite is a write that the disk acknowledges, with its syncs, and loses: readers see it until Evict or
// a power loss.
func (d *Disk) LoseWrite(f Ino, p []byte, off int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untrue = true
	_, err := d.write(f, p, off, true)
	return err
}

// MisdirectWrite is a write that the disk acknowledges, with its syncs, and puts elsewhere: the sectors it
// touches land from the sector at byte `to` of file victim on, at once and durably. Readers see it at off,
// and the old contents of victim, until Evict or a power loss. Sectors beyond the size of victim land on
// free space.
func (d *Disk) MisdirectWrite(f Ino, p []byte, off int64, victim Ino, to int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untrue = true
	if _, err := d.write(f, p, off, true); err != nil || len(p) == 0 {
		return err
	}
	v, err := d.file("write", victim)
	if err != nil {
		return nil
	}
	n := d.node(f)
	v = d.own(v.ino)
	for s := off / sectorSize; s <= (off+int64(len(p))-1)/sectorSize; s++ {
		data := n.content.sector(s)
		land := to/sectorSize + s - off/sectorSize
		if land < 0 || land*sectorSize >= v.size {
			continue
		}
		at := v.findDirty(land)
		if at == len(v.dirty) || v.dirty[at].number != land {
			v.insertDirty(at, dirtySector{number: land, clean: true})
		}
		v.dirty[at].base = data
	}
	return nil
}

// FileAt returns one of the files that have a name, and its size in bytes: the k-th, counted round, by number. There must be one.
func (d *Disk) FileAt(k uint32) (Ino, int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := 0
	for i := range d.table {
		if n := d.table[i].node; !n.dir && n.linked {
			files++
		}
	}
	at := int(k) % files
	for i := range d.table {
		n := d.table[i].node
		if n.dir || !n.linked {
			continue
		}
		if at == 0 {
			return n.ino, n.size
		}
		at--
	}
	panic("disk: no file has a name")
}
