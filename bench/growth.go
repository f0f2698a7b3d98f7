package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"narad/bench/load"
	"narad/bench/report"
	"narad/committer"
	"narad/engine"
	"narad/env"
	"narad/sim/disk"
)

// Growth answers how costs grow with what a node holds. A part that fails does not end the others; what it found before is kept.
func Growth(o Options) ([]report.Section, error) {
	return o.inParts([]growthPart{
		{"topics", o.growTopics}, {"partitions", o.growPartitions}, {"disk", o.growDisk}, {"http", o.growHTTP}, {"parked", o.growParked}, {"backlog", o.growBacklog},
		{"ahead", o.growAhead}, {"memory", o.memory}, {"start", o.startUp},
	})
}

type growthPart struct {
	name string
	run  func() (report.Section, error)
}

func (o Options) inParts(parts []growthPart) (sections []report.Section, failed error) {
	var names []string
	known := o.Only == ""
	for _, part := range parts {
		names = append(names, part.name)
		if o.Only != "" && part.name != o.Only {
			continue
		}
		known = true
		s, err := part.run()
		if err != nil {
			err = fmt.Errorf("growth: %s: %w", part.name, err)
			o.Progress("%v", err)
			failed = errors.Join(failed, err)
		}
		if err == nil || len(s.Table.Rows) > 0 {
			sections = append(sections, s)
		}
	}
	if !known {
		return nil, fmt.Errorf("there is no part %q: %s", o.Only, strings.Join(names, ", "))
	}
	return sections, failed
}

// FlatTitles are those of the sections whose costs shall not grow; the data of each is a list of Point.
var FlatTitles = []string{"Topics that exist", "Partitions that are open", "Parked consumers"}

// Point is the cost of a message at one size.
type Point struct {
	Series string         `json:"series"`
	N      int            `json:"n"`
	CPU    float64        `json:"cpu_us"`           // of produce, dispatch, consume and ack
	Wall   float64        `json:"micros"`           // one message after the other
	Of10   report.Ratio   `json:"of_at_ten"`        // relative to ten, measured in turns, or to the smallest size
	Rounds []report.Ratio `json:"rounds,omitempty"` // whose median or mean that is, ascending
}

// relative is the ratio, and how far apart the middle half of the rounds is.
func (p Point) relative() string {
	text := report.Number(float64(p.Of10))
	if n := len(p.Rounds); n > 0 {
		text += fmt.Sprintf(" (%s–%s)", report.Number(float64(p.Rounds[n/4])), report.Number(float64(p.Rounds[n-1-n/4])))
	}
	return text
}

// growth collects points of one section.
type growth struct {
	s     report.Section
	cpu   report.Plot
	all   []Point
	first map[string]float64
}

func newGrowth(title, x, against string) *growth {
	return &growth{
		s:     report.Section{Title: title, Table: report.Table{Columns: []string{"", x, "CPU µs/message", "relative to " + against, "µs one by one"}}},
		cpu:   report.Plot{Title: title, X: x, Y: "CPU µs a message", LogX: true},
		first: map[string]float64{},
	}
}

func (g *growth) add(series string, n int, c cost) {
	if _, ok := g.first[series]; !ok {
		g.first[series] = c.cpu
	}
	g.put(series, n, c, report.Ratio(c.cpu/g.first[series]))
}

// put takes the ratio to ten, and those of the rounds that it is from, if any.
func (g *growth) put(series string, n int, c cost, ratio report.Ratio, rounds ...report.Ratio) {
	if n == flat {
		g.first[series] = c.cpu
	}
	p := Point{series, n, c.cpu, c.wall, ratio, rounds}
	g.all = append(g.all, p)
	g.s.Table.Add(series, n, p.CPU, p.relative(), p.Wall)
	g.cpu.Add(series, math.Max(float64(n), 0.5), p.CPU)
}

func (g *growth) section(notes ...string) report.Section {
	g.s.Notes, g.s.Data, g.s.Plots = notes, g.all, []report.Plot{g.cpu}
	return g.s
}

// cost is what a message takes.
type cost struct{ cpu, wall float64 } // µs

// costRounds is how often a cost is measured, after a first time that does not count; the least counts, as what disturbs
// only adds.
const costRounds = 3

// measureCost calls each for n messages, several times.
func measureCost(n int, each func(i int) error) (cost, error) {
	best := cost{math.Inf(1), math.Inf(1)}
	runtime.GC()
	for round := range costRounds + 1 {
		begin, cpu := time.Now(), load.OwnCPU()
		for i := range n {
			if err := each(round*n + i); err != nil {
				return best, err
			}
		}
		if round == 0 { // warms up
			continue
		}
		micro := float64(time.Microsecond) * float64(n)
		best.cpu = min(best.cpu, float64(load.OwnCPU()-cpu)/micro)
		best.wall = min(best.wall, float64(time.Since(begin))/micro)
	}
	return best, nil
}

// pace is how a lasting cost is measured.
type pace struct {
	warm   time.Duration // of messages before, for the larger size
	rest   time.Duration // after that, until what was opened just now is written out
	round  time.Duration
	after  time.Duration // until nothing is left to do of a round
	rounds int           // of the larger size, each between two of ten
	skip   int           // first ones that do not count
	bursts bool          // some work comes in bursts of half a minute: the mean of the rounds counts, not their median
}

// afterRound: a writeout of the committer follows its message within a second and a tick. Its work belongs to the round; without the pause
// half of it would be counted to the other subject's.
const afterRound = 1200 * time.Millisecond

// restAfter is how long a committer is busy with what stopped just now.
const restAfter = 2500 * time.Millisecond

// brief is for what is the same in each second.
func (o Options) brief() pace {
	return pick(o, pace{round: 10 * time.Millisecond, rounds: 6, skip: 1}, pace{rest: restAfter, round: time.Second, after: afterRound, rounds: 8, skip: 1})
}

// idle is for many partitions that were used once, when they were opened: half a minute later they all have their consumer.offset made.
func (o Options) idle() pace {
	p := o.brief()
	p.rest = pick(o, 0, committer.LevelEvery+restAfter)
	return p
}

// steady is for partitions that are all used: each one's consumer.offset is made half a minute after its first message, and is
// overwritten each half minute from then on, by many at about the same time. Messages go on until all are made; the rounds then take four
// half minutes.
func (o Options) steady() pace {
	return pick(o, pace{round: 10 * time.Millisecond, rounds: 2},
		pace{warm: committer.LevelEvery + restAfter, rest: restAfter, round: 4 * time.Second, after: afterRound, rounds: 11, bursts: true})
}

// subject is something at one size whose messages cost.
type subject struct {
	each  func(i int) error    // sends, takes and acks one
	cpu   func() time.Duration // what has been used for them so far
	done  int
	close func() error
}

// round is what one message costs, from many, with the work that is put off for up to after.
func (s *subject) round(d, after time.Duration) (cost, error) {
	begin, cpu, first := time.Now(), s.cpu(), s.done
	for ; time.Since(begin) < d; s.done++ {
		if err := s.each(s.done); err != nil {
			return cost{}, err
		}
	}
	took := time.Since(begin)
	time.Sleep(after)
	micro := float64(time.Microsecond) * float64(max(s.done-first, 1))
	return cost{float64(s.cpu()-cpu) / micro, float64(took) / micro}, nil
}

// flat is the smallest size, to which others are compared.
const flat = 10

// beside is what a message costs at ten and at another size.
type beside struct {
	ten, size cost
	ratio     report.Ratio   // of CPU
	ratios    []report.Ratio // of the rounds, ascending
}

// costs are those of rounds.
type costs []cost

func (all costs) median() cost {
	var cpus, walls []float64
	for _, c := range all {
		cpus, walls = append(cpus, c.cpu), append(walls, c.wall)
	}
	return cost{report.Median(cpus), report.Median(walls)}
}

func (all costs) mean() (c cost) {
	for _, one := range all {
		c.cpu += one.cpu / float64(len(all))
		c.wall += one.wall / float64(len(all))
	}
	return c
}

// besideTen measures a message at size n and, in turns, at size ten, so that what disturbs the machine disturbs both. Each
// round counts against the mean of those of ten before and after it. How far the ratios are apart shows what is noise.
func (o Options) besideTen(n int, p pace, build func(n int) (*subject, error)) (r beside, err error) {
	small, err := build(flat)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, small.close()) }()
	large, err := build(n)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, large.close()) }()
	if _, err := large.round(p.warm, 0); err != nil {
		return r, err
	}
	time.Sleep(p.rest)
	runtime.GC()
	var tens, sizes costs
	for range p.rounds {
		a, err := small.round(p.round, p.after)
		if err != nil {
			return r, err
		}
		b, err := large.round(p.round, p.after)
		if err != nil {
			return r, err
		}
		tens, sizes = append(tens, a), append(sizes, b)
	}
	last, err := small.round(p.round, p.after)
	if err != nil {
		return r, err
	}
	return compare(append(tens, last)[p.skip:], sizes[p.skip:], p.bursts), nil
}

// compare takes the rounds of a size, and those of ten before, between and after them.
func compare(tens, sizes costs, bursts bool) beside {
	beside10 := make(costs, len(sizes))
	var ratios []float64
	for i, c := range sizes {
		beside10[i] = cost{(tens[i].cpu + tens[i+1].cpu) / 2, (tens[i].wall + tens[i+1].wall) / 2}
		ratios = append(ratios, c.cpu/beside10[i].cpu)
	}
	slices.Sort(ratios)
	r := beside{ten: beside10.median(), size: sizes.median(), ratio: report.Ratio(report.Median(ratios))}
	if bursts {
		r = beside{ten: beside10.mean(), size: sizes.mean()}
		r.ratio = report.Ratio(r.size.cpu / r.ten.cpu)
	}
	for _, v := range ratios {
		r.ratios = append(r.ratios, report.Ratio(v))
	}
	return r
}

// memoryEngine is an engine on a disk that takes no time, so that what is measured is its work, and with descriptors for all partitions, as
// an operator of so many would grant them.
func memoryEngine() (*engine.Engine, error) {
	return engine.Open("data", engine.Options{Env: env.OS().WithFS(disk.FS(disk.New(disk.Ordered))), MaxConsumerFiles: 20_000})
}

var growthPayload = []byte(strings.Repeat("x", 256))

// through sends a message to a partition and takes and acks one.
func through(e *engine.Engine, topic string, partition int32) error {
	if err := e.Produce(engine.Message{Topic: topic, Partition: partition, Payload: growthPayload}); err != nil {
		return err
	}
	return takeOne(e, topic, partition)
}

func takeOne(e *engine.Engine, topic string, partition int32) error {
	d, err := e.Consume(&engine.ConsumeRequest{Topic: topic, Partition: partition, Wait: 20 * time.Second})
	if err != nil {
		return err
	}
	return e.Ack(topic, d.Handle)
}

func (o Options) sizes() []int { return pick(o, []int{10, 100}, []int{10, 100, 1000, 10_000}) }

// usedSizes are those of partitions that are all used, which take minutes to measure.
func (o Options) usedSizes() []int { return pick(o, []int{20}, []int{1000, 10_000}) }

type filler func(e *engine.Engine) (each func(i int) error, end func(), err error)

// inMemory builds a subject around an engine on a disk that takes no time.
func inMemory(fill filler) (*subject, error) { return onEngine(memoryEngine, fill) }

func onEngine(open func() (*engine.Engine, error), fill filler) (*subject, error) {
	e, err := open()
	if err != nil {
		return nil, err
	}
	each, end, err := fill(e)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &subject{each: each, cpu: load.OwnCPU, close: func() error { end(); return e.Close() }}, nil
}

// manyTopics has n topics, one of them in use.
func manyTopics(n int) (*subject, error) {
	return inMemory(func(e *engine.Engine) (func(int) error, func(), error) {
		for i := range n {
			if _, err := e.CreateTopic(engine.TopicSpec{Name: fmt.Sprintf("t%06d", i), Partitions: 1}); err != nil {
				return nil, nil, err
			}
		}
		return func(int) error { return through(e, "t000000", 0) }, func() {}, nil
	})
}

// manyPartitions has n open partitions, the first few of them used in turn.
func manyPartitions(n, used int) (*subject, error) { return usedInTurn(n, used, memoryEngine) }

// perTopic is how many partitions a topic has here.
const perTopic = 100

// topicOf names the topic of the i-th partition.
func topicOf(i int) string { return fmt.Sprintf("t%06d", i/perTopic) }

// usedInTurn has n open partitions of an engine, in topics of 100, the first few of them used in turn.
func usedInTurn(n, used int, open func() (*engine.Engine, error)) (*subject, error) {
	return onEngine(open, func(e *engine.Engine) (func(int) error, func(), error) {
		use := func(i int) error { return through(e, topicOf(i), int32(i%perTopic)) }
		for i := range n {
			if i%perTopic == 0 {
				if _, err := e.CreateTopic(engine.TopicSpec{Name: topicOf(i), Partitions: perTopic}); err != nil {
					return nil, nil, err
				}
			}
			if err := use(i); err != nil { // opens it
				return nil, nil, err
			}
		}
		return func(i int) error { return use(i % used) }, func() {}, nil
	})
}

// series is one line of a plot of costs.
type series struct {
	name  string
	build func(n int) (*subject, error)
}

// grow measures each series at all sizes.
func (o Options) grow(g *growth, p pace, sizes []int, all ...series) error {
	for _, s := range all {
		for i, n := range sizes {
			o.Progress("growth: %d %s, %s", n, g.cpu.X, s.name)
			r, err := o.besideTen(n, p, s.build)
			if err != nil {
				return err
			}
			if i == 0 && !slices.Contains(sizes, flat) {
				g.put(s.name, flat, r.ten, 1)
			}
			g.put(s.name, n, r.size, r.ratio, r.ratios...)
		}
	}
	return nil
}

const inTurns = "On a disk that takes no time: what is measured is work. Each size takes turns with ten; in brackets is the middle half of the rounds. "

// growTopics has one topic in use among N.
func (o Options) growTopics() (report.Section, error) {
	g := newGrowth(FlatTitles[0], "topics", "ten")
	err := o.grow(g, o.brief(), o.sizes(), series{"one of them in use", manyTopics})
	return g.section(inTurns), err
}

// growPartitions has N open partitions.
func (o Options) growPartitions() (report.Section, error) {
	g := newGrowth(FlatTitles[1], "partitions", "ten")
	err := o.grow(g, o.idle(), o.sizes(), series{"ten of them in use", func(n int) (*subject, error) { return manyPartitions(n, flat) }})
	if err == nil {
		err = o.grow(g, o.steady(), pick(o, []int{20}, []int{10_000}), series{"all in use, in turn", func(n int) (*subject, error) { return manyPartitions(n, n) }})
	}
	return g.section(inTurns + "A partition that is in use has consumer state to write, so the more are in use, the more is written."), err
}

// growParked has N consumers that wait.
func (o Options) growParked() (report.Section, error) {
	g := newGrowth(FlatTitles[2], "consumers", "ten")
	err := o.grow(g, o.brief(), append([]int{1}, o.sizes()...),
		series{"at another topic", func(n int) (*subject, error) { return manyParked(n, false) }},
		series{"at the same topic, in turn", func(n int) (*subject, error) { return manyParked(n, true) }})
	return g.section(inTurns + "At the same topic each message goes to the consumer that has waited longest, which acks it and waits again."), err
}

// manyParked has n consumers parked at the topic that is used or at another one.
func manyParked(n int, same bool) (*subject, error) {
	return inMemory(func(e *engine.Engine) (func(int) error, func(), error) {
		for _, name := range []string{"used", "other"} {
			if _, err := e.CreateTopic(engine.TopicSpec{Name: name, Partitions: 3}); err != nil {
				return nil, nil, err
			}
		}
		topic := map[bool]string{false: "other", true: "used"}[same]
		p := parkConsumers(e, topic, n)
		time.Sleep(time.Duration(n) * 20 * time.Microsecond) // they are parked, or nearly
		return func(int) error {
			if !same {
				return through(e, "used", engine.AnyPartition)
			}
			if err := e.Produce(engine.Message{Topic: "used", Partition: engine.AnyPartition, Payload: growthPayload}); err != nil {
				return err
			}
			return <-p.acked
		}, p.stop, nil
	})
}

// parked are consumers that wait, ack what they get and wait again.
type parked struct {
	acked    chan error
	requests []*engine.ConsumeRequest
	group    sync.WaitGroup
}

func parkConsumers(e *engine.Engine, topic string, n int) *parked {
	p := &parked{acked: make(chan error, 1), requests: make([]*engine.ConsumeRequest, n)}
	for i := range p.requests {
		r := &engine.ConsumeRequest{Topic: topic, Partition: engine.AnyPartition, Wait: engine.MaxWait}
		p.requests[i] = r
		p.group.Go(func() {
			for {
				d, err := e.Consume(r)
				switch {
				case errors.Is(err, engine.ErrEmpty):
				case err != nil:
					return
				default:
					p.acked <- e.Ack(topic, d.Handle)
				}
			}
		})
	}
	return p
}

func (p *parked) stop() {
	for _, r := range p.requests {
		r.Cancel()
	}
	p.group.Wait()
}

// backlogSizes are messages that wait.
func (o Options) backlogSizes() []int {
	sizes := pick(o, []int{1000, 10_000}, []int{1000, 10_000, 100_000, 1_000_000})
	if o.Big {
		sizes = append(sizes, 10_000_000)
	}
	return sizes
}

// fillTopic produces n messages and waits until they are in their partitions.
func fillTopic(e *engine.Engine, topic string, n int) error {
	const batch = 1000
	messages := make([]engine.Message, batch)
	for i := range messages {
		messages[i] = engine.Message{Partition: engine.AnyPartition, Payload: growthPayload}
	}
	for done := 0; done < n; done += batch {
		if err := e.ProduceBatch(topic, messages[:min(batch, n-done)]); err != nil {
			return err
		}
	}
	for i := e.Ingress(); i.Checkpoint < i.Next; i = e.Ingress() {
		if i.Failed != nil {
			return i.Failed
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// growBacklog has N messages that wait, on the real disk.
func (o Options) growBacklog() (report.Section, error) {
	g := newGrowth("Messages that wait", "messages", "the fewest")
	dir, err := os.MkdirTemp(o.Dir, "backlog-")
	if err != nil {
		return g.s, err
	}
	defer os.RemoveAll(dir)
	e, err := engine.Open(filepath.Join(dir, "data"), engine.Options{})
	if err != nil {
		return g.s, err
	}
	defer e.Close()
	if _, err := e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 12}); err != nil {
		return g.s, err
	}
	filled := 0
	for _, n := range o.backlogSizes() {
		o.Progress("growth: %d messages wait", n)
		if err := fillTopic(e, "t", n-filled); err != nil {
			return g.s, err
		}
		few := min(pick(o, 25, 500), n/10) // most of the backlog stays
		take, err := measureCost(few, func(int) error { return takeOne(e, "t", engine.AnyPartition) })
		if err != nil {
			return g.s, err
		}
		filled = n - (costRounds+1)*few
		g.add("consume and ack", n, take)
		both, err := measureCost(few, func(int) error { return through(e, "t", engine.AnyPartition) })
		if err != nil {
			return g.s, err
		}
		g.add("produce, consume and ack", n, both)
	}
	return g.section("On the real disk, messages of 256 B in 12 partitions, one by one. Without --big it ends at a million."), nil
}

// growAhead has N messages acked above one that is not.
func (o Options) growAhead() (report.Section, error) {
	g := newGrowth("Acked above a gap, in one partition", "acked ahead", "the fewest")
	for _, n := range pick(o, []int{1, 64}, []int{1, 16, 128, 512, 1024}) {
		o.Progress("growth: %d acked ahead", n)
		c, err := o.aheadCost(n)
		if err != nil {
			return g.s, err
		}
		g.add("produce, consume and ack", n, c)
	}
	return g.section("On a disk that takes no time. A tenth of the messages more are acked ahead while it is measured."), nil
}

func (o Options) aheadCost(n int) (cost, error) {
	best := cost{math.Inf(1), math.Inf(1)}
	for range pick(o, 1, 5) { // each with a partition of its own, as the gap widens meanwhile
		e, err := memoryEngine()
		if err != nil {
			return best, err
		}
		_, err = e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 3, MaxInFlight: 8192, MaxAckedAhead: 8192})
		if err == nil {
			err = e.Produce(engine.Message{Topic: "t", Partition: 0, Payload: growthPayload})
		}
		if err == nil {
			_, err = e.Consume(&engine.ConsumeRequest{Topic: "t", Partition: 0, Wait: 20 * time.Second}) // the gap
		}
		for i := 0; i < n && err == nil; i++ {
			err = through(e, "t", 0)
		}
		var c cost
		if err == nil {
			c, err = measureCost(max(100, n/10), func(int) error { return through(e, "t", 0) })
		}
		if err = errors.Join(err, e.Close()); err != nil {
			return best, err
		}
		best.cpu, best.wall = min(best.cpu, c.cpu), min(best.wall, c.wall)
	}
	return best, nil
}

// Held is what one thing holds in memory.
type Held struct {
	What  string  `json:"what"`
	N     int     `json:"n"`
	Bytes float64 `json:"bytes"`
}

// memory measures heap and stacks of what does nothing, on the real disk.
func (o Options) memory() (report.Section, error) {
	s := report.Section{Title: "Memory of what does nothing", Table: report.Table{Columns: []string{"", "measured with", "bytes each"}}}
	dir, err := os.MkdirTemp(o.Dir, "memory-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	e, err := engine.Open(filepath.Join(dir, "data"), engine.Options{})
	if err != nil {
		return s, err
	}
	defer e.Close()
	var all []Held
	add := func(what string, n int, before uint64) {
		h := Held{what, n, float64(int64(inUse())-int64(before)) / float64(n)}
		all = append(all, h)
		s.Table.Add(h.What, h.N, h.Bytes)
	}
	n := pick(o, 50, 1000)
	o.Progress("growth: memory")
	before := inUse()
	for i := range n {
		if _, err := e.CreateTopic(engine.TopicSpec{Name: fmt.Sprintf("idle%06d", i), Partitions: 3}); err != nil {
			return s, err
		}
	}
	add("topic of 3 partitions that nobody has used", n, before)
	parts := pick(o, 10, 100)
	if _, err := e.CreateTopic(engine.TopicSpec{Name: "open", Partitions: parts}); err != nil {
		return s, err
	}
	before = inUse()
	for i := range parts {
		if err := through(e, "open", int32(i)); err != nil {
			return s, err
		}
	}
	time.Sleep(300 * time.Millisecond) // the committer has it too
	add("partition that was used", parts, before)
	waiting := pick(o, 100, 10_000)
	before = inUse()
	p := parkConsumers(e, "open", waiting)
	time.Sleep(300*time.Millisecond + time.Duration(waiting)*20*time.Microsecond)
	add("parked consumer, with its goroutine", waiting, before)
	p.stop()
	s.Data = all
	s.Notes = []string{"Heap and stacks in use after a collection. A consumer over HTTP holds a connection's buffers and goroutines as well."}
	return s, nil
}

// inUse is what heap and stacks hold after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// Start is how long a start took.
type Start struct {
	Messages int           `json:"messages"`
	Bytes    int64         `json:"bytes"`
	Clean    time.Duration `json:"clean_ns"`
	Unclean  time.Duration `json:"unclean_ns"`
}

// startUp opens data of several sizes, after a graceful stop and as after a crash, until a first message is delivered.
func (o Options) startUp() (report.Section, error) {
	s := report.Section{Title: "Start until the first delivery", Table: report.Table{Columns: []string{"messages that wait", "data", "after a graceful stop", "after a crash"}}}
	plot := report.Plot{Title: s.Title, X: "messages that wait", Y: "ms", LogX: true}
	dir, err := os.MkdirTemp(o.Dir, "start-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	filled := 0
	var all []Start
	for _, n := range o.backlogSizes() {
		o.Progress("growth: start with %d messages", n)
		if err := grow(data, n-filled); err != nil {
			return s, err
		}
		filled = n
		st := Start{Messages: n, Bytes: treeBytes(data)}
		if st.Clean, err = timeStart(data); err != nil {
			return s, err
		}
		// Without the mark of a graceful stop everything is looked at as after a crash.
		if err := os.Remove(filepath.Join(data, "clean")); err != nil {
			return s, err
		}
		if st.Unclean, err = timeStart(data); err != nil {
			return s, err
		}
		all = append(all, st)
		s.Table.Add(st.Messages, report.Bytes(float64(st.Bytes)), st.Clean, st.Unclean)
		plot.Add("after a graceful stop", float64(n), report.Milliseconds(st.Clean))
		plot.Add("after a crash", float64(n), report.Milliseconds(st.Unclean))
	}
	s.Data, s.Plots = all, []report.Plot{plot}
	s.Notes = []string{"The files are in the page cache. “After a crash” is a directory whose mark of a graceful stop was removed."}
	return s, nil
}

func grow(data string, n int) error {
	e, err := engine.Open(data, engine.Options{})
	if err != nil {
		return err
	}
	_, err = e.CreateTopic(engine.TopicSpec{Name: "t", Partitions: 12})
	if err == nil || errors.Is(err, engine.ErrTopicExists) {
		err = fillTopic(e, "t", n)
	}
	return errors.Join(err, e.Close())
}

func timeStart(data string) (time.Duration, error) {
	begin := time.Now()
	e, err := engine.Open(data, engine.Options{})
	if err != nil {
		return 0, err
	}
	_, err = e.Consume(&engine.ConsumeRequest{Topic: "t", Partition: engine.AnyPartition, Wait: 20 * time.Second})
	took := time.Since(begin)
	return took, errors.Join(err, e.Close())
}

// treeBytes is the size of all files below dir.
func treeBytes(dir string) (n int64) {
	filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
