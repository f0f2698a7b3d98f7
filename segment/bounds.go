package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// The file bounds says how far a log durably goes: a log that lost whole frames at its end, or its oldest file, looks healthy
// without it. It has two cells, at bytes 0 and 512, in sectors of their own, so that a write that is torn leaves the other one.
// A cell, big-endian:
//
//	offset  size  field
//	     0     8  magic "NARADBND"
//	     8     2  version, 1
//	    10     2  1 when the checksum of the last frame is known, else 0
//	    12     4  checksum of the frame that ends at end, as in its header
//	    16     8  identity of the log (Options.Identity)
//	    24     8  oldest: base of the oldest segment that retention has left
//	    32     8  end: offset after the last record that was synced, read back and verified
//	    40     4  CRC-32C (Castagnoli) over bytes [0:40)
//
// What a cell says was true when it was written, and neither number ever falls: the larger ones of both cells count. A file, or
// a cell, that is missing, damaged, older, or of another log proves nothing and is no error.
const (
	// BoundsFile is the name of the file in the directory of a log.
	BoundsFile = "bounds"
	// BoundsCellAt is the distance between its two cells, in bytes.
	BoundsCellAt = vfs.SectorSize
	// BoundsCellSize is the size of a cell, in bytes.
	BoundsCellSize = 44

	boundsMagic    = "NARADBND"
	boundsVersion  = 1
	boundsFileSize = BoundsCellAt + BoundsCellSize
)

// Bounds is what a cell of a bounds file holds.
type Bounds struct {
	Identity    uint64
	Oldest, End int64
	HasCRC      bool   // CRC is known
	CRC         uint32 // of the frame that ends at End
}

// PutBounds encodes a cell into dst, which has at least BoundsCellSize bytes.
func PutBounds(dst []byte, b Bounds) {
	copy(dst, boundsMagic)
	binary.BigEndian.PutUint16(dst[8:], boundsVersion)
	known, crc := uint16(0), uint32(0)
	if b.HasCRC {
		known, crc = 1, b.CRC
	}
	binary.BigEndian.PutUint16(dst[10:], known)
	binary.BigEndian.PutUint32(dst[12:], crc)
	binary.BigEndian.PutUint64(dst[16:], b.Identity)
	binary.BigEndian.PutUint64(dst[24:], uint64(b.Oldest))
	binary.BigEndian.PutUint64(dst[32:], uint64(b.End))
	binary.BigEndian.PutUint32(dst[40:], crc32.Checksum(dst[:40], castagnoli))
}

// ParseBounds decodes the cell at the start of src. Errors are those of package record.
func ParseBounds(src []byte) (b Bounds, err error) {
	switch {
	case len(src) < BoundsCellSize:
		return b, fmt.Errorf("bounds cell of %d bytes: %w", len(src), record.ErrShort)
	case string(src[:8]) != boundsMagic:
		return b, fmt.Errorf("bounds: %w", record.ErrMagic)
	case binary.BigEndian.Uint16(src[8:]) != boundsVersion:
		return b, fmt.Errorf("bounds of version %d: %w", binary.BigEndian.Uint16(src[8:]), record.ErrFormat)
	case crc32.Checksum(src[:40], castagnoli) != binary.BigEndian.Uint32(src[40:]):
		return b, fmt.Errorf("bounds: %w", record.ErrChecksum)
	}
	b = Bounds{
		Identity: binary.BigEndian.Uint64(src[16:]),
		Oldest:   int64(binary.BigEndian.Uint64(src[24:])),
		End:      int64(binary.BigEndian.Uint64(src[32:])),
		HasCRC:   src[11] == 1,
		CRC:      binary.BigEndian.Uint32(src[12:]),
	}
	known := binary.BigEndian.Uint16(src[10:])
	if known > 1 || known == 0 && b.CRC != 0 || b.Oldest < 0 || b.End < b.Oldest {
		return Bounds{}, fmt.Errorf("bounds [%d, %d): %w", b.Oldest, b.End, record.ErrSequence)
	}
	return b, nil
}

// StoredBounds is what the two cells of a bounds file say together.
type StoredBounds struct {
	Bounds
	Found  bool // a cell counts; without it Bounds is zero but for its identity
	Newest int  // the cell with the larger End
	Cells  [2]error
}

// errOtherLog is the reason why a cell does not count.
var errOtherLog = errors.New("segment: bounds of another log")

// CombineBounds decodes the cells of a bounds file of the log with an identity.
func CombineBounds(file []byte, identity uint64) (s StoredBounds) {
	s.Identity = identity
	for i := range s.Cells {
		b, err := ParseBounds(file[min(i*BoundsCellAt, len(file)):])
		if err == nil && b.Identity != identity {
			err = fmt.Errorf("%w: identity %016x", errOtherLog, b.Identity)
		}
		if s.Cells[i] = err; err != nil {
			continue
		}
		s.Oldest = max(s.Oldest, b.Oldest)
		if !s.Found || b.End > s.End {
			s.End, s.HasCRC, s.CRC, s.Newest = b.End, b.HasCRC, b.CRC, i
		}
		s.Found = true
	}
	return s
}

// tellEvery is how often a log tells of its commits in a bounds file that is not held open. The file is not synced, and the system writes
// it out after half a minute or so; less often than that would be less than the disk could know.
const tellEvery = 30 * time.Second

// boundsKeeper writes the bounds file of an open log. Its lock is taken after retaining and before Log.mu, and held over the
// file calls: a commit and a removal may meet there.
type boundsKeeper struct {
	env   *env.Env
	lock  *env.Mutex
	dir   vfs.Dir
	share *FileShare

	there bool        // the file; when it is not, it is tried again with the next segment
	held  vfs.File    // open all the time; nil: opened for each write
	named bool        // its name is durable
	now   Bounds      // what is to be said
	next  int         // cell to write next: the one whose loss costs less
	blank bool        // neither cell says anything
	late  bool        // now was not written
	told  env.Instant // when it was last
	kept  int64       // an oldest offset that both cells have durably
	cell  [BoundsCellSize]byte
}

// load opens the file, if there is one, and takes over what it says.
func (k *boundsKeeper) load() error {
	k.kept, k.blank = -1, true
	file, err := k.dir.Open(BoundsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	k.there = true
	defer k.giveBack(file)
	b := make([]byte, boundsFileSize)
	n, err := file.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return fmt.Errorf("read %s: %w", BoundsFile, err)
	}
	s := CombineBounds(b[:n], k.now.Identity)
	k.now = s.Bounds
	if s.Found {
		k.blank, k.next = false, 1-s.Newest
	}
	return nil
}

// ensure makes sure that there is a file to write to, if that is possible. Its name is synced with the directory, when that is
// synced for others: a file that is lost proves nothing.
func (k *boundsKeeper) ensure() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.open()
}

func (k *boundsKeeper) open() error {
	if k.there {
		return nil
	}
	file, err := k.dir.Create(BoundsFile)
	if errors.Is(err, fs.ErrExist) {
		file, err = k.dir.Open(BoundsFile)
	}
	if err == nil {
		k.there, k.named = true, false
		k.giveBack(file)
	}
	return err
}

// access returns the file for one operation. It goes back with giveBack.
func (k *boundsKeeper) access() (vfs.File, error) {
	if k.held != nil {
		return k.held, nil
	}
	return k.dir.Open(BoundsFile)
}

// giveBack keeps the file open when there is a share for it.
func (k *boundsKeeper) giveBack(f vfs.File) {
	switch {
	case f == k.held:
	case k.share.take():
		k.held = f
	default:
		f.Close() // what it says without a sync is a bonus
	}
}

// nameSynced tells that the directory was synced.
func (k *boundsKeeper) nameSynced() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.named = k.there
}

// reach says that everything below an offset is synced and verified, and the checksum of the frame that ends there. It is not
// synced, and a failure is no failure of the log: an older number is true as well.
func (k *boundsKeeper) reach(end int64, hasCRC bool, crc uint32) {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.now.End, k.now.HasCRC, k.now.CRC, k.late = end, hasCRC, crc, true
	if k.held != nil || k.env.Now().Sub(k.told) >= tellEvery {
		k.tell()
	}
}

// recovered says where a log that was just opened begins and ends, unless the file does; last is the last frame of the newest
// segment, nil when that has none.
func (k *boundsKeeper) recovered(oldest, end int64, last *scanned) {
	b := k.now // nobody else has the log yet
	switch {
	case !k.blank && b.End == end && b.Oldest == oldest:
		return
	case last != nil && last.Next() == end:
		b.HasCRC, b.CRC = true, last.CRC
	case b.End != end:
		b.HasCRC, b.CRC = false, 0
	}
	k.now.Oldest = oldest
	k.reach(end, b.HasCRC, b.CRC)
}

// tell writes what is not written yet, if there is a file.
func (k *boundsKeeper) tell() {
	if !k.there {
		return
	}
	if f, err := k.access(); err == nil {
		if k.write(f) == nil {
			k.told = k.env.Now()
		}
		k.giveBack(f)
	}
}

// write writes one cell, and the other one as well while it says nothing. A cell that could not be written is written again
// before the other one is touched.
func (k *boundsKeeper) write(f vfs.File) error {
	PutBounds(k.cell[:], k.now)
	for {
		if _, err := f.WriteAt(k.cell[:], int64(k.next)*BoundsCellAt); err != nil {
			return err
		}
		k.next = 1 - k.next
		if !k.blank {
			k.late = false
			return nil
		}
		k.blank = false
	}
}

// raise makes it durable, in both cells, that the log begins at an offset, before anything below it is unlinked. When that
// fails the file goes instead, durably: retention has to work on a full disk too.
func (k *boundsKeeper) raise(oldest int64) error {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.kept == oldest {
		return nil
	}
	k.now.Oldest, k.late = oldest, true
	if k.settle() != nil {
		return k.drop()
	}
	if !k.named { // one that was removed before may have its name yet
		if err := k.dir.Sync(); err != nil {
			return err
		}
		k.named = true
	}
	k.kept = oldest
	return nil
}

// settle writes both cells and syncs them.
func (k *boundsKeeper) settle() error {
	if err := k.open(); err != nil {
		return err
	}
	f, err := k.access()
	if err != nil {
		return err
	}
	defer k.giveBack(f)
	k.blank = true // both
	if err := k.write(f); err != nil {
		return err
	}
	return f.Sync()
}

// drop removes the file durably.
func (k *boundsKeeper) drop() error {
	k.close()
	k.there = false
	if err := k.dir.Remove(BoundsFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	k.blank, k.late, k.next, k.kept = true, true, 0, -1
	return k.dir.Sync()
}

// end writes what is not written yet, and closes the file.
func (k *boundsKeeper) end() {
	k.lock.Lock()
	defer k.lock.Unlock()
	if k.late && !k.now.isZero() {
		k.tell()
	}
	k.close()
}

func (b Bounds) isZero() bool { return b.End == 0 && b.Oldest == 0 }

func (k *boundsKeeper) close() {
	if k.held != nil {
		k.held.Close()
		k.held = nil
		k.share.release()
	}
}

// FileShare is how many logs may keep their bounds file open; the others open theirs for each write. Several tasks may use it at
// once. A nil one is without end.
type FileShare struct{ left atomic.Int64 }

// NewFileShare returns a share for n logs.
func NewFileShare(n int) *FileShare {
	s := &FileShare{}
	s.left.Store(int64(n))
	return s
}

func (s *FileShare) take() bool {
	if s == nil || s.left.Add(-1) >= 0 {
		return true
	}
	s.left.Add(1)
	return false
}

func (s *FileShare) release() {
	if s != nil {
		s.left.Add(1)
	}
}

var (
	// ErrEndMissing is the cause of a DamageError for a log that ends before it durably did.
	ErrEndMissing = errors.New("segment: the end of the log is missing")
	// ErrOldestMissing is the cause of a DamageError for a log whose oldest segment is missing.
	ErrOldestMissing = errors.New("segment: the oldest segment is missing")
	// ErrOtherFrame is the cause of a DamageError for an intact frame that is not the one that was committed there.
	ErrOtherFrame = errors.New("segment: another frame was committed there")
)

// acceptLoss ends the text of every refusal.
const acceptLoss = "restore it, or remove the file " + BoundsFile + " to go on without what is missing"

// checkOldest splits off the segments below the oldest offset: what an interrupted removal left. The segment of that offset
// has to be there, unless the log never had one.
func (l *Log) checkOldest(oldest int64) (leftovers []*segment, err error) {
	n := 0
	for n < len(l.segs) && l.segs[n].base < oldest {
		n++
	}
	if n < len(l.segs) && l.segs[n].base == oldest || len(l.segs) == 0 && oldest == 0 {
		leftovers, l.segs = l.segs[:n:n], l.segs[n:]
		return leftovers, nil
	}
	return nil, &DamageError{File: fileName(oldest), Cause: fmt.Errorf("%w: the log began at offset %d; %s", ErrOldestMissing, oldest, acceptLoss)}
}

// boundary follows the frames of the newest segment up to where the bounds say that the log ended.
type boundary struct {
	Bounds
	found *scanned // the frame that ends there
	over  *scanned // or one that goes over it
}

func (b *boundary) frame(f scanned) {
	switch {
	case f.Next() == b.End:
		b.found = f.keep(b.found)
	case f.Base < b.End && f.Next() > b.End:
		b.over = f.keep(b.over)
	}
}

// check refuses a segment that ends, at byte at with offset next, before the log ended, or that has another frame there.
// Damage in that place costs its offsets and no more.
func (b *boundary) check(name string, at, next int64) error {
	switch {
	case next < b.End:
		return &DamageError{File: name, At: at, Cause: fmt.Errorf("%w: it ended before offset %d and ends before %d now; %s", ErrEndMissing, b.End, next, acceptLoss)}
	case b.over != nil:
		return &DamageError{File: name, At: b.over.at, Cause: fmt.Errorf("%w: one ended before offset %d; %s", ErrOtherFrame, b.End, acceptLoss)}
	case b.found != nil && b.HasCRC && b.found.CRC != b.CRC:
		return &DamageError{File: name, At: b.found.at, Cause: fmt.Errorf("%w: it has checksum %08x, and had %08x; %s", ErrOtherFrame, b.found.CRC, b.CRC, acceptLoss)}
	}
	return nil
}

// checkSealed refuses a log whose newest segment is empty, and whose last frame, at the end of the segment before, is not the
// one that ended where the bounds say.
func (l *Log) checkSealed(s *segment, b Bounds) error {
	if !b.HasCRC || b.End != s.end {
		return nil
	}
	file, err := l.dir.Open(s.name())
	if err != nil {
		return err
	}
	defer file.Close()
	if x, _ := l.loadIndex(s, file); x != nil && x.LastCRC == b.CRC {
		return nil
	}
	last := boundary{Bounds: b}
	scan := scanner{file: file, name: s.name(), size: s.size, limit: s.end}
	if _, _, _, err := scan.scan(s.base, last.frame); err != nil {
		return err
	}
	if last.found == nil {
		return nil // damage: reads will say so
	}
	if intact, err := scan.intact(*last.found); err != nil || !intact {
		return err
	}
	return last.check(s.name(), s.size, s.end)
}
