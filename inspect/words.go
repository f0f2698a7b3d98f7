package inspect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"narad/record"
)

// What to do about damage.
const (
	adviceKeep    = "Copy the whole data directory before anything else. Then ask the producers to send again what they cannot confirm, or restore from a snapshot of the volume."
	adviceRefuses = "Copy the whole data directory before anything else. Restore the file from a snapshot of the volume if there is one. Do not cut or remove it: records behind the damage are intact."
	adviceLost    = "This does not keep the broker from running. Restore the file from a snapshot of the volume, with the broker stopped, to get the messages back."
	adviceRewind  = "Copy the data directory first. With the file checkpoint removed the broker starts, cuts the damaged end off, and dispatches again whatever the ingress log holds: messages are delivered twice, none is lost by it."
	adviceState   = "This does not keep the broker from running; be ready for messages that are delivered again."
)

// previewMax is how many bytes of a key or payload a report shows.
const previewMax = 64

func message(key, payload []byte) Message {
	return Message{Key: preview(key), KeyBytes: len(key), Payload: preview(payload), PayloadBytes: len(payload)}
}

// preview returns the start of b as a Go string literal without its quotes.
func preview(b []byte) string {
	more := ""
	if len(b) > previewMax {
		b, more = b[:previewMax], "…"
	}
	quoted := strconv.Quote(string(b))
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + more
}

func bytesText(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 10<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// sizeText is bytesText for a column.
func sizeText(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d B", n)
	}
	return bytesText(n)
}

func timeText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

func messages(n int64, one, many string) string {
	if n == 1 {
		return "1 message " + one
	}
	return fmt.Sprintf("%d messages %s", n, many)
}

func itThem(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// offsets names the offsets [from, to).
func offsets(from, to int64) string {
	if to-from == 1 {
		return fmt.Sprintf("offset %d", from)
	}
	return fmt.Sprintf("offsets %d to %d", from, to-1)
}

func seqText(seq uint64) string { return strconv.FormatUint(seq, 10) }

func logSummary(l *LogSegment) string {
	if l.Frames == 0 && l.Lost == 0 {
		return fmt.Sprintf("empty, waits for offset %d", l.Base) + tornText(l.Torn)
	}
	text := offsets(l.Base, l.Next)
	if l.Next <= l.Base {
		text = "no offset"
	}
	text += ", " + plural(l.Frames, "frame", "frames")
	if l.Zstd > 0 {
		text += fmt.Sprintf(" (%d zstd)", l.Zstd)
	}
	if l.Lost > 0 {
		text += fmt.Sprintf(", %d LOST", l.Lost)
	}
	text += tornText(l.Torn)
	if l.NewestMs > 0 {
		text += ", to " + timeText(l.NewestMs)
	}
	return text
}

func walSummary(w *WALSegment) string {
	if w.Records == 0 {
		return fmt.Sprintf("empty, waits for record %d", w.First) + tornText(w.Torn) + preparedText(w.Prepared)
	}
	text := fmt.Sprintf("records %d to %d", w.First, w.Next-1)
	if w.Next == w.First+1 {
		text = fmt.Sprintf("record %d", w.First)
	}
	if w.Done {
		text += ", all dispatched"
	}
	return text + tornText(w.Torn) + preparedText(w.Prepared)
}

func preparedText(n int64) string {
	if n == 0 {
		return ""
	}
	return ", " + bytesText(n) + " prepared for more"
}

// rotText is the doubt about a last frame that has its full length: a broker takes it for unfinished all the same.
func rotText(cause error) string {
	if errors.Is(cause, record.ErrChecksum) {
		return "; it has its full length, so it may also have been finished and have rotted since, and then it is lost"
	}
	return ""
}

func tornText(n int64) string {
	if n == 0 {
		return ""
	}
	return ", then " + bytesText(n) + " of an unfinished write"
}

// ranges names ascending offsets, the first few runs of them.
func ranges(offsets []int64) string {
	const runsMax = 8
	var b strings.Builder
	for i, runs := 0, 0; i < len(offsets); runs++ {
		last := i
		for last+1 < len(offsets) && offsets[last+1] == offsets[last]+1 {
			last++
		}
		if runs > 0 {
			b.WriteString(", ")
		}
		if runs == runsMax {
			b.WriteString("…")
			break
		}
		b.WriteString(strconv.FormatInt(offsets[i], 10))
		if last > i {
			b.WriteString("–" + strconv.FormatInt(offsets[last], 10))
		}
		i = last + 1
	}
	return b.String()
}

// settledText says what a frontier and the offsets above it settle.
func settledText(frontier int64, ahead int, ranges string) string {
	text := fmt.Sprintf("settled up to %d", frontier)
	if frontier < 0 {
		text = "nothing settled"
	}
	if ahead == 0 {
		return text
	}
	if frontier < 0 {
		text += " but"
	} else {
		text += " and"
	}
	text += fmt.Sprintf(" %d ahead", ahead)
	if ranges != "" {
		text += ": " + ranges
	}
	return text
}
