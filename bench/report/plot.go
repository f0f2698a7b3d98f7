package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of a plot, in SVG units.
const (
	plotWidth, plotHeight = 560.0, 300.0
	marginLeft            = 64.0
	marginRight           = 16.0
	marginTop             = 14.0
	marginBottom          = 44.0
)

// axis maps values to places.
type axis struct {
	log      bool
	low, top float64 // of the values, logarithms when log
	from, to float64 // places
}

func newAxis(log bool, values []float64, from, to float64) axis {
	a := axis{log: log, low: math.Inf(1), top: math.Inf(-1), from: from, to: to}
	for _, v := range values {
		a.low, a.top = min(a.low, v), max(a.top, v)
	}
	switch {
	case len(values) == 0:
		a.low, a.top = 0, 1
	case log:
		a.low, a.top = math.Log10(a.low), math.Log10(a.top)
		if room := logRoom(a.top - a.low); room > 0 {
			a.low, a.top = a.low-room, a.top+room
		}
	default:
		a.low = min(0, a.low)
		step := tickStep(a.top - a.low)
		a.top = math.Ceil(a.top/step-1e-9) * step
	}
	if a.top <= a.low {
		a.top = a.low + 1
	}
	return a
}

func (a axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return a.from + (v-a.low)/(a.top-a.low)*(a.to-a.from)
}

// shows reports whether a value has a place.
func (a axis) shows(v float64) bool { return finite(v) && (!a.log || v > 0) }

func (a axis) ticks() (list []float64) {
	if a.log {
		return a.logTicks()
	}
	step := tickStep(a.top - a.low)
	for v := math.Ceil(a.low/step) * step; v <= a.top+step/1e6; v += step {
		list = append(list, v)
	}
	return list
}

// logRoom is how much of a decade is left free at both ends.
func logRoom(span float64) float64 {
	if span < 0.3 {
		return 0.25 // one value, or nearly
	}
	return span / 20
}

// logTicks are powers of ten, and 2 and 5 times these when there are few.
func (a axis) logTicks() (list []float64) {
	span := a.top - a.low
	every := max(1, math.Ceil(span/7))
	steps := []float64{1}
	if span < 2.2 {
		steps = []float64{1, 2, 5}
	}
	for e := math.Floor(a.low); e <= a.top; e += every {
		for _, m := range steps {
			if v := m * math.Pow(10, e); math.Log10(v) >= a.low-1e-9 && math.Log10(v) <= a.top+1e-9 {
				list = append(list, v)
			}
		}
	}
	return list
}

// tickStep is 1, 2 or 5 times a power of ten, so that a span has four to ten steps.
func tickStep(span float64) float64 {
	if span <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, m := range []float64{1, 2, 5} {
		if span/(m*power) <= 8 {
			return m * power
		}
	}
	return 10 * power
}

// tickText is short: 20k, 1.5M.
func tickText(v float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if math.Abs(v) >= u.from {
			scale := u.from
			if u.name == "k" {
				scale = 1e3
			}
			return strings.TrimSuffix(fmt.Sprintf("%.3g", v/scale), ".0") + u.name
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// svg draws the plot. Colours come from the page, by class.
func (p *Plot) svg() string {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, pt := range s.Points {
			if (!p.LogX || pt[0] > 0) && (!p.LogY || pt[1] > 0) {
				xs, ys = append(xs, pt[0]), append(ys, pt[1])
			}
		}
	}
	x := newAxis(p.LogX, xs, marginLeft, plotWidth-marginRight)
	y := newAxis(p.LogY, ys, plotHeight-marginBottom, marginTop)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, plotWidth, plotHeight, html.EscapeString(p.Title))
	p.drawGrid(&b, x, y)
	for i, s := range p.Series {
		drawSeries(&b, s, i, x, y, p)
	}
	b.WriteString("</svg>")
	return b.String()
}

func (p *Plot) drawGrid(b *strings.Builder, x, y axis) {
	for _, v := range y.ticks() {
		at := y.at(v)
		fmt.Fprintf(b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%s</text>`,
			x.from, x.to, at, at, x.from-7, at+4, tickText(v))
	}
	for _, v := range x.ticks() {
		at := x.at(v)
		fmt.Fprintf(b, `<line class="tick" x1="%.1f" x2="%.1f" y1="%g" y2="%g"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`,
			at, at, y.from, y.from+4, at, y.from+18, tickText(v))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%g" x2="%g" y1="%g" y2="%g"/>`, x.from, x.to, y.from, y.from)
	fmt.Fprintf(b, `<text class="label" x="%g" y="%g" text-anchor="middle">%s</text>`, (x.from+x.to)/2, plotHeight-6, html.EscapeString(p.X))
	fmt.Fprintf(b, `<text class="label" transform="translate(13 %g) rotate(-90)" text-anchor="middle">%s</text>`,
		(y.from+y.to)/2, html.EscapeString(p.Y))
}

func drawSeries(b *strings.Builder, s Series, number int, x, y axis, p *Plot) {
	var path, dots strings.Builder
	for _, pt := range s.Points {
		if !x.shows(pt[0]) || !y.shows(pt[1]) {
			continue
		}
		fmt.Fprintf(&path, "%.1f,%.1f ", x.at(pt[0]), y.at(pt[1]))
		fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s %s, %s %s</title></circle>`, x.at(pt[0]), y.at(pt[1]),
			html.EscapeString(s.Name), Number(pt[0]), html.EscapeString(p.X), Number(pt[1]), html.EscapeString(p.Y))
	}
	fmt.Fprintf(b, `<g class="s%d"><polyline points="%s"/>%s</g>`, number%colours, strings.TrimSpace(path.String()), dots.String())
}
