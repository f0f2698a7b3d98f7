package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"narad/env"
	"narad/internal/cleanmark"
	"narad/metastore"
	"narad/record"
	"narad/vfs"
	"narad/wal"
)

// ErrInUse reports a data directory that a broker is running on.
var ErrInUse = errors.New("the data directory is in use: a broker is running on it")

// Options of a run. The zero value is a quick look.
type Options struct {
	// Verify reads everything in full, holds files against each other, and takes the lock of the data
	// directory meanwhile.
	Verify bool
	// Records puts the records of each file into the report, at most Limit of each (default 20; at most
	// 10,000 in all).
	Records bool
	Limit   int
	// Metastore reads the topics of a metastore that is on Raft, in the data directory of that path, and how many changes made it;
	// with verify, all of its files are checked. Errors: vfs.ErrLocked, *metastore.CorruptError. Nil: it is not looked into.
	Metastore func(dataDir string, verify bool) (topics []metastore.Topic, sequence uint64, err error)
	// Progress is told now and then how many bytes of how many have been read. It must not block.
	Progress func(done, total int64, file string)
}

const (
	limitDefault  = 20
	recordsMax    = 10_000
	findingsMax   = 100 // of one file
	metaBytesMax  = 64 << 20
	climbDirsMax  = 6
	aheadSlotSize = 4096
)

// Run looks at the file or directory at path, which must be clean and should be absolute, and reports what it
// holds. An error is a path that cannot be looked at at all, or ErrInUse; everything else, damage in
// particular, is in the report. Nothing is changed.
func Run(e *env.Env, path string, o Options) (*Report, error) {
	if o.Limit <= 0 {
		o.Limit = limitDefault
	}
	x := &inspector{
		fs: vfs.ReadOnly(e.FS()), path: path, o: o, deep: o.Verify || o.Records, perFile: map[string]int{},
		report: &Report{Version: ReportVersion, Path: path, Verified: o.Verify, Findings: []Finding{}},
	}
	x.meter.tell = o.Progress
	unlock, err := x.enter()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := x.look(); err != nil {
		return nil, err
	}
	x.finish()
	return x.report, nil
}

// inspector is one run.
type inspector struct {
	fs      vfs.FS
	path    string
	o       Options
	report  *Report
	meter   meter
	deep    bool           // everything is read
	perFile map[string]int // findings so far
	records int            // in the report so far
	clean   bool           // the last stop was graceful
	mark    cleanmark.Mark // how far the logs went then; zero when that is not known
	topics  map[string]metastore.Topic
	known   bool     // topics is what the metastore holds
	root    string   // path of the data directory, once dataDir has found it
	replica struct { // of a metastore on Raft
		topics   []metastore.Topic
		sequence uint64
		err      error
	}
}

// enter takes the lock of the data directory around the path, if verifying, and notes whether it was stopped
// gracefully.
func (x *inspector) enter() (unlock func(), err error) {
	unlock = func() {}
	root := x.dataDir()
	if root == nil {
		return unlock, nil
	}
	if _, err := root.Stat(cleanName); err == nil {
		x.clean = true
		x.readMark(root)
	}
	if !x.o.Verify {
		return unlock, root.Close()
	}
	lock, err := root.Lock(lockName)
	switch {
	case errors.Is(err, vfs.ErrLocked):
		root.Close()
		return nil, ErrInUse
	case errors.Is(err, fs.ErrNotExist):
		return unlock, root.Close()
	case err != nil:
		root.Close()
		return nil, fmt.Errorf("take the lock of the data directory: %w", err)
	}
	x.report.Locked = true
	return func() {
		lock.Close()
		root.Close()
	}, nil
}

// dataDir returns the data directory that the path is or lies in, nil when there is none.
func (x *inspector) dataDir() vfs.Dir {
	at := x.path
	for range climbDirsMax {
		if d, err := x.fs.OpenRoot(at, false); err == nil {
			if isDataDir(d) {
				x.root = at
				return d
			}
			d.Close()
		}
		if filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	return nil
}

func isDataDir(d vfs.Dir) bool {
	for _, name := range []string{topicsName, ingressName} {
		if info, err := d.Stat(name); err != nil || !info.Dir {
			return false
		}
	}
	info, err := d.Stat(metastoreName)
	return err == nil && info.Dir || onRaft(d)
}

// look finds out what the path is and looks at it.
func (x *inspector) look() error {
	d, err := x.fs.OpenRoot(x.path, false)
	if err == nil {
		defer d.Close()
		x.report.Root, err = x.directory(d)
		return err
	}
	parent, perr := x.fs.OpenRoot(filepath.Dir(x.path), false)
	if perr != nil {
		return err
	}
	defer parent.Close()
	info, serr := parent.Stat(filepath.Base(x.path))
	if serr != nil {
		return serr
	}
	if info.Dir {
		return err
	}
	x.deep = true
	x.report.Root, err = x.single(parent, info)
	return err
}

// directory looks at a directory of any kind.
func (x *inspector) directory(d vfs.Dir) (*Node, error) {
	entries, err := d.List()
	if err != nil {
		return nil, err
	}
	n := &Node{Name: filepath.Base(x.path), file: ".", dir: true}
	x.measure(d, entries)
	switch kindOfDir(n.Name, entries) {
	case KindDataDir:
		x.dataDirectory(d, n, entries)
	case KindIngressDir:
		x.meetTopics()
		x.ingressDirectory(d, n, entries)
	case KindMetastoreDir:
		x.metastoreDirectory(d, n, entries)
	case KindTopicsDir:
		x.meetTopics()
		x.topicsDirectory(d, n, entries)
	case KindTopicDir:
		x.meetTopics()
		x.topicDirectory(d, n, entries, nil)
	case KindPartitionDir:
		x.partitionDirectory(d, n, entries, x.ownerAbove())
	default:
		return nil, fmt.Errorf("%s is no directory of Narad: a data, topic or partition directory is expected", x.path)
	}
	return n, nil
}

// kindOfDir tells directories apart by what is in them.
func kindOfDir(name string, entries []vfs.Info) Kind {
	has := map[string]bool{}
	var wals, logs, partitions, topics, files int
	for _, e := range entries {
		has[e.Name] = true
		_, isWAL := wal.ParseSegmentName(e.Name)
		_, isLog := parseLogName(e.Name)
		_, isPartition := parsePartitionName(e.Name)
		switch {
		case !e.Dir:
			files++
			wals += count(isWAL)
			logs += count(isLog)
		case isPartition:
			partitions++
		case metastore.ValidateName(e.Name) == nil:
			topics++
		}
	}
	_, isPartition := parsePartitionName(name)
	switch {
	case has[topicsName] && (has[ingressName] || has[metastoreName] || has[raftName]), has[ingressName] && has[metastoreName]:
		return KindDataDir
	case has[metastore.SnapshotFile] || has[metastore.JournalFile]:
		return KindMetastoreDir
	case wals > 0 || has[checkpointName]:
		return KindIngressDir
	case has[incarnationName] || partitions > 0:
		return KindTopicDir
	case logs > 0 || has[aheadName] || has[offsetName] || isPartition:
		return KindPartitionDir
	case name == topicsName && files == 0:
		return KindTopicsDir
	}
	return KindUnknown
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// single looks at one file, in the light of the files beside it.
func (x *inspector) single(d vfs.Dir, info vfs.Info) (*Node, error) {
	f, err := d.Open(info.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size, err = f.Size(); err != nil {
		return nil, err
	}
	x.meter.total = info.Size
	n := &Node{Name: info.Name, file: ".", Size: info.Size}
	n.Kind = kindOfFile(info.Name)
	if n.Kind == KindUnknown {
		n.Kind = sniff(f)
	}
	beside, err := d.List()
	if err != nil {
		beside = []vfs.Info{info} // it may be looked at without them
	}
	x.meetTopics()
	x.count(n)
	switch n.Kind {
	case KindWAL:
		x.singleWAL(d, n, f, beside)
	case KindLog:
		x.singleLog(n, f, beside)
	case KindCheckpoint:
		x.checkpointFile(d, n)
	case KindAhead:
		x.aheadFile(alias{d, aheadName, n.Name}, n, x.ownerAbove())
	case KindOffset:
		x.offsetFile(alias{d, offsetName, n.Name}, n)
	case KindIncarnation:
		x.incarnationFile(d, n, "")
	case KindSnapshot:
		x.snapshotFile(n, x.slurp(d, n))
	case KindJournal:
		x.journalFile(n, x.slurp(d, n))
	case KindIndex:
		x.indexFile(d, n)
	case KindBounds:
		x.boundsFile(d, n, owner{})
	case KindClean:
		x.cleanMarkFile(d, n)
	case KindLock:
		x.markFile(n)
	case KindLeftover:
		x.leftover(n)
	case KindOther:
		n.Summary = "file of another release of Narad; not looked at"
	default:
		return nil, fmt.Errorf("%s: neither its name nor its first bytes are those of a file of Narad", x.path)
	}
	return n, nil
}

// sniff tells files of ours that were given other names by their first bytes.
func sniff(f vfs.File) Kind {
	b := make([]byte, record.FrameHeaderSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return KindUnknown
	}
	b = b[:n]
	switch {
	case bytes.HasPrefix(b, []byte("NWAL")):
		return KindWAL
	case bytes.HasPrefix(b, record.FrameMagic[:]):
		return KindLog
	case bytes.HasPrefix(b, []byte("NAAH")):
		return KindAhead
	case bytes.HasPrefix(b, []byte("NARADMSS")):
		return KindSnapshot
	case bytes.HasPrefix(b, []byte("NARADMSJ")):
		return KindJournal
	}
	return KindUnknown
}

// finish draws the sum.
func (x *inspector) finish() {
	x.settle(x.report.Root)
	x.report.Complete = x.deep
	t := &x.report.Totals
	x.report.Outcome = Clean
	if t.Unread > 0 {
		x.report.Outcome = Unreadable
	}
	if t.Damage > 0 {
		x.report.Outcome = Damaged
	}
}

// settle gives every directory the size and the worst severity of what is in it.
func (x *inspector) settle(n *Node) {
	for _, c := range n.Children {
		x.settle(c)
		n.Size += c.Size
		if c.Worst.rank() > n.Worst.rank() {
			n.Worst = c.Worst
		}
	}
}

// alias is a directory in which one name leads to another file: a copy of a file of ours may have any name.
type alias struct {
	vfs.Dir
	name, file string
}

func (a alias) Open(name string) (vfs.File, error) {
	if name != a.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return a.Dir.Open(a.file)
}

// readMark reads how far the logs went at the graceful stop. Its damage is reported with the file.
func (x *inspector) readMark(root vfs.Dir) {
	if b, err := vfs.ReadFile(root, cleanName, cleanmark.SizeMax); err == nil {
		x.mark, _ = cleanmark.Decode(b)
	}
}

// endOf returns the high watermark that a partition had at the graceful stop, 0 when it is not known.
func (x *inspector) endOf(o owner) int64 {
	for _, p := range x.mark.Partitions {
		if p.ID == o.incarnation && p.Partition == o.partition {
			return p.HighWatermark
		}
	}
	return 0
}
