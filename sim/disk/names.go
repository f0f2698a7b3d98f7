package disk

import (
	"cmp"
	"slices"
	"strings"
	"syscall"

	"narad/vfs"
)

// Lookup describes what path leads to below dir.
func (d *Disk) Lookup(dir Ino, path string) (vfs.Info, Ino, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.lookup("stat", dir, path)
	if err != nil {
		return vfs.Info{}, 0, err
	}
	return d.info(n, path[strings.LastIndexByte(path, '/')+1:]), n.ino, nil
}

func (d *Disk) lookup(op string, dir Ino, path string) (*inode, error) {
	at, err := d.walk(op, dir, path)
	if err != nil {
		return nil, err
	}
	if at.ino == 0 {
		return nil, nameError(op, path, syscall.ENOENT)
	}
	return d.node(at.ino), nil
}

// place is where a path ends: a name in a directory and the inode it has, 0 when it is free.
type place struct {
	dir  *inode
	name string
	ino  Ino
}

// walk finds the place of path below dir.
func (d *Disk) walk(op string, dir Ino, path string) (place, error) {
	if err := vfs.CheckName(op, path); err != nil {
		return place{}, err
	}
	n := d.alive(dir)
	for {
		if n == nil {
			return place{}, nameError(op, path, syscall.ENOENT)
		}
		if !n.dir {
			return place{}, nameError(op, path, syscall.ENOTDIR)
		}
		name, rest, more := strings.Cut(path, "/")
		ino := get(n.entries, name)
		if !more {
			return place{n, name, ino}, nil
		}
		n, path = d.node(ino), rest
	}
}

// Mkdir makes an empty directory.
func (d *Disk) Mkdir(dir Ino, path string) (Ino, error) { return d.make("mkdir", dir, path, true) }

// Create makes an empty file; a name that is taken is fs.ErrExist.
func (d *Disk) Create(dir Ino, path string) (Ino, error) { return d.make("create", dir, path, false) }

func (d *Disk) make(op string, dir Ino, path string, isDir bool) (Ino, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.makeLocked(op, dir, path, isDir)
}

func (d *Disk) makeLocked(op string, dir Ino, path string, isDir bool) (Ino, error) {
	at, err := d.walk(op, dir, path)
	if err != nil {
		return 0, err
	}
	if at.ino != 0 {
		return 0, nameError(op, path, syscall.EEXIST)
	}
	if !at.dir.linked {
		return 0, nameError(op, path, syscall.ENOENT) // the directory was removed while open
	}
	d.stamp++
	n := &inode{owner: d.owner, ino: d.nextIno, dir: isDir, name: at.name, mtime: d.now(), linked: true, parent: at.dir.ino}
	d.nextIno++
	d.table = append(d.table, slot{n.ino, n})
	parent := d.own(at.dir.ino)
	set(&parent.entries, at.name, n.ino)
	parent.mtime = n.mtime
	d.record(nameOp{kind: opLink, dir: parent.ino, name: at.name, ino: n.ino, isDir: isDir})
	return n.ino, nil
}

// Rename gives what is at source the name target, replacing a file or an empty directory there.
func (d *Disk) Rename(dir Ino, source, target string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	const op = "rename"
	from, err := d.walk(op, dir, source)
	if err != nil {
		return err
	}
	to, err := d.walk(op, dir, target)
	if err != nil {
		return err
	}
	if from.ino == 0 {
		return nameError(op, source, syscall.ENOENT)
	}
	if !to.dir.linked {
		return nameError(op, target, syscall.ENOENT)
	}
	if err := d.checkRename(from, to); err != 0 {
		return nameError(op, target, err)
	}
	if from.ino == to.ino {
		return nil
	}
	d.stamp++
	moved := d.own(from.ino)
	moved.name, moved.parent = to.name, to.dir.ino
	src := d.own(from.dir.ino)
	src.mtime = d.now()
	remove(&src.entries, from.name)
	dst := d.own(to.dir.ino)
	dst.mtime = src.mtime
	set(&dst.entries, to.name, from.ino)
	d.record(nameOp{
		kind: opRename, dir: src.ino, name: from.name, ino: from.ino, isDir: moved.dir,
		toDir: dst.ino, toName: to.name, replaced: to.ino,
	})
	if to.ino != 0 {
		d.unlink(to.ino)
	}
	return nil
}

// checkRename returns why from cannot take the place to.
func (d *Disk) checkRename(from, to place) syscall.Errno {
	moved := d.node(from.ino)
	if moved.dir && d.above(from.ino, to.dir) {
		return syscall.EINVAL // into itself
	}
	if to.ino == 0 || to.ino == from.ino {
		return 0
	}
	if d.above(to.ino, from.dir) {
		return syscall.ENOTEMPTY
	}
	switch there := d.node(to.ino); {
	case there.dir && !moved.dir:
		return syscall.EISDIR
	case !there.dir && moved.dir:
		return syscall.ENOTDIR
	case len(there.entries) > 0:
		return syscall.ENOTEMPTY
	}
	return 0
}

// above reports whether i is the directory n or one that n is in.
func (d *Disk) above(i Ino, n *inode) bool {
	for n.ino != i && n.ino != rootIno {
		n = d.node(n.parent)
	}
	return n.ino == i
}

// Remove removes a file or an empty directory.
func (d *Disk) Remove(dir Ino, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	const op = "remove"
	at, err := d.walk(op, dir, path)
	if err != nil {
		return err
	}
	if at.ino == 0 {
		return nameError(op, path, syscall.ENOENT)
	}
	gone := d.node(at.ino)
	if len(gone.entries) > 0 {
		return nameError(op, path, syscall.ENOTEMPTY)
	}
	d.stamp++
	parent := d.own(at.dir.ino)
	parent.mtime = d.now()
	remove(&parent.entries, at.name)
	d.record(nameOp{kind: opUnlink, dir: parent.ino, name: at.name, replaced: at.ino, isDir: gone.dir})
	d.unlink(at.ino)
	return nil
}

// unlink takes the visible name of an inode away.
func (d *Disk) unlink(i Ino) {
	n := d.own(i)
	n.linked = false
	if d.holds[i] == 0 {
		d.usedPages -= n.pages
		d.reap(i)
	}
}

// List describes the entries of a directory, ordered by name.
func (d *Disk) List(dir Ino) ([]vfs.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.directory("list", dir)
	if err != nil {
		return nil, err
	}
	out := make([]vfs.Info, 0, len(n.entries))
	for _, e := range n.entries {
		out = append(out, d.info(d.node(e.ino), e.name))
	}
	return out, nil
}

// SyncDir makes the names in a directory durable. On an Ordered disk it commits the journal. A rename
// between two directories is durable once both were synced.
func (d *Disk) SyncDir(dir Ino) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.directory("sync", dir); err != nil {
		return err
	}
	if d.personality == Ordered {
		d.commit(d.stamp)
		return nil
	}
	d.syncNames(dir)
	return nil
}

// get returns what name leads to, 0 for nothing.
func get(entries []dirent, name string) Ino {
	if at, ok := search(entries, name); ok {
		return entries[at].ino
	}
	return 0
}

// set gives a name to an inode.
func set(entries *[]dirent, name string, i Ino) {
	at, ok := search(*entries, name)
	if ok {
		(*entries)[at].ino = i
		return
	}
	*entries = slices.Insert(*entries, at, dirent{name, i})
}

// remove takes a name away.
func remove(entries *[]dirent, name string) {
	if at, ok := search(*entries, name); ok {
		*entries = slices.Delete(*entries, at, at+1)
	}
}

func search(entries []dirent, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e dirent, name string) int { return cmp.Compare(e.name, name) })
}
