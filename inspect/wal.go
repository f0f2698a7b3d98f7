package inspect

import (
	"encoding/binary"
	"fmt"
	"strings"

	"narad/record"
	"narad/vfs"
	"narad/wal"
)

// ingressDirectory looks at the directory of the ingress log.
func (x *inspector) ingressDirectory(d vfs.Dir, n *Node, entries []vfs.Info) {
	n.Kind = KindIngressDir
	var segments []vfs.Info
	point := x.readPoint(d)
	for _, e := range entries {
		if _, ok := wal.ParseSegmentName(e.Name); ok && !e.Dir {
			segments = append(segments, e)
		}
	}
	needed := 0 // the oldest segment that the broker reads
	for i, e := range segments {
		if first, _ := wal.ParseSegmentName(e.Name); i > 0 && point != nil && first <= *point {
			needed = i
		}
	}
	in, unread := &Ingress{}, x.report.Totals.Unread
	n.Ingress = in
	ing := &ingest{}
	at := 0
	var checkpoint *Node
	for _, e := range entries {
		c := x.child(n, e)
		switch {
		case e.Dir:
			x.stray(d, c)
		case c.Kind == KindWAL:
			x.chained(d, c, segments, at, needed, point, ing)
			if at == 0 {
				in.First = c.WAL.First
			}
			in.Next = c.WAL.Next
			at++
		case c.Kind == KindCheckpoint:
			checkpoint = c
		case strings.HasSuffix(e.Name, ".wal"):
			c.Kind, c.Summary = KindUnknown, "not the name of a segment"
			x.damage(c, -1, 0, "wal-name", "the name ends like that of a segment of the ingress log, and is none: those are 20 digits",
				"The broker refuses to start.", "Find out who put it here, and move it away.")
		default:
			x.stray(d, c)
		}
	}
	if len(segments) == 0 {
		in.First, in.Next = 1, 1
	}
	if end := x.mark.WALNext; in.Next < end && x.report.Totals.Unread == unread {
		x.damage(n, -1, 0, "wal-shorter-than-it-was", fmt.Sprintf("the ingress log ended before record %d at the graceful stop and ends before %d now", end, in.Next),
			"The broker refuses to start, until the log is restored or the file clean is removed.", adviceLost)
	}
	x.ingressSummary(n, point)
	if checkpoint != nil {
		x.checkpoint(d, checkpoint, point, segments, in)
	}
}

// ingressSummary says in a line where the ingress log stands.
func (x *inspector) ingressSummary(n *Node, point *uint64) {
	in := n.Ingress
	in.Checkpoint = point
	from := in.First
	if point != nil {
		from = max(from, *point)
	}
	if in.Next > from {
		in.Waiting = in.Next - from
	}
	switch {
	case in.Next == in.First:
		n.Summary = fmt.Sprintf("ingress log: empty, the next record is %d", in.Next)
	default:
		n.Summary = fmt.Sprintf("ingress log: records %d to %d, %s to dispatch", in.First, in.Next-1, plural(int64(in.Waiting), "message", "messages"))
	}
}

// chained looks at one segment among the others.
func (x *inspector) chained(d vfs.Dir, n *Node, segments []vfs.Info, at, needed int, point *uint64, ing *ingest) {
	first, _ := wal.ParseSegmentName(n.Name)
	n.WAL = &WALSegment{First: first, Next: first, Done: at < needed}
	sealed := at < len(segments)-1
	x.open(d, n, func(s *source) {
		w := &walScan{x: x, n: n, s: s, seg: n.WAL, sealed: sealed, deep: x.deep, ingest: ing}
		if point != nil {
			w.point = *point
		}
		if sealed {
			w.end, _ = wal.ParseSegmentName(segments[at+1].Name)
		}
		w.run()
		if n.Summary == "" {
			n.Summary = walSummary(n.WAL)
		}
		x.link(n, w)
	})
}

// link checks that the next segment goes on where this one ends.
func (x *inspector) link(n *Node, w *walScan) {
	if !w.sealed || n.WAL.Next == w.end || n.WAL.End < w.s.size {
		return // or the damage at the end has been reported
	}
	what := fmt.Sprintf("it ends with record %d, the next segment begins with %d", n.WAL.Next-1, w.end)
	if n.WAL.Records == 0 {
		what = fmt.Sprintf("it is empty, the next segment begins with record %d", w.end)
	}
	if n.WAL.Next > w.end {
		x.damage(n, -1, 0, "wal-chain", what, "Two files hold the same records. "+refusal(n.WAL.Done), w.advice())
		return
	}
	x.damage(n, w.s.size, 0, "wal-chain", what, w.lost(w.end), w.advice())
}

func refusal(done bool) string {
	if done {
		return "The broker does not read the older one any more."
	}
	return "The broker refuses to start."
}

// singleWAL looks at one segment for itself; the files beside it tell whether another follows.
func (x *inspector) singleWAL(d vfs.Dir, n *Node, f vfs.File, beside []vfs.Info) {
	first, named := wal.ParseSegmentName(n.Name)
	if named {
		var segments []vfs.Info
		for _, e := range beside {
			if _, ok := wal.ParseSegmentName(e.Name); ok && !e.Dir {
				segments = append(segments, e)
			}
		}
		point := x.readPoint(d)
		at, needed := 0, 0
		for i, e := range segments {
			other, _ := wal.ParseSegmentName(e.Name)
			if e.Name == n.Name {
				at = i
			}
			if i > 0 && point != nil && other <= *point {
				needed = i
			}
		}
		x.chained(d, n, segments, at, needed, point, &ingest{})
		return
	}
	x.with(f, n, func(s *source) {
		if b, err := s.at(0, record.WALHeaderSize); err == nil {
			if h, cause := record.ParseWALHeader(b); cause == nil {
				first = h.Sequence
			}
		}
		x.note(n, -1, "renamed", "the name is not that of a segment, which says with what record it begins", fmt.Sprintf("The first frame was believed: record %d.", first))
		n.WAL = &WALSegment{First: first, Next: first}
		w := &walScan{x: x, n: n, s: s, seg: n.WAL, deep: true}
		w.run()
		if n.Summary == "" {
			n.Summary = walSummary(n.WAL)
		}
	})
}

const pointBytes = 8

// readPoint returns the checkpoint in a directory, nil when there is none.
func (x *inspector) readPoint(d vfs.Dir) *uint64 {
	b, err := vfs.ReadFile(d, checkpointName, pointBytes)
	if err != nil || len(b) != pointBytes {
		return nil
	}
	if seq := binary.BigEndian.Uint64(b); seq != 0 {
		return &seq
	}
	return nil
}

// checkpointFile looks at a checkpoint for itself, with the names of the segments beside it.
func (x *inspector) checkpointFile(d vfs.Dir, n *Node) {
	x.checkpoint(d, n, x.readPoint(d), nil, nil)
}

// checkpoint looks at the checkpoint, and holds it against the log when that is known.
func (x *inspector) checkpoint(d vfs.Dir, n *Node, point *uint64, segments []vfs.Info, in *Ingress) {
	readable := false
	x.open(d, n, func(s *source) {
		_, err := s.at(0, pointBytes)
		if readable = err == nil; !readable {
			x.unread(n, err)
		}
	})
	n.Checkpoint = point
	switch {
	case !readable:
	case n.Size != 0 && n.Size != pointBytes:
		n.Summary = "not a checkpoint"
		x.damage(n, min(n.Size, pointBytes), 0, "checkpoint-size", fmt.Sprintf("the file has %s, a checkpoint has %d", bytesText(n.Size), pointBytes),
			"The broker refuses to start.",
			"Copy the data directory first. With the file removed the broker starts from the oldest segment: it loses nothing, and delivers again what that holds.")
	case point == nil:
		n.Summary = "none stored yet: everything in the log is dispatched again"
	default:
		n.Summary = fmt.Sprintf("everything below record %d is dispatched", *point)
	}
	if point == nil || in == nil {
		return
	}
	switch {
	case *point > in.Next || len(segments) == 0 && *point > 1:
		x.damage(n, 0, pointBytes, "checkpoint-ahead", fmt.Sprintf("it says that everything below record %d is dispatched, the log ends before record %d", *point, in.Next),
			"The broker refuses to start, because the end of the ingress log is missing. The messages below the checkpoint are in their partitions already; whether others were accepted after them cannot be told.", adviceRewind)
	case *point < in.First && in.First > 1:
		x.note(n, 0, "checkpoint-behind", fmt.Sprintf("it is %d, the oldest record in the log is %d", *point, in.First),
			"The broker begins with the oldest record. It is what a power failure leaves after segments were removed.")
	}
}
