package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"narad/vfs"
)

const (
	// loadChunk is how many bytes are read, or written again, at once while a log is opened.
	loadChunk = 1 << 20
	// preparedName is the file of a segment prepared ahead. It holds no records that are needed.
	preparedName = "next-segment.prep"
	tmpSuffix    = ".tmp"
)

// inventory is what the directory of a log holds.
type inventory struct {
	segments      []*segment // by name, so by first sequence number
	strays        []string   // files that earlier work left and nobody needs
	point         uint64     // stored checkpoint
	hasPoint      bool
	hasPointFile  bool
	namesInDoubt  bool // no record tells that a sync of the directory has succeeded since the files were made
	firstRequired int  // index of the oldest segment with records at or above the checkpoint
}

// tailState is what the scan of the last segment found.
type tailState struct {
	size      int64 // of the file
	end       int64 // of the last good frame
	pointAt   int64 // where the frame with the checkpoint's record starts, else end
	cut       *TailCut
	emptyFile bool // nothing has been written to it
}

// load reads what is on the disk and makes it durable. First everything is looked at; only when all of it is
// as it should be is anything changed:
//
//  1. what lies behind the last good frame of the last segment is cut off, a torn tail or prepared zeros;
//  2. what an earlier process may have written and not synced, or not synced successfully, is written again
//     in place from verified frames, since a sync after a failed one proves nothing about older writes;
//  3. the segment is synced;
//  4. a last segment without a byte is replaced by a new one: the sync of its name may have failed too;
//  5. the checkpoint is written again and synced, then the directory.
//
// A crash between any two leaves a directory that the next load treats in the same way.
//
// What a failed sync left in the page cache only may go between the look and the second step: then all is looked at
// again, as long as the log ends earlier than it did.
func (l *Log) load() (Recovered, error) {
	end := int64(math.MaxInt64)
	for {
		recovered, err := l.loadOnce()
		var gone *goneError
		if !errors.As(err, &gone) || gone.end >= end {
			return recovered, err
		}
		end = gone.end
		if err := l.closeOpened(); err != nil {
			return Recovered{}, err
		}
	}
}

func (l *Log) loadOnce() (Recovered, error) {
	inv, err := l.takeInventory()
	if err != nil {
		return Recovered{}, err
	}
	l.segments = inv.segments
	if len(inv.segments) == 0 {
		return l.loadEmpty(inv)
	}
	tail, err := l.verify(inv)
	if err != nil {
		return Recovered{}, err
	}
	if err := l.repairTail(tail); err != nil {
		return Recovered{}, err
	}
	inv.namesInDoubt = tail.emptyFile
	if err := l.settleNames(inv); err != nil {
		return Recovered{}, err
	}
	return l.recovered(inv), nil
}

func (l *Log) recovered(inv *inventory) Recovered {
	oldest := inv.segments[inv.firstRequired].first
	return Recovered{
		First:      oldest,
		Next:       l.tail.seg.next,
		Checkpoint: l.point.stored,
		Segments:   len(inv.segments) - inv.firstRequired,
		Lowered:    inv.hasPoint && inv.point < oldest,
	}
}

// loadEmpty begins a log. The numbers start at 1.
func (l *Log) loadEmpty(inv *inventory) (Recovered, error) {
	if inv.hasPoint && inv.point > 1 {
		return Recovered{}, &CorruptError{File: checkpointName, Cause: errAhead}
	}
	seg := newSegment(1)
	inv.segments = []*segment{seg}
	l.segments = inv.segments
	file, err := l.dir.Create(seg.name())
	if err != nil {
		return Recovered{}, err
	}
	l.tail.file, l.tail.seg = file, seg
	inv.namesInDoubt = true
	if err := l.settleNames(inv); err != nil {
		return Recovered{}, err
	}
	return l.recovered(inv), nil
}

// takeInventory lists the directory and reads the checkpoint. It changes nothing.
func (l *Log) takeInventory() (*inventory, error) {
	entries, err := l.dir.List()
	if err != nil {
		return nil, err
	}
	inv := &inventory{}
	for _, e := range entries {
		first, isSegment := parseSegmentName(e.Name)
		switch {
		case isSegment && !e.Dir:
			inv.segments = append(inv.segments, newSegment(first))
		case e.Dir:
		case e.Name == checkpointName:
			inv.hasPointFile = true
		case e.Name == preparedName, e.Name == checkpointName+tmpSuffix, strings.HasSuffix(e.Name, segmentSuffix+tmpSuffix):
			inv.strays = append(inv.strays, e.Name)
		case strings.HasSuffix(e.Name, segmentSuffix):
			return nil, &CorruptError{File: e.Name, Cause: errName}
		}
	}
	if inv.hasPointFile {
		if err := l.readCheckpoint(inv); err != nil {
			return nil, err
		}
	}
	for i, seg := range inv.segments {
		if i > 0 && inv.hasPoint && seg.first <= inv.point {
			inv.firstRequired = i
		}
	}
	return inv, nil
}

// readCheckpoint reads the stored checkpoint. A file that is empty, or holds zeros, was created by a process
// that ended before it stored one.
func (l *Log) readCheckpoint(inv *inventory) error {
	file, err := l.dir.Open(checkpointName)
	if err != nil {
		return err
	}
	l.point.file = file
	size, err := file.Size()
	if err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	if size != checkpointSize {
		return &CorruptError{File: checkpointName, Offset: size, Cause: errPointLength}
	}
	var b [checkpointSize]byte
	if _, err := file.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	inv.point = binary.BigEndian.Uint64(b[:])
	inv.hasPoint = inv.point != 0
	return nil
}

// verify scans every segment that is needed. It changes nothing but the segments' descriptions.
func (l *Log) verify(inv *inventory) (*tailState, error) {
	scan := &scanner{chunk: loadChunk}
	last := len(inv.segments) - 1
	for i, seg := range inv.segments[:last] {
		if i < inv.firstRequired {
			seg.next = inv.segments[i+1].first // not needed any more, so not looked at
			continue
		}
		if err := l.verifySealed(scan, seg); err != nil {
			return nil, err
		}
		if following := inv.segments[i+1]; seg.next != following.first {
			return nil, &CorruptError{File: following.name(), Cause: fmt.Errorf("%w: it begins with record %d, expected %d", errChain, following.first, seg.next)}
		}
	}
	tail, err := l.verifyTail(scan, inv.segments[last], inv.point)
	if err != nil {
		return nil, err
	}
	if next := inv.segments[last].next; inv.hasPoint && inv.point > next {
		return nil, &CorruptError{File: checkpointName, Cause: fmt.Errorf("%w: it is %d, the next record would be %d", errAhead, inv.point, next)}
	}
	return tail, nil
}

func (l *Log) verifySealed(scan *scanner, seg *segment) error {
	file, err := l.dir.Open(seg.name())
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	damage, err := scanSegment(scan, file, seg, size, nil)
	if err != nil {
		return fmt.Errorf("scan %s: %w", seg.name(), err)
	}
	if damage == nil {
		return nil
	}
	rest, err := LookBehind(file, seg.size, size)
	if err != nil {
		return fmt.Errorf("read the end of %s: %w", seg.name(), err)
	}
	if rest.Zeros { // a crash undid its trimming; whether a record is missing is seen by the next segment
		return nil
	}
	return &CorruptError{File: seg.name(), Offset: seg.size, Cause: fmt.Errorf("%w: %w", errTail, damage)}
}

// verifyTail scans the last segment and decides what to do about the end of it.
func (l *Log) verifyTail(scan *scanner, seg *segment, point uint64) (*tailState, error) {
	file, err := l.dir.Open(seg.name())
	if err != nil {
		return nil, err
	}
	l.tail.file, l.tail.seg = file, seg
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	tail := &tailState{size: size, pointAt: -1, emptyFile: size == 0}
	damage, err := scanSegment(scan, file, seg, size, func(seq uint64, offset int64) {
		if seq == point {
			tail.pointAt = offset
		}
	})
	if err != nil {
		return nil, fmt.Errorf("scan %s: %w", seg.name(), err)
	}
	tail.end = seg.size
	if point < seg.first {
		tail.pointAt = 0
	} else if tail.pointAt < 0 {
		tail.pointAt = tail.end
	}
	if damage == nil {
		return tail, nil
	}
	rest, err := LookBehind(file, seg.size, size)
	if err != nil {
		return nil, fmt.Errorf("read the end of %s: %w", seg.name(), err)
	}
	if rest.Prepared && rest.Zeros {
		tail.emptyFile = seg.size == 0
		return tail, nil
	}
	tail.cut, err = l.judge(seg, rest, damage)
	return tail, err
}

// judge decides whether the damaged end of the last segment is what an unfinished write leaves.
func (l *Log) judge(seg *segment, rest Rest, damage error) (*TailCut, error) {
	b := make([]byte, rest.Judged)
	if _, err := l.tail.file.ReadAt(b, seg.size); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read the damaged end of %s: %w", seg.name(), err)
	}
	whole, cause := judgeTail(b, seg.size, seg.next, rest.Written)
	if cause != nil {
		return nil, &CorruptError{File: seg.name(), Offset: seg.size, Cause: fmt.Errorf("%w: %w", cause, damage)}
	}
	return &TailCut{File: seg.name(), Offset: seg.size, Bytes: rest.Written, Cause: damage, Whole: whole}, nil
}

// scanSegment walks the frames of seg from its start, tells visit about each, and leaves in seg how far they
// go. Damage is why they do not reach size.
func scanSegment(scan *scanner, file vfs.File, seg *segment, size int64, visit func(seq uint64, offset int64)) (damage, err error) {
	scan.reset(file, 0, size)
	for {
		frame, _, damage, err := scan.next(seg.next)
		if err == io.EOF {
			return nil, nil
		}
		if err != nil || damage != nil {
			return damage, err
		}
		if visit != nil {
			visit(seg.next, seg.size)
		}
		seg.extend(seg.next, seg.next+1, int64(len(frame)))
	}
}

// repairTail makes the last segment end with its last good frame and everything in it durable. One that had been
// prepared grows from then on.
func (l *Log) repairTail(tail *tailState) error {
	if tail.emptyFile {
		return l.replaceEmpty()
	}
	file, name := l.tail.file, l.tail.seg.name()
	if tail.size > tail.end {
		if err := file.Truncate(tail.end); err != nil {
			return fmt.Errorf("cut the end of %s: %w", name, err)
		}
		l.env.Point("wal: torn tail cut, not synced")
	}
	if err := l.rewrite(max(tail.pointAt, tail.end-maxUnsynced), tail.end); err != nil {
		return fmt.Errorf("write the tail of %s again: %w", name, err)
	}
	l.env.Point("wal: tail written again, not synced")
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", name, err)
	}
	if tail.cut != nil {
		l.event(*tail.cut)
	}
	return nil
}

// rewrite writes the frames of the last segment in [from, end) again where they are, verifying each first, and
// sets the size again. A crash at any point changes nothing, since every byte is the same, or leaves one byte
// more. A *[goneError] reports a frame that is not what it was.
func (l *Log) rewrite(from, end int64) error {
	if from >= end {
		return nil
	}
	for _, size := range []int64{end + 1, end} {
		if err := l.tail.file.Truncate(size); err != nil {
			return err
		}
	}
	seg := l.tail.seg
	start := mark{seq: seg.first}
	for _, m := range seg.marks {
		if m.offset <= from {
			start = m
		}
	}
	scan := &scanner{chunk: loadChunk}
	scan.reset(l.tail.file, start.offset, end)
	run, runAt := make([]byte, 0, min(loadChunk, end-start.offset)), start.offset
	for seq := start.seq; ; seq++ {
		frame, _, damage, err := scan.next(seq)
		done := err == io.EOF
		if damage != nil {
			return &goneError{end: end, cause: damage}
		}
		if !done && err != nil {
			return err
		}
		if len(run) > 0 && (done || len(run)+len(frame) > loadChunk) {
			if _, err := l.tail.file.WriteAt(run, runAt); err != nil {
				return err
			}
			runAt += int64(len(run))
			run = run[:0]
		}
		if done {
			return nil
		}
		run = append(run, frame...)
	}
}

// replaceEmpty puts a new, empty file in the place of the last segment, which has no byte, or is as it was prepared.
// Nothing was ever written to it, so perhaps its name is not on the disk although it can be seen, and another sync of
// the directory would not tell.
func (l *Log) replaceEmpty() error {
	name := l.tail.seg.name()
	tmp := name + tmpSuffix
	if err := l.dir.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := l.dir.Create(tmp)
	if err != nil {
		return err
	}
	l.tail.file.Close()
	l.tail.file = file
	l.env.Point("wal: empty segment about to be replaced")
	return l.dir.Rename(tmp, name)
}

// settleNames stores the checkpoint, removes what nobody needs, and makes all names and the checkpoint
// durable.
func (l *Log) settleNames(inv *inventory) error {
	for _, name := range inv.strays {
		if err := l.dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	c := &l.point
	c.stored = max(inv.point, inv.segments[inv.firstRequired].first)
	if err := l.storeFirst(inv); err != nil {
		return fmt.Errorf("store checkpoint %d: %w", c.stored, err)
	}
	l.env.Point("wal: opened, names not synced")
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("sync checkpoint: %w", err)
	}
	if err := l.dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	c.durable = c.stored
	return nil
}

// storeFirst stores the checkpoint of an open, in the file that there is, or in a new one when its name may not be on the disk.
func (l *Log) storeFirst(inv *inventory) error {
	c := &l.point
	switch {
	case !inv.hasPointFile:
		file, err := l.dir.Create(checkpointName)
		if err != nil {
			return err
		}
		c.file = file
	case inv.namesInDoubt:
		return l.replaceCheckpoint()
	}
	return c.write(c.stored)
}

// replaceCheckpoint puts a new file in the place of a checkpoint that can be seen, and is not known to have its name on the disk.
func (l *Log) replaceCheckpoint() error {
	c := &l.point
	tmp := checkpointName + tmpSuffix
	file, err := l.dir.Create(tmp)
	if err != nil {
		return err
	}
	c.file.Close()
	c.file = file
	if err := c.write(c.stored); err != nil {
		return err
	}
	if err := file.Sync(); err != nil { // or a crash may leave the new name with nothing in it
		return err
	}
	return l.dir.Rename(tmp, checkpointName)
}
