package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim"
	"narad/sim/workload"
)

// drawing is what the page draws. Its field names are those of the script in page.html. Times are seconds.
type drawing struct {
	End    float64   `json:"end"`
	From   float64   `json:"from"` // where to look first
	To     float64   `json:"to"`
	Failed bool      `json:"failed"`
	Down   []down    `json:"down"`
	Groups []group   `json:"groups"`
	Parts  []partDoc `json:"parts"`
}

// down is a crash, drawn through everything.
type down struct {
	At    float64 `json:"t"`
	Power bool    `json:"power"`
	Text  string  `json:"text"`
}

type group struct {
	Name  string  `json:"name"`
	Lanes []*lane `json:"lanes"`
}

type lane struct {
	Name  string `json:"name"`
	Items []item `json:"items"`
}

// item is a span, or a mark when it has no length.
type item struct {
	From float64 `json:"a"`
	To   float64 `json:"b"`
	Kind string  `json:"k"`
	Text string  `json:"x"`
	Name string  `json:"l,omitempty"` // what to write into a span, if not Text
}

// partDoc is the chart of one partition.
type partDoc struct {
	Name     string   `json:"name"`
	Focus    bool     `json:"focus"`
	Offsets  []int64  `json:"offsets"` // that the failure is about
	HW       []point  `json:"hw"`
	Frontier []point  `json:"frontier"` // value -2: not open
	Leases   []held   `json:"leases"`
	Slots    [2]*lane `json:"slots"`
}

type point struct {
	At    float64 `json:"t"`
	Value int64   `json:"v"`
}

type held struct {
	From   float64 `json:"a"`
	To     float64 `json:"b"`
	Offset int64   `json:"o"`
	Due    float64 `json:"d"` // when it expires
	How    string  `json:"k"`
	Text   string  `json:"x"`

	expiry env.Instant
	nonce  int64
	open   bool
}

func seconds(at env.Instant) float64 { return float64(at) / 1e9 }

// draw turns the recording into lanes and charts.
func (r *Recording) draw(f Focus, story []Entry) drawing {
	d := drawing{End: seconds(r.End), Failed: r.Result.Err != nil}
	d.From, d.To = window(d.End, story)
	for _, c := range r.Crashes {
		d.Down = append(d.Down, down{seconds(c.At), c.Kind == sim.PowerFailure, c.Node + ": " + crashWords(c)})
	}
	d.Groups = []group{
		{"faults and lives", r.lives()},
		{"clients", r.clients()},
		{"engine tasks", r.tasks()},
		{"disk", r.files()},
	}
	d.thin()
	d.Parts = r.partitions(f)
	r.dropNode(&d)
	return d
}

// dropNode shortens the names of lanes when there is only one node.
func (r *Recording) dropNode(d *drawing) {
	nodes := map[string]bool{}
	for _, e := range r.Events {
		nodes[e.Node] = true
	}
	if len(nodes) != 1 {
		return
	}
	for node := range nodes { // order-free: there is one
		for _, g := range d.Groups {
			for _, l := range g.Lanes {
				l.Name = strings.TrimPrefix(l.Name, node+" ")
			}
		}
	}
}

// window is what the page shows first: the story of a failure but for the start of the node, otherwise everything.
func window(end float64, story []Entry) (from, to float64) {
	story = story[max(0, slices.IndexFunc(story, func(e Entry) bool { return !e.minor })):]
	if len(story) < 2 {
		return 0, end
	}
	from, to = seconds(story[0].At), seconds(story[len(story)-1].At)
	margin := max((to-from)/20, 1e-4)
	return max(0, from-margin), to + margin
}

// laneSet makes lanes by name, in the order in which they are first asked for.
type laneSet struct {
	lanes []*lane
	named map[string]*lane
}

func (s *laneSet) add(name string, i item) {
	l := s.named[name]
	if l == nil {
		if s.named == nil {
			s.named = map[string]*lane{}
		}
		l = &lane{Name: name}
		s.named[name] = l
		s.lanes = append(s.lanes, l)
	}
	l.Items = append(l.Items, i)
}

func (s *laneSet) sorted() []*lane {
	slices.SortStableFunc(s.lanes, func(a, b *lane) int { return strings.Compare(a.Name, b.Name) })
	return s.lanes
}

// lanesMax is how many items of a lane are drawn one by one, itemsMax how many of all lanes together.
const (
	lanesMax = 2500
	itemsMax = 20_000
)

// thin joins items of the longest lanes until all of them together are not too many for a page.
func (d *drawing) thin() {
	var lengths []int
	for _, g := range d.Groups {
		for _, l := range g.Lanes {
			lengths = append(lengths, len(l.Items))
		}
	}
	most := fairShare(lengths, itemsMax, lanesMax)
	for _, g := range d.Groups {
		for _, l := range g.Lanes {
			l.thin(d.End, most)
		}
	}
}

// fairShare returns how many each may have, at most limit, so that together they have at most total: who has less leaves the rest to others.
func fairShare(lengths []int, total, limit int) int {
	slices.Sort(lengths)
	for i, n := range lengths {
		if share := total / (len(lengths) - i); n > share {
			return max(1, min(share, limit))
		}
		total -= n
	}
	return limit
}

// thin joins neighbours of one kind that nobody could tell apart, when there are more than most.
func (l *lane) thin(end float64, most int) {
	slices.SortStableFunc(l.Items, func(a, b item) int {
		if a.From < b.From {
			return -1
		}
		if a.From > b.From {
			return 1
		}
		return 0
	})
	for grain := end / 4000; len(l.Items) > most; grain *= 2 {
		var kept []item
		counts := map[int]int{}
		newest := map[string]int{} // by kind
		for _, i := range l.Items {
			at, ok := newest[i.Kind]
			if ok && i.From-kept[at].From < grain {
				counts[at]++
				kept[at].To = max(kept[at].To, i.To)
				continue
			}
			newest[i.Kind] = len(kept)
			kept = append(kept, i)
		}
		for at, n := range counts { // order-free: each on its own
			kept[at].Text = fmt.Sprintf("%d more, the first: %s", n, kept[at].Text)
		}
		l.Items = kept
	}
}

// lives draws what each node was doing, and what was done to it.
func (r *Recording) lives() []*lane {
	var s laneSet
	type change struct {
		at   env.Instant
		node string
		to   string
	}
	var changes []change
	for _, l := range r.Lines {
		what, rest := "", ""
		if p, _, ok := strings.Cut(l.Text, ": boot"); ok {
			what, rest = "recovering", p
		} else if p, _, ok := strings.Cut(l.Text, ": exited"); ok {
			what, rest = "down", p
		}
		if what != "" {
			node, _, _ := strings.Cut(rest, ".")
			changes = append(changes, change{l.At, node, what})
		}
	}
	for _, e := range r.Events {
		if _, ok := e.Event.Event.(engine.Opened); ok {
			changes = append(changes, change{e.At, e.Node, "serving"})
		}
	}
	for _, c := range r.Crashes {
		changes = append(changes, change{c.At, c.Node, "down"})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return int(max(-1, min(1, a.at-b.at))) })
	last := map[string]change{}
	for _, c := range changes {
		if p, ok := last[c.node]; ok {
			s.add(c.node, item{seconds(p.at), seconds(c.at), p.to, c.node + " " + p.to, p.to})
		}
		last[c.node] = c
	}
	for _, p := range changes {
		if last[p.node] == p {
			s.add(p.node, item{seconds(p.at), seconds(r.End), p.to, p.node + " " + p.to, p.to})
		}
	}
	s.sorted()
	for _, c := range r.Crashes {
		kind := "crash"
		if c.Kind == sim.PowerFailure {
			kind = "power"
		}
		s.add("crashes", item{seconds(c.At), seconds(c.At), kind, c.Node + ": " + crashWords(c), ""})
	}
	for _, l := range r.Lines {
		if i, ok := otherFault(l); ok && !brief(l.Text) {
			s.add("other faults", i)
		}
	}
	for _, c := range r.Disk {
		if c.Span() >= stallFrom {
			s.add("other faults", item{seconds(c.Start), seconds(c.End), "stall", fmt.Sprintf("the disk stalls %v %s for %v", c.Op, c.Path, c.Span()), ""})
		}
	}
	return s.lanes
}

// stallFrom is how long a file call takes at least to be shown as a stall.
const stallFrom = 20 * time.Millisecond

func otherFault(l Line) (item, bool) {
	kind := ""
	for _, k := range []string{"pause", "starve", "fault"} {
		if strings.Contains(l.Text, k) {
			kind = k
		}
	}
	if kind == "" {
		return item{}, false
	}
	i := item{seconds(l.At), seconds(l.At), kind, l.Text, ""}
	if _, length, ok := strings.Cut(l.Text, " for "); ok && kind != "fault" {
		if d, err := time.ParseDuration(length); err == nil {
			i.To += d.Seconds()
		}
	}
	return i, true
}

// clients draws the calls of each client.
func (r *Recording) clients() []*lane {
	told := map[int64][]string{} // what the engine said in the task that served a call
	for _, e := range r.Events {
		id := e.Task.ID()
		switch e.Event.Event.(type) {
		case engine.Accepted, engine.Delivered, engine.Settled, engine.HandleRefused, engine.LeaseExtended, engine.LeaseEnded:
			if len(told[id]) < 20 {
				told[id] = append(told[id], e.words())
			}
		}
	}
	var s laneSet
	for _, c := range r.Calls {
		kind := c.Name
		switch kind {
		case "produce", "consume", "settle":
		default:
			kind = "call"
		}
		if c.Outcome != sim.Done || c.Pending {
			kind = "unanswered"
		}
		text := callWords(c)
		for _, t := range told[c.Task] {
			text += "\n" + t
		}
		if c.Name == "consume" && c.Outcome == sim.Done && len(told[c.Task]) == 0 {
			text += "\nnothing was handed out"
			kind = "empty"
		}
		s.add(clientName(c.Client), item{seconds(c.Start), seconds(c.End), kind, text, callName(c)})
	}
	return s.sorted()
}

// callName is what a call is called in its span.
func callName(c workload.Call) string {
	if len(c.Messages) == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s m%d", c.Name, c.Messages[0])
}

// tasks draws what each kind of task of an engine told, and its file calls.
func (r *Recording) tasks() []*lane {
	var s laneSet
	for _, e := range r.Events {
		s.add(e.Node+" "+role(r.names[e.Task.ID()]), item{seconds(e.At), seconds(e.At), eventKind(e.Event.Event), e.words(), ""})
	}
	for _, c := range r.Disk {
		s.add(c.Machine+" "+role(c.Who), item{seconds(c.Start), seconds(c.End), diskKind(c.Op), diskWords(c), ""})
	}
	return s.sorted()
}

// role is the name of a task without its process and number.
func role(task string) string {
	_, name, _ := strings.Cut(task, "/")
	name, _, _ = strings.Cut(name, "#")
	return name
}

func eventKind(v engine.Event) string {
	switch v := v.(type) {
	case engine.Consumer:
		switch v.Event.(type) {
		case committer.WindowWritten:
			return "window"
		case committer.WrittenOut:
			return "writeout"
		case committer.Primed:
			return "prime"
		}
	case engine.Leased, engine.Delivered:
		return "lease"
	case engine.Settled:
		return "ack"
	}
	return "event"
}

func diskKind(op sim.Op) string {
	switch op {
	case sim.OpRead:
		return "read"
	case sim.OpWrite:
		return "write"
	case sim.OpSync, sim.OpSyncDir:
		return "sync"
	}
	return "meta"
}

func diskWords(c DiskCall) string {
	what := c.Op.String()
	if c.Op == sim.OpSyncDir {
		what = "sync of the directory"
	}
	text := fmt.Sprintf("%s %s", what, strings.TrimPrefix(c.Path, "data/"))
	if c.Text != "ok" {
		text += " " + c.Text
	}
	if c.Span() > 0 {
		text += fmt.Sprintf(", %v", c.Span())
	}
	return text
}

// files draws the calls on each kind of file.
func (r *Recording) files() []*lane {
	var s laneSet
	for _, c := range r.Disk {
		s.add(c.Machine+" "+fileClass(c.Path), item{seconds(c.Start), seconds(c.End), diskKind(c.Op), diskWords(c) + "\nby " + c.Who, ""})
	}
	return s.sorted()
}

// fileClass names the lane of a file: one for each kind of file of each partition.
func fileClass(path string) string {
	path = strings.TrimPrefix(path, "data/")
	switch {
	case strings.HasSuffix(path, "checkpoint"):
		return "checkpoint"
	case strings.HasPrefix(path, "ingress/"):
		return "ingress log"
	case strings.HasPrefix(path, "topics/"):
		p := strings.Split(path, "/")
		if len(p) < 4 {
			return "directories"
		}
		name := p[3]
		if name[0] >= '0' && name[0] <= '9' {
			name = name[strings.IndexByte(name, '.')+1:] // of any segment
		}
		return fmt.Sprintf("%s/%d %s", p[1], number(strings.TrimPrefix(p[2], "p")), name)
	}
	return "other files"
}

// partitions draws the chart of each partition, the one that the failure is about first.
func (r *Recording) partitions(f Focus) []partDoc {
	b := charts{r: r, f: f, docs: map[string]*chart{}}
	crashes := r.Crashes
	for _, e := range r.Events {
		for len(crashes) > 0 && crashes[0].Order < e.Order {
			b.crash(crashes[0])
			crashes = crashes[1:]
		}
		b.see(e)
	}
	for _, c := range crashes {
		b.crash(c)
	}
	var list []partDoc
	leases, writes := b.room()
	for _, c := range b.order {
		if c.Focus {
			list = append(list, c.finish(r.End, chartMax, lanesMax))
		} else {
			list = append(list, c.finish(r.End, leases, writes))
		}
	}
	slices.SortStableFunc(list, func(x, y partDoc) int {
		switch {
		case x.Focus != y.Focus && x.Focus:
			return -1
		case x.Focus != y.Focus:
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	return list
}

type charts struct {
	r     *Recording
	f     Focus
	docs  map[string]*chart
	order []*chart
}

type chart struct {
	partDoc
	node   string
	anchor int
	since  float64 // the anchor is there
}

func (b *charts) of(node, topic string, partition int32) *chart {
	name := fmt.Sprintf("%s %s/%d", node, topic, partition)
	c := b.docs[name]
	if c == nil {
		c = &chart{node: node, anchor: -1}
		c.Name = name
		c.Focus = b.f.Node == node && b.f.Key.Topic == topic && b.f.Key.Partition == partition
		if c.Focus {
			c.Offsets = b.f.Offsets
		}
		c.Slots = [2]*lane{{Name: "slot 0"}, {Name: "slot 1"}}
		b.docs[name] = c
		b.order = append(b.order, c)
	}
	return c
}

// crash ends the leases and the shards of a node.
func (b *charts) crash(c Crashed) {
	at := seconds(c.At)
	for _, d := range b.order {
		if d.node != c.Node {
			continue
		}
		for i := range d.Leases {
			if l := &d.Leases[i]; l.open {
				l.end(at, "crashed")
			}
		}
		d.step(&d.Frontier, at, -2)
		d.setAnchor(-1, at)
	}
}

func (l *held) end(at float64, how string) {
	l.To, l.How, l.open = at, how, false
	l.Text += "; " + map[string]string{"acked": "acked", "expired": "expired", "given up": "given up", "crashed": "the node went down"}[how]
}

func (c *chart) step(series *[]point, at float64, v int64) {
	if n := len(*series); n > 0 && (*series)[n-1].Value == v {
		return
	}
	*series = append(*series, point{at, v})
}

func (b *charts) see(e Event) {
	at := seconds(e.At)
	switch v := e.Event.Event.(type) {
	case engine.Log:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		if hw, ok := highWatermark(v); ok {
			c.step(&c.HW, at, hw)
		}
	case engine.ShardOpened:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		c.step(&c.Frontier, at, v.State.Committed)
	case engine.Leased:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		text := fmt.Sprintf("offset %d leased under nonce %s", v.Lease.Offset, nonce(v.Lease.Nonce))
		c.Leases = append(c.Leases, held{From: at, To: at, Due: due(e, v.Lease.Expiry), Offset: v.Lease.Offset, How: "live", Text: text, expiry: v.Lease.Expiry, nonce: v.Lease.Nonce, open: true})
	case engine.LeaseExtended:
		if l := b.of(e.Node, v.Key.Topic, v.Key.Partition).lease(v.Lease.Offset, v.Lease.Nonce); l != nil {
			l.expiry, l.Due = v.Lease.Expiry, due(e, v.Lease.Expiry)
		}
	case engine.Settled:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		c.step(&c.Frontier, at, v.Committed)
		c.end(v.Offset, v.Nonce, at, "acked")
	case engine.LeaseEnded:
		b.of(e.Node, v.Key.Topic, v.Key.Partition).end(v.Offset, v.Nonce, at, "given up")
	case engine.LeasesExpired:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		for i := range c.Leases {
			if l := &c.Leases[i]; l.open && l.expiry <= v.At {
				l.end(at, "expired")
			}
		}
	case engine.Consumer:
		b.consumer(e, v.Event, at)
	}
}

// due is the true time at which the clock of the process shows expiry, but for drift.
func due(e Event, expiry env.Instant) float64 { return seconds(e.At + expiry - e.Clock) }

func (c *chart) lease(offset, nonce int64) *held {
	for i := len(c.Leases) - 1; i >= 0; i-- {
		if l := &c.Leases[i]; l.open && l.Offset == offset && l.nonce == nonce {
			return l
		}
	}
	return nil
}

// end ends the lease that a handle names; what names none, which the checks may be about, is shown as a mark.
func (c *chart) end(offset, nonceOf int64, at float64, how string) {
	if l := c.lease(offset, nonceOf); l != nil {
		l.end(at, how)
		return
	}
	c.Leases = append(c.Leases, held{From: at, To: at, Due: at, Offset: offset, How: how, Text: fmt.Sprintf("offset %d %s under nonce %s, which holds no lease", offset, how, nonce(nonceOf))})
}

func (b *charts) consumer(e Event, v committer.Event, at float64) {
	switch v := v.(type) {
	case committer.Primed:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		if v.Err == nil {
			c.setAnchor(v.Anchor, at)
		}
		c.Slots[max(v.Anchor, 0)].Items = append(c.Slots[max(v.Anchor, 0)].Items, item{at, at, "prime", consumerWords(v), ""})
	case committer.WindowWritten:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		kind := "window"
		if v.Slot == c.anchor {
			kind = "bad" // over the anchor
		}
		c.Slots[v.Slot&1].Items = append(c.Slots[v.Slot&1].Items, item{at, at, kind, fmt.Sprintf("#%d F%d\n%s", v.Sequence, v.Committed, consumerWords(v)), ""})
	case committer.WrittenOut:
		c := b.of(e.Node, v.Key.Topic, v.Key.Partition)
		if v.Err == nil {
			c.setAnchor(v.Slot, at)
		}
		c.Slots[v.Slot&1].Items = append(c.Slots[v.Slot&1].Items, item{at, at, "writeout", fmt.Sprintf("#%d F%d\n%s", v.Sequence, v.Committed, consumerWords(v)), ""})
	}
}

// setAnchor ends the time of one anchor and begins that of another.
func (c *chart) setAnchor(slot int, at float64) {
	if slot == c.anchor {
		return
	}
	if c.anchor >= 0 {
		l := c.Slots[c.anchor&1]
		l.Items = append(l.Items, item{c.since, at, "anchor", fmt.Sprintf("slot %d is the anchor: the newest state that is durable", c.anchor), ""})
	}
	c.anchor, c.since = slot, at
}

// chartMax is how many leases of a partition are drawn, the newest, and othersMax how many leases, and how many slot writes, of all partitions
// together that the failure is not about.
const (
	chartMax  = 4000
	othersMax = 4000
)

// room returns how many leases and how many writes of a slot each of the partitions has room for that the failure is not about.
func (b *charts) room() (leases, writes int) {
	var held, written []int
	for _, c := range b.order {
		if !c.Focus {
			held = append(held, len(c.Leases))
			written = append(written, len(c.Slots[0].Items), len(c.Slots[1].Items))
		}
	}
	return fairShare(held, othersMax, chartMax), fairShare(written, othersMax, lanesMax)
}

func (c *chart) finish(end env.Instant, leases, writes int) partDoc {
	at := seconds(end)
	c.setAnchor(-1, at)
	for i := range c.Leases {
		if l := &c.Leases[i]; l.open {
			l.To = at
		}
	}
	c.Leases = c.Leases[max(0, len(c.Leases)-leases):]
	for _, l := range c.Slots {
		l.thin(at, writes)
	}
	return c.partDoc
}
