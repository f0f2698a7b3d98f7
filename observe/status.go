package observe

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"narad/engine"
	"narad/server"
)

//go:embed web/index.html web/app.js web/style.css
var web embed.FS

var _ server.StatusPage = (*Observer)(nil).ServeStatus

// assets are the files of the page.
var assets = map[string]struct{ file, kind string }{
	"/status":           {"web/index.html", "text/html; charset=utf-8"},
	"/status/app.js":    {"web/app.js", "text/javascript; charset=utf-8"},
	"/status/style.css": {"web/style.css", "text/css; charset=utf-8"},
}

// pagePolicy lets the page load its own two files and ask its own server, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeStatus implements server.StatusPage: the page at /status, its two files, and what it shows at /status/data.
func (o *Observer) ServeStatus(w http.ResponseWriter, r *http.Request, mayRead func(topic, owner string) bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.URL.Path == "/status/data" {
		o.serveData(w, r.URL.Query(), mayRead)
		return
	}
	if r.URL.Path == "/status/" {
		h.Set("Location", "../status")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	asset, ok := assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, err := web.ReadFile(asset.file)
	if err != nil {
		http.Error(w, "the page is not there", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", asset.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client has gone: there is nobody to tell
}

func (o *Observer) serveData(w http.ResponseWriter, query url.Values, mayRead func(topic, owner string) bool) {
	w.Header().Set("Content-Type", "application/json")
	ask, err := readQuery(query)
	status, body := http.StatusOK, []byte(nil)
	if err != nil {
		status = http.StatusBadRequest
		body, _ = json.Marshal(map[string]string{"error": err.Error()}) // a string always encodes
	} else if body, err = json.Marshal(o.statusFor(ask, mayRead)); err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the status cannot be encoded"}`)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone: there is nobody to tell
}

// statusQuery says which topics to show.
type statusQuery struct {
	text       string // part of the name, in lower case
	order      string // one of statusOrders
	descending bool
	page, size int // page from 1 on
	topic      string
}

// statusOrders compares topics by what the table can be ordered by.
var statusOrders = map[string]func(a, b *topicStatus) int{
	"name":   func(a, b *topicStatus) int { return cmp.Compare(a.Name, b.Name) },
	"lag":    func(a, b *topicStatus) int { return cmp.Compare(a.Lag, b.Lag) },
	"age":    func(a, b *topicStatus) int { return cmp.Compare(a.AgeS, b.AgeS) },
	"leases": func(a, b *topicStatus) int { return cmp.Compare(a.Leases, b.Leases) },
	"ahead":  func(a, b *topicStatus) int { return cmp.Compare(a.Ahead, b.Ahead) },
	"parked": func(a, b *topicStatus) int { return cmp.Compare(a.Parked, b.Parked) },
	"bytes":  func(a, b *topicStatus) int { return cmp.Compare(a.Bytes, b.Bytes) },
	"in":     func(a, b *topicStatus) int { return cmp.Compare(a.In, b.In) },
	"out":    func(a, b *topicStatus) int { return cmp.Compare(a.Out, b.Out) },
}

// statusPageMax is the largest number of topics of one answer.
const statusPageMax = 200

func readQuery(query url.Values) (q statusQuery, err error) {
	q = statusQuery{text: strings.ToLower(query.Get("q")), order: "name", page: 1, size: 50, topic: query.Get("topic")}
	if order := query.Get("sort"); order != "" {
		q.order, q.descending = strings.CutPrefix(order, "-")
	}
	if _, ok := statusOrders[q.order]; !ok {
		return q, fmt.Errorf("sort is not one of the columns")
	}
	for _, number := range []struct {
		name string
		to   *int
		max  int
	}{{"page", &q.page, 1 << 20}, {"size", &q.size, statusPageMax}} {
		if text := query.Get(number.name); text != "" {
			if *number.to, err = strconv.Atoi(text); err != nil || *number.to < 1 || *number.to > number.max {
				return q, fmt.Errorf("%s is not a number from 1 to %d", number.name, number.max)
			}
		}
	}
	return q, nil
}

// What the page shows.
type (
	status struct {
		NowMs  int64        `json:"now_ms"`
		Node   *nodeStatus  `json:"node,omitempty"` // for those who may read everything
		Totals totalStatus  `json:"totals"`
		Topics topicsStatus `json:"topics"`
		Topic  *topicDetail `json:"topic,omitempty"` // that was asked for
	}
	nodeStatus struct {
		Name      string     `json:"name"`
		Version   string     `json:"version"`
		UptimeS   float64    `json:"uptime_s"`
		Metastore string     `json:"metastore,omitempty"` // state of its Raft
		WALFailed string     `json:"wal_failed,omitempty"`
		Backlog   uint64     `json:"backlog"`
		CacheS    float64    `json:"unpersisted_cache_s"`
		DiskS     float64    `json:"unpersisted_disk_s"`
		IntervalS float64    `json:"durability_interval_s"`
		Available uint64     `json:"disk_available,omitempty"`
		Total     uint64     `json:"disk_total,omitempty"`
		DataBytes int64      `json:"data_bytes,omitempty"`
		OpenLogs  int        `json:"open_logs"`
		Rates     rateStatus `json:"rates"`
		Troubles  []trouble  `json:"troubles"`
	}
	// rateStatus are runs of samples, oldest first.
	rateStatus struct {
		StepS     float64   `json:"step_s"`
		Accepted  []float32 `json:"accepted"`
		Stored    []float32 `json:"stored"`
		Delivered []float32 `json:"delivered"`
		Acked     []float32 `json:"acked"`
		SyncMs    []float32 `json:"sync_ms"`
		Batch     []float32 `json:"batch"`
		Backlog   []float32 `json:"backlog"`
		Lag       []float32 `json:"lag"`
		Late      []float32 `json:"late_s"`
	}
	trouble struct {
		Severe bool   `json:"severe"`
		Text   string `json:"text"`
	}
	totalStatus struct {
		Topics     int   `json:"topics"`
		Partitions int   `json:"partitions"`
		Lag        int64 `json:"lag"`
		Leases     int   `json:"leases"`
		Ahead      int   `json:"ahead"`
		Parked     int   `json:"parked"`
		Bytes      int64 `json:"bytes"`
		Missed     int64 `json:"missed"`
	}
	topicsStatus struct {
		Found int           `json:"found"` // topics that match
		Page  int           `json:"page"`
		Pages int           `json:"pages"`
		Items []topicStatus `json:"items"`
	}
	topicStatus struct {
		Name       string    `json:"name"`
		Partitions int       `json:"partitions"`
		Unknown    int       `json:"unknown"` // partitions that nobody has looked at since the start
		Lag        int64     `json:"lag"`
		AgeS       float64   `json:"age_s"`
		Leases     int       `json:"leases"`
		Ahead      int       `json:"ahead"`
		Parked     int       `json:"parked"`
		Bytes      int64     `json:"bytes"`
		Missed     int64     `json:"missed"`
		In         float64   `json:"in"`
		Out        float64   `json:"out"`
		InRun      []float32 `json:"in_run"`
		OutRun     []float32 `json:"out_run"`

		view *engine.TopicView
	}
	topicDetail struct {
		topicStatus
		ID           string            `json:"id"`
		RetentionMs  int64             `json:"retention_ms"`
		VisibilityMs int64             `json:"visibility_timeout_ms"`
		MaxInFlight  int32             `json:"max_in_flight_per_partition"`
		MaxAhead     int32             `json:"max_acked_ahead_per_partition"`
		Parts        []partitionStatus `json:"parts"`
	}
	partitionStatus struct {
		Partition int32   `json:"partition"`
		Open      bool    `json:"open"`
		Known     bool    `json:"known"`
		Oldest    int64   `json:"oldest"`
		High      int64   `json:"high_watermark"`
		Frontier  int64   `json:"frontier"`
		Lag       int64   `json:"lag"`
		Missed    int64   `json:"missed"`
		AgeS      float64 `json:"age_s"`
		Leases    int     `json:"leases"`
		Ahead     int     `json:"ahead"`
		Bytes     int64   `json:"bytes"`
		Segments  int     `json:"segments"`
	}
)

// freshFor is how old a description of the topics may be for the page.
const freshFor = time.Second

// freshViews describes the topics anew when somebody has not just done so.
type freshViews struct {
	sync.Mutex // guards at; held while the topics are described, so that many pages cost one description
	at         time.Time
}

func (o *Observer) refresh() {
	o.fresh.Lock()
	defer o.fresh.Unlock()
	e := o.engine.Load()
	if e == nil || time.Since(o.fresh.at) < freshFor {
		return
	}
	o.reconcile(e)
	o.fresh.at = time.Now()
}

// statusFor collects what somebody who may read some topics has asked for.
func (o *Observer) statusFor(q statusQuery, mayRead func(topic, owner string) bool) *status {
	o.refresh()
	now := time.Now()
	s := &status{NowMs: now.UnixMilli()}
	heads := o.vitals.headsNow()
	views := o.vitals.current()
	var found []topicStatus
	for i := range views {
		v := &views[i]
		if !mayRead(v.Topic.Name, v.Topic.Owner) {
			continue
		}
		t := summary(v, heads, s.NowMs)
		s.Totals.add(&t)
		if strings.Contains(strings.ToLower(t.Name), q.text) {
			found = append(found, t)
		}
		if t.Name == q.topic {
			s.Topic = detail(t, heads, s.NowMs)
		}
	}
	o.addRates(found, s.Topic)
	s.Topics = pageOf(found, q)
	if mayRead("", "") {
		s.Node = o.nodeStatus(now, &s.Totals)
	}
	return s
}

// pageOf orders the topics and cuts one page out.
func pageOf(found []topicStatus, q statusQuery) topicsStatus {
	by := statusOrders[q.order]
	slices.SortStableFunc(found, func(a, b topicStatus) int {
		if q.descending {
			a, b = b, a
		}
		return by(&a, &b)
	})
	pages := max((len(found)+q.size-1)/q.size, 1)
	page := min(q.page, pages)
	from := (page - 1) * q.size
	items := found[from:min(from+q.size, len(found))]
	return topicsStatus{Found: len(found), Page: page, Pages: pages, Items: append([]topicStatus{}, items...)}
}

func (s *totalStatus) add(t *topicStatus) {
	s.Topics++
	s.Partitions += t.Partitions
	s.Lag += t.Lag
	s.Leases += t.Leases
	s.Ahead += t.Ahead
	s.Parked += t.Parked
	s.Bytes += t.Bytes
	s.Missed += t.Missed
}

func summary(v *engine.TopicView, heads map[engine.Key]head, nowMs int64) topicStatus {
	t := topicStatus{Name: v.Topic.Name, Partitions: len(v.Partitions), Parked: v.Parked, view: v, InRun: []float32{}, OutRun: []float32{}}
	for i := range v.Partitions {
		p := &v.Partitions[i]
		if !p.LogKnown || !p.ConsumerKnown {
			t.Unknown++
		}
		t.Lag += p.Lag()
		t.Missed += p.Missed()
		t.Leases += p.Leases
		t.Ahead += p.AckedAhead
		t.Bytes += p.Bytes
		if age, ok := ageOf(p, heads[engine.Key{Topic: t.Name, Partition: p.Partition}], nowMs); ok {
			t.AgeS = max(t.AgeS, age)
		}
	}
	return t
}

func detail(t topicStatus, heads map[engine.Key]head, nowMs int64) *topicDetail {
	info := t.view.Topic
	d := &topicDetail{
		topicStatus: t, ID: info.ID, RetentionMs: info.RetentionMs, VisibilityMs: info.VisibilityMs,
		MaxInFlight: info.MaxInFlight, MaxAhead: info.MaxAckedAhead, Parts: []partitionStatus{},
	}
	for i := range t.view.Partitions {
		p := &t.view.Partitions[i]
		age, _ := ageOf(p, heads[engine.Key{Topic: t.Name, Partition: p.Partition}], nowMs)
		d.Parts = append(d.Parts, partitionStatus{
			Partition: p.Partition, Open: p.Open, Known: p.LogKnown && p.ConsumerKnown, Oldest: p.Oldest, High: p.HighWatermark,
			Frontier: p.Committed, Lag: p.Lag(), Missed: p.Missed(), AgeS: age, Leases: p.Leases, Ahead: p.AckedAhead, Bytes: p.Bytes, Segments: p.Segments,
		})
	}
	return d
}

// addRates fills in what goes in and out of the topics.
func (o *Observer) addRates(found []topicStatus, one *topicDetail) {
	o.rates.mu.Lock()
	defer o.rates.mu.Unlock()
	for i := range found {
		o.rates.fill(&found[i])
	}
	if one != nil {
		o.rates.fill(&one.topicStatus)
	}
}

// fill needs r.mu.
func (r *rates) fill(t *topicStatus) {
	if at := r.topics[r.o.topics.topic(t.Name)]; at != nil {
		t.In, t.Out = at.in.latest(), at.acked.latest()
		t.InRun, t.OutRun = at.in.samples(), at.acked.samples()
	}
}

func (o *Observer) nodeStatus(now time.Time, totals *totalStatus) *nodeStatus {
	v := &o.vitals
	n := &nodeStatus{
		Name: o.config.Node, Version: o.config.Version, UptimeS: now.Sub(o.config.Started).Seconds(), Backlog: v.backlog.Load(),
		IntervalS: o.config.CommitInterval.Seconds(), Rates: o.rates.status(), Troubles: []trouble{},
	}
	if cause := v.walCause.Load(); cause != nil && v.walFailed.Load() {
		n.WALFailed = *cause
	}
	cache, disk := o.unpersisted()
	n.CacheS, n.DiskS = cache.Seconds(), disk.Seconds()
	if o.config.Raft != nil {
		n.Metastore = o.config.Raft().State
	}
	v.space.Lock()
	n.Available, n.Total = v.space.available, v.space.total
	v.space.Unlock()
	v.tree.Lock()
	n.DataBytes = v.tree.bytes
	v.tree.Unlock()
	for _, t := range v.current() {
		for i := range t.Partitions {
			if t.Partitions[i].Open {
				n.OpenLogs++
			}
		}
	}
	n.judge(totals)
	return n
}

// What the page calls trouble; docs/observability.md has alerts on the same.
const (
	backlogTrouble = 50_000  // messages
	spaceTrouble   = 1 << 30 // bytes
)

// judge says what an operator should look at.
func (n *nodeStatus) judge(totals *totalStatus) {
	say := func(severe bool, text string, args ...any) {
		n.Troubles = append(n.Troubles, trouble{severe, fmt.Sprintf(text, args...)})
	}
	if n.WALFailed != "" {
		say(true, "The ingress log has failed: every produce is answered 500 until this process is restarted. %s", n.WALFailed)
	}
	if n.Total > 0 && (n.Available < spaceTrouble || n.Available < n.Total/20) {
		say(n.Available < spaceTrouble/4, "The disk is nearly full.")
	}
	if n.Backlog > backlogTrouble {
		say(false, "Messages wait in the ingress log: partitions cannot take them as fast as they come.")
	}
	if n.DiskS > 3*n.IntervalS+1 {
		say(false, "Consumer state on the disk is behind acks by %.0f s: a power loss would bring back that much.", n.DiskS)
	}
	if totals.Missed > 0 {
		say(false, "Retention has removed %d messages that were not consumed.", totals.Missed)
	}
}

// status returns the runs of the node.
func (r *rates) status() rateStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rateStatus{
		StepS: rateStep.Seconds(), Accepted: r.in.samples(), Stored: r.stored.samples(), Delivered: r.out.samples(), Acked: r.acked.samples(),
		SyncMs: r.syncing.samples(), Batch: r.batch.samples(), Backlog: r.backlog.samples(), Lag: r.lag.samples(), Late: r.late.samples(),
	}
}
