package vfs

import (
	"container/list"
	"io"
	"io/fs"
	"math"
	"strings"
	"sync"
)

// subDir is a directory below a root of [OS]. While nobody calls it, it may have to give up its handles for others, when more of them
// are idle than there is room for: a broker pins one for each partition in use, and needs it for next to nothing. The next call opens
// it again by the path that it had, and only the directory that it was is taken: when something else is there meanwhile, or nothing, the
// call answers [ErrElsewhere] or what OpenDir answers, where one that has its handles would go on.
type subDir struct {
	root *osDir // the root above, whose handles stay open as long as this is
	path string // below it, when this was opened
	id   ID

	mu     sync.Mutex // guards the fields below, and is held over the calls that open and close handles
	dir    *osDir     // nil: given up
	users  int        // calls that run
	closed bool

	place *list.Element // in idle.order; guarded by idle.mu
}

// idle are the directories of the process that have handles and no users; what limits them is of the process, too.
var idle = idlers{order: list.New()}

type idlers struct {
	mu    sync.Mutex // a leaf
	order *list.List // of *subDir, the one that was used last in front
	room  int        // how many may be there
}

// idleShare is what part of the files that the process may have open idle directories may hold, with two each.
const idleShare = 16

// idleRoom says how many directories that is now; the limit can be changed while the process runs.
var idleRoom = func() int {
	if limit := (OS{}).OpenFileLimit(); limit > 0 {
		return limit / idleShare / 2
	}
	return math.MaxInt
}

// subDir opens name in d, which is at path below root.
func (root *osDir) subDir(d *osDir, name, path string) (Dir, error) {
	if !root.hold() { // somebody closed it and all below it just now
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrClosed}
	}
	dir, err := d.openDir(name)
	if err != nil {
		root.release()
		return nil, err
	}
	s := &subDir{root: root, path: path, id: dir.id, dir: dir}
	idle.setRoom(idleRoom())
	idle.add(s)
	idle.trim()
	return s, nil
}

func (i *idlers) setRoom(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.room = n
}

// add notes that nobody uses s now.
func (i *idlers) add(s *subDir) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if s.place == nil {
		s.place = i.order.PushFront(s)
	}
}

// trim has those that were used longest ago give up their handles while there are too many. It is called without any lock.
func (i *idlers) trim() {
	for last := i.oneTooMany(); last != nil; last = i.oneTooMany() {
		last.giveUp()
	}
}

func (i *idlers) oneTooMany() *subDir {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.order.Len() <= i.room {
		return nil
	}
	last := i.order.Back().Value.(*subDir)
	i.drop(last)
	return last
}

func (i *idlers) remove(s *subDir) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.drop(s)
}

// drop needs i.mu.
func (i *idlers) drop(s *subDir) {
	if s.place != nil {
		i.order.Remove(s.place)
		s.place = nil
	}
}

// giveUp closes the handles, unless somebody uses them again.
func (s *subDir) giveUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil || s.users > 0 {
		return
	}
	idle.remove(s) // somebody may have come and gone
	s.dir.Close()  // it was not written to: there is nothing to fail
	s.dir = nil
}

// take returns the directory with its handles, which stay until done.
func (s *subDir) take(op, name string) (*osDir, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrClosed}
	}
	if s.dir == nil {
		d, err := s.root.openDir(s.path)
		if err != nil {
			return nil, err
		}
		if d.id != s.id {
			d.Close()
			return nil, &fs.PathError{Op: op, Path: s.path, Err: ErrElsewhere}
		}
		s.dir = d
	}
	s.users++
	idle.remove(s)
	return s.dir, nil
}

func (s *subDir) done() {
	s.mu.Lock()
	if s.users--; s.users == 0 && !s.closed {
		idle.add(s)
	}
	s.mu.Unlock()
	idle.trim()
}

// with calls fn with the directory.
func (s *subDir) with(op, name string, fn func(d *osDir) error) error {
	d, err := s.take(op, name)
	if err != nil {
		return err
	}
	defer s.done()
	return fn(d)
}

func (s *subDir) OpenDir(name string) (sub Dir, err error) {
	err = s.with("open", name, func(d *osDir) error {
		if err := d.check("open", name); err != nil {
			return err
		}
		sub, err = s.root.subDir(d, name, s.path+"/"+name)
		return err
	})
	return sub, err
}

func (s *subDir) Create(name string) (f File, err error) {
	err = s.with("create", name, func(d *osDir) error {
		f, err = d.Create(name)
		return err
	})
	return f, err
}

func (s *subDir) Open(name string) (f File, err error) {
	if f, ok := s.openByPath(name); ok {
		return f, nil
	}
	err = s.with("open", name, func(d *osDir) error {
		f, err = d.Open(name)
		return err
	})
	return f, err
}

func (s *subDir) Stat(name string) (info Info, err error) {
	err = s.with("stat", name, func(d *osDir) error {
		info, err = d.Stat(name)
		return err
	})
	return info, err
}

func (s *subDir) List() (all []Info, err error) {
	err = s.with("list", ".", func(d *osDir) error {
		all, err = d.List()
		return err
	})
	return all, err
}

func (s *subDir) Lock(name string) (held io.Closer, err error) {
	err = s.with("lock", name, func(d *osDir) error {
		held, err = d.Lock(name)
		return err
	})
	return held, err
}

func (s *subDir) openToRead(name string) (f File, err error) {
	err = s.with("open", name, func(d *osDir) error {
		f, err = d.openToRead(name)
		return err
	})
	return f, err
}

func (s *subDir) lockExisting(name string) (held io.Closer, err error) {
	err = s.with("lock", name, func(d *osDir) error {
		held, err = d.lockExisting(name)
		return err
	})
	return held, err
}

func (s *subDir) Mkdir(name string) error {
	return s.with("mkdir", name, func(d *osDir) error { return d.Mkdir(name) })
}

func (s *subDir) Rename(source, target string) error {
	return s.with("rename", source, func(d *osDir) error { return d.Rename(source, target) })
}

func (s *subDir) Remove(name string) error {
	return s.with("remove", name, func(d *osDir) error { return d.Remove(name) })
}

func (s *subDir) Sync() error { return s.with("sync", ".", (*osDir).Sync) }

func (s *subDir) ID() ID { return s.id }

func (s *subDir) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &fs.PathError{Op: "close", Path: s.path, Err: fs.ErrClosed}
	}
	s.closed = true
	idle.remove(s)
	var err error
	if s.dir != nil {
		err = s.dir.Close()
	}
	s.root.release()
	return err
}

// openByPath opens a file without taking the handles again, where the system can do that with the same certainty. Where it does not
// the long way says why.
func (s *subDir) openByPath(name string) (File, bool) {
	s.mu.Lock()
	away := s.dir == nil && !s.closed
	s.mu.Unlock()
	if !away {
		return nil, false
	}
	if CheckName("open", name) != nil || strings.Contains(name, "/") {
		return nil, false
	}
	f, id, ok := s.root.openWithin(s.path, name)
	if !ok {
		return nil, false
	}
	if id != s.id {
		f.Close()
		return nil, false
	}
	return f, true
}
