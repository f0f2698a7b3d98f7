package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"narad/engine"
	"narad/sim/model"
	"narad/sim/workload"
)

// failing records a world and plants a failure into it: as if the check of an ack had failed, at the 40th.
func failing(t *testing.T, seed uint64) *Recording {
	c := workload.NewCase(workload.Options{Seed: seed, Profile: workload.NodeProfile}, workload.Result{})
	r := Record(c, c.Options())
	require.NoError(t, r.Result.Err)
	n := 0
	for _, e := range r.Events {
		v, ok := e.Event.Event.(engine.Settled)
		if n++; !ok || n < 40 {
			continue
		}
		r.Result.Err = errorAt(e.Node, v.Key, model.Violate("INV-06", "ack of offset %d was accepted at %d, the lease expired at %d", v.Offset, v.At, v.At-1))
		return r
	}
	t.Fatal("no ack in the world")
	return nil
}

func errorAt(node string, k engine.Key, err error) error {
	return &wrapped{node + " " + part(k) + ": ", err}
}

type wrapped struct {
	where string
	err   error
}

func (w *wrapped) Error() string { return w.where + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// A watched world is the same world.
func TestRecordingChangesNothing(t *testing.T) {
	o := workload.Options{Seed: 5, Profile: workload.NodeProfile}
	c := workload.NewCase(o, workload.Result{})
	r := Record(c, c.Options())
	require.Equal(t, workload.Run(o).Hash, r.Result.Hash)
	require.NotEmpty(t, r.Calls)
	require.NotEmpty(t, r.Events)
	require.NotEmpty(t, r.Disk)
	require.NotEmpty(t, r.Crashes)
	require.Contains(t, r.State, "n1: ")
	require.Contains(t, r.State, "consumer.ahead: primed")
	require.Contains(t, r.State, "tasks")
}

// The story is about the offset that the check names, from its production on.
func TestStory(t *testing.T) {
	r := failing(t, 6)
	f := r.Focus()
	require.Equal(t, "INV-06", f.Invariant)
	require.Equal(t, "n1", f.Node)
	require.Len(t, f.Offsets, 1)
	require.Len(t, f.Seqs, 1, "the record that became the offset")
	require.NotEmpty(t, f.Messages)
	var text bytes.Buffer
	r.Explain(&text)
	story := text.String()
	in := func(parts ...string) {
		at := 0
		for _, p := range parts {
			i := strings.Index(story[at:], p)
			require.GreaterOrEqual(t, i, 0, "%q in its place in\n%s", p, story)
			at += i
		}
	}
	in("INV-06: ack of offset", "the rule: ", "about: node n1, partition topic", "produce of message", "202 for record", "is committed as offset", "is leased under nonce", "accepted; the frontier is", "! check")
	list := r.Story()
	for i, e := range list { // what serves a call comes after it
		if e.Kind != "client" || e.task == 0 {
			continue
		}
		for _, before := range list[:i] {
			require.False(t, before.Kind == "engine" && before.task == e.task, "%s before %s", before.Text, e.Text)
		}
	}
	other := regexp.MustCompile(`offset (\d+) of \S+ is leased`)
	for _, m := range other.FindAllStringSubmatch(story, -1) {
		require.Equal(t, number(m[1]), f.Offsets[0], "leases of other offsets are not told")
	}
}

var (
	scripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	outside = regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:)?//|@import|url\(`)
)

// The page is well-formed, holds the evidence and needs no other file.
func TestPage(t *testing.T) {
	r := failing(t, 6)
	var page bytes.Buffer
	require.NoError(t, r.HTML(&page))
	require.Less(t, page.Len(), 5<<20)
	html := page.String()
	require.Contains(t, html, "INV-06")
	require.Contains(t, html, `<span id="evidence">ack of offset`)
	require.Contains(t, html, demands["INV-06"])
	require.Contains(t, html, "go run ./cmd/narad-sim -seed 6")
	require.Contains(t, html, "<iframe", "the history of the copy")
	wellFormed(t, scripts.ReplaceAllString(html, "<script></script>"))
	require.Empty(t, outside.FindString(html), "nothing is loaded from elsewhere")

	found := scripts.FindAllStringSubmatch(html, -1)
	require.Len(t, found, 2, "data and script; a </script> inside would end them early")
	var d drawing
	data := strings.TrimSuffix(strings.TrimPrefix(found[0][1], "var DATA = "), ";")
	require.NoError(t, json.Unmarshal([]byte(data), &d))
	require.True(t, d.Failed)
	require.Len(t, d.Groups, 4)
	for _, g := range d.Groups {
		require.NotEmpty(t, g.Lanes, g.Name)
		for _, l := range g.Lanes {
			require.LessOrEqual(t, len(l.Items), lanesMax)
		}
	}
	require.NotEmpty(t, d.Down)
	p := d.Parts[0]
	require.True(t, p.Focus, "the partition of the failure comes first")
	require.NotEmpty(t, p.HW)
	require.NotEmpty(t, p.Frontier)
	require.NotEmpty(t, p.Leases)
	require.NotEmpty(t, p.Slots[0].Items)
	require.NotEmpty(t, p.Slots[1].Items)
	for i := 1; i < len(p.HW); i++ {
		require.Greater(t, p.HW[i].Value, p.HW[i-1].Value, "a high watermark only grows")
	}
}

// wellFormed parses the page as XML, with the names of HTML.
func wellFormed(t *testing.T, html string) {
	d := xml.NewDecoder(strings.NewReader(html))
	d.Entity = xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// A world without a violation has a page, too.
func TestPageOfAGoodWorld(t *testing.T) {
	c := workload.NewCase(workload.Options{Seed: 7, Profile: workload.NodeProfile}, workload.Result{})
	r := Record(c, c.Options())
	var page bytes.Buffer
	require.NoError(t, r.HTML(&page))
	require.Contains(t, page.String(), "This world violates nothing")
	wellFormed(t, scripts.ReplaceAllString(page.String(), "<script></script>"))
	var text bytes.Buffer
	r.Explain(&text)
	require.Contains(t, text.String(), "violates nothing")
}

// Until ends the run where it is told, with its state.
func TestUntil(t *testing.T) {
	c := workload.NewCase(workload.Options{Seed: 5, Profile: workload.NodeProfile}, workload.Result{})
	o := c.Options()
	o.Watch = &workload.Watch{Until: 3 * time.Second}
	r := Record(c, o)
	require.LessOrEqual(t, r.Result.Simulated, 3*time.Second)
	require.Contains(t, r.State, "state at 3s")
	require.Contains(t, r.State, "high watermark")
	require.Contains(t, r.State, "supervisor")
}

func TestFocusOfALostMessage(t *testing.T) {
	r := &Recording{}
	r.Result.Err = model.Violate("INV-02", "message %d got a 202 and was never acked; it was delivered 1 times, stored at [{n1 {topic0 3} 5}]", 17)
	f := r.Focus()
	require.Equal(t, "n1", f.Node)
	require.Equal(t, engine.Key{Topic: "topic0", Partition: 3}, f.Key)
	require.Equal(t, []int64{5}, f.Offsets)
	require.Equal(t, []int{17}, f.Messages)
	require.Equal(t, "node n1, partition topic0/3, offset 5, message 17", f.String())
}

func TestThin(t *testing.T) {
	l := lane{}
	for i := range 50_000 {
		l.Items = append(l.Items, item{From: float64(i) / 1000, To: float64(i) / 1000, Kind: "write", Text: "w"})
	}
	l.thin(50, lanesMax)
	require.LessOrEqual(t, len(l.Items), lanesMax)
	require.Contains(t, l.Items[0].Text, "more, the first: w")
	require.InDelta(t, 49.999, l.Items[len(l.Items)-1].To, 0.001, "the end is still there")
}

// A long run is drawn with fewer items, and the lanes with few of them keep all.
func TestThinDrawing(t *testing.T) {
	d := drawing{End: 1000}
	d.Groups = []group{{Name: "disk"}}
	for i := range 100 {
		l := &lane{Name: "lane"}
		for j := range 10 + 100*i {
			at := float64(j) * 1000 / float64(10+100*i)
			l.Items = append(l.Items, item{From: at, To: at, Kind: "write", Text: "w"})
		}
		d.Groups[0].Lanes = append(d.Groups[0].Lanes, l)
	}
	d.thin()
	total := 0
	for _, l := range d.Groups[0].Lanes {
		total += len(l.Items)
		require.NotEmpty(t, l.Items)
	}
	require.LessOrEqual(t, total, itemsMax)
	require.Greater(t, total, itemsMax/4)
	require.Len(t, d.Groups[0].Lanes[0].Items, 10)
	require.Len(t, d.Groups[0].Lanes[1].Items, 110)
}

func TestFairShare(t *testing.T) {
	require.Equal(t, 100, fairShare([]int{1, 2, 3}, 1000, 100), "all fit")
	require.Equal(t, 45, fairShare([]int{10, 500, 500}, 100, 100))
	require.Equal(t, 20, fairShare([]int{500, 10, 500}, 100, 20))
}
