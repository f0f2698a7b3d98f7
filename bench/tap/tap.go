// Package tap is a file system that passes every call on and keeps count of it: how many writes, bytes and syncs, of which
// kind of file, and how long the syncs took. It can also keep a record, which knows what a loss of power at this instant
// could leave (see [FS.CutPower]).
//
// Files: tap.go (counting), record.go (power cuts).
package tap

import (
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"narad/sim/recorder"
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
	record   *recorder.FS // nil: none is kept; below otherwise

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
	return &dir{d, t}, nil
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
	tap *FS
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &dir{sub, d.tap}, nil
}

func (d *dir) Create(name string) (vfs.File, error) { return d.wrap(name, d.Dir.Create) }

func (d *dir) Open(name string) (vfs.File, error) { return d.wrap(name, d.Dir.Open) }

func (d *dir) wrap(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	w := &file{f, d.tap, kindOf(name)}
	if s, ok := f.(vfs.DeviceSyncer); ok {
		return &deviceFile{w, s}, nil
	}
	return w, nil
}

func (d *dir) Sync() error {
	start := time.Now()
	err := d.Dir.Sync()
	d.tap.synced(Directory, start)
	return err
}

type file struct {
	vfs.File
	tap  *FS
	kind Kind
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	c := &f.tap.counters[f.kind]
	c.reads.Add(1)
	c.readBytes.Add(int64(n))
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	c := &f.tap.counters[f.kind]
	c.writes.Add(1)
	c.bytes.Add(int64(n))
	return n, err
}

func (f *file) Sync() error {
	start := time.Now()
	err := f.File.Sync()
	f.tap.synced(f.kind, start)
	return err
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
