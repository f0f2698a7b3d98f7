package disk

import "math"

// Chooser draws uniformly from [0,n), n ≥ 1. It is the only randomness of a disk.
type Chooser interface{ Choose(n int) int }

// choice is what of the unsynced survives: one admissible outcome.
type choice struct {
	ops   []bool       // for each pending operation
	space namespace    // the names that result
	files []fileChoice // the reachable files that have anything unsynced, by number
}

type fileChoice struct {
	node     *inode
	sizes    int   // so many of the unsynced sizes survive
	versions []int // for each dirty sector, which contents
}

// journalCut returns the stamp of the last journal entry that survives, on an Ordered disk.
func (ch *choice) journalCut(d *Disk) uint64 {
	last := uint64(0)
	for i := range ch.ops {
		if ch.ops[i] {
			last = d.pending[i].stamp
		}
	}
	return last
}

// sizeWindow returns the fewest and most unsynced sizes of a file that may survive when the journal
// survives up to the stamp last.
func (d *Disk) sizeWindow(n *inode, last uint64) (low, high int) {
	if d.personality == Adversarial {
		return 0, len(n.sizes)
	}
	for i, op := range n.sizes {
		if op.explicit && op.stamp > last {
			return low, i
		}
		if op.explicit {
			low = i + 1
		}
	}
	return low, len(n.sizes)
}

// versionWindow returns the oldest and newest contents of a sector that may go with so many sizes.
func (d *Disk) versionWindow(n *inode, sizes int, e *dirtySector) (low, high int) {
	if d.personality == Adversarial || e.clean || len(n.sizes) == 0 {
		return 0, e.newest()
	}
	low = e.upTo(n.dataOf(sizes, e.number))
	high = e.newest()
	if freed := n.freedBy(sizes, e.number); freed != math.MaxUint64 {
		high = e.upTo(freed - 1)
	}
	return low, high
}

// unsynced reports whether a power loss can change what a file shows.
func (n *inode) unsynced() bool { return len(n.dirty) > 0 || len(n.sizes) > 0 }

// A sampler draws a choice. What is drawn depends on the manner, drawn first, so that the extremes stay
// likely however much is pending.
type sampler struct {
	d      *Disk
	c      Chooser
	manner int
	cut    uint64 // byTime: operations after this one are lost
}

const (
	loseAll  = iota // nothing unsynced survives
	keepAll         // everything does
	byTime          // what happened up to some operation does
	mostly          // each thing does with seven in eight
	anything        // each thing on its own, evenly
	manners
)

// choose draws an outcome into d.loss. It draws nothing when nothing is pending.
func (d *Disk) choose(c Chooser) *choice {
	ch := &d.loss
	ch.ops = resized(ch.ops, len(d.pending))
	ch.files = ch.files[:0]
	first := d.firstPending()
	if first == math.MaxUint64 {
		clear(ch.ops)
		d.spread(&ch.space, ch.ops)
		d.phantomsOnly(ch)
		return ch
	}
	s := sampler{d: d, c: c, manner: c.Choose(manners)}
	if s.manner == byTime {
		s.cut = first - 1 + uint64(c.Choose(int(d.stamp-first)+2))
	}
	s.names(ch.ops)
	d.spread(&ch.space, ch.ops)
	last := ch.journalCut(d)
	for _, n := range ch.space.nodes {
		if !n.dir && n.unsynced() {
			s.file(ch.add(n), last)
		}
	}
	return ch
}

// phantomsOnly fills in the files of a choice when only clean sectors are dirty.
func (d *Disk) phantomsOnly(ch *choice) {
	for _, n := range ch.space.nodes {
		if n.unsynced() {
			f := ch.add(n)
			f.versions = resized(f.versions, len(n.dirty))
			clear(f.versions)
			f.sizes = 0
		}
	}
}

// add appends a file, reusing the memory of an earlier choice.
func (ch *choice) add(n *inode) *fileChoice {
	if len(ch.files) < cap(ch.files) {
		ch.files = ch.files[:len(ch.files)+1]
	} else {
		ch.files = append(ch.files, fileChoice{})
	}
	f := &ch.files[len(ch.files)-1]
	f.node = n
	return f
}

// firstPending returns the stamp of the oldest thing that a power loss may undo.
func (d *Disk) firstPending() uint64 {
	first := uint64(math.MaxUint64)
	if len(d.pending) > 0 {
		first = d.pending[0].stamp
	}
	for i := range d.table {
		n := d.table[i].node
		if len(n.sizes) > 0 {
			first = min(first, n.sizes[0].stamp)
		}
		for k := range n.dirty {
			if e := &n.dirty[k]; !e.clean {
				first = min(first, e.stampOf(1))
			}
		}
	}
	return first
}

// keep draws whether one thing survives.
func (s *sampler) keep(stamp uint64) bool {
	switch s.manner {
	case loseAll:
		return false
	case keepAll:
		return true
	case byTime:
		return stamp <= s.cut
	case mostly:
		return s.c.Choose(8) > 0
	}
	return s.c.Choose(2) > 0
}

// names draws which pending operations survive.
func (s *sampler) names(ops []bool) {
	if s.d.personality == Ordered {
		s.journal(ops)
		return
	}
	for i := range ops {
		op := &s.d.pending[i]
		ops[i] = s.d.allowed(ops[:i], op) && s.keep(op.stamp)
	}
}

// allowed reports whether all that op rests on survives.
func (d *Disk) allowed(earlier []bool, op *nameOp) bool {
	for _, stamp := range op.deps {
		if at, ok := d.pendingAt(stamp); ok && !earlier[at] {
			return false
		}
	}
	return true
}

// journal draws how much of the journal survives.
func (s *sampler) journal(ops []bool) {
	count := 0
	switch s.manner {
	case loseAll:
	case keepAll:
		count = len(ops)
	case byTime:
		for count < len(ops) && s.d.pending[count].stamp <= s.cut {
			count++
		}
	case mostly:
		count = max(0, len(ops)-s.c.Choose(3))
	default:
		count = s.c.Choose(len(ops) + 1)
	}
	for i := range ops {
		ops[i] = i < count
	}
}

// file draws what survives of one file.
func (s *sampler) file(f *fileChoice, last uint64) {
	n := f.node
	f.versions = resized(f.versions, len(n.dirty))
	low, high := s.d.sizeWindow(n, last)
	f.sizes = s.within(low, high, func(i int) uint64 { return n.sizes[i-1].stamp })
	size := n.sizeAt(f.sizes)
	for i := range n.dirty {
		e := &n.dirty[i]
		low, high := s.d.versionWindow(n, f.sizes, e)
		if e.number*sectorSize >= size {
			f.versions[i] = low // beyond the end nobody can tell
			continue
		}
		f.versions[i] = s.within(low, high, e.stampOf)
	}
}

// within draws a number from low to high, of things that operations made in that order.
func (s *sampler) within(low, high int, stamp func(int) uint64) int {
	if low == high {
		return low
	}
	switch s.manner {
	case loseAll:
		return low
	case keepAll:
		return high
	case byTime:
		for high > low && stamp(high) > s.cut {
			high--
		}
		return high
	case mostly:
		if s.c.Choose(8) > 0 {
			return high
		}
	}
	return low + s.c.Choose(high-low+1)
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/2)
	}
	return s[:n]
}

// namespace is the names that survive: directories that differ from their durable state, and all that can
// be reached from the root.
type namespace struct {
	changed []changedDir
	nodes   []*inode // reachable, by number
	parents []Ino    // of each node, when it is a directory
	reach   []bool   // scratch, for each slot of the table
	parent  []Ino    // scratch
	stack   []*inode // scratch
}

type changedDir struct {
	dir     Ino
	entries []dirent
}

// entries returns what a directory holds.
func (s *namespace) entries(n *inode) []dirent {
	for i := range s.changed {
		if s.changed[i].dir == n.ino {
			return s.changed[i].entries
		}
	}
	return n.durable
}

// change returns the entries of a directory for changing.
func (s *namespace) change(d *Disk, dir Ino) *[]dirent {
	for i := range s.changed {
		if s.changed[i].dir == dir {
			return &s.changed[i].entries
		}
	}
	if len(s.changed) < cap(s.changed) {
		s.changed = s.changed[:len(s.changed)+1]
	} else {
		s.changed = append(s.changed, changedDir{})
	}
	c := &s.changed[len(s.changed)-1]
	c.dir = dir
	c.entries = append(c.entries[:0], d.node(dir).durable...)
	return &c.entries
}

// spread works out the names that result when the operations in ops survive.
func (d *Disk) spread(s *namespace, ops []bool) {
	s.changed = s.changed[:0]
	for i := range ops {
		if !ops[i] {
			continue
		}
		op := &d.pending[i]
		switch op.kind {
		case opLink:
			set(s.change(d, op.dir), op.name, op.ino)
		case opUnlink:
			remove(s.change(d, op.dir), op.name)
		case opRename:
			remove(s.change(d, op.dir), op.name)
			set(s.change(d, op.toDir), op.toName, op.ino)
		}
	}
	s.visit(d)
}

// visit finds all that can be reached.
func (s *namespace) visit(d *Disk) {
	s.reach = resized(s.reach, len(d.table))
	clear(s.reach)
	s.parent = resized(s.parent, len(d.table))
	s.stack = append(s.stack[:0], d.node(rootIno))
	at := d.find(rootIno)
	s.reach[at], s.parent[at] = true, rootIno
	for len(s.stack) > 0 {
		dir := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		for _, e := range s.entries(dir) {
			at := d.find(e.ino)
			s.reach[at], s.parent[at] = true, dir.ino
			if n := d.table[at].node; n.dir {
				s.stack = append(s.stack, n)
			}
		}
	}
	s.nodes, s.parents = s.nodes[:0], s.parents[:0]
	for i := range d.table {
		if s.reach[i] {
			s.nodes = append(s.nodes, d.table[i].node)
			s.parents = append(s.parents, s.parent[i])
		}
	}
}
