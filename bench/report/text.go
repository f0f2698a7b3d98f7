package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Number rounds to three digits and groups thousands: 1234567 is "1,230,000", 0.012345 is "0.0123".
func Number(v float64) string {
	switch {
	case !finite(v):
		return "–"
	case v == 0:
		return "0"
	case math.Abs(v) >= 1000:
		digits := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-2)
		return group(strconv.FormatFloat(math.Round(v/digits)*digits, 'f', 0, 64))
	}
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(math.Abs(v))))), 64)
}

// group puts a comma before every third digit.
func group(s string) string {
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Duration is three digits and the unit that fits; none at all is a dash.
func Duration(d time.Duration) string {
	ns := float64(d)
	switch {
	case d == 0:
		return "–"
	case math.Abs(ns) < 1e3:
		return Number(ns) + " ns"
	case math.Abs(ns) < 1e6:
		return Number(ns/1e3) + " µs"
	case math.Abs(ns) < 1e9:
		return Number(ns/1e6) + " ms"
	}
	return Number(ns/1e9) + " s"
}

// Bytes is three digits and the binary unit that fits.
func Bytes(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if math.Abs(n) < 1024 {
			return Number(n) + " " + unit
		}
		n /= 1024
	}
	return Number(n) + " GiB"
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", r.Name, r.Command)
	for _, line := range r.Machine.lines() {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n%s\n", s.Title)
		s.Table.write(w, "  ", "")
		for _, n := range s.Notes {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
	fmt.Fprintf(w, "\n%s took %s\n", r.Name, Duration(time.Duration(r.Seconds*1e9)))
}

// WriteMarkdown writes the sections as they go into a document.
func (r *Report) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n`%s`\n\n", r.Name, r.Command)
	for _, line := range r.Machine.lines() {
		fmt.Fprintf(w, "- %s\n", line)
	}
	for _, s := range r.Sections {
		fmt.Fprintf(w, "\n### %s\n\n", s.Title)
		s.Table.write(w, "| ", "|")
		for _, n := range s.Notes {
			fmt.Fprintf(w, "\n%s\n", n)
		}
	}
	fmt.Fprintln(w)
}

// write aligns the columns, separated by two blanks or by a rule as Markdown wants it.
func (t *Table) write(w io.Writer, indent, rule string) {
	if len(t.Columns) == 0 {
		return
	}
	widths := make([]int, len(t.Columns))
	rows := append([][]string{t.Columns}, t.Rows...)
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	gap, end := "  ", ""
	if rule != "" {
		gap, end = " "+rule+" ", " "+rule
	}
	for n, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cells[i] = cell + pad
			} else {
				cells[i] = pad + cell
			}
		}
		fmt.Fprintln(w, strings.TrimRight(indent+strings.Join(cells, gap)+end, " "))
		if n == 0 && rule != "" {
			fmt.Fprintln(w, "|---"+strings.Repeat("|---:", len(row)-1)+"|")
		}
	}
}
