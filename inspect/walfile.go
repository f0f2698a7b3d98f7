package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"narad/record"
	"narad/wal"
)

const (
	// searchBudget bounds, in bytes to checksum, the search for frames behind damage in one file.
	searchBudget = 256 << 20
	// searchDiscount is how many bytes can be looked at for a magic at the price of one to checksum.
	searchDiscount = 16
	// judgedBytes bounds what is handed to wal.JudgeTail: more than one unfinished write can have left, so that
	// the verdict on longer ones does not depend on what was not handed over, but for a later frame.
	judgedBytes = 2 * wal.MaxUnsynced
	minWALFrame = record.WALHeaderSize + 1
)

// walScan is the walk over one segment of the ingress log.
type walScan struct {
	x      *inspector
	n      *Node
	s      *source
	seg    *WALSegment
	sealed bool
	deep   bool
	end    uint64 // first record of the next segment, when sealed
	point  uint64 // records below it are done with
	ingest *ingest

	at       int64
	seq      uint64
	budget   int64
	gaveUp   bool
	looked   bool  // the fields below are known
	prepared bool  // the file was made ahead: zeros and a trailer are behind its frames
	used     int64 // where the zeros at the end begin; the end of the file when it grows

	judged  bool  // the broker's verdict on the first damage is known
	refused error // that verdict: why it would not cut, nil when it would
	whole   bool  // a whole frame is in what it would cut
}

// ingest is what the ingress log is held against, nil when it is looked at for itself.
type ingest struct {
	stalled bool // a record was found that a broker cannot place
}

// run walks the file and reports what it finds. What is an intact frame is counted, even behind damage.
func (w *walScan) run() {
	w.seg.Sealed = w.sealed
	w.seq, w.budget = w.seg.First, searchBudget+w.s.size
	for w.at < w.s.size {
		ok, cause, err := w.frame()
		if err == nil && !ok {
			var unused bool
			if unused, err = w.unused(); unused {
				break
			}
		}
		if err == nil && !ok {
			if !w.deep {
				w.restart() // the header that led here may be what is wrong
				continue
			}
			var more bool
			if more, err = w.damaged(cause); err == nil && !more {
				break
			}
		}
		if err != nil {
			w.x.unread(w.n, err)
			break
		}
	}
	w.seg.Next = w.seq
	w.seg.End = w.at
}

// unused reports whether what follows is only what a prepared segment has behind its frames. Then it belongs to
// the file no more.
func (w *walScan) unused() (bool, error) {
	if !w.looked {
		rest, err := wal.LookBehind(w.s.file, w.at, w.s.size)
		if err != nil {
			return false, &readError{w.at, err}
		}
		w.looked, w.prepared, w.used = true, rest.Prepared, w.s.size
		if rest.Prepared {
			w.used = w.at + rest.Written
		} else if w.sealed && rest.Zeros { // a trailer that was being cut off
			w.used = w.at
		}
	}
	if w.at < w.used {
		return false, nil
	}
	w.seg.Prepared = w.s.size - w.at
	w.s.size = w.at
	return true, nil
}

// restart begins again, reading everything.
func (w *walScan) restart() {
	w.deep = true
	w.at, w.seq, w.seg.Records = 0, w.seg.First, 0
}

// frame takes one frame. When there is none at this place, it says why.
func (w *walScan) frame() (ok bool, cause, err error) {
	b, err := w.s.at(w.at, record.WALHeaderSize)
	if err != nil {
		return false, nil, err
	}
	h, cause := record.ParseWALHeader(b)
	switch {
	case cause != nil:
		return false, cause, nil
	case h.Sequence != w.seq:
		return false, fmt.Errorf("record %d where %d belongs: %w", h.Sequence, w.seq, record.ErrSequence), nil
	case int64(h.Size()) > w.s.size-w.at:
		return false, fmt.Errorf("a frame of %d bytes, %d are left: %w", h.Size(), w.s.size-w.at, record.ErrShort), nil
	}
	if w.deep {
		if b, err = w.s.at(w.at, h.Size()); err != nil {
			return false, nil, err
		}
		payload, _, cause := record.ParseWALFrame(b, w.seq)
		if cause != nil {
			return false, cause, nil
		}
		w.record(payload)
	}
	w.seg.Records++
	w.seq++
	w.at += int64(h.Size())
	return true, nil, nil
}

// record looks at the message in a frame whose checksum matches.
func (w *walScan) record(payload []byte) {
	p, err := record.ParseProduce(payload)
	if err != nil {
		effect := "The broker starts, but it stops dispatching at this record, and everything accepted later stays undelivered."
		if w.done(w.seq) {
			effect = "None: the record is below the checkpoint, so its message is in its partition already."
		}
		w.x.damage(w.n, w.at, 0, "wal-record", fmt.Sprintf("the frame of record %d is intact, the message in it is not: %v", w.seq, err), effect, adviceKeep)
		return
	}
	if w.ingest != nil && !w.done(w.seq) && w.x.known {
		w.place(p)
	}
	if w.x.room(len(w.n.WALRecords)) {
		w.n.WALRecords = append(w.n.WALRecords, WALRecord{
			Seq: w.seq, At: w.at, Topic: p.Topic, Incarnation: p.Incarnation, Partition: p.Partition,
			CreatedMs: p.CreatedMs, Message: message(p.Key, p.Payload),
		})
	} else if w.x.o.Records {
		w.n.Withheld++
	}
}

func (w *walScan) done(seq uint64) bool { return seq < w.point }

// place checks that a message which still has to be dispatched has somewhere to go.
func (w *walScan) place(p record.Produce) {
	t, ok := w.x.topics[p.Topic]
	var what string
	switch {
	case !ok:
		what = fmt.Sprintf("record %d is for topic %q, which the metastore does not hold", w.seq, p.Topic)
	case p.Incarnation != t.ID:
		what = fmt.Sprintf("record %d is for incarnation %s of topic %s, which is %s now", w.seq, p.Incarnation, p.Topic, t.ID)
	case p.Partition >= t.Partitions:
		what = fmt.Sprintf("record %d is for partition %d of topic %s, which has %d", w.seq, p.Partition, p.Topic, t.Partitions)
	default:
		return
	}
	if w.ingest.stalled {
		return // the first one stops the broker; more would only bury it
	}
	w.ingest.stalled = true
	w.x.damage(w.n, w.at, 0, "wal-orphan", what+"; it was accepted and is not in a partition yet",
		"The broker stops dispatching at this record, and everything accepted later stays undelivered.", adviceKeep)
}

// damaged deals with bytes that are not the frame that must come next: it reports them and goes on with the next
// whole frame, if there is one.
func (w *walScan) damaged(cause error) (more bool, err error) {
	first := !w.judged
	if err := w.judge(); err != nil {
		return false, err
	}
	to, next, err := w.search()
	if err != nil {
		return false, err
	}
	left := w.used - w.at
	found := to >= 0
	length := left
	if found {
		length = to - w.at
	}
	torn := !w.sealed && first && w.refused == nil && !(found && left > judgedBytes)
	switch {
	case torn && w.point > w.seq:
		w.x.damage(w.n, w.at, left, "wal-tail-dispatched", fmt.Sprintf("record %d is not whole (%s), although the checkpoint says that everything below record %d was dispatched", w.seq, reason(cause), w.point),
			"The broker refuses to start, because the checkpoint is beyond the last record. The messages below the checkpoint are in their partitions already.", adviceRewind)
	case torn && w.x.clean:
		w.x.damage(w.n, w.at, left, "wal-tail-after-clean-stop", fmt.Sprintf("record %d is not whole: %s", w.seq, reason(cause)),
			"The broker takes it for an unfinished write and cuts "+bytesText(left)+" off. But the last stop was graceful, so this had been written in full: what was accepted as record "+seqText(w.seq)+" or later is lost.", adviceKeep)
	case torn:
		what := fmt.Sprintf("an unfinished write: record %d is not whole (%s)", w.seq, reason(cause))
		if w.whole {
			what += "; whole frames follow, as when a disk does not keep the order within a write"
		}
		if !w.prepared || w.frameEnd() <= w.used {
			what += rotText(cause)
		}
		w.x.note(w.n, w.at, "wal-torn-tail", what, "The broker cuts "+bytesText(left)+" off at the next start. Nothing of it had been acknowledged, if the last stop was a crash in the middle of a write.")
	case found:
		what := fmt.Sprintf("record %d is damaged: %s; ", w.seq, reason(cause))
		if next == w.seq {
			what += fmt.Sprintf("the record itself follows, whole, %d bytes further on", length)
		} else {
			what += fmt.Sprintf("the next whole frame is that of record %d, at byte %d", next, to)
		}
		w.x.damage(w.n, w.at, length, "wal-frame", what, w.lost(next), w.advice())
	case w.sealed:
		w.x.damage(w.n, w.at, left, "wal-sealed-tail", fmt.Sprintf("the segment does not end with a whole frame, though another follows it: record %d: %s", w.seq, reason(cause)), w.lost(w.end), w.advice())
	default:
		what := fmt.Sprintf("record %d is damaged: %s", w.seq, reason(cause))
		if first {
			what += fmt.Sprintf("; this cannot be an unfinished write: %v", w.refused)
		}
		w.x.damage(w.n, w.at, left, "wal-tail", what, w.lost(0), w.advice())
	}
	if torn {
		w.seg.Torn = left
	}
	if !found || torn {
		return false, nil
	}
	w.at, w.seq = to, next
	return true, nil
}

// frameEnd returns where the header at this place says that its frame ends.
func (w *walScan) frameEnd() int64 {
	b, err := w.s.at(w.at, record.WALHeaderSize)
	if err != nil {
		return w.at
	}
	h, err := record.ParseWALHeader(b)
	if err != nil {
		return w.at
	}
	return w.at + int64(h.Size())
}

func (w *walScan) advice() string {
	if w.seg.Done {
		return ""
	}
	return adviceRefuses
}

// lost says what damage up to record next costs.
func (w *walScan) lost(next uint64) string {
	if w.seg.Done {
		return "None for the messages: every record of this file is below the checkpoint and in its partition already. The broker does not read the file any more."
	}
	text := "The broker refuses to start rather than lose what it accepted. "
	switch {
	case next > w.seq && next <= w.point:
		return text + "The records that are damaged are below the checkpoint: their messages are in their partitions already."
	case next > w.seq+1:
		return text + fmt.Sprintf("Up to %d accepted messages, records %d to %d, may be lost.", next-w.seq, w.seq, next-1)
	case next == w.seq+1:
		return text + fmt.Sprintf("One accepted message, record %d, may be lost.", w.seq)
	case next == w.seq && next != 0:
		return text + "No message is lost: only bytes between two frames are wrong."
	}
	return text + fmt.Sprintf("What was accepted as record %d or later may be lost.", w.seq)
}

// judge asks what the broker would make of the first damage in the newest segment.
func (w *walScan) judge() error {
	if w.sealed || w.judged {
		w.judged = true
		return nil
	}
	b, err := w.s.at(w.at, int(min(w.s.size-w.at, judgedBytes)))
	if err != nil {
		return err
	}
	w.judged = true
	w.whole, w.refused = wal.JudgeTail(b, w.at, w.seq, w.used-w.at)
	return nil
}

var walMagic = binary.BigEndian.AppendUint32(nil, record.WALMagic)

// search finds the next whole frame behind damage that can belong here: its number is no lower than the one
// missing, and no higher than the bytes between have room for. Where the header is good, the search begins
// behind the frame: what a producer put into the payload is not mistaken for a frame.
func (w *walScan) search() (at int64, seq uint64, err error) {
	at = w.at + 1
	b, err := w.s.at(w.at, record.WALHeaderSize)
	if err != nil {
		return -1, 0, err
	}
	if h, cause := record.ParseWALHeader(b); cause == nil && h.Sequence == w.seq {
		to, seq, err := w.searchFrom(w.at+int64(h.Size()), w.s.size)
		if to >= 0 || err != nil {
			return to, seq, err
		}
	}
	return w.searchFrom(at, w.s.size)
}

func (w *walScan) searchFrom(from, end int64) (at int64, seq uint64, err error) {
	for from < end && w.budget > 0 {
		b, err := w.s.some(from, record.WALHeaderSize)
		if err != nil {
			return -1, 0, err
		}
		if len(b) < minWALFrame {
			break
		}
		i := bytes.Index(b, walMagic)
		w.budget -= int64(max(i, 0)/searchDiscount + 1)
		if i < 0 {
			w.budget -= int64(len(b) / searchDiscount)
			from += int64(len(b) - len(walMagic) + 1)
			continue
		}
		from += int64(i)
		seq, ok, err := w.candidate(from)
		if err != nil {
			return -1, 0, err
		}
		if ok {
			return from, seq, nil
		}
		from++
	}
	if w.budget <= 0 && !w.gaveUp {
		w.gaveUp = true
		w.x.warn(w.n, from, "search-given-up", "so much looks like a frame behind the damage that the search was given up", "What follows was not looked at.")
	}
	return -1, 0, nil
}

// candidate reports whether a whole frame that can belong here begins at a place.
func (w *walScan) candidate(at int64) (seq uint64, ok bool, err error) {
	b, err := w.s.at(at, record.WALHeaderSize)
	if err != nil {
		return 0, false, err
	}
	h, cause := record.ParseWALHeader(b)
	if cause != nil || int64(h.Size()) > w.s.size-at || h.Sequence < w.seq || h.Sequence-w.seq > uint64((at-w.at)/minWALFrame) ||
		w.sealed && h.Sequence >= w.end {
		return 0, false, nil
	}
	w.budget -= int64(h.Size())
	if b, err = w.s.at(at, h.Size()); err != nil {
		return 0, false, err
	}
	_, _, cause = record.ParseWALFrame(b, h.Sequence)
	return h.Sequence, cause == nil, nil
}

// reason puts a codec's error into words for people.
func reason(err error) string {
	switch {
	case errors.Is(err, record.ErrShort):
		return "it ends early"
	case errors.Is(err, record.ErrMagic):
		return "no frame begins here"
	case errors.Is(err, record.ErrChecksum):
		return "the checksum does not match"
	case errors.Is(err, record.ErrLength):
		return "the length in its header is impossible"
	case errors.Is(err, record.ErrSequence):
		return "a frame of another number or offset is here"
	case errors.Is(err, record.ErrCodec):
		return "the codec is unknown or the body does not decompress"
	case errors.Is(err, record.ErrCount):
		return "the number of records in its header is impossible"
	case errors.Is(err, record.ErrFormat):
		return "the format is unknown"
	}
	return err.Error()
}
