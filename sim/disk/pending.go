package disk

import (
	"cmp"
	"slices"
)

type opKind uint8

const (
	opLink   opKind = iota // a new file or directory got a name
	opUnlink               // a name was removed
	opRename               // a name moved, replacing what had the target
	opSize                 // Ordered only: a size was set explicitly and stands in the journal
)

// nameOp is an operation on names that no sync has made durable.
type nameOp struct {
	stamp    uint64
	kind     opKind
	isDir    bool   // what is named is a directory
	dir      Ino    // the directory of name
	name     string //
	ino      Ino    // what is named afterwards
	toDir    Ino    // rename: the directory of toName
	toName   string //
	replaced Ino    // what lost its name by removal or replacement
	synced   uint8  // rename: bit 0 dir, bit 1 toDir was synced since
	stuck    bool   // a sync of its directory failed: no later one makes it durable, unless for an operation that rests on it

	// Adversarial: stamps of pending operations without which this one cannot have happened.
	// The first hard ones also become durable with it.
	deps []uint64
	hard int
}

// touches reports whether the operation changes that name.
func (op *nameOp) touches(dir Ino, name string) bool {
	if op.kind == opSize {
		return false
	}
	return op.dir == dir && op.name == name || op.kind == opRename && op.toDir == dir && op.toName == name
}

// inDir reports whether the operation changes a name in that directory.
func (op *nameOp) inDir(dir Ino) bool {
	return op.kind != opSize && (op.dir == dir || op.kind == opRename && op.toDir == dir)
}

// mentions calls fn for each inode that must exist for the operation to be done or undone.
func (op *nameOp) mentions(fn func(Ino)) {
	for _, i := range [...]Ino{op.dir, op.ino, op.toDir, op.replaced} {
		if i != 0 {
			fn(i)
		}
	}
}

// record adds an operation that the current stamp made.
func (d *Disk) record(op nameOp) {
	op.stamp = d.stamp
	if d.personality == Adversarial {
		d.depend(&op)
	}
	op.mentions(func(i Ino) { d.own(i).refs++ })
	d.pending = append(d.pending, op)
	if len(d.pending) > pendingNamesMax {
		d.commitOldest()
	}
}

// commitOldest makes a quarter of the pending operations durable, oldest first.
func (d *Disk) commitOldest() {
	if d.personality == Ordered {
		d.commit(d.pending[len(d.pending)/4].stamp)
		return
	}
	take := make([]bool, len(d.pending))
	for i := range len(take) / 4 {
		take[i] = true // nothing depends on a later operation
	}
	d.applyDurable(take)
}

// depend notes on which pending operations op rests:
//
//   - the last one on each name it changes, so that each name goes through its values in order;
//   - when it removes a directory, all on names in there, so that nothing that was moved out is lost with it;
//   - when it moves a directory to another parent, the last such move, so that no cycle can arise;
//   - softly, the one that made the directory it links into: nothing may move to a place that is lost, and
//     new names there mean nothing without it. But syncing the directory does not make its own name durable,
//     and a new file that moved on to elsewhere does not need the directory it was made in.
func (d *Disk) depend(op *nameOp) {
	need := func(stamp uint64) {
		if stamp != 0 && !slices.Contains(op.deps, stamp) {
			op.deps = append(op.deps, stamp)
		}
	}
	need(d.lastOn(op.dir, op.name))
	if op.kind == opRename {
		need(d.lastOn(op.toDir, op.toName))
	}
	if op.replaced != 0 && op.isDir {
		for i := range d.pending {
			if d.pending[i].inDir(op.replaced) {
				need(d.pending[i].stamp)
			}
		}
	}
	if op.kind == opRename && op.isDir && op.dir != op.toDir {
		if _, ok := d.pendingAt(d.moves); ok {
			need(d.moves)
		}
		d.moves = op.stamp
	}
	op.hard = len(op.deps)
	switch op.kind {
	case opLink:
		need(d.birth(op.dir))
	case opRename:
		need(d.birth(op.toDir))
		if !op.isDir {
			d.detach(op.dir, op.name)
		}
	}
}

// detach lets new files of that name survive without the directory they were made in.
func (d *Disk) detach(dir Ino, name string) {
	for i := range d.pending {
		if op := &d.pending[i]; op.kind == opLink && !op.isDir && op.touches(dir, name) {
			op.deps = op.deps[:op.hard]
		}
	}
}

// lastOn returns the stamp of the last pending operation on a name, 0 when there is none.
func (d *Disk) lastOn(dir Ino, name string) uint64 {
	for i := len(d.pending) - 1; i >= 0; i-- {
		if d.pending[i].touches(dir, name) {
			return d.pending[i].stamp
		}
	}
	return 0
}

// birth returns the stamp of the pending operation that made a directory, 0 when it is durable.
func (d *Disk) birth(dir Ino) uint64 {
	for i := range d.pending {
		if op := &d.pending[i]; op.kind == opLink && op.ino == dir {
			return op.stamp
		}
	}
	return 0
}

// pendingAt returns the index of the pending operation with that stamp.
func (d *Disk) pendingAt(stamp uint64) (int, bool) {
	return slices.BinarySearchFunc(d.pending, stamp, func(op nameOp, s uint64) int { return cmp.Compare(op.stamp, s) })
}

// syncNames makes durable what happened to the names in a directory, with all it rests on.
func (d *Disk) syncNames(dir Ino) {
	if len(d.pending) == 0 {
		return
	}
	take := make([]bool, len(d.pending))
	any := false
	for i := len(d.pending) - 1; i >= 0; i-- {
		op := &d.pending[i]
		if op.dir == dir {
			op.synced |= 1
		}
		if op.toDir == dir {
			op.synced |= 2
		}
		if !op.stuck && (op.kind == opRename && op.synced == 3 || op.kind != opRename && op.synced == 1) {
			take[i] = true
		}
		if !take[i] {
			continue
		}
		any = true
		for _, s := range op.deps[:op.hard] {
			if at, ok := d.pendingAt(s); ok {
				take[at] = true
			}
		}
	}
	if any {
		d.applyDurable(take)
	}
}

// commit writes the journal of an Ordered disk up to stamp.
func (d *Disk) commit(stamp uint64) {
	count := 0
	for count < len(d.pending) && d.pending[count].stamp <= stamp {
		count++
	}
	if count == 0 {
		return
	}
	take := make([]bool, len(d.pending))
	for i := range count {
		take[i] = true
	}
	d.applyDurable(take)
}

// applyDurable makes the chosen pending operations durable.
func (d *Disk) applyDurable(take []bool) {
	var done []nameOp
	keep := d.pending[:0]
	for i := range d.pending {
		if op := d.pending[i]; take[i] {
			done = append(done, op)
		} else {
			keep = append(keep, op)
		}
	}
	clear(d.pending[len(keep):])
	d.pending = keep
	for i := range done {
		d.applyOne(&done[i])
	}
	for i := range done {
		done[i].mentions(func(ino Ino) { d.own(ino).refs-- })
	}
	for i := range done {
		done[i].mentions(d.reap)
	}
}

func (d *Disk) applyOne(op *nameOp) {
	switch op.kind {
	case opLink:
		set(&d.own(op.dir).durable, op.name, op.ino)
		d.own(op.ino).durableLinked = true
	case opUnlink:
		remove(&d.own(op.dir).durable, op.name)
		d.own(op.replaced).durableLinked = false
	case opRename:
		remove(&d.own(op.dir).durable, op.name)
		set(&d.own(op.toDir).durable, op.toName, op.ino)
		d.own(op.ino).durableLinked = true
		if op.replaced != 0 {
			d.own(op.replaced).durableLinked = false
		}
	case opSize:
		n := d.own(op.ino)
		count := 0
		for count < len(n.sizes) && n.sizes[count].stamp <= op.stamp {
			count++
		}
		d.settleSizes(n, count)
	}
}
