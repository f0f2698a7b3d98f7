package disk

import (
	"fmt"
	"slices"
)

// Report says what a power loss did. It counts what could be reached afterwards.
type Report struct {
	SectorsKept int // unsynced sectors whose newest contents survived
	SectorsLost int // unsynced sectors that show older contents, or lie beyond the surviving size
	Garbage     int // sectors that hold garbage
	TornWrites  int // writes of several sectors, the last on each of them, of which only a part survived
	NamesKept   int // unsynced operations on names that survived
	NamesLost   int
	SizesKept   int // files whose newest unsynced size survived
	SizesLost   int
}

// String returns the counts in one line.
func (r Report) String() string {
	return fmt.Sprintf("sectors kept %d lost %d garbage %d, torn writes %d, names kept %d lost %d, sizes kept %d lost %d",
		r.SectorsKept, r.SectorsLost, r.Garbage, r.TornWrites, r.NamesKept, r.NamesLost, r.SizesKept, r.SizesLost)
}

// ProcessCrash ends the process: its handles and locks are gone, the page cache stays.
func (d *Disk) ProcessCrash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.holds
	d.endProcess()
	if len(held) == 0 {
		return
	}
	for i := len(d.table) - 1; i >= 0; i-- {
		if n := d.table[i].node; held[n.ino] > 0 && !n.linked {
			d.usedPages -= n.pages
			d.reap(n.ino)
		}
	}
}

func (d *Disk) endProcess() {
	d.holds, d.locks = nil, nil
	d.generation++
}

// PowerLoss ends the machine: handles and locks are gone, and the page cache is what the durable image and
// an admissible part of the unsynced give. Which part is drawn from c; nothing is drawn when nothing is
// unsynced.
func (d *Disk) PowerLoss(c Chooser) Report { return d.PowerLossWith(c, Loss{}) }

// Loss is how a power is lost.
type Loss struct {
	// TornGarbage lets a sector with unsynced contents hold garbage. Rule D5 excludes it: with it, only
	// checksums help.
	TornGarbage bool
	// Fresh spares the sectors that had durable contents: garbage is what the medium held before the file had the sector, as on file
	// systems that allocate space before they write it.
	Fresh bool
}

// PowerLossWith is PowerLoss in a given way.
func (d *Disk) PowerLossWith(c Chooser, how Loss) Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endProcess()
	ch := d.choose(c)
	report := d.report(ch)
	garbage := drawGarbage(c, how, ch)
	img := d.image(ch, d.owner)
	d.table, d.usedPages, d.recent = img.table, img.usedPages, 0
	clear(d.pending)
	d.pending = d.pending[:0]
	for _, g := range garbage {
		d.place(g)
	}
	report.Garbage = len(garbage)
	return report
}

// report counts what a choice means, before it is carried out.
func (d *Disk) report(ch *choice) (r Report) {
	for i, kept := range ch.ops {
		switch {
		case d.pending[i].kind == opSize:
		case kept:
			r.NamesKept++
		default:
			r.NamesLost++
		}
	}
	for i := range ch.files {
		f := &ch.files[i]
		if len(f.node.sizes) > 0 {
			if f.sizes == len(f.node.sizes) {
				r.SizesKept++
			} else {
				r.SizesLost++
			}
		}
		r.sectors(f)
	}
	return r
}

// sectors counts the sectors and torn writes of one file.
func (r *Report) sectors(f *fileChoice) {
	type write struct {
		stamp      uint64
		kept, lost bool
	}
	var recent []write // writes still met now and then; sectors ascend and so, mostly, do stamps
	size := f.node.sizeAt(f.sizes)
	for i := range f.node.dirty {
		e := &f.node.dirty[i]
		if e.clean {
			continue
		}
		at := len(recent) - 1
		for at >= 0 && recent[at].stamp != e.stamp {
			at--
		}
		if at < 0 {
			recent = append(recent, write{stamp: e.stamp})
			at = len(recent) - 1
		}
		w := &recent[at]
		was := w.kept && w.lost
		if f.versions[i] == e.newest() && e.number*sectorSize < size {
			r.SectorsKept++
			w.kept = true
		} else {
			r.SectorsLost++
			w.lost = true
		}
		if !was && w.kept && w.lost {
			r.TornWrites++
		}
	}
}

// garbage is a sector to be filled with noise.
type garbage struct {
	ino    Ino
	sector int64
	seed   uint64
}

// drawGarbage draws which of the sectors that were in flight hold garbage.
func drawGarbage(c Chooser, how Loss, ch *choice) (out []garbage) {
	if !how.TornGarbage {
		return nil
	}
	for i := range ch.files {
		f := &ch.files[i]
		size := f.node.sizeAt(f.sizes)
		for k := range f.node.dirty {
			if e := &f.node.dirty[k]; !e.clean && e.number*sectorSize < size && (!how.Fresh || e.number*sectorSize >= f.node.durableSize) && c.Choose(4) == 1 {
				out = append(out, garbage{f.node.ino, e.number, uint64(c.Choose(1 << 30))})
			}
		}
	}
	return out
}

// place fills a sector with noise, up to the end of the file.
func (d *Disk) place(g garbage) {
	n := d.own(g.ino)
	var noise sector
	for i := range noise {
		noise[i] = byte(mix(g.seed+uint64(i), noiseKey) >> 32)
	}
	d.overwrite(n, g.sector, &noise)
}

// overwrite changes what the cache shows of a sector, up to the end of the file, without making it dirty.
// The sector data belongs to the disk from then on.
func (d *Disk) overwrite(n *inode, s int64, data *sector) {
	data = data.to(n.size - s*sectorSize)
	n.content.set(d.owner, s, data)
	if i := s / pageSectors; data != nil && i >= n.reserved && !n.content.hasPage(i) {
		n.content.takePage(d.owner, i)
		n.pages++
		d.usedPages++
	}
}

// image returns the disk that a choice leaves, with contents owned by o. When o is the owner of d, inodes
// of d are changed in place and d must not be used any more.
func (d *Disk) image(ch *choice, o *owner) *Disk {
	img := &Disk{
		Now: d.Now, Device: d.Device, personality: d.personality, owner: o, nextIno: d.nextIno,
		stamp: d.stamp, clock: d.clock, generation: d.generation, capacity: d.capacity,
		table: make([]slot, 0, len(ch.space.nodes)),
	}
	files := ch.files
	for i, n := range ch.space.nodes {
		switch {
		case n.dir:
			n = n.survivingDir(o, ch.space.entries(n), ch.space.parents[i])
		case len(files) > 0 && files[0].node == n:
			n = n.survivingFile(o, &files[0])
			files = files[1:]
		default:
			n = n.settled(o)
		}
		img.usedPages += n.pages
		img.table = append(img.table, slot{n.ino, n})
	}
	return img
}

// settled returns the inode with visible and durable name agreeing.
func (n *inode) settled(o *owner) *inode {
	if n.linked && n.durableLinked && n.refs == 0 {
		return n
	}
	n = n.owned(o)
	n.linked, n.durableLinked, n.refs = true, true, 0
	return n
}

func (n *inode) owned(o *owner) *inode {
	if n.owner == o {
		return n
	}
	return n.copy(o)
}

func (n *inode) survivingDir(o *owner, entries []dirent, parent Ino) *inode {
	n = n.settled(o)
	if n.parent == parent && slices.Equal(n.entries, entries) && slices.Equal(n.durable, entries) {
		return n
	}
	n = n.owned(o)
	n.parent = parent
	n.durable = slices.Clone(entries)
	n.entries = slices.Clone(entries)
	return n
}

func (n *inode) survivingFile(o *owner, f *fileChoice) *inode {
	size, dirty := n.sizeAt(f.sizes), n.dirty
	if n.owner != o {
		c := *n
		c.owner = o
		c.content.leaves = slices.Clone(n.content.leaves)
		n = &c
	}
	for i := range dirty {
		e := &dirty[i]
		if v := f.versions[i]; e.number*sectorSize < size && (e.clean || v < e.newest()) {
			n.show(o, e.number, e.data(n, v))
		}
	}
	n.content.cut(o, size)
	n.linked, n.durableLinked, n.refs = true, true, 0
	n.dirty, n.sizes = nil, nil
	n.size, n.durableSize = size, size
	n.reserved = min(n.reserved, pagesOf(size))
	n.pages = n.reserved + n.content.count(n.reserved)
	return n
}

// show makes a sector of a surviving file hold data. What was cut off may come back so, with its space.
func (n *inode) show(o *owner, s int64, data *sector) {
	n.content.set(o, s, data)
	if i := s / pageSectors; data != nil && i >= n.reserved && !n.content.hasPage(i) {
		n.content.takePage(o, i)
	}
}

// Background is the kernel's own writeback: some of the unsynced becomes durable in an admissible order.
// Readers see no difference.
func (d *Disk) Background(c Chooser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ch := d.choose(c)
	for i := range ch.files {
		d.advance(&ch.files[i])
	}
	if slices.Contains(ch.ops, true) {
		d.applyDurable(ch.ops)
	}
}

// advance makes what a choice says of one file durable.
func (d *Disk) advance(f *fileChoice) {
	n := d.own(f.node.ino)
	keep := n.dirty[:0]
	for i := range n.dirty {
		if e := n.dirty[i]; e.settle(n, f.versions[i]) {
			keep = append(keep, e)
		}
	}
	clear(n.dirty[len(keep):])
	n.dirty = keep
	if f.sizes > 0 {
		n.durableSize = n.sizes[f.sizes-1].size
		n.sizes = slices.Delete(n.sizes, 0, f.sizes)
	}
}
