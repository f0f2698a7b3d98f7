package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sort"

	"narad/record"
	"narad/vfs"
)

// Read returns the record at an offset; its bytes belong to the caller.
//
// Errors: ErrClosed and nothing else from a closed log, whatever the offset; *FloorError below the oldest
// offset; ErrAboveHW at or above the high watermark; *CorruptError for a permanently unreadable offset; any
// other error is one of the disk and may pass. A read that overlaps Close answers ErrClosed or the record.
func (l *Log) Read(offset int64) (Record, error) {
	r, shared, err := l.view(offset)
	if shared {
		r = cloneRecord(r)
	}
	return r, err
}

// View is Read without a copy: the bytes are shared with other reads and must not be changed. They stay as they are for as long as
// they are held, also after Close, and keep the memory of the records around them, 32 KiB or one frame.
func (l *Log) View(offset int64) (Record, error) {
	r, _, err := l.view(offset)
	return r, err
}

// view returns the record at an offset, and whether others may see its bytes.
func (l *Log) view(offset int64) (r Record, shared bool, err error) {
	b, err := l.cached(offset)
	if err != nil {
		return Record{}, false, err
	}
	if b != nil {
		if r, cause := b.record(offset); cause == nil {
			return r, true, nil
		}
	}
	b, s, err := l.enter(offset)
	if err != nil {
		return Record{}, false, err
	}
	defer l.leave()
	if b == nil {
		if b, err = l.load(s, offset); err != nil {
			return Record{}, false, l.verdict(offset, err)
		}
	}
	r, cause := b.record(offset)
	if cause == nil {
		return r, b.shared, nil
	}
	err = l.verdict(offset, b.corrupt(offset, cause))
	l.tellCorrupt(err)
	return Record{}, false, err
}

// cached returns the decoded block that holds the offset if memory has it. Nobody has to wait for the reader of a block.
func (l *Log) cached(offset int64) (*block, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuseReadLocked(offset); err != nil {
		return nil, err
	}
	return l.cache.get(offset), nil
}

// refuseReadLocked returns why an offset cannot be read at all, or nil.
func (l *Log) refuseReadLocked(offset int64) error {
	switch {
	case l.closed:
		return ErrClosed
	case offset < l.oldest.Load():
		return &FloorError{offset, l.oldest.Load()}
	case offset >= l.hw.Load():
		return ErrAboveHW
	}
	return nil
}

// enter admits a read, for which Close waits: it finds the decoded block that holds the offset, or else the segment.
func (l *Log) enter(offset int64) (*block, *segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuseReadLocked(offset); err != nil {
		return nil, nil, err
	}
	l.readers++
	if b := l.cache.get(offset); b != nil {
		return b, nil, nil
	}
	return nil, l.findLocked(offset), nil
}

func (l *Log) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers--
	l.wakeCloserLocked()
}

// verdict keeps a read that lost a race with Close from saying anything about the offset, and one that lost a race with
// Retain from calling anything damaged.
func (l *Log) verdict(offset int64, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if oldest := l.oldest.Load(); offset < oldest {
		return &FloorError{offset, oldest}
	}
	return err
}

func (l *Log) tellCorrupt(err error) {
	var c *CorruptError
	if errors.As(err, &c) {
		l.opt.Event(CorruptRead{File: c.File, At: c.At, Offset: c.Offset, Cause: c.Cause})
	}
}

// load reads and decodes the block that holds an offset and keeps it for the next reads.
func (l *Log) load(s *segment, offset int64) (*block, error) {
	file, err := l.acquire(s)
	if err != nil {
		return nil, fmt.Errorf("segment: open %s: %w", s.name(), err)
	}
	defer l.releaseUse(s)
	if err := l.ensureIndex(s, file); err != nil {
		return nil, fmt.Errorf("segment: index %s: %w", s.name(), err)
	}
	b, err := l.block(s, file, offset)
	if err == nil && len(b.damages) > 0 && l.distrustIndex(s) { // it is the index that may be wrong
		if err = l.ensureIndex(s, file); err == nil {
			b, err = l.block(s, file, offset)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("segment: read %s: %w", s.name(), err)
	}
	if b.endAt == b.at {
		return b, nil // nothing was read: the offset is in damage that the index knows
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b.shared = !l.closed && !s.gone && l.cache.put(b)
	return b, nil
}

// block reads and decodes what the index says of an offset.
func (l *Log) block(s *segment, file vfs.File, offset int64) (*block, error) {
	x := l.locate(s, offset)
	if x.lost {
		return &block{file: s.name(), damages: []damage{x.damage}, extent: x.extent}, nil
	}
	return readBlock(file, s.name(), x.extent)
}

// distrustIndex forgets an index that was read from a file, and reports whether there was one.
func (l *Log) distrustIndex(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	hinted := s.hinted
	if hinted {
		s.forgetIndex()
		s.scanOnly = true
	}
	return hinted
}

// acquire pins a segment's open file, opening it first when it is not open.
func (l *Log) acquire(s *segment) (vfs.File, error) {
	l.mu.Lock()
	s.warm(l.env)
	if s.file != nil {
		defer l.mu.Unlock()
		s.users++
		l.touchLocked(s)
		return s.file, nil
	}
	l.mu.Unlock()
	file, err := l.dir.Open(s.name())
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	var victims []vfs.File
	if s.file == nil {
		s.file = file
		if !s.gone {
			l.hot = append(l.hot, s)
		}
	} else {
		victims = append(victims, file) // another reader was faster
	}
	s.users++
	victims = append(victims, l.evictLocked()...)
	file = s.file
	l.mu.Unlock()
	closeAll(victims)
	return file, nil
}

func (l *Log) releaseUse(s *segment) {
	l.mu.Lock()
	s.users--
	file := s.abandonedLocked()
	l.mu.Unlock()
	if file != nil {
		file.Close() // it was only read
	}
}

// abandonedLocked takes the file out of a removed segment that nobody reads any more.
func (s *segment) abandonedLocked() (file vfs.File) {
	if s.gone && s.users == 0 {
		file, s.file = s.file, nil
		s.forgetIndex()
	}
	return file
}

// touchLocked makes a sealed segment the most recently used one.
func (l *Log) touchLocked(s *segment) {
	for i, h := range l.hot {
		if h == s {
			copy(l.hot[i:], l.hot[i+1:])
			l.hot[len(l.hot)-1] = s
			return
		}
	}
}

// hotSegments is how many sealed segments keep an open file and an index.
const hotSegments = 2

// evictLocked forgets the file and index of the least recently used sealed segments that nobody reads, and
// returns the files to close once the lock is released.
func (l *Log) evictLocked() (victims []vfs.File) {
	for i := 0; i < len(l.hot) && len(l.hot) > hotSegments; {
		s := l.hot[i]
		if s.users > 0 {
			i++
			continue
		}
		l.hot = append(l.hot[:i], l.hot[i+1:]...)
		victims = append(victims, s.file)
		s.file = nil
		s.forgetIndex()
	}
	return victims
}

// closeAll closes files that were only read, or whose writes are synced: there is nothing an error could say.
func closeAll(files []vfs.File) {
	for _, f := range files {
		f.Close()
	}
}

// ensureIndex takes the index of a sealed segment from its file or, when that does not count, builds it by walking the frame
// headers, and keeps it for the next time.
func (l *Log) ensureIndex(s *segment, file vfs.File) error {
	if l.hasIndex(s) {
		return nil
	}
	s.indexing.Lock()
	defer s.indexing.Unlock()
	if l.hasIndex(s) {
		return nil
	}
	l.mu.Lock()
	scanOnly, refused := s.scanOnly, s.refused
	l.mu.Unlock()
	if refused != nil {
		return refused
	}
	var other *Index
	if !scanOnly {
		var x *Index
		if x, other = l.loadIndex(s, file); x != nil {
			l.setIndex(s, x.Entries, nil, true)
			return nil
		}
	}
	return l.buildIndex(s, file, other)
}

// buildIndex builds the index of a sealed segment by a walk. Other is an index file that does not agree with it.
func (l *Log) buildIndex(s *segment, file vfs.File, other *Index) error {
	var built usage
	scan := scanner{file: file, size: s.size, limit: s.end}
	var last *scanned
	_, _, lost, err := scan.scan(s.base, func(f scanned) {
		built.addFrame(f.Base, f.at, last == nil || f.at != last.endAt())
		last = f.keep(last)
	})
	if err != nil {
		return err
	}
	if other != nil && len(lost) == 0 {
		if err := other.exchanged(s, &scan, last); err != nil {
			l.refuse(s, err)
			return err
		}
	}
	if len(lost) == 0 && last != nil && last.endAt() == s.size && l.followed(s) {
		l.saveIndex(s, file, built.index, last.at)
	}
	l.setIndex(s, built.index, lost, false)
	return nil
}

// followed reports whether the name of the segment after a sealed one is known to be durable. That of an empty segment is not after an
// open: the sync that its creator made may have failed, and no later one tells. An index beside it would say after a power failure
// that a segment is missing.
func (l *Log) followed(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.segs[len(l.segs)-1]
	return newest.base != s.end || newest.size > 0 || newest.named
}

// refuse keeps the verdict on a segment that is another one: to look again would take another walk. An error of the disk is none.
func (l *Log) refuse(s *segment, err error) {
	var damage *DamageError
	if !errors.As(err, &damage) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.refused = err
}

func (l *Log) setIndex(s *segment, entries []IndexEntry, lost []damage, hinted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.index, s.lost, s.hinted, s.indexed = entries, lost, hinted, true
}

func (l *Log) hasIndex(s *segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.indexed
}

// extent is a run of whole frames in a segment.
type extent struct {
	at, endAt int64 // bytes
	from, to  int64 // offsets
}

// located is where an offset is: in an extent, or in damage that is known already.
type located struct {
	extent
	lost   bool
	damage damage
}

// locate finds the extent to read for an offset: from one entry of the index to the next, not over damage,
// and not again over what a reader who follows the tail has just read.
func (l *Log) locate(s *segment, offset int64) located {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := extent{at: 0, from: s.base, endAt: s.size, to: s.end}
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].Offset > offset })
	if i > 0 {
		x.at, x.from = s.index[i-1].At, s.index[i-1].Offset
	}
	if i < len(s.index) {
		x.endAt, x.to = s.index[i].At, s.index[i].Offset
	}
	for _, d := range s.lost {
		if d.from <= offset && offset < d.to {
			return located{extent: extent{from: d.from, to: d.to, at: d.at, endAt: d.at}, lost: true, damage: d}
		}
		if d.at >= x.at && d.from > offset && d.at < x.endAt {
			x.endAt, x.to = d.at, d.from
			break
		}
	}
	if at, ok := l.cache.endOf(s.name(), offset); ok && offset > x.from {
		x.at, x.from = at, offset
	}
	return located{extent: x}
}

// block is a decoded extent; once it is shared it never changes.
type block struct {
	extent
	file    string
	frames  []decoded
	records [][]byte // of all frames
	damages []damage
	bytes   int
	shared  bool // others may read it: what leaves it is copied
}

// decoded is one verified frame.
type decoded struct {
	base    int64
	records [][]byte
}

// readBlock reads an extent and verifies its frames. What looks damaged is read a second time before it is
// called so.
func readBlock(file io.ReaderAt, name string, x extent) (*block, error) {
	buf, err := readExtent(file, x)
	if err != nil {
		return nil, err
	}
	b, whole := decode(buf, name, x)
	if whole {
		return b, nil
	}
	if buf, err = readExtent(file, x); err != nil {
		return nil, err
	}
	if b, whole = decode(buf, name, x); whole {
		return b, nil
	}
	return salvage(buf, name, x)
}

// readExtent returns the bytes of an extent; fewer when the file ends before.
func readExtent(file io.ReaderAt, x extent) ([]byte, error) {
	buf := make([]byte, x.endAt-x.at)
	n, err := file.ReadAt(buf, x.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// newBlock returns a block without frames for an extent that was read.
func newBlock(buf []byte, name string, x extent) *block {
	records := min(x.to-x.from, int64(len(buf))/leastRecord)
	return &block{extent: x, file: name, bytes: len(buf), records: make([][]byte, 0, records)}
}

// leastRecord is how many bytes of a block a record of it takes, or more: room for more is made when there are.
const leastRecord = 32

// decode decodes an extent that is as it should be, and reports whether it is.
func decode(buf []byte, name string, x extent) (*block, bool) {
	b := newBlock(buf, name, x)
	next := x.from
	for len(buf) > 0 {
		f, n, err := record.ParseFrame(buf)
		if err != nil || f.Base != next || f.Next() > x.to {
			return nil, false
		}
		b.add(f)
		buf, next = buf[n:], f.Next()
	}
	return b, next == x.to
}

func (b *block) add(f record.Frame) {
	from := len(b.records)
	for _, r := range f.Records() {
		b.records = append(b.records, r)
	}
	d := decoded{f.Base, b.records[from:len(b.records):len(b.records)]}
	b.frames = append(b.frames, d)
	if f.Codec != record.CodecNone {
		b.bytes += len(f.Body)
	}
	b.bytes += 24 * len(d.records)
}

// salvage decodes what is intact in a damaged extent.
func salvage(buf []byte, name string, x extent) (*block, error) {
	b := newBlock(buf, name, x)
	s := scanner{file: bytes.NewReader(buf), size: int64(len(buf)), limit: x.to, sums: true}
	_, _, lost, err := s.scan(x.from, func(found scanned) {
		f, _, err := record.ParseFrame(buf[found.at:])
		if err != nil {
			b.damages = append(b.damages, damage{x.at + found.at, found.Base, found.Next(), err})
			return
		}
		b.add(f)
	})
	for _, d := range lost {
		d.at += x.at
		b.damages = append(b.damages, d)
	}
	return b, err
}

// record returns the record at an offset, which shares the memory of the block, or why it cannot be read.
func (b *block) record(offset int64) (Record, error) {
	i := sort.Search(len(b.frames), func(i int) bool { return b.frames[i].base > offset })
	if i == 0 {
		return Record{}, ErrMissing
	}
	f := b.frames[i-1]
	n := offset - f.base
	if n >= int64(len(f.records)) {
		return Record{}, ErrMissing
	}
	r, err := record.ParseRecord(f.records[n])
	return Record{Key: r.Key, Payload: r.Payload, CommittedMs: r.CommittedMs}, err
}

// corrupt returns the error for a record that cannot be read, for that cause unless the block knows of damage there.
func (b *block) corrupt(offset int64, cause error) *CorruptError {
	at := b.at
	for _, d := range b.damages {
		if d.from <= offset && offset < d.to {
			at, cause = d.at, d.cause
		}
	}
	return &CorruptError{File: b.file, At: at, Offset: offset, Cause: cause}
}

// cloneRecord copies a record out of a block, key and payload in one piece.
func cloneRecord(r Record) Record {
	b := make([]byte, 0, len(r.Key)+len(r.Payload))
	b = append(append(b, r.Key...), r.Payload...)
	k := len(r.Key)
	return Record{Key: b[:k:k], Payload: b[k:], CommittedMs: r.CommittedMs}
}
