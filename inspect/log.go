package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"narad/record"
	"narad/segment"
	"narad/vfs"
)

const (
	// decodedMax bounds the frames of a partition log whose records are decoded; of larger ones the checksum is
	// verified, piece by piece. The broker's own frames have about 1 MiB, or one message.
	decodedMax = 16 << 20
	// frameRecordsMax bounds the offsets that the bytes of one frame header can have stood for.
	frameRecordsMax = record.MaxFrame / 4
)

// logScan is the walk over one segment of a partition's log.
type logScan struct {
	x     *inspector
	n     *Node
	s     *source
	seg   *LogSegment
	limit int64 // offset that no frame passes: the base of the next segment; MaxInt64 for the newest
	deep  bool
	stamp *int64 // commit time of the newest record so far, over all segments

	at     int64
	next   int64
	budget int64
	gaveUp bool
}

// run walks the file and reports what it finds.
func (l *logScan) run() {
	l.seg.Sealed = l.limit != math.MaxInt64
	l.next, l.budget = l.seg.Base, searchBudget+l.s.size
	for l.at < l.s.size {
		ok, cause, err := l.frame()
		if err == nil && !ok {
			if !l.deep {
				l.restart() // the header that led here may be what is wrong
				continue
			}
			var more bool
			if more, err = l.damaged(cause); err == nil && !more {
				break
			}
		}
		if err != nil {
			l.x.unread(l.n, err)
			break
		}
	}
	if l.at == l.s.size && l.seg.Sealed && l.next < l.limit {
		l.missing()
	}
	l.seg.Next, l.seg.End = l.next, l.at
}

func (l *logScan) restart() {
	l.deep = true
	l.at, l.next = 0, l.seg.Base
	l.seg.Frames, l.seg.Zstd = 0, 0
}

// frame takes one frame. When there is none at this place, it says why.
func (l *logScan) frame() (ok bool, cause, err error) {
	h, cause, err := l.header(l.at)
	if cause != nil || err != nil {
		return false, cause, err
	}
	if h.Base != l.next {
		return false, fmt.Errorf("a frame of offset %d where %d belongs: %w", h.Base, l.next, record.ErrSequence), nil
	}
	if l.deep {
		if cause, err = l.body(l.at, h, true); cause != nil || err != nil {
			return false, cause, err
		}
	}
	l.seg.Frames++
	l.seg.Zstd += int64(count(h.Codec == record.CodecZstd))
	l.at += h.Size()
	l.next = h.Next()
	l.seg.lastNext, l.seg.lastCRC = h.Next(), h.CRC
	return true, nil, nil
}

// header decodes the header at a place and checks that its frame fits the file and the segment.
func (l *logScan) header(at int64) (h record.FrameHeader, cause, err error) {
	b, err := l.s.at(at, record.FrameHeaderSize)
	if err != nil {
		return h, nil, err
	}
	h, cause = record.ParseFrameHeader(b)
	switch {
	case cause != nil:
	case h.Size() > l.s.size-at:
		cause = fmt.Errorf("a frame of %d bytes, %d are left: %w", h.Size(), l.s.size-at, record.ErrShort)
	case h.Next() > l.limit:
		cause = fmt.Errorf("a frame up to offset %d, the next segment begins at %d: %w", h.Next(), l.limit, record.ErrSequence)
	}
	return h, cause, nil
}

// body verifies a frame and, if wanted, looks at its records.
func (l *logScan) body(at int64, h record.FrameHeader, records bool) (cause, err error) {
	if h.Size() > decodedMax || h.Uncompressed > decodedMax {
		return l.sum(at, h)
	}
	b, err := l.s.at(at, int(h.Size()))
	if err != nil {
		return nil, err
	}
	f, _, cause := record.ParseFrame(b)
	if cause == nil && records {
		l.records(f)
	}
	return cause, nil
}

// sum verifies the checksum of a large frame in pieces.
func (l *logScan) sum(at int64, h record.FrameHeader) (cause, err error) {
	b, err := l.s.at(at, record.FrameHeaderSize)
	if err != nil {
		return nil, err
	}
	crc := record.HeaderFrameCRC(b)
	for from, end := at+record.FrameHeaderSize, at+h.Size(); from < end; from += int64(len(b)) {
		b, err = l.s.at(from, int(min(windowBytes, end-from)))
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			return record.ErrShort, nil
		}
		crc = record.UpdateFrameCRC(crc, b)
	}
	if crc != h.CRC {
		return record.ErrChecksum, nil
	}
	return nil, nil
}

// records looks at the messages of an intact frame.
func (l *logScan) records(f record.Frame) {
	for i, b := range f.Records() {
		offset := f.Base + int64(i)
		r, err := record.ParseRecord(b)
		if err != nil {
			l.lose(offset, offset+1)
			l.x.damage(l.n, l.at, f.Size(), "log-record", fmt.Sprintf("the frame of offset %d is intact, the record in it is not: %s", offset, reason(err)),
				fmt.Sprintf("The message at offset %d cannot be read; consumers skip it.", offset), "")
			continue
		}
		l.time(offset, r.CommittedMs)
		if l.x.room(len(l.n.Records)) {
			l.n.Records = append(l.n.Records, LogRecord{Offset: offset, At: l.at, CommittedMs: r.CommittedMs, Message: message(r.Key, r.Payload)})
		} else if l.x.o.Records {
			l.n.Withheld++
		}
	}
}

// time notes the commit time of a record; they never decrease.
func (l *logScan) time(offset, ms int64) {
	if ms < *l.stamp {
		l.x.warn(l.n, l.at, "log-time", fmt.Sprintf("offset %d was committed at %s, before its predecessor at %s", offset, timeText(ms), timeText(*l.stamp)),
			"None for delivery. Retention goes by these times and may delete too early or too late.")
	}
	*l.stamp = ms
	if l.seg.OldestMs == 0 || ms < l.seg.OldestMs {
		l.seg.OldestMs = ms
	}
	l.seg.NewestMs = max(l.seg.NewestMs, ms)
}

// damaged deals with bytes that are not the frame that must come next: it reports them and goes on with the next
// intact frame, if there is one.
func (l *logScan) damaged(cause error) (more bool, err error) {
	if !l.seg.Sealed && errors.Is(cause, record.ErrSequence) {
		if h, bad, err := l.header(l.at); err != nil {
			return false, err
		} else if bad == nil {
			if bad, err = l.sum(l.at, h); err != nil {
				return false, err
			} else if bad == nil {
				l.misplaced(h, cause)
				return false, nil
			}
		}
	}
	to, base, err := l.search()
	if err != nil {
		return false, err
	}
	left := l.s.size - l.at
	lost := int64(0)
	if to < 0 && !l.seg.Sealed {
		if lost, err = segment.Rotten(l.s.file, l.at, l.next, l.s.size); err != nil {
			return false, err
		}
	}
	switch {
	case lost > 0:
		l.gap(l.at, left, l.next, l.next+lost, cause)
		l.at, l.next = l.s.size, l.next+lost
	case to >= 0:
		l.gap(l.at, to-l.at, l.next, base, cause)
		l.at, l.next = to, base
		return true, nil
	case l.seg.Sealed:
		l.gap(l.at, left, l.next, l.limit, cause)
		l.next = l.limit
	case l.x.clean:
		l.seg.Torn = left
		l.x.damage(l.n, l.at, left, "log-tail-after-clean-stop", fmt.Sprintf("the frame of offset %d is not whole: %s", l.next, reason(cause)),
			"The broker takes it for an unfinished write and cuts "+bytesText(left)+fmt.Sprintf(" off, and gives offset %d and those after it to new messages. But the last stop was graceful: unless the broker's own log says that this partition failed before it, this had been written in full and its messages are lost.", l.next), adviceKeep)
	default:
		l.seg.Torn = left
		l.x.note(l.n, l.at, "log-torn-tail", fmt.Sprintf("an unfinished write: the frame of offset %d is not whole (%s)", l.next, reason(cause))+rotText(cause),
			"The broker cuts "+bytesText(left)+" off at the next start. No message is lost if the last stop was a crash: what was being written is still in the ingress log and is committed again.")
	}
	return false, nil
}

// misplaced reports an intact frame of the newest segment that does not belong where it is.
func (l *logScan) misplaced(h record.FrameHeader, cause error) {
	l.x.damage(l.n, l.at, h.Size(), "log-misplaced", fmt.Sprintf("an intact frame of offset %d where %d belongs: %s", h.Base, l.next, reason(cause)),
		"The broker refuses every call to this partition. The file is that of another segment or partition, or a part of it is missing or there twice.", adviceLost)
}

// gap reports that bytes hold no intact frame, and the offsets [from, to) that are lost with them.
func (l *logScan) gap(at, length, from, to int64, cause error) {
	what := fmt.Sprintf("no intact frame where offset %d belongs: %s", from, reason(cause))
	effect := "No message is lost: only bytes between two frames are wrong. The broker passes over them."
	if to > from {
		l.lose(from, to)
		effect = fmt.Sprintf("%s lost: %s. Consumers skip %s; all others are intact.", messages(to-from, "is", "are"), offsets(from, to), itThem(to-from))
	}
	l.x.damage(l.n, at, length, "log-frame", what, effect, adviceLost)
}

// lose counts the offsets [from, to) as lost.
func (l *logScan) lose(from, to int64) {
	l.seg.Lost += to - from
	if len(l.seg.Gaps) < findingsMax {
		l.seg.Gaps = append(l.seg.Gaps, Gap{from, to})
	}
}

// missing reports a sealed segment that ends before the next one begins.
func (l *logScan) missing() {
	l.lose(l.next, l.limit)
	l.x.damage(l.n, l.s.size, 0, "log-short", fmt.Sprintf("the file ends after offset %d, the next segment begins at %d", l.next-1, l.limit),
		fmt.Sprintf("%s missing: %s. Consumers skip %s; all others are intact.", messages(l.limit-l.next, "is", "are"), offsets(l.next, l.limit), itThem(l.limit-l.next)), adviceLost)
	l.next = l.limit
}

// search finds the next intact frame behind damage, as recovery does. Where the header is gone every magic is a
// candidate. A plain header that is in its place and agrees with itself is believed about where its frame ends,
// if an intact frame follows there, or nothing: what a producer put into the body of a torn last frame is then
// not mistaken for a frame.
func (l *logScan) search() (at, base int64, err error) {
	b, err := l.s.at(l.at, record.FrameHeaderSize)
	if err != nil {
		return -1, 0, err
	}
	if h, cause := record.ParseFrameHeader(b); cause == nil && h.Codec == record.CodecNone && h.Base == l.next {
		end := l.at + h.Size()
		if end == l.s.size || end > l.s.size && !l.seg.Sealed {
			return -1, 0, nil
		}
		if base, ok, err := l.candidate(end); ok || err != nil {
			return end, base, err
		}
	}
	from := l.at + 1
	for from < l.s.size && l.budget > 0 {
		b, err := l.s.some(from, record.FrameHeaderSize)
		if err != nil {
			return -1, 0, err
		}
		if len(b) <= record.FrameHeaderSize {
			break
		}
		i := bytes.Index(b, record.FrameMagic[:])
		l.budget -= int64(max(i, 0)/searchDiscount + 1)
		if i < 0 {
			l.budget -= int64(len(b) / searchDiscount)
			from += int64(len(b) - 1) // the magic may begin in the last byte
			continue
		}
		from += int64(i)
		base, ok, err := l.candidate(from)
		if err != nil {
			return -1, 0, err
		}
		if ok {
			return from, base, nil
		}
		from++
	}
	if l.budget <= 0 && !l.gaveUp {
		l.gaveUp = true
		l.x.warn(l.n, from, "search-given-up", "so much looks like a frame behind the damage that the search was given up", "What follows was not looked at.")
	}
	return -1, 0, nil
}

func (l *logScan) candidate(at int64) (base int64, ok bool, err error) {
	h, cause, err := l.header(at)
	if err != nil {
		return 0, false, err
	}
	if cause != nil || h.Base < l.next || h.Base-l.next > ((at-l.at)/record.FrameHeaderSize)*frameRecordsMax {
		return 0, false, nil
	}
	l.budget -= h.Size()
	cause, err = l.sum(at, h)
	return h.Base, err == nil && cause == nil, err
}

// singleLog looks at one segment for itself; the file beside it that follows tells where it ends.
func (x *inspector) singleLog(n *Node, f vfs.File, beside []vfs.Info) {
	base, named := parseLogName(n.Name)
	x.with(f, n, func(s *source) {
		if !named {
			if b, err := s.at(0, record.FrameHeaderSize); err == nil {
				if h, cause := record.ParseFrameHeader(b); cause == nil {
					base = h.Base
				}
			}
			x.note(n, -1, "renamed", "the name is not that of a segment, which says at what offset it begins", fmt.Sprintf("The first frame was believed: offset %d.", base))
		}
		limit := int64(math.MaxInt64)
		for _, e := range beside {
			if b, ok := parseLogName(e.Name); ok && named && b > base {
				limit = min(limit, b)
			}
		}
		stamp := int64(math.MinInt64)
		x.logSegment(n, s, base, limit, &stamp)
	})
}

// logSegment walks one segment.
func (x *inspector) logSegment(n *Node, s *source, base, limit int64, stamp *int64) {
	n.Log = &LogSegment{Base: base}
	l := &logScan{x: x, n: n, s: s, seg: n.Log, limit: limit, deep: x.deep, stamp: stamp}
	l.run()
	if n.Worst.rank() < SeverityUnread.rank() || n.Summary == "" {
		n.Summary = logSummary(n.Log)
	}
}
