package segment

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"
	"sync/atomic"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// Record is one message. CommittedMs is stamped by Commit, in unix milliseconds of the owner's wall clock,
// and never decreases from one offset to the next.
type Record struct {
	Key         []byte
	Payload     []byte
	CommittedMs int64
}

// Options configure a log.
type Options struct {
	// SegmentBytes is the size from which the next commit begins a new segment. Default 64 MiB.
	SegmentBytes int64
	// FrameBytes is the size above which a commit is split into several frames, each synced on its own;
	// smaller commits that wait for the disk together share one frame up to this size. Default 1 MiB.
	FrameBytes int
	// Codec is how frames are stored. Any codec is read.
	Codec record.Codec
	// Level is how hard a codec that compresses tries. Default: the quickest.
	Level record.Level
	// Identity tells this log from every other one. The file bounds of another one does not count.
	Identity uint64
	// Naming is the turn of the log's directory: whoever changes names in it that a crash must not lose holds this from the
	// change until the sync of the directory behind it has returned. A sync that fails may lose every name that waits for one, and
	// the next one says nothing of it (vfs D4); so only the task that made a name may be the one whose sync fails. It is taken before
	// the other locks of the log but Retain's, and nothing but file calls is waited for under it. Nil when nobody else
	// makes names there.
	Naming *env.Mutex
	// Files is shared by logs that are open at once, so that they leave files for others. Nil: each keeps its bounds file open.
	Files *FileShare
	// OnAdvance is called after the high watermark has moved and after the log was closed, by the task that
	// did it and with no lock held. It must not block.
	OnAdvance func()
	// Event is told what happens; same rules as OnAdvance.
	Event func(Event)
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.FrameBytes <= 0 {
		o.FrameBytes = 1 << 20
	}
	o.FrameBytes = min(o.FrameBytes, record.MaxFrame/2)
	if o.OnAdvance == nil {
		o.OnAdvance = func() {}
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	return o
}

// Log is one partition's log. All methods may be called by any task at any time.
//
// Lock order: retaining, then naming, then segment.indexing or the lock of bounds (env.Mutexes), then mu. mu guards memory only and is never held across a
// file call. The files of the active segment are written by one task at a time: the leader of the commit
// queue, or the task that opens or closes the log.
type Log struct {
	env *env.Env
	dir vfs.Dir
	opt Options

	told bool // somebody listens to events

	hw     atomic.Int64 // exclusive; also answers after Close
	oldest atomic.Int64

	floor int64 // newest commit time, unix milliseconds; belongs to the leader

	retaining *env.Mutex // one Retain at a time; taken before anything else
	// naming spans each change of the segments' names with the sync of the directory behind it (Options.Naming).
	naming *env.Mutex
	bounds boundsKeeper
	doomed []int64 // bases of segments that are not the log's any more and may still have a name; guarded by retaining

	mu      sync.Mutex  // guards the fields below
	segs    []*segment  // by base; the last one is active
	queue   []*request  // commits waiting for the leader
	space   []*request  // where the queue begins, used again: room for one
	leading bool        // a commit leader is at work
	poison  error       // *PoisonedError once latched
	readers int         // reads between enter and leave
	hot     []*segment  // sealed segments with an open file or an index, least recently used first
	cache   cache       // decoded blocks
	closed  bool        // first of all that Close does
	idle    *env.Waiter // Close, waiting for readers and leader to leave
	ended   *env.Event  // Close has released the files
	endErr  error       // what releasing them answered
}

// HighWatermark returns the offset after the last visible record. It never decreases while the log is open
// and also answers after Close.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// Oldest returns the lowest offset that the log holds, or would hold next when it is empty. It also answers
// after Close.
func (l *Log) Oldest() int64 { return l.oldest.Load() }

// Extent says how much a log holds.
type Extent struct {
	Segments int
	Bytes    int64 // of frames
	// FirstMs is the commit time of the first record of the oldest segment, in unix milliseconds; 0: not read yet.
	FirstMs int64
}

// Extent describes the log as memory has it; it reads nothing.
func (l *Log) Extent() (x Extent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x.Segments = len(l.segs)
	for _, s := range l.segs {
		x.Bytes += s.size
	}
	if len(l.segs) > 0 && l.segs[0].usage != nil && l.segs[0].first != unknownMs {
		x.FirstMs = l.segs[0].first
	}
	return x
}

// Err returns a *PoisonedError once the log takes no more commits until it is reopened, and nil before.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}

// Close makes every read and commit answer ErrClosed, waits for those already inside, and releases the
// files. A commit that was already writing is completed and may be confirmed; one that still waited fails.
// The directory is left open: it belongs to the caller. Further calls wait for the first and answer the same.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.ended.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.endErr
	}
	l.closed = true
	l.mu.Unlock()

	l.opt.OnAdvance() // whoever waits for the watermark must learn that it will not move
	l.env.Point("segment: closed, files still open")
	l.waitIdle()
	err := l.release()
	l.mu.Lock()
	l.endErr = err
	l.mu.Unlock()
	l.opt.Event(Closed{Next: l.hw.Load()})
	l.ended.Set()
	return err
}

// waitIdle waits until no read and no commit is inside. Nobody enters any more.
func (l *Log) waitIdle() {
	for {
		l.mu.Lock()
		if l.readers == 0 && !l.leading {
			l.mu.Unlock()
			return
		}
		if l.idle == nil {
			l.idle = l.env.NewWaiter()
		}
		w := l.idle
		l.mu.Unlock()
		w.Park()
	}
}

// wakeCloserLocked is called by whoever leaves.
func (l *Log) wakeCloserLocked() {
	if l.idle != nil {
		l.idle.Unpark()
	}
}

// release closes the files; nobody uses them any more.
func (l *Log) release() error {
	l.mu.Lock()
	l.cache = cache{}
	l.hot = nil
	var files []vfs.File
	for _, s := range l.segs {
		if s.usage == nil {
			continue
		}
		if s.file != nil {
			files = append(files, s.file)
			s.file = nil
		}
		s.forgetIndex()
	}
	l.mu.Unlock()
	var err error
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	l.bounds.end()
	return err
}

// segment is one file. Every field but base is guarded by Log.mu. A log may have very many, of which few are used: the others
// take no more than this.
type segment struct {
	base   int64
	end    int64 // exclusive offset: the successor's base; the high watermark for the active one
	size   int64 // bytes that hold committed frames
	*usage       // nil until warm
}

// usage is what is kept of a segment that is, or was, used. Every field but indexing is guarded by Log.mu.
type usage struct {
	first, last int64 // commit times of its first and last record, unix milliseconds; unknownMs: not read yet

	file     vfs.File
	users    int          // reads that hold file
	gone     bool         // retention removed it; the last user closes file
	indexed  bool         // index and lost are there
	hinted   bool         // index comes from a file and not from the frames
	scanOnly bool         // its file led to damage once
	refused  error        // a *DamageError: it is not the segment that was sealed here
	index    []IndexEntry // by offset; entries never change
	lost     []damage     // by offset
	lastAt   int64        // byte where the last frame of the active segment begins
	named    bool         // this log made its name durable; belongs to the leader
	indexing *env.Mutex   // taken to build the index of a sealed segment
}

// warm makes a segment ready for use. It needs the log's mu.
func (s *segment) warm(e *env.Env) {
	if s.usage == nil {
		s.usage = &usage{first: unknownMs, last: unknownMs, indexing: e.NewMutex()}
	}
}

// unknownMs is a commit time that is not known.
const unknownMs = math.MinInt64

func (s *segment) name() string { return fileName(s.base) }

// indexStride is the least distance in bytes between two entries of an index.
const indexStride = 32 << 10

// forgetIndex needs the log's mu.
func (s *usage) forgetIndex() { s.index, s.lost, s.indexed, s.hinted = nil, nil, false, false }

// addFrame adds an entry for a frame unless the last one is close enough and nothing forces it.
func (s *usage) addFrame(offset, at int64, force bool) {
	if n := len(s.index); n > 0 && !force && at-s.index[n-1].At < indexStride {
		return
	}
	s.index = append(s.index, IndexEntry{offset, at})
}

// findLocked returns the segment that covers an offset in [oldest, hw).
func (l *Log) findLocked(offset int64) *segment {
	i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].base > offset })
	return l.segs[i-1]
}

const (
	fileSuffix = ".log"
	tempSuffix = ".log.tmp"
	nameDigits = 20
)

// fileName returns the name of the segment whose first offset is base.
func fileName(base int64) string { return fmt.Sprintf("%0*d%s", nameDigits, base, fileSuffix) }
