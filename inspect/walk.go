package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"narad/committer"
	"narad/internal/cleanmark"
	"narad/metastore"
	"narad/segment"
	"narad/vfs"
	"narad/wal"
)

// Names in a data directory.
const (
	topicsName      = "topics"
	ingressName     = "ingress"
	produceName     = "produce"
	metastoreName   = "metastore"
	lockName        = "lock"
	cleanName       = "clean"
	checkpointName  = "checkpoint"
	incarnationName = "incarnation"
	aheadName       = committer.AheadFile
	offsetName      = committer.OffsetFile
	logSuffix       = ".log"
	logDigits       = 20
	tmpSuffix       = ".tmp"
	staleMark       = ".stale-"
)

// parseLogName returns the offset of the first record of a partition's segment of that name.
func parseLogName(name string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, logSuffix)
	if !ok || len(digits) != logDigits {
		return 0, false
	}
	return parseDigits(digits)
}

// parseIndexName returns the base of the segment whose index has that name.
func parseIndexName(name string) (base int64, ok bool) {
	digits, ok := strings.CutSuffix(name, ".idx")
	if !ok {
		return 0, false
	}
	return parseLogName(digits + logSuffix)
}

// parsePartitionName returns the number of the partition whose directory has that name.
func parsePartitionName(name string) (index int32, ok bool) {
	digits, ok := strings.CutPrefix(name, "p")
	if !ok || len(digits) != 5 {
		return 0, false
	}
	n, ok := parseDigits(digits)
	return int32(n), ok
}

func parseDigits(s string) (int64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// kindOfFile tells a file by its name.
func kindOfFile(name string) Kind {
	_, isWAL := wal.ParseSegmentName(name)
	_, isLog := parseLogName(name)
	_, isIndex := parseIndexName(name)
	switch {
	case isWAL:
		return KindWAL
	case isLog:
		return KindLog
	case isIndex:
		return KindIndex
	case strings.HasSuffix(name, tmpSuffix) || name == "next-segment.prep":
		return KindLeftover
	case name == "hwm" || name == "move.marker" || strings.HasPrefix(name, "fanout-") && strings.HasSuffix(name, ".offset"):
		return KindOther
	}
	switch name {
	case checkpointName:
		return KindCheckpoint
	case segment.BoundsFile:
		return KindBounds
	case aheadName:
		return KindAhead
	case offsetName:
		return KindOffset
	case incarnationName:
		return KindIncarnation
	case metastore.SnapshotFile:
		return KindSnapshot
	case metastore.JournalFile:
		return KindJournal
	case cleanName:
		return KindClean
	case lockName:
		return KindLock
	}
	return KindUnknown
}

// add puts a finding about a node into the report. Of one file there are at most findingsMax, damage apart from
// the rest in the totals.
func (x *inspector) add(n *Node, f Finding) {
	f.File = n.file
	if f.Severity.rank() > n.Worst.rank() {
		n.Worst = f.Severity
	}
	t := &x.report.Totals
	switch f.Severity {
	case SeverityDamage:
		t.Damage++
	case SeverityUnread:
		t.Unread++
	case SeverityWarning:
		t.Warnings++
	default:
		t.Notes++
	}
	switch x.perFile[n.file]++; {
	case x.perFile[n.file] < findingsMax:
		x.report.Findings = append(x.report.Findings, f)
	case x.perFile[n.file] == findingsMax:
		x.report.Findings = append(x.report.Findings, Finding{
			Severity: f.Severity, File: n.file, Offset: f.Offset, Code: "more",
			What:   "there is more of the like in this file; only the totals count it",
			Effect: "The first findings above tell the story.",
		})
	}
}

func (x *inspector) damage(n *Node, at, length int64, code, what, effect, advice string) {
	x.add(n, Finding{Severity: SeverityDamage, Offset: at, Length: length, Code: code, What: what, Effect: effect, Advice: advice})
}

func (x *inspector) warn(n *Node, at int64, code, what, effect string) {
	x.add(n, Finding{Severity: SeverityWarning, Offset: at, Code: code, What: what, Effect: effect})
}

func (x *inspector) note(n *Node, at int64, code, what, effect string) {
	x.add(n, Finding{Severity: SeverityNote, Offset: at, Code: code, What: what, Effect: effect})
}

// unread reports what the operating system would not give.
func (x *inspector) unread(n *Node, err error) {
	at := int64(-1)
	var r *readError
	if errors.As(err, &r) {
		at = r.offset
	}
	effect := "Nothing is known of what follows. A broker fails to read it, too, and keeps trying or refuses to start."
	advice := "Look for disk errors in the kernel's log; copy the file before anything else is tried."
	if errors.Is(err, fs.ErrNotExist) && !x.report.Locked {
		n.Summary = "gone"
		x.note(n, -1, "vanished", "it was there when its directory was listed, and is gone", "None: a broker that is running removed it.")
		return
	}
	if errors.Is(err, fs.ErrPermission) {
		effect = "Nothing is known of it."
		advice = "Run this as the user that owns the data directory."
	}
	n.Summary = "could not be read"
	x.add(n, Finding{Severity: SeverityUnread, Offset: at, Code: "unread", What: err.Error(), Effect: effect, Advice: advice})
}

// child makes the node of an entry of a directory.
func (x *inspector) child(parent *Node, e vfs.Info) *Node {
	n := &Node{Name: e.Name, Size: e.Size, dir: e.Dir, file: path.Join(parent.file, e.Name)}
	if !e.Dir {
		n.Kind = kindOfFile(e.Name)
		x.count(n)
	}
	parent.Children = append(parent.Children, n)
	return n
}

func (x *inspector) count(n *Node) {
	x.report.Totals.Files++
	x.report.Totals.Bytes += n.Size
}

// stray reports an entry that does not belong where it is.
func (x *inspector) stray(d vfs.Dir, n *Node) {
	switch {
	case n.Kind == KindLeftover:
		x.leftover(n)
	case n.Kind == KindOther:
		n.Summary = "of another release of Narad; not looked at"
		x.note(n, -1, "other-release", "a file that other releases of Narad keep here; this one neither reads nor writes it", "None for this release.")
	case n.dir:
		n.Kind = KindUnknown
		n.Size = x.sizeBelow(d, n.Name)
		n.Summary = "unknown directory; not looked into"
		x.warn(n, -1, "unknown", "Narad makes no directory of this name here", "None: Narad ignores it.")
	default:
		n.Kind = KindUnknown
		n.Summary = "unknown file"
		x.warn(n, -1, "unknown", "Narad makes no file of this name here", "None: Narad ignores it.")
	}
}

func (x *inspector) leftover(n *Node) {
	n.Summary = "left by an interrupted write"
	x.note(n, -1, "leftover", "a temporary file that an interrupted write left", "None: it was never part of the data.")
}

func (x *inspector) markFile(n *Node) {
	switch n.Kind {
	case KindLock:
		n.Summary = "held while a broker runs; it stays behind"
	}
	if n.Size > 0 {
		x.warn(n, 0, "mark-not-empty", fmt.Sprintf("the file has %d bytes; Narad leaves it empty", n.Size), "None: only that it exists counts.")
	}
}

// cleanMarkFile looks at the mark of a graceful stop, which says how far the logs went.
func (x *inspector) cleanMarkFile(d vfs.Dir, n *Node) {
	b := x.slurp(d, n)
	if b == nil {
		return
	}
	m, err := cleanmark.Decode(b)
	if err != nil {
		n.Summary = "damaged mark of a graceful stop"
		x.damage(n, 0, n.Size, "clean-mark", err.Error(), "The last stop counts as unclean: every consumer.ahead is synced again, and nobody notices whether a log is shorter than it was.", adviceKeep)
		return
	}
	n.Summary = fmt.Sprintf("the last stop was graceful; the ingress log ended before record %d, the ends of %s are known", m.WALNext, plural(int64(len(m.Partitions)), "partition log", "partition logs"))
}

// indexFile looks at the index of a sealed segment: a hint, which the broker checks and makes anew.
func (x *inspector) indexFile(d vfs.Dir, n *Node) *segment.Index {
	b := x.slurp(d, n)
	if b == nil {
		return nil
	}
	index, err := segment.ParseIndex(b)
	if err != nil {
		n.Summary = "index that does not count"
		x.note(n, 0, "index-ignored", err.Error(), "None: the broker makes the index anew from its segment.")
		return nil
	}
	n.Summary = fmt.Sprintf("index of the offsets %d to %d, %s", index.Base, index.End-1, plural(int64(len(index.Entries)), "entry", "entries"))
	return &index
}

// boundsFile looks at the bounds of a partition's log. What does not count proves nothing and is no damage. The identity is
// that of the first cell that can be read, when the partition's own is not known.
func (x *inspector) boundsFile(d vfs.Dir, n *Node, o owner) *segment.StoredBounds {
	b := x.slurp(d, n)
	if b == nil {
		return nil
	}
	identity := o.identity()
	if !o.known {
		for at := 0; at <= segment.BoundsCellAt && at < len(b); at += segment.BoundsCellAt {
			if cell, err := segment.ParseBounds(b[at:]); err == nil {
				identity = cell.Identity
				break
			}
		}
	}
	s := segment.CombineBounds(b, identity)
	for i, err := range s.Cells {
		if err != nil && len(b) > 0 {
			x.note(n, int64(i*segment.BoundsCellAt), "bounds-ignored", fmt.Sprintf("cell %d does not count: %v", i, err), "None: the broker writes it anew.")
		}
	}
	if !s.Found {
		n.Summary = "bounds that do not count"
		return nil
	}
	n.Summary = fmt.Sprintf("the log begins at offset %d and ended before offset %d or later", s.Oldest, s.End)
	n.Bounds = &LogBounds{Oldest: s.Oldest, End: s.End}
	if s.HasCRC {
		n.Bounds.LastFrame = fmt.Sprintf("%08x", s.CRC)
	}
	return &s
}

// bounded holds the log of a partition against its bounds, as a start does.
func (x *inspector) bounded(n *Node, s *segment.StoredBounds, p *Partition) {
	const effect = "The broker refuses every call to this partition, until the log is restored or the file bounds is removed."
	switch {
	case s == nil:
	case p.Oldest > s.Oldest:
		x.damage(n, -1, 0, "log-oldest-missing", fmt.Sprintf("the log began at offset %d and begins at %d now", s.Oldest, p.Oldest), effect, adviceLost)
	case p.HighWatermark < s.End:
		x.damage(n, -1, 0, "log-end-missing", fmt.Sprintf("the log durably ended before offset %d and ends before %d now", s.End, p.HighWatermark), effect, adviceLost)
	case s.HasCRC:
		for _, c := range n.Children {
			if c.Log != nil && !c.Log.Sealed && c.Log.lastNext == s.End && c.Log.lastCRC != s.CRC {
				x.damage(c, c.Log.End, 0, "log-other-frame", fmt.Sprintf("the frame that ends before offset %d has checksum %08x, the one that was committed there had %08x", s.End, c.Log.lastCRC, s.CRC), effect, adviceLost)
			}
		}
	}
}

// exchanged reports sealed segments for which their indexes were not made, as a read does.
func (x *inspector) exchanged(n *Node, indexes []*segment.Index) {
	for _, index := range indexes {
		for _, c := range n.Children {
			if c.Log == nil || !c.Log.Sealed || c.Log.Base != index.Base || c.Log.Lost > 0 || c.Log.lastNext != index.End ||
				c.Log.End == index.Bytes && c.Log.lastCRC == index.LastCRC {
				continue
			}
			name := strings.TrimSuffix(c.Name, filepath.Ext(c.Name)) + ".idx"
			x.damage(c, c.Log.End, 0, "log-other-segment", fmt.Sprintf("its frames take %d bytes, the last one with checksum %08x, and %s was made for %d bytes and %08x", c.Log.End, c.Log.lastCRC, name, index.Bytes, index.LastCRC),
				fmt.Sprintf("The broker refuses to read this segment, until it is restored or the file %s is removed.", name), adviceLost)
		}
	}
}

// successor reports an index of the newest segment, or of one behind it: it was made when there was a later one.
func (x *inspector) successor(n *Node, index *segment.Index, newest int64) {
	if base, ok := parseIndexName(n.Name); index == nil || !ok || index.Base != base || base < newest {
		return
	}
	x.damage(n, 0, 0, "log-missing", fmt.Sprintf("there was a segment that begins at offset %d, and its file is missing", index.End),
		"The broker refuses every call to this partition, until the file is restored or this index is removed.", adviceLost)
}

// sub looks into a directory below d.
func (x *inspector) sub(d vfs.Dir, n *Node, look func(d vfs.Dir, n *Node, entries []vfs.Info)) {
	sub, err := d.OpenDir(n.Name)
	if err != nil {
		x.unread(n, err)
		return
	}
	defer sub.Close()
	entries, err := sub.List()
	if err != nil {
		x.unread(n, err)
		return
	}
	look(sub, n, entries)
}

// open opens a file and hands it to look as a source of its size.
func (x *inspector) open(d vfs.Dir, n *Node, look func(s *source)) {
	f, err := d.Open(n.Name)
	if err != nil {
		x.unread(n, err)
		return
	}
	defer f.Close()
	x.with(f, n, look)
}

func (x *inspector) with(f vfs.File, n *Node, look func(s *source)) {
	size, err := f.Size()
	if err != nil {
		x.unread(n, err)
		return
	}
	x.report.Totals.Bytes += size - n.Size // it may have grown since it was listed
	n.Size = size
	x.meter.begin(n.file, size)
	defer x.meter.end()
	look(&source{file: f, size: size, meter: &x.meter})
}

// slurp returns a file that is read as a whole, nil when it could not be; then that is reported.
func (x *inspector) slurp(d vfs.Dir, n *Node) (b []byte) {
	x.open(d, n, func(s *source) {
		if s.size > metaBytesMax {
			x.add(n, Finding{
				Severity: SeverityUnread, Offset: -1, Code: "too-large",
				What:   fmt.Sprintf("the file has %s, more than this tool reads as a whole (%s)", bytesText(s.size), bytesText(metaBytesMax)),
				Effect: "It was not looked at. A broker may well read it.",
			})
			return
		}
		b = make([]byte, s.size)
		got, err := s.file.ReadAt(b, 0)
		if err != nil && (err != io.EOF || got < len(b)) {
			x.unread(n, &readError{int64(got), err})
			b = nil
		}
	})
	return b
}

// measure adds up what will be read, for whoever waits.
func (x *inspector) measure(d vfs.Dir, entries []vfs.Info) {
	if x.o.Progress == nil {
		return
	}
	for _, e := range entries {
		if e.Dir {
			x.meter.total += x.sizeBelow(d, e.Name)
		} else {
			x.meter.total += e.Size
		}
	}
}

// sizeBelow returns the bytes of the files in a directory below d, as far as they can be listed.
func (x *inspector) sizeBelow(d vfs.Dir, name string) int64 { return sizeBelow(d, name, 0) }

// depthMax bounds how deep directories that are not ours are measured.
const depthMax = 16

func sizeBelow(d vfs.Dir, name string, depth int) (size int64) {
	sub, err := d.OpenDir(name)
	if err != nil || depth == depthMax {
		return 0
	}
	defer sub.Close()
	entries, err := sub.List()
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.Dir {
			size += sizeBelow(sub, e.Name, depth+1)
		} else {
			size += e.Size
		}
	}
	return size
}

// room reports whether one more record may go into the report, beside those of its file.
func (x *inspector) room(have int) bool {
	if !x.o.Records || have >= x.o.Limit || x.records >= recordsMax {
		return false
	}
	x.records++
	return true
}

// owner is the partition that consumer state belongs to.
type owner struct {
	known       bool
	incarnation string
	partition   int32
}

// ownerAbove finds out whose directory the path is or lies in, by the directories above it.
func (x *inspector) ownerAbove() owner {
	for _, at := range []string{x.path, filepath.Dir(x.path)} {
		index, ok := parsePartitionName(filepath.Base(at))
		if !ok {
			continue
		}
		topic, err := x.fs.OpenRoot(filepath.Dir(at), false)
		if err != nil {
			return owner{}
		}
		defer topic.Close()
		id, err := vfs.ReadFile(topic, incarnationName, 64)
		if err != nil || !validID(string(id)) {
			return owner{}
		}
		return owner{known: true, incarnation: string(id), partition: index}
	}
	return owner{}
}

// validID reports whether s is an incarnation: 16 lower-case hexadecimal digits.
func validID(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 16
}
