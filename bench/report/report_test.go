package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sample() *Report {
	p := Plot{Title: "a <plot> & more", X: "n", Y: "ms", LogX: true, LogY: true}
	p.Add("one", 1, 0.5)
	p.Add("one", 1000, 70)
	p.Add("two <b>", 10, 3)
	p.Add("two <b>", 100, 0) // has no place on a logarithmic axis
	s := Section{Title: "Title <i>", Notes: []string{"a note"}, Table: Table{Columns: []string{"what", "figure"}}, Plots: []Plot{p}, Data: []int{1, 2}}
	s.Table.Add("x & y", 1234.5)
	s.Table.Add("long name", 70*time.Millisecond)
	return &Report{Name: "sample", Command: "narad-bench sample", Started: time.Unix(1, 0), Sections: []Section{s}}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "1.00": 1, "0.0123": 0.012345, "12.3": 12.34, "999": 999.4, "1,000": 1000, "1,230,000": 1234567, "-1,230": -1234, "–": math.NaN(), "0.00000120": 1.2e-6,
	} {
		require.Equal(t, want, Number(v))
	}
	require.Equal(t, "1.50 ms", Duration(1500*time.Microsecond))
	require.Equal(t, "12.0 s", Duration(12*time.Second))
	require.Equal(t, "42.0 ns", Duration(42))
	require.Equal(t, "–", Duration(0))
	require.Equal(t, "1.50 KiB", Bytes(1536))
	require.Equal(t, "2,050 GiB", Bytes(2050*(1<<30)))
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	sample().WriteText(&b)
	require.Contains(t, b.String(), "  x & y        1,230\n  long name  70.0 ms\n")
	b.Reset()
	sample().WriteMarkdown(&b)
	require.Contains(t, b.String(), "| what      |  figure |\n|---|---:|\n| x & y     |   1,230 |\n")
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().WriteJSON(&b))
	r, err := Read(&b)
	require.NoError(t, err)
	require.Equal(t, "sample", r.Name)
	require.Equal(t, sample().Sections[0].Table, r.Sections[0].Table)
	require.Equal(t, sample().Sections[0].Plots, r.Sections[0].Plots)
	_, err = Read(strings.NewReader("{"))
	require.Error(t, err)
}

// What was too little to be measured costs a report one figure, not all of them.
func TestRatio(t *testing.T) {
	type row struct{ Of, Good Ratio }
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		r := sample()
		r.Sections[0].Data = []row{{Ratio(v), 0.5}}
		r.Sections[0].Table.Add("ratio", Ratio(v))
		r.Sections[0].Plots[0].Add("ratio", 1, v)
		r.Sections[0].Plots[0].Add("ratio", v, 1)
		r.Sections[0].Plots[0].Add("ratio", 2, 3)
		var b bytes.Buffer
		require.NoError(t, r.WriteJSON(&b))
		read, err := Read(&b)
		require.NoError(t, err)
		s := read.Sections[0]
		require.Equal(t, []string{"ratio", "–"}, s.Table.Rows[len(s.Table.Rows)-1])
		require.Contains(t, s.Plots[0].Series, Series{"ratio", [][2]float64{{2, 3}}})
		data, err := json.Marshal(s.Data)
		require.NoError(t, err)
		var rows []row
		require.NoError(t, json.Unmarshal(data, &rows))
		require.True(t, math.IsNaN(float64(rows[0].Of)))
		require.EqualValues(t, 0.5, rows[0].Good)
	}
}

// The page stands alone, and texts stay texts.
func TestHTML(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, sample(), sample()))
	page := b.String()
	require.NotRegexp(t, regexp.MustCompile(`(src|href)="[^#]|@import|url\(`), page)
	require.NotContains(t, page, "<plot>")
	require.NotContains(t, page, "<b>")
	require.Contains(t, page, "Title &lt;i&gt;")
	require.Equal(t, 2, strings.Count(page, "<svg"))
}

// A plot is well-formed, and every point that has a place is inside of it.
func TestPlot(t *testing.T) {
	nothing := Plot{Title: "nothing"}
	flat := Plot{Title: "flat"}
	flat.Add("a", 0, 0)
	linear := Plot{Title: "linear"}
	linear.Add("a", 0, -3)
	linear.Add("a", 5, 123456)
	linear.Add("a", 6, math.NaN())
	for _, p := range []Plot{sample().Sections[0].Plots[0], nothing, flat, linear} {
		text := p.svg()
		d := xml.NewDecoder(strings.NewReader(text))
		circles := 0
		for {
			tok, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "circle" {
				circles++
			}
		}
		require.NotContains(t, text, "NaN")
		require.NotContains(t, text, "Inf")
		want := map[string]int{"nothing": 0, "flat": 1, "linear": 2}
		if n, ok := want[p.Title]; ok {
			require.Equal(t, n, circles, p.Title)
		} else {
			require.Equal(t, 3, circles)
		}
	}
}

func TestDistribution(t *testing.T) {
	var a, b []int64
	for i := range int64(1000) {
		a = append(a, i*int64(time.Microsecond))
		b = append(b, (i+1000)*int64(time.Microsecond))
	}
	l := Distribution(a, b)
	require.EqualValues(t, 2000, l.Count)
	require.InEpsilon(t, float64(time.Millisecond), float64(l.P50), 0.01)
	require.InEpsilon(t, float64(1980*time.Microsecond), float64(l.P99), 0.01)
	require.InEpsilon(t, float64(1999*time.Microsecond), float64(l.Max), 0.01)
	require.Zero(t, Distribution())
	require.Equal(t, 2.0, Median([]float64{3, 1, 2}))
	require.True(t, math.IsNaN(Median(nil)))
}

func TestDescribe(t *testing.T) {
	m, err := Describe(t.TempDir())
	require.NoError(t, err)
	require.EqualValues(t, syncSamples, m.Sync.Growing.Count)
	begin := time.Now()
	paced, err := PacedSync(t.TempDir(), 3, 5*time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(begin), 15*time.Millisecond)
	require.EqualValues(t, 3, paced.Count)
	require.Positive(t, paced.P50)
	require.Positive(t, m.Sync.PerSecond)
	require.Positive(t, m.Cores)
	require.NotEmpty(t, m.lines())
	_, err = Describe(t.TempDir() + "/missing")
	require.Error(t, err)
	_, err = PacedSync(t.TempDir()+"/missing", 3, 0)
	require.Error(t, err)
}
