package disk

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"narad/vfs"
)

// Personality says what a power loss may do to what was not made durable.
type Personality int

const (
	// Adversarial is the weakest disk that rules D1 to D5 of package vfs allow: any subset of unsynced
	// sectors survives, each file's size on its own, and any subset of unsynced names that respects the
	// order of operations on one name.
	Adversarial Personality = iota
	// Ordered is like ext4 with data=ordered: names survive as a prefix of one journal, which every sync
	// commits, and a size survives only together with the data that made the file grow.
	Ordered
)

// String returns "adversarial" or "ordered".
func (p Personality) String() string {
	if p == Ordered {
		return "ordered"
	}
	return "adversarial"
}

// Ino is the number of a file or directory. Numbers are never used again.
type Ino uint64

const rootIno Ino = 1

// Limits on what stays unsynced; beyond them the kernel's own writeback is assumed to have happened.
const (
	pendingNamesMax = 256 // unsynced name operations of a disk; the oldest become durable
	pendingSizesMax = 12  // unsynced sizes of a file; neighbours that grow it merge into one step
	versionsMax     = 6   // contents of one sector, durable and newest included; middle ones are forgotten
)

// Disk is the disk of one machine: page cache above, durable image below. All methods are safe for
// concurrent use; none of them waits for anything. The zero value is not usable, see [New].
type Disk struct {
	// Now, when not nil, is asked for modification times, in unix nanoseconds. Otherwise they count up.
	// It is called with the disk locked. Set it before use.
	Now func() int64
	// Device is the vfs.ID.Device of everything on the disk. Set it before use.
	Device uint64

	mu          sync.Mutex // guards everything below
	personality Personality
	owner       *owner // of the inodes and leaves that nobody else shares
	table       []slot // every inode that is visible, held, durable or may come back, by number
	recent      int    // index into table of the last inode looked up
	nextIno     Ino
	stamp       uint64   // number of the last operation
	clock       int64    // modification times when Now is nil
	pending     []nameOp // unsynced operations on names (and journalled sizes), by stamp
	moves       uint64   // stamp of the last rename of a directory to another parent
	holds       map[Ino]int
	locks       map[Ino]bool
	generation  uint64 // counts crashes; handles of an earlier generation are dead
	capacity    int64  // bytes; 0 is unlimited
	usedPages   int64
	untrue      bool     // it broke a rule: see AtStake
	slab        []sector // room for new sectors
	loss        choice   // scratch
}

// owner is an identity: inodes and leaves that carry the owner of a disk belong to it alone and may be changed
// in place. [Disk.Clone] gives both disks new owners, so all they had in common is copied when it changes.
type owner struct{ _ byte }

type slot struct {
	ino  Ino
	node *inode
}

// inode is a file or a directory.
type inode struct {
	owner *owner
	ino   Ino
	dir   bool
	name  string // last name it had, for messages
	mtime int64

	linked        bool // a visible name leads to it
	durableLinked bool // a durable name leads to it
	refs          int  // pending operations that mention it

	// directory
	parent  Ino      // visible
	entries []dirent // visible names, sorted
	durable []dirent // durable names, sorted

	// file
	content     content       // page cache: visible contents, zeros beyond size
	size        int64         // visible
	durableSize int64         //
	sizes       []sizeOp      // unsynced sizes, oldest first; the last is the visible one
	dirty       []dirtySector // sectors whose durable contents differ from the cache, by number
	reserved    int64         // pages below this number own disk space though nothing was written to them
	pages       int64         // disk space in pages
}

type dirent struct {
	name string
	ino  Ino
}

// New returns an empty disk.
func New(p Personality) *Disk {
	d := &Disk{Device: 1, personality: p, owner: new(owner), nextIno: rootIno + 1}
	d.table = []slot{{rootIno, &inode{
		owner: d.owner, ino: rootIno, dir: true, name: "/", linked: true, durableLinked: true, parent: rootIno,
	}}}
	return d
}

// Personality returns the personality the disk was made with.
func (d *Disk) Personality() Personality { return d.personality }

// Root returns the number of the root directory.
func (d *Disk) Root() Ino { return rootIno }

// Clone returns an independent copy, handles and locks included. It costs a few words for each file;
// contents are shared until either changes them.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.share()
	c.table = slices.Clone(d.table)
	c.pending = slices.Clone(d.pending)
	c.usedPages = d.usedPages
	c.holds = cloneMap(d.holds)
	c.locks = cloneMap(d.locks)
	return c
}

// share returns a disk with the settings of d and no contents, after making all that d owns shareable.
func (d *Disk) share() *Disk {
	d.owner = new(owner)
	return &Disk{
		Now: d.Now, Device: d.Device, personality: d.personality, owner: new(owner), nextIno: d.nextIno,
		stamp: d.stamp, clock: d.clock, untrue: d.untrue, moves: d.moves, generation: d.generation, capacity: d.capacity,
	}
}

func cloneMap[V any](m map[Ino]V) map[Ino]V {
	if len(m) == 0 {
		return nil
	}
	c := make(map[Ino]V, len(m))
	for k, v := range m { // order-free: copies into a map
		c[k] = v
	}
	return c
}

// Hold marks the inode as open: it lives without a name until as many calls of Release as of Hold.
func (d *Disk) Hold(i Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold(i)
}

func (d *Disk) hold(i Ino) {
	if d.holds == nil {
		d.holds = make(map[Ino]int)
	}
	d.holds[i]++
}

// Release undoes one Hold.
func (d *Disk) Release(i Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release(i)
}

func (d *Disk) release(i Ino) {
	switch n := d.holds[i]; {
	case n > 1:
		d.holds[i] = n - 1
	case n == 1:
		delete(d.holds, i)
		if at := d.find(i); at >= 0 && !d.table[at].node.linked {
			d.usedPages -= d.table[at].node.pages
			d.reap(i)
		}
	}
}

// Lock takes the exclusive lock of an inode and reports whether nobody held it. A crash releases it.
func (d *Disk) Lock(i Ino) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lock(i)
}

func (d *Disk) lock(i Ino) bool {
	if d.locks[i] {
		return false
	}
	if d.locks == nil {
		d.locks = make(map[Ino]bool)
	}
	d.locks[i] = true
	return true
}

// Unlock releases the lock of an inode.
func (d *Disk) Unlock(i Ino) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.locks, i)
}

// Held counts the open handles to files with a last name, of any name for "", and, with that, to directories.
func (d *Disk) Held(name string) (handles int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ino, n := range d.holds { // order-free: sums
		if name == "" || d.node(ino).name == name {
			handles += n
		}
	}
	return handles
}

// Untrue reports whether the disk has broken a rule: it lost a write, put one elsewhere, or a bit turned over.
func (d *Disk) Untrue() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.untrue
}

// Generation counts the crashes of the machine. What an earlier generation opened is gone.
func (d *Disk) Generation() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.generation
}

// SetCapacity limits the space of files, in bytes, counted in pages of 4 KiB; 0 lifts the limit. What is
// there already stays.
func (d *Disk) SetCapacity(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = bytes
}

// Used returns the space that visible and open files take, in bytes.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usedPages * pageSize
}

// freePages returns how many more pages the disk takes.
func (d *Disk) freePages() int64 {
	if d.capacity == 0 {
		return 1 << 50
	}
	return max(0, d.capacity/pageSize-d.usedPages)
}

func (d *Disk) now() int64 {
	if d.Now != nil {
		return d.Now()
	}
	d.clock++
	return d.clock
}

// find returns the index of an inode in the table, or -1.
func (d *Disk) find(i Ino) int {
	if d.recent < len(d.table) && d.table[d.recent].ino == i {
		return d.recent
	}
	at, ok := slices.BinarySearchFunc(d.table, i, func(s slot, i Ino) int { return cmp.Compare(s.ino, i) })
	if !ok {
		return -1
	}
	d.recent = at
	return at
}

// node returns an inode for reading, whether anything leads to it or not.
func (d *Disk) node(i Ino) *inode {
	if at := d.find(i); at >= 0 {
		return d.table[at].node
	}
	return nil
}

// alive returns an inode that a name or a handle leads to, or nil.
func (d *Disk) alive(i Ino) *inode {
	n := d.node(i)
	if n == nil || !n.linked && d.holds[i] == 0 {
		return nil
	}
	return n
}

// own returns an inode of the table for changing.
func (d *Disk) own(i Ino) *inode {
	at := d.find(i)
	n := d.table[at].node
	if n.owner != d.owner {
		n = n.copy(d.owner)
		d.table[at].node = n
	}
	return n
}

// copy returns a copy that belongs to o; leaves of the contents stay shared.
func (n *inode) copy(o *owner) *inode {
	c := *n
	c.owner = o
	c.entries = slices.Clone(n.entries)
	c.durable = slices.Clone(n.durable)
	c.content.leaves = slices.Clone(n.content.leaves)
	c.sizes = slices.Clone(n.sizes)
	c.dirty = slices.Clone(n.dirty)
	for i := range c.dirty {
		c.dirty[i].mid = slices.Clone(c.dirty[i].mid)
	}
	return &c
}

// reap forgets an inode that nothing leads to and that cannot come back.
func (d *Disk) reap(i Ino) {
	at := d.find(i)
	if at < 0 {
		return
	}
	n := d.table[at].node
	if n.linked || n.durableLinked || n.refs > 0 || d.holds[i] > 0 {
		return
	}
	d.table = slices.Delete(d.table, at, at+1)
}

// file returns an open or named file for reading.
func (d *Disk) file(op string, f Ino) (*inode, error) {
	n := d.alive(f)
	if n == nil {
		return nil, inoError(op, f, syscall.ENOENT)
	}
	if n.dir {
		return nil, nameError(op, n.name, syscall.EISDIR)
	}
	return n, nil
}

// directory returns an open or named directory for reading.
func (d *Disk) directory(op string, dir Ino) (*inode, error) {
	n := d.alive(dir)
	if n == nil {
		return nil, inoError(op, dir, syscall.ENOENT)
	}
	if !n.dir {
		return nil, nameError(op, n.name, syscall.ENOTDIR)
	}
	return n, nil
}

func (d *Disk) info(n *inode, name string) vfs.Info {
	return vfs.Info{Name: name, Dir: n.dir, Size: n.size, MTime: n.mtime, ID: d.id(n.ino)}
}

func (d *Disk) id(i Ino) vfs.ID { return vfs.ID{Device: d.Device, Inode: uint64(i)} }

// ID returns the identity of an inode on this disk.
func (d *Disk) ID(i Ino) vfs.ID { return d.id(i) }

// Stat describes an inode that a name or a handle leads to.
func (d *Disk) Stat(i Ino) (vfs.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.alive(i)
	if n == nil {
		return vfs.Info{}, inoError("stat", i, syscall.ENOENT)
	}
	return d.info(n, n.name), nil
}

func nameError(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func inoError(op string, i Ino, err error) error {
	return &fs.PathError{Op: op, Path: fmt.Sprintf("inode %d", i), Err: err}
}
