// Package report is how a benchmark says what it measured: a table for the terminal, JSON for programs, and one HTML
// file with plots that needs no network. It also describes the machine, because a figure without it says nothing.
//
// Files: report.go (Report and its parts), ratio.go (quotients that may be unknown), text.go (tables), html.go and plot.go (the page), machine.go and
// machine_linux.go (facts of the machine), yardstick.go (raw sync latency), histogram.go (latencies).
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Report is what one run of a benchmark found.
type Report struct {
	Name     string    `json:"name"`    // of the benchmark
	Command  string    `json:"command"` // that repeats it
	Program  string    `json:"program"` // hash of the program that measured
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"` // that the run took
	Machine  Machine   `json:"machine"`
	Sections []Section `json:"sections"`
}

// Section is one question and its answer.
type Section struct {
	Title string   `json:"title"`
	Notes []string `json:"notes,omitempty"`
	Table Table    `json:"table"`
	Plots []Plot   `json:"plots,omitempty"`
	Data  any      `json:"data,omitempty"` // the figures behind the table, unrounded
}

// Table is rows of text, already rounded for readers.
type Table struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Add appends a row; numbers are rounded to three digits.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Cell(c)
	}
	t.Rows = append(t.Rows, row)
}

// Cell is the text of one value.
func Cell(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return Number(v)
	case Ratio:
		return Number(float64(v))
	case time.Duration:
		return Duration(v)
	default:
		return fmt.Sprint(v)
	}
}

// Plot is lines over a common axis.
type Plot struct {
	Title  string   `json:"title"`
	X      string   `json:"x"` // label and unit
	Y      string   `json:"y"`
	LogX   bool     `json:"log_x,omitempty"` // values must then be above 0; others are left out
	LogY   bool     `json:"log_y,omitempty"`
	Series []Series `json:"series"`
}

// Series is one line of a plot.
type Series struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // x, y; ascending in x
}

// Add appends a point to the series of that name, which is made when it is missing. A point without a place, as what it shows could not be
// measured, is left out.
func (p *Plot) Add(series string, x, y float64) {
	if !finite(x) || !finite(y) {
		return
	}
	for i := range p.Series {
		if p.Series[i].Name == series {
			p.Series[i].Points = append(p.Series[i].Points, [2]float64{x, y})
			return
		}
	}
	p.Series = append(p.Series, Series{Name: series, Points: [][2]float64{{x, y}}})
}

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Read reads what WriteJSON wrote.
func Read(r io.Reader) (*Report, error) {
	var rep Report
	if err := json.NewDecoder(r).Decode(&rep); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return &rep, nil
}
