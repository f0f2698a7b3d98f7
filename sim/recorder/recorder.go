// Package recorder is a file system that passes every call on to a real one and repeats each change on a simulated disk,
// which then knows what a loss of power at this instant could leave of the real files.
//
// A change and its repetition are one step, so the record has the order of the real files. A sync counts on the record once
// it has returned, and makes durable what was written before it began: so whoever writes a file while it is being synced, as
// the checkpoint of the ingress log is, waits for the end of that sync, and changes of names wait for the syncs of directories.
package recorder

import (
	"cmp"
	"io"
	"sync"

	"narad/sim/disk"
	"narad/vfs"
)

// FS is the recording file system. It holds the contents of all files in memory.
type FS struct {
	below vfs.FS
	place func(string) string
	names sync.RWMutex // keeps changes of names, which share it, out of the syncs of directories; taken before mu

	mu      sync.Mutex // makes a change and its repetition one step; guards what follows
	disk    *disk.Disk
	twin    vfs.FS
	changed func(n int)
	wants   func(n int) bool
	halfway func(half *disk.Disk)
	n       int
	syncing map[vfs.ID]*sync.RWMutex // keeps writes of a file, which share it, out of its syncs; by its real identity; taken before mu
}

// New returns a file system that hands on to below and repeats changes on d, which must hold what below holds: nothing, or the
// image that the directory was made from. place says which directory of d stands for one that is opened; nil: that of the
// same name.
func New(below vfs.FS, d *disk.Disk, place func(name string) string) *FS {
	if place == nil {
		place = func(name string) string { return name }
	}
	return &FS{below: below, place: place, disk: d, twin: disk.FS(d), syncing: map[vfs.ID]*sync.RWMutex{}}
}

// OnChange sets who is told of each change and each sync after it happened, with its number from 1 on. It is called in the
// middle of the step: it sees the record as it is at that very instant, may clone [FS.Record], and must do no
// I/O of its own.
func (r *FS) OnChange(changed func(n int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
}

// pageSize is what the page cache takes of a write at a time, as in Linux.
const pageSize = 4096

// OnHalfway sets who is shown writes of several pages before they happen: a copy of the record in which as many pages are written as n,
// the number of the change to come, says. That is what a process leaves that is killed within the write.
func (r *FS) OnHalfway(wants func(n int) bool, halfway func(half *disk.Disk)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants, r.halfway = wants, halfway
}

// Cut returns a copy of the record as it is now.
func (r *FS) Cut() *disk.Disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disk.Clone()
}

// Record returns the disk itself. It stands still only within a call of OnChange.
func (r *FS) Record() *disk.Disk { return r.disk }

// Changes returns how many changes and syncs there were.
func (r *FS) Changes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// syncLock returns what keeps writes of a file out of its syncs.
func (r *FS) syncLock(id vfs.ID) *sync.RWMutex {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.syncing[id]
	if l == nil {
		l = new(sync.RWMutex)
		r.syncing[id] = l
	}
	return l
}

// step does something here and then on the record, as one.
func (r *FS) step(here, there func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := here(); err != nil {
		return err
	}
	return r.repeat(there)
}

// rename is step for a change of names.
func (r *FS) rename(here, there func() error) error {
	r.names.RLock()
	defer r.names.RUnlock()
	return r.step(here, there)
}

// repeat is called with mu held.
func (r *FS) repeat(there func() error) error {
	err := there()
	r.n++
	if r.changed != nil {
		r.changed(r.n)
	}
	return err
}

// OpenRoot implements vfs.FS.
func (r *FS) OpenRoot(name string, create bool) (vfs.Dir, error) {
	d := &dir{rec: r}
	err := r.rename(func() (err error) { d.real, err = r.below.OpenRoot(name, create); return err },
		func() (err error) { d.twin, err = r.twin.OpenRoot(r.place(name), true); return err })
	if err != nil {
		return nil, d.abandon(err)
	}
	return d, nil
}

// OpenFileLimit hands on what the file system below says, 0 when it does not say.
func (r *FS) OpenFileLimit() int {
	if l, ok := r.below.(interface{ OpenFileLimit() int }); ok {
		return l.OpenFileLimit()
	}
	return 0
}

type dir struct {
	rec        *FS
	real, twin vfs.Dir
}

func (d *dir) abandon(err error) error {
	if d.real != nil {
		d.real.Close()
	}
	return err
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	sub := &dir{rec: d.rec}
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	var err error
	if sub.real, err = d.real.OpenDir(name); err != nil {
		return nil, err
	}
	if sub.twin, err = d.twin.OpenDir(name); err != nil {
		return nil, sub.abandon(err)
	}
	return sub, nil
}

func (d *dir) Create(name string) (vfs.File, error) {
	return d.open(func(v vfs.Dir) (vfs.File, error) { return v.Create(name) })
}

func (d *dir) Open(name string) (vfs.File, error) {
	return d.open(func(v vfs.Dir) (vfs.File, error) { return v.Open(name) })
}

func (d *dir) open(open func(vfs.Dir) (vfs.File, error)) (vfs.File, error) {
	f := &file{rec: d.rec}
	err := d.rec.rename(func() (err error) { f.real, err = open(d.real); return err }, func() (err error) { f.twin, err = open(d.twin); return err })
	if err != nil {
		if f.real != nil {
			f.real.Close()
		}
		return nil, err
	}
	f.syncing = d.rec.syncLock(f.real.ID())
	return f, nil
}

func (d *dir) change(do func(vfs.Dir) error) error {
	return d.rec.rename(func() error { return do(d.real) }, func() error { return do(d.twin) })
}

func (d *dir) Mkdir(name string) error {
	return d.change(func(v vfs.Dir) error { return v.Mkdir(name) })
}

func (d *dir) Rename(source, target string) error {
	return d.change(func(v vfs.Dir) error { return v.Rename(source, target) })
}

func (d *dir) Remove(name string) error {
	return d.change(func(v vfs.Dir) error { return v.Remove(name) })
}

func (d *dir) Stat(name string) (vfs.Info, error) { return d.real.Stat(name) }
func (d *dir) List() ([]vfs.Info, error)          { return d.real.List() }
func (d *dir) ID() vfs.ID                         { return d.real.ID() }

// Sync waits for the real disk without holding up anybody but those who would change names.
func (d *dir) Sync() error {
	d.rec.names.Lock()
	defer d.rec.names.Unlock()
	if err := d.real.Sync(); err != nil {
		return err
	}
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	return d.rec.repeat(d.twin.Sync)
}

func (d *dir) Lock(name string) (io.Closer, error) {
	var l locks
	err := d.rec.rename(func() (err error) { l.real, err = d.real.Lock(name); return err }, func() (err error) { l.twin, err = d.twin.Lock(name); return err })
	if err != nil {
		if l.real != nil {
			l.real.Close()
		}
		return nil, err
	}
	return l, nil
}

func (d *dir) Close() error {
	err := d.twin.Close()
	return cmp.Or(d.real.Close(), err)
}

type locks struct{ real, twin io.Closer }

func (l locks) Close() error {
	err := l.twin.Close()
	return cmp.Or(l.real.Close(), err)
}

// file does not offer vfs.DeviceSyncer, so that every sync is a whole one.
type file struct {
	rec        *FS
	real, twin vfs.File
	syncing    *sync.RWMutex
}

func (f *file) ReadAt(p []byte, off int64) (int, error) { return f.real.ReadAt(p, off) }
func (f *file) Size() (int64, error)                    { return f.real.Size() }
func (f *file) ID() vfs.ID                              { return f.real.ID() }

// WriteAt repeats as much as was written.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.syncing.RLock()
	defer f.syncing.RUnlock()
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	if err := f.show(p, off); err != nil {
		return 0, err
	}
	n, err := f.real.WriteAt(p, off)
	if n == 0 {
		return n, err
	}
	twinErr := f.rec.repeat(func() error { _, err := f.twin.WriteAt(p[:n], off); return err })
	return n, cmp.Or(err, twinErr)
}

// show shows a write of several pages half done, to who wants to see it.
func (f *file) show(p []byte, off int64) error {
	r := f.rec
	borders := int((off+int64(len(p)))/pageSize - off/pageSize) // within the write, or at its end
	if borders == 0 || r.wants == nil || !r.wants(r.n+1) {
		return nil
	}
	done := (off/pageSize+1+int64(r.n%borders))*pageSize - off
	half := r.disk.Clone()
	if _, err := disk.Twin(disk.FS(half), f.twin).WriteAt(p[:done], off); err != nil {
		return err
	}
	r.halfway(half)
	return nil
}

func (f *file) Truncate(size int64) error {
	return f.change(func(v vfs.File) error { return v.Truncate(size) })
}

func (f *file) Preallocate(size int64) error {
	return f.change(func(v vfs.File) error { return v.Preallocate(size) })
}

func (f *file) change(do func(vfs.File) error) error {
	f.syncing.RLock()
	defer f.syncing.RUnlock()
	return f.rec.step(func() error { return do(f.real) }, func() error { return do(f.twin) })
}

// Sync waits for the real disk without holding up anybody but those who would write this file.
func (f *file) Sync() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if err := f.real.Sync(); err != nil {
		return err
	}
	f.rec.mu.Lock()
	defer f.rec.mu.Unlock()
	return f.rec.repeat(f.twin.Sync)
}

func (f *file) Close() error {
	err := f.twin.Close()
	return cmp.Or(f.real.Close(), err)
}
