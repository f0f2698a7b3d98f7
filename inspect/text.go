package inspect

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	t := &textWriter{w: bufio.NewWriter(w)}
	if r.Root.dir {
		t.tree(r)
	} else {
		t.file(r)
	}
	t.findings(r)
	t.verdict(r)
	return t.w.Flush()
}

const textWidth = 100

type textWriter struct{ w *bufio.Writer }

func (t *textWriter) printf(format string, a ...any) { fmt.Fprintf(t.w, format, a...) }

// mark is what stands before the line of a file that something was found in.
func mark(s Severity) string {
	switch s {
	case SeverityDamage:
		return "!!"
	case SeverityUnread:
		return "??"
	case SeverityWarning:
		return " !"
	}
	return "  "
}

// tree writes a line for each file and directory.
func (t *textWriter) tree(r *Report) {
	width := 0
	visit(r.Root, 0, func(n *Node, depth int) { width = max(width, 2*depth+utf8.RuneCountInString(label(n))) })
	width = min(width, 60)
	visit(r.Root, 0, func(n *Node, depth int) {
		if depth == 0 {
			t.printf("%s\n%s %s\n", r.Path, mark(n.Worst), n.Summary)
			return
		}
		name := strings.Repeat("  ", depth-1) + label(n)
		t.printf("%s %-*s %10s  %s\n", mark(n.Worst), width-2, name, sizeText(n.Size), n.Summary)
		if n.Worst != "" || r.Root.Kind == KindPartitionDir {
			t.slots(n, "     "+strings.Repeat("  ", depth))
		}
		t.records(n, "     "+strings.Repeat("  ", depth))
	})
}

// label is the name in the tree. Names of files come from a disk, so they may hold anything.
func label(n *Node) string {
	name := preview([]byte(n.Name))
	if n.dir {
		name += "/"
	}
	return name
}

func visit(n *Node, depth int, look func(n *Node, depth int)) {
	look(n, depth)
	for _, c := range n.Children {
		visit(c, depth+1, look)
	}
}

var kindText = map[Kind]string{
	KindWAL: "segment of the ingress log", KindCheckpoint: "checkpoint of the ingress log", KindLog: "segment of a partition's log",
	KindAhead: "consumer state of a partition", KindOffset: "consumer state of a partition, for operators and older releases",
	KindIncarnation: "incarnation of a topic", KindSnapshot: "snapshot of the metastore", KindJournal: "journal of the metastore",
	KindIndex: "index of a log segment", KindBounds: "bounds of a partition's log", KindClean: "mark of a graceful stop", KindLock: "lock of a data directory", KindPassword: "password of the user root", KindLeftover: "leftover", KindOther: "file of another release",
}

// file writes what one file holds.
func (t *textWriter) file(r *Report) {
	n := r.Root
	t.printf("%s\n%s %s, %s\n", r.Path, mark(n.Worst), kindText[n.Kind], bytesText(n.Size))
	table := tabwriter.NewWriter(t.w, 0, 8, 2, ' ', 0)
	for _, f := range facts(n) {
		fmt.Fprintf(table, "   %s\t%s\n", f[0], f[1])
	}
	table.Flush()
	t.slots(n, "   ")
	t.records(n, "   ")
}

// facts lists what a file holds as pairs of a word and a text.
func facts(n *Node) (list [][2]string) {
	say := func(word, format string, a ...any) { list = append(list, [2]string{word, fmt.Sprintf(format, a...)}) }
	switch {
	case n.WAL != nil:
		say("holds", "%s", walSummary(n.WAL))
		say("intact", "%s, the last one ends at byte %d of %d", plural(n.WAL.Records, "record", "records"), n.WAL.End, n.Size)
		say("place", "%s", place(n.WAL.Sealed, "the ingress log"))
	case n.Log != nil:
		say("holds", "%s", logSummary(n.Log))
		say("intact", "%s, the last one ends at byte %d of %d", plural(n.Log.Frames, "frame", "frames"), n.Log.End, n.Size)
		if n.Log.NewestMs > 0 {
			say("committed", "%s to %s", timeText(n.Log.OldestMs), timeText(n.Log.NewestMs))
		}
		say("place", "%s", place(n.Log.Sealed, "the partition"))
	case n.Metastore != nil:
		say("holds", "%s", n.Summary)
		say("store", "%s", n.Metastore.Store)
		for _, topic := range n.Metastore.Topics {
			say("topic", "%s  incarnation %s, %s", topic.Name, topic.ID, plural(int64(topic.Partitions), "partition", "partitions"))
		}
	default:
		say("holds", "%s", n.Summary)
	}
	return list
}

func place(sealed bool, of string) string {
	if sealed {
		return "sealed: another segment follows it"
	}
	return "the newest segment of " + of + " here: new records go to its end"
}

// slots writes the two slots of a consumer.ahead.
func (t *textWriter) slots(n *Node, indent string) {
	if n.Ahead == nil {
		return
	}
	for i, s := range n.Ahead.Slots {
		t.printf("%sslot %d (byte %d): %s", indent, i, s.Offset, s.State)
		if s.State != "blank" {
			t.printf(", %q version %d %s", s.Magic, s.Version, s.Encoding)
		}
		if s.Identity != "" {
			t.printf(", identity %s", s.Identity)
			if s.Owned != nil && *s.Owned {
				t.printf(" (this partition)")
			}
			t.printf(",\n%s  sequence %d, %s", indent, s.Sequence, settledText(s.Frontier, s.Ahead, s.Ranges))
		}
		t.printf("\n%s  %s\n", indent, s.Why)
	}
}

// records writes the records of a file, if they were wanted.
func (t *textWriter) records(n *Node, indent string) {
	table := tabwriter.NewWriter(t.w, 0, 8, 2, ' ', 0)
	if len(n.WALRecords) > 0 {
		fmt.Fprintf(table, "%sRECORD\tBYTE\tTOPIC/PARTITION\tCREATED\tKEY\tSIZE\tPAYLOAD\n", indent)
	}
	for _, r := range n.WALRecords {
		fmt.Fprintf(table, "%s%d\t%d\t%s/%d\t%s\t%s\t%d\t%s\n", indent, r.Seq, r.At, preview([]byte(r.Topic)), r.Partition, timeText(r.CreatedMs), r.Key, r.PayloadBytes, r.Payload)
	}
	if len(n.Records) > 0 {
		fmt.Fprintf(table, "%sOFFSET\tBYTE\tCOMMITTED\tKEY\tSIZE\tPAYLOAD\n", indent)
	}
	for _, r := range n.Records {
		fmt.Fprintf(table, "%s%d\t%d\t%s\t%s\t%d\t%s\n", indent, r.Offset, r.At, timeText(r.CommittedMs), r.Key, r.PayloadBytes, r.Payload)
	}
	if len(n.Changes) > 0 {
		fmt.Fprintf(table, "%sCHANGE\tBYTE\tOPERATION\tTOPIC\tINCARNATION\n", indent)
	}
	for _, c := range n.Changes {
		fmt.Fprintf(table, "%s%d\t%d\t%s\t%s\t%s\n", indent, c.Sequence, c.At, c.Op, preview([]byte(c.Topic)), preview([]byte(c.ID)))
	}
	table.Flush()
	if n.Withheld > 0 {
		t.printf("%s… and %d more (--limit)\n", indent, n.Withheld)
	}
}

var severityText = map[Severity]string{SeverityDamage: "DAMAGE", SeverityUnread: "UNREADABLE", SeverityWarning: "WARNING", SeverityNote: "NOTE"}

// findings writes what was found, the worst first.
func (t *textWriter) findings(r *Report) {
	sorted := slices.Clone(r.Findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return b.Severity.rank() - a.Severity.rank() })
	for _, f := range sorted {
		t.printf("\n%s  %s", severityText[f.Severity], printable(r.fullName(f.File)))
		if f.Offset >= 0 {
			t.printf(", byte %d", f.Offset)
			if f.Length > 0 {
				t.printf(" (%s)", bytesText(f.Length))
			}
		}
		t.printf("\n")
		t.wrap("  ", "  ", capital(f.What)+".")
		t.wrap("  Effect: ", "          ", f.Effect)
		if f.Advice != "" {
			t.wrap("  Do:     ", "          ", f.Advice)
		}
	}
}

// fullName is the name of a file in the report, or of the path itself.
func (r *Report) fullName(file string) string {
	if file == "." {
		return r.Path
	}
	return file
}

// printable makes a path printable, whole.
func printable(s string) string {
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s), "?")
}

func capital(s string) string {
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

// wrap writes a text in lines of at most textWidth, where its words allow.
func (t *textWriter) wrap(first, rest, text string) {
	line, indent := first, utf8.RuneCountInString(first)
	used := indent
	for _, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		if used > indent && used+1+size > textWidth {
			t.printf("%s\n", line)
			line, used, indent = rest, utf8.RuneCountInString(rest), utf8.RuneCountInString(rest)
		}
		if used > indent {
			line += " "
			used++
		}
		line += word
		used += size
	}
	t.printf("%s\n", line)
}

// verdict writes the last lines: the answer, and what it is worth.
func (t *textWriter) verdict(r *Report) {
	c := r.Totals
	var parts []string
	for _, p := range []struct {
		n         int
		one, many string
	}{{c.Damage, "damaged place", "damaged places"}, {c.Unread, "unreadable place", "unreadable places"}, {c.Warnings, "warning", "warnings"}, {c.Notes, "note", "notes"}} {
		if p.n > 0 {
			parts = append(parts, plural(int64(p.n), p.one, p.many))
		}
	}
	answer := map[Outcome]string{Clean: "No damage", Damaged: "DAMAGED", Unreadable: "UNREADABLE in part"}[r.Outcome]
	if len(parts) > 0 {
		answer += ": " + strings.Join(parts, ", ")
	}
	t.printf("\n")
	t.wrap("", "", fmt.Sprintf("%s. Looked at %s, %s; nothing was changed.", answer, plural(int64(c.Files), "file", "files"), bytesText(c.Bytes)))
	if !r.Complete {
		t.wrap("", "", "Only the headers of frames were read, so damage inside of them was not looked for: --verify reads everything.")
	}
	if !r.Locked && len(r.Findings) > 0 {
		t.wrap("", "", "No lock was held: if a broker is running on these files, their ends may look torn although nothing is wrong. Stop it and look again.")
	}
}
