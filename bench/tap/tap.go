// Package tap is a file system that passes every call on and keeps count of it: how many writes, bytes and syncs, of which
// kind of file, and how long the syncs took. It can also keep a record: each change is repeated on a simulated disk, which
// then knows what a loss of power at this instant could leave (see [FS.CutPower]).
//
// Files: tap.go (counting), record.go (the record).
package tap

import (
	"cmp"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"narad/vfs"
)

// Kind is what a file is for, told by its name.
type Kind int

// The kinds of files and, as Directory, the syncs of names.
const (
	Ingress    Kind = iota // segments of the ingress log
	Checkpoint             // of the ingress log
	Partition              // segments of partition logs
	Ahead                  // consumer.ahead
	Offset                 // consumer.offset
	Other
	Directory
	Kinds // how many there are
)

var kindNames = [Kinds]string{"ingress log", "checkpoint", "partition logs", "consumer.ahead", "consumer.offset", "other files", "directories"}

// String names the kind.
func (k Kind) String() string { return kindNames[k] }

func kindOf(name string) Kind {
	switch base := path.Base(name); {
	case strings.HasSuffix(base, ".wal"), strings.HasSuffix(base, ".prep"):
		return Ingress
	case base == "checkpoint":
		return Checkpoint
	case strings.HasSuffix(base, ".log"):
		return Partition
	case base == "consumer.ahead":
		return Ahead
	case base == "consumer.offset":
		return Offset
	}
	return Other
}

// Count is what was done so far to files of one kind.
type Count struct {
	Reads     int64         `json:"reads"`
	ReadBytes int64         `json:"read_bytes"`
	Writes    int64         `json:"writes"`
	Bytes     int64         `json:"bytes"` // written
	Syncs     int64         `json:"syncs"`
	SyncTime  time.Duration `json:"sync_ns"`
}

// Counts are those of all kinds at one moment.
type Counts [Kinds]Count

// Since returns what was done since an earlier moment.
func (c Counts) Since(before Counts) (d Counts) {
	for k := range c {
		d[k] = Count{
			c[k].Reads - before[k].Reads, c[k].ReadBytes - before[k].ReadBytes, c[k].Writes - before[k].Writes,
			c[k].Bytes - before[k].Bytes, c[k].Syncs - before[k].Syncs, c[k].SyncTime - before[k].SyncTime,
		}
	}
	return d
}

// Total adds up the kinds.
func (c Counts) Total() (t Count) {
	for _, n := range c {
		t.Reads += n.Reads
		t.ReadBytes += n.ReadBytes
		t.Writes += n.Writes
		t.Bytes += n.Bytes
		t.Syncs += n.Syncs
		t.SyncTime += n.SyncTime
	}
	return t
}

type counter struct {
	reads, readBytes, writes, bytes, syncs, syncTime atomic.Int64
	_                                                [16]byte // so that kinds do not share a cache line
}

// FS counts what goes through it. Create it with [New] or [Recording].
type FS struct {
	below    vfs.FS
	counters [Kinds]counter
	record   *record // nil: none is kept

	mu    sync.Mutex // guards syncs
	syncs []int64    // nanoseconds each, of segments of the ingress log
}

// New returns a file system that counts and hands on to below.
func New(below vfs.FS) *FS { return &FS{below: below} }

// Counts returns what was done so far.
func (t *FS) Counts() (c Counts) {
	for k := range t.counters {
		n := &t.counters[k]
		c[k] = Count{n.reads.Load(), n.readBytes.Load(), n.writes.Load(), n.bytes.Load(), n.syncs.Load(), time.Duration(n.syncTime.Load())}
	}
	return c
}

// IngressSyncs returns how long each sync of a segment of the ingress log took since the last call, in nanoseconds.
func (t *FS) IngressSyncs() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.syncs
	t.syncs = nil
	return list
}

func (t *FS) synced(k Kind, start time.Time) {
	took := int64(time.Since(start))
	t.counters[k].syncs.Add(1)
	t.counters[k].syncTime.Add(took)
	if k == Ingress {
		t.mu.Lock()
		t.syncs = append(t.syncs, took)
		t.mu.Unlock()
	}
}

// OpenRoot implements vfs.FS.
func (t *FS) OpenRoot(name string, create bool) (vfs.Dir, error) {
	d, err := t.below.OpenRoot(name, create)
	if err != nil {
		return nil, err
	}
	twin, err := t.record.openRoot(name)
	if err != nil {
		d.Close()
		return nil, err
	}
	return &dir{Dir: d, tap: t, twin: twin}, nil
}

// OpenFileLimit hands on what the file system below says, 0 when it does not say.
func (t *FS) OpenFileLimit() int {
	if l, ok := t.below.(interface{ OpenFileLimit() int }); ok {
		return l.OpenFileLimit()
	}
	return 0
}

// dir and file embed what they wrap, so that calls of no interest here pass through.
type dir struct {
	vfs.Dir
	tap  *FS
	twin vfs.Dir // on the recording disk, nil without a record
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	var twin vfs.Dir
	if d.twin != nil {
		if twin, err = d.twin.OpenDir(name); err != nil {
			sub.Close()
			return nil, err
		}
	}
	return &dir{Dir: sub, tap: d.tap, twin: twin}, nil
}

func (d *dir) Create(name string) (vfs.File, error) {
	return d.open(name, d.Dir.Create, func(twin vfs.Dir) (vfs.File, error) { return twin.Create(name) })
}

func (d *dir) Open(name string) (vfs.File, error) {
	return d.open(name, d.Dir.Open, func(twin vfs.Dir) (vfs.File, error) { return twin.Open(name) })
}

func (d *dir) open(name string, open func(string) (vfs.File, error), openTwin func(vfs.Dir) (vfs.File, error)) (vfs.File, error) {
	defer d.tap.record.lock()()
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	w := &file{File: f, tap: d.tap, kind: kindOf(name)}
	if d.twin != nil {
		if w.twin, err = openTwin(d.twin); err != nil {
			f.Close()
			return nil, err
		}
	}
	if s, ok := f.(vfs.DeviceSyncer); ok {
		return &deviceFile{w, s}, nil
	}
	return w, nil
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

// change does the same here and on the record, as one step.
func (d *dir) change(do func(vfs.Dir) error) error {
	defer d.tap.record.lock()()
	err := do(d.Dir)
	if err == nil && d.twin != nil {
		err = do(d.twin)
	}
	return err
}

func (d *dir) Sync() error {
	start := time.Now()
	err := d.Dir.Sync()
	d.tap.synced(Directory, start)
	if err == nil && d.twin != nil {
		defer d.tap.record.lock()()
		err = d.twin.Sync()
	}
	return err
}

func (d *dir) Lock(name string) (io.Closer, error) {
	closer, err := d.Dir.Lock(name)
	if err != nil || d.twin == nil {
		return closer, err
	}
	twin, err := d.twin.Lock(name)
	if err != nil {
		closer.Close()
		return nil, err
	}
	return both{closer, twin}, nil
}

func (d *dir) Close() error {
	if d.twin != nil {
		d.twin.Close()
	}
	return d.Dir.Close()
}

// both closes a lock and its twin.
type both struct{ a, b io.Closer }

func (c both) Close() error {
	err := c.b.Close()
	return cmp.Or(c.a.Close(), err)
}

type file struct {
	vfs.File
	tap  *FS
	kind Kind
	twin vfs.File
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	c := &f.tap.counters[f.kind]
	c.reads.Add(1)
	c.readBytes.Add(int64(n))
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	unlock := f.tap.record.lock()
	n, err := f.File.WriteAt(p, off)
	if f.twin != nil && n > 0 {
		if _, twinErr := f.twin.WriteAt(p[:n], off); err == nil {
			err = twinErr
		}
	}
	unlock()
	c := &f.tap.counters[f.kind]
	c.writes.Add(1)
	c.bytes.Add(int64(n))
	return n, err
}

func (f *file) Truncate(size int64) error {
	return f.change(func(v vfs.File) error { return v.Truncate(size) })
}

func (f *file) Preallocate(size int64) error {
	return f.change(func(v vfs.File) error { return v.Preallocate(size) })
}

func (f *file) change(do func(vfs.File) error) error {
	defer f.tap.record.lock()()
	err := do(f.File)
	if err == nil && f.twin != nil {
		err = do(f.twin)
	}
	return err
}

// Sync counts as done on the record once it has returned. Whoever writes a file beside its own sync would find those
// writes durable in the record too early; nothing in Narad does.
func (f *file) Sync() error {
	start := time.Now()
	err := f.File.Sync()
	f.tap.synced(f.kind, start)
	if err == nil && f.twin != nil {
		defer f.tap.record.lock()()
		err = f.twin.Sync()
	}
	return err
}

func (f *file) Close() error {
	if f.twin != nil {
		f.twin.Close()
	}
	return f.File.Close()
}

// deviceFile is a file on a drive with a cache of its own. A hand-over to the device counts as the sync, a flush as one of
// the directory's kind.
type deviceFile struct {
	*file
	device vfs.DeviceSyncer
}

func (f *deviceFile) SyncToDevice() error {
	start := time.Now()
	err := f.device.SyncToDevice()
	f.tap.synced(f.kind, start)
	return err
}

func (f *deviceFile) FlushDevice() error {
	start := time.Now()
	err := f.device.FlushDevice()
	f.tap.synced(Directory, start)
	return err
}
