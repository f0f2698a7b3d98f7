package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"narad/env"
	"narad/record"
	"narad/vfs"
)

// Open opens the log in a partition's directory, which stays the caller's and may hold other files. It
// reads the newest segment only. When it returns, everything below the high watermark is durable.
//
// A torn tail is cut; damage with intact frames after it is kept as a gap. A *[DamageError] means that files are missing or
// not in their place; nothing was changed then. Another error is one of the disk: the log may be opened again later.
//
// What a failed sync left in memory only may go between the look at the last frame and writing it again: then all is looked at
// again, as long as the log ends earlier than it did.
func Open(e *env.Env, dir vfs.Dir, o Options) (*Log, error) {
	end := int64(math.MaxInt64)
	for {
		l := newLog(e, dir, o)
		recovered, err := l.recover()
		if err == nil {
			l.opt.Event(recovered)
			return l, nil
		}
		l.release()
		var gone *goneError
		if !errors.As(err, &gone) || gone.end >= end {
			return nil, fmt.Errorf("segment: open: %w", err)
		}
		end = gone.end
	}
}

func newLog(e *env.Env, dir vfs.Dir, o Options) *Log {
	l := &Log{env: e, dir: dir, opt: o.withDefaults(), told: o.Event != nil, ended: e.NewEvent(), retaining: e.NewMutex(), naming: o.Naming}
	if l.naming == nil {
		l.naming = e.NewMutex()
	}
	l.bounds = boundsKeeper{env: e, lock: e.NewMutex(), dir: dir, share: o.Files, told: env.Instant(-tellEvery), now: Bounds{Identity: o.Identity}}
	return l
}

// strays are files that an interrupted creation or removal left.
type strays struct {
	temps     []string
	indexes   []int64 // all there are
	leftovers []*segment
}

func (l *Log) recover() (Recovered, error) {
	rest, err := l.list()
	if err != nil {
		return Recovered{}, err
	}
	if err := l.bounds.load(); err != nil {
		return Recovered{}, err
	}
	if err := l.judgeIndexes(rest.indexes); err != nil {
		return Recovered{}, err
	}
	if !l.bounds.blank {
		if rest.leftovers, err = l.checkOldest(l.bounds.now.Oldest); err != nil {
			return Recovered{}, err
		}
	}
	if len(l.segs) > 0 {
		return l.reopen(rest)
	}
	ends := boundary{Bounds: l.bounds.now}
	if err := ends.check(fileName(0), 0, 0); err != nil {
		return Recovered{}, err
	}
	return Recovered{}, l.removeStrays(rest)
}

// list finds the segments, and what does not belong to them.
func (l *Log) list() (rest strays, err error) {
	entries, err := l.dir.List()
	if err != nil {
		return rest, err
	}
	for _, info := range entries {
		if info.Dir {
			continue
		}
		if base, ok := parseName(info.Name, indexSuffix); ok {
			rest.indexes = append(rest.indexes, base)
		}
		if _, ok := parseName(info.Name, tempSuffix); ok {
			rest.temps = append(rest.temps, info.Name)
		}
		base, ok := parseName(info.Name, fileSuffix)
		if !ok {
			continue
		}
		if n := len(l.segs); n > 0 {
			l.segs[n-1].end = base
		}
		l.segs = append(l.segs, &segment{base: base, end: base, size: info.Size})
	}
	return rest, nil
}

// removeStrays goes on with an interrupted removal, once it is durable how far that went, and removes the rest.
func (l *Log) removeStrays(rest strays) error {
	if len(rest.leftovers) > 0 {
		if err := l.bounds.raise(l.segs[0].base); err != nil {
			return err
		}
	}
	for _, s := range rest.leftovers {
		rest.temps = append(rest.temps, s.name())
	}
	for _, name := range rest.temps {
		if err := l.dir.Remove(name); err != nil {
			return err
		}
	}
	l.removeStrayIndexes(rest.indexes)
	return nil
}

// judgeIndexes refuses a log of which the newest segment has an index, or one from behind it: that is made after the
// name of the next segment is durable, and from then on there is always a later one than this.
func (l *Log) judgeIndexes(bases []int64) error {
	newest := int64(0)
	if n := len(l.segs); n > 0 {
		newest = l.segs[n-1].base
	}
	for _, base := range bases {
		if base < newest {
			continue
		}
		if x, err := readIndex(l.dir, base); err == nil {
			return &DamageError{File: fileName(x.End), Cause: fmt.Errorf("%w: %s ends where it begins", ErrSuccessor, indexName(base))}
		}
	}
	return nil
}

// removeStrayIndexes removes the index files that have no sealed segment. One that stays does no harm.
func (l *Log) removeStrayIndexes(bases []int64) {
	for _, base := range bases {
		i := sort.Search(len(l.segs), func(i int) bool { return l.segs[i].base >= base })
		if i >= len(l.segs)-1 || l.segs[i].base != base {
			l.dir.Remove(indexName(base))
		}
	}
}

// parseName returns the base offset in a file name of this package.
func parseName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != nameDigits {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil
}

// reopen makes the newest segment the active one.
//
//  1. Scan it, verifying every checksum, and hold its end against the bounds. Nothing is changed before that.
//  2. Cut what follows the last intact frame, unless it was one.
//  3. Write the last frame once more over itself, and sync. Only that frame can be unsynced, because every
//     frame is synced before the next one is written. It may even look clean to the operating system after
//     a sync that failed, in this process or an earlier one: a sync alone would then prove nothing.
//  4. Remove what an interrupted removal left, and sync the directory.
//  5. Only now let the bounds and the high watermark cover it all.
func (l *Log) reopen(rest strays) (Recovered, error) {
	active := l.segs[len(l.segs)-1]
	file, err := l.dir.Open(active.name())
	if err != nil {
		return Recovered{}, err
	}
	active.warm(l.env)
	active.file, active.indexed = file, true
	size, err := file.Size()
	if err != nil {
		return Recovered{}, err
	}
	var last *scanned
	ends := boundary{Bounds: l.bounds.now}
	s := scanner{file: file, name: active.name(), size: size, limit: math.MaxInt64, sums: true}
	end, next, lost, err := s.scan(active.base, func(f scanned) {
		active.addFrame(f.Base, f.at, last == nil || last.endAt() != f.at)
		last = f.keep(last)
		ends.frame(f)
	})
	active.index = slices.Clone(active.index) // as much memory as it needs, not as it took to grow
	if err == nil {
		err = ends.check(active.name(), end, next)
	}
	if n := len(l.segs); err == nil && last == nil && n > 1 {
		err = l.checkSealed(l.segs[n-2], l.bounds.now)
	}
	if err != nil {
		return Recovered{}, err
	}
	if end < size {
		if err := file.Truncate(end); err != nil {
			return Recovered{}, err
		}
		l.env.Point("segment: tail cut, not synced")
	}
	l.naming.Lock()
	defer l.naming.Unlock()
	var frame []byte
	if last != nil {
		if frame, err = rewrite(file, *last); err != nil {
			return Recovered{}, err
		}
	}
	l.env.Point("segment: recovered, not synced")
	if err := file.Sync(); err != nil {
		return Recovered{}, err
	}
	if err := l.removeStrays(rest); err != nil {
		return Recovered{}, err
	}
	l.bounds.ensure()
	if err := l.dir.Sync(); err != nil {
		return Recovered{}, err
	}
	l.bounds.nameSynced()
	if l.floor, err = l.newestStamp(frame); err != nil {
		return Recovered{}, err
	}
	active.size, active.end, active.lost, active.last = end, next, lost, l.floor
	if last != nil {
		active.lastAt = last.at
	}
	l.oldest.Store(l.segs[0].base)
	l.bounds.recovered(l.segs[0].base, next, last)
	l.hw.Store(next)
	r := Recovered{Next: next, Oldest: l.oldest.Load(), TailCut: size - end}
	for _, d := range lost {
		r.Gap += d.to - d.from
	}
	return r, nil
}

// rewrite writes a frame over itself, so that the next sync really writes it, and returns its bytes. They
// are verified once more: what is in memory only, after a sync that failed, may have gone since the scan. A *[goneError] says so.
func rewrite(file vfs.File, f scanned) ([]byte, error) {
	b, err := readFrame(file, f)
	if err != nil {
		return nil, fmt.Errorf("read frame to make durable: %w", err)
	}
	if h, err := record.ParseFrameHeader(b); err != nil || h != f.FrameHeader ||
		record.UpdateFrameCRC(record.HeaderFrameCRC(b), b[record.FrameHeaderSize:]) != h.CRC {
		return nil, &goneError{at: f.at, end: f.Next()}
	}
	if _, err := file.WriteAt(b, f.at); err != nil {
		return nil, fmt.Errorf("make frame durable: %w", err)
	}
	return b, nil
}

func readFrame(file vfs.File, f scanned) ([]byte, error) {
	b := make([]byte, f.Size())
	if n, err := file.ReadAt(b, f.at); n < len(b) {
		return nil, noEOF(err)
	}
	return b, nil
}

// noEOF turns the end of a file that should not end into an error that says so.
func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// newestStamp returns the commit time of the newest record, which later ones may not go below, given the last
// frame of the active segment. When that is still empty it is the last one of the segment before. A record that
// cannot be read sets no floor.
func (l *Log) newestStamp(frame []byte) (int64, error) {
	if frame == nil && len(l.segs) > 1 {
		return l.readLast(l.segs[len(l.segs)-2])
	}
	return frameStamp(frame), nil
}
