package load

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"narad/bench/report"
	"narad/bench/tap"
)

// Mode is what a run does.
type Mode string

// The modes.
const (
	Produce Mode = "produce" // messages in; taken out again afterwards, unmeasured, to check them
	Drain   Mode = "drain"   // messages out that were put in before, unmeasured
	Full    Mode = "full"    // half of the clients produce, the others consume and ack
	Idle    Mode = "idle"    // nothing but parked consumers
)

// Spec says what to run.
type Spec struct {
	Mode       Mode          `json:"mode"`
	Clients    int           `json:"clients"` // connections, or tasks of an embedded run
	Batch      int           `json:"batch"`   // messages of a call
	Size       int           `json:"size"`    // bytes of a payload
	Partitions int           `json:"partitions"`
	Parked     int           `json:"parked"`             // consumers of the same topic beside the clients that wait their turn, in mode full
	Elsewhere  int           `json:"elsewhere"`          // consumers parked at other topics
	Rate       float64       `json:"rate,omitempty"`     // messages a second of an open loop; 0: closed
	Duration   time.Duration `json:"duration_ns"`        // measured
	Messages   int           `json:"messages,omitempty"` // mode drain
	Prepared   bool          `json:"prepared,omitempty"` // embedded: files of the ingress log are prepared ahead
}

func (s Spec) withDefaults() Spec {
	setDefault(&s.Clients, 64)
	setDefault(&s.Batch, 1)
	setDefault(&s.Size, 1024)
	setDefault(&s.Partitions, 12)
	setDefault(&s.Duration, 3*time.Second)
	setDefault(&s.Messages, 30_000*min(s.Batch, 10))
	s.Size = max(s.Size, MinSize)
	return s
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first value that makes no sense.
func (s Spec) Validate() error {
	switch s.Mode {
	case Produce, Drain, Full, Idle:
	default:
		return fmt.Errorf("load: mode is %q, allowed are produce, drain, full, idle", s.Mode)
	}
	s = s.withDefaults()
	switch {
	case s.Clients < 1 || s.Clients > 4000:
		return outOfRange("clients", s.Clients, "1 to 4000")
	case s.Batch < 1 || s.Batch > 1000:
		return outOfRange("batch", s.Batch, "1 to 1000")
	case s.Size > 1<<20:
		return outOfRange("size", s.Size, "at most 1048576")
	case s.Rate < 0:
		return outOfRange("rate", s.Rate, "at least 0")
	case s.Rate > 0 && s.Mode == Drain:
		return errors.New("load: a drain has no rate")
	case s.Parked < 0 || s.Elsewhere < 0:
		return outOfRange("parked", min(s.Parked, s.Elsewhere), "at least 0")
	case s.Mode == Full && s.Clients < 2:
		return errors.New("load: a full flow takes two clients at least: one produces, one consumes")
	}
	return nil
}

func outOfRange(name string, value any, allowed string) error {
	return fmt.Errorf("load: %s is %v, allowed is %s", name, value, allowed)
}

// Result is what a run gave.
type Result struct {
	Spec     Spec          `json:"spec"`
	Embedded bool          `json:"embedded"`
	Measured time.Duration `json:"measured_ns"`

	Produced float64 `json:"produced_per_second"`
	Acked    float64 `json:"acked_per_second"`

	Produce report.Latency `json:"produce"` // of a call; in an open loop from when it was due
	Consume report.Latency `json:"consume"` // of a call that brought messages, its wait included
	Ack     report.Latency `json:"ack"`
	Through report.Latency `json:"through"` // from a message's produce, or when that was due, to its delivery
	Late    report.Latency `json:"late"`    // open loop: how late the client itself was

	CPU       float64       `json:"cpu_us_per_message"` // of the server, or of everything when embedded, until the work it had put off is done
	ClientCPU float64       `json:"client_cpu_us_per_message"`
	CoresUsed float64       `json:"server_cores"` // of the server while measured
	Settle    time.Duration `json:"settle_ns"`    // that took after the run
	Syncs     float64       `json:"syncs_per_message,omitempty"`
	SyncCount tap.Counts    `json:"counts,omitzero"` // embedded only

	Account Account `json:"account"`
}

// Messages is how many messages a second went through the part of the path that the run is about.
func (r Result) Messages() float64 {
	if r.Spec.Mode == Produce {
		return r.Produced
	}
	return r.Acked
}

// target is where messages go.
type target interface {
	createTopic(name string, partitions int) error
	// start lets the clients run. wait returns when all have ended; abandon ends those that wait for a message.
	start(topic string, s Spec, ps []*producer, cs []*consumer, batch int) (wait func() error, abandon func(), err error)
	park(n int) (stop func(), err error)
	cpu() time.Duration
	settle() time.Duration
	counts() tap.Counts
	batches() bool // whether calls may carry several messages
	inside() bool
}

// Timing of runs.
const (
	warmUp     = 300 * time.Millisecond // at most
	pollWait   = 10 * time.Second       // of a consume
	settleTime = 3 * time.Second
	drainBatch = 100
	drainers   = 4
)

// stuckLimit is how long a run goes on without progress; a lease lapses after 30 s.
var stuckLimit = 40 * time.Second

var topicNumber atomic.Int64

// runner is one run.
type runner struct {
	s     Spec
	t     target
	topic string
	book  book
	phase phase
	ps    []*producer
	cs    []*consumer
}

// RunServer runs against a server.
func RunServer(s Spec, server *Server) (Result, error) { return run(s, &remote{server: server}) }

// RunEmbedded runs against an engine in this process, with its data in dir.
func RunEmbedded(s Spec, dir string) (Result, error) {
	e, err := openEmbedded(dir, s.Prepared)
	if err != nil {
		return Result{}, err
	}
	r, err := run(s, &inProcess{e})
	return r, errors.Join(err, e.close())
}

func run(s Spec, t target) (Result, error) {
	if err := s.Validate(); err != nil {
		return Result{}, err
	}
	s = s.withDefaults()
	if s.Batch > 1 && !t.batches() {
		return Result{}, errors.New("load: this server takes no batches")
	}
	r := &runner{s: s, t: t, topic: fmt.Sprintf("load-%d-%d", time.Now().UnixNano(), topicNumber.Add(1))}
	if err := t.createTopic(r.topic, s.Partitions); err != nil {
		return Result{}, err
	}
	unpark, err := t.park(s.Elsewhere)
	if err != nil {
		return Result{}, err
	}
	defer unpark()
	switch s.Mode {
	case Produce:
		return r.produce()
	case Drain:
		return r.drain()
	case Idle:
		return r.idle()
	default:
		return r.full()
	}
}

func (r *runner) producers(n int) []*producer {
	plan := newSchedule(r.s.Rate, r.s.Batch)
	list := make([]*producer, n)
	for i := range list {
		list[i] = &producer{book: &r.book, phase: &r.phase, schedule: plan, batch: r.s.Batch}
	}
	return list
}

func (r *runner) consumers(n int) []*consumer {
	list := make([]*consumer, n)
	for i := range list {
		list[i] = &consumer{book: &r.book, phase: &r.phase, topic: r.topic}
	}
	return list
}

// reading is the state of clocks and counters at one moment.
type reading struct {
	at       int64
	cpu, own time.Duration
	counts   tap.Counts
	accepted int64
	settled  int64
}

func (r *runner) read() reading {
	return reading{now(), r.t.cpu(), OwnCPU(), r.t.counts(), r.book.accepted.Load(), r.book.settled.Load()}
}

// measure lets what runs run for a while and counts it.
func (r *runner) measure() (begin, end reading) {
	time.Sleep(min(warmUp, r.s.Duration))
	r.phase.measuring.Store(true)
	begin = r.read()
	time.Sleep(r.s.Duration)
	r.phase.measuring.Store(false)
	return begin, r.read()
}

func (r *runner) produce() (Result, error) {
	r.ps = r.producers(r.s.Clients)
	r.phase.produce.Store(true)
	wait, _, err := r.t.start(r.topic, r.s, r.ps, nil, r.s.Batch)
	if err != nil {
		return Result{}, err
	}
	begin, end := r.measure()
	r.phase.produce.Store(false)
	err = wait()
	res := r.result(begin, end)
	if err == nil {
		err = r.empty(drainers, drainBatch)
	}
	return r.judged(res, err)
}

// empty takes out and acks everything that was accepted.
func (r *runner) empty(clients, batch int) error {
	if !r.t.batches() {
		clients, batch = 16*clients, 1
	}
	r.phase.consume.Store(true)
	wait, abandon, err := r.t.start(r.topic, r.s, nil, r.consumers(clients), batch)
	if err != nil {
		return err
	}
	stuck := r.drained()
	r.phase.consume.Store(false)
	abandon()
	return errors.Join(wait(), stuck)
}

// drained waits until nothing is being sent, and everything that was accepted is acked.
func (r *runner) drained() error {
	last, since := int64(-1), time.Now()
	for {
		sending, settled := r.book.sending.Load(), r.book.settled.Load()
		if sending == 0 && settled >= r.book.accepted.Load() {
			return nil
		}
		if settled != last {
			last, since = settled, time.Now()
		}
		if time.Since(since) > stuckLimit {
			return fmt.Errorf("load: %d of %d accepted messages are not to be had", r.book.accepted.Load()-settled, r.book.accepted.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

// drain fills the topic and measures how fast it is emptied.
func (r *runner) drain() (Result, error) {
	fill := r.s
	if fill.Batch = drainBatch; !r.t.batches() {
		fill.Batch = 1
	}
	if err := r.fill(fill); err != nil {
		return r.judged(Result{Spec: r.s}, err)
	}
	r.t.settle()
	r.cs = r.consumers(r.s.Clients)
	r.phase.consume.Store(true)
	r.phase.measuring.Store(true)
	begin := r.read()
	wait, abandon, err := r.t.start(r.topic, r.s, nil, r.cs, r.s.Batch)
	if err != nil {
		return Result{}, err
	}
	stuck := r.drained()
	end := r.read()
	r.phase.measuring.Store(false)
	r.phase.consume.Store(false)
	abandon()
	err = errors.Join(wait(), stuck) // only then nobody else is at the samples
	return r.judged(r.result(begin, end), err)
}

// fill produces as many messages as the run says.
func (r *runner) fill(s Spec) error {
	r.phase.produce.Store(true)
	ps := r.producers(16)
	for _, p := range ps {
		p.batch = s.Batch
	}
	wait, _, err := r.t.start(r.topic, s, ps, nil, s.Batch)
	if err != nil {
		return err
	}
	for begin := time.Now(); r.book.accepted.Load() < int64(r.s.Messages) && time.Since(begin) < stuckLimit; {
		time.Sleep(time.Millisecond)
	}
	r.phase.produce.Store(false)
	return wait()
}

// full lets messages flow through.
func (r *runner) full() (Result, error) {
	if r.s.Rate == 0 {
		r.book.window = int64(max(1024, 4*r.s.Clients*r.s.Batch))
	}
	producing := r.s.Clients / 2
	r.ps, r.cs = r.producers(producing), r.consumers(r.s.Clients-producing+r.s.Parked)
	r.phase.produce.Store(true)
	r.phase.consume.Store(true)
	wait, abandon, err := r.t.start(r.topic, r.s, r.ps, r.cs, r.s.Batch)
	if err != nil {
		return Result{}, err
	}
	begin, end := r.measure()
	r.phase.produce.Store(false)
	stuck := r.drained()
	r.phase.consume.Store(false)
	abandon()
	err = errors.Join(wait(), stuck)
	return r.judged(r.result(begin, end), err)
}

// idle measures what waiting costs.
func (r *runner) idle() (Result, error) {
	r.t.settle()
	begin, end := r.measure()
	return r.judged(r.result(begin, end), nil)
}

// result sums up what happened between two readings, and what the server had put off.
func (r *runner) result(begin, end reading) Result {
	res := Result{Spec: r.s, Embedded: r.t.inside(), Measured: time.Duration(end.at - begin.at), Settle: r.t.settle()}
	settled := r.read()
	seconds := res.Measured.Seconds()
	var produce, consume, ack, through, late [][]int64
	for _, p := range r.ps {
		produce, late = append(produce, p.samples.produce), append(late, p.samples.late)
	}
	for _, c := range r.cs {
		consume, ack, through = append(consume, c.samples.consume), append(ack, c.samples.ack), append(through, c.samples.through)
	}
	res.Produced, res.Acked = float64(end.accepted-begin.accepted)/seconds, float64(end.settled-begin.settled)/seconds
	res.Produce, res.Consume, res.Ack = report.Distribution(produce...), report.Distribution(consume...), report.Distribution(ack...)
	res.Through, res.Late = report.Distribution(through...), report.Distribution(late...)
	// All that was answered from the beginning on is set against all that was burnt until the server rests.
	all := float64(settled.settled - begin.settled)
	if r.s.Mode == Produce {
		all = float64(settled.accepted - begin.accepted)
	}
	micro := float64(time.Microsecond)
	res.CPU, res.ClientCPU = float64(settled.cpu-begin.cpu)/micro/all, float64(settled.own-begin.own)/micro/all
	res.CoresUsed = (end.cpu - begin.cpu).Seconds() / seconds
	res.SyncCount = settled.counts.Since(begin.counts)
	res.Syncs = float64(res.SyncCount.Total().Syncs) / all
	if all == 0 {
		res.CPU, res.ClientCPU, res.Syncs = 0, 0, 0
	}
	return res
}

// judged adds the account of all messages. What was lost is an error.
func (r *runner) judged(res Result, err error) (Result, error) {
	res.Account = r.book.account(err == nil)
	return res, errors.Join(err, res.Account.err())
}

// inProcess is an engine in this process as a target.
type inProcess struct{ *embedded }

func (t *inProcess) inside() bool  { return true }
func (t *inProcess) batches() bool { return true }
func (t *inProcess) cpu() time.Duration {
	return OwnCPU()
}
func (t *inProcess) counts() tap.Counts { return t.files.Counts() }

func (t *inProcess) settle() time.Duration {
	begin := time.Now()
	for time.Since(begin) < settleTime {
		if i := t.engine.Ingress(); i.Next == i.Checkpoint {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begin)
}

func (t *inProcess) start(topic string, s Spec, ps []*producer, cs []*consumer, batch int) (func() error, func(), error) {
	var group clients
	for _, p := range ps {
		t.produce(&group, p, topic, s.Size)
	}
	for _, c := range cs {
		t.consume(&group, c, pollWait, batch)
	}
	return group.wait, func() {
		for _, c := range cs {
			c.cancel()
		}
	}, nil
}

// clients are tasks of this process.
type clients struct {
	sync.WaitGroup
	mu  sync.Mutex // guards err
	err error
}

func (c *clients) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(c.err, err)
}

// wait returns when all clients have ended.
func (c *clients) wait() error {
	c.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// remote is a server as a target.
type remote struct {
	server *Server
	known  bool // whether it takes batches was asked
	takes  bool
}

func (t *remote) inside() bool { return false }

// batches asks the server for a batch of a topic that is not there: one that knows batches says so, not that max is
// wrong.
func (t *remote) batches() bool {
	if t.known {
		return t.takes
	}
	t.known = true
	r, err := http.NewRequest(http.MethodGet, "http://"+t.server.Host+"/v1/topics/there-is-no-such-topic/consume?max=2", nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Narad-Client", "narad-bench")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	a.Body.Close()
	t.takes = a.StatusCode == http.StatusNotFound
	return t.takes
}

func (t *remote) createTopic(name string, partitions int) error {
	return t.server.CreateTopic(name, partitions)
}

func (t *remote) cpu() time.Duration {
	d, _ := t.server.CPU()
	return d
}

func (t *remote) settle() time.Duration { return t.server.Settle(settleTime) }
func (t *remote) counts() tap.Counts    { return tap.Counts{} }

func (t *remote) start(topic string, s Spec, ps []*producer, cs []*consumer, batch int) (func() error, func(), error) {
	var all []session
	for _, p := range ps {
		p.template = produceTemplate(t.server.Host, topic, p.batch, s.Size)
		all = append(all, p)
	}
	for _, c := range cs {
		c.host, c.ask = t.server.Host, consumeRequest(t.server.Host, topic, pollWait, batch)
		all = append(all, c)
	}
	l, err := startLoop(t.server.Host, all)
	if err != nil {
		return nil, nil, err
	}
	return l.wait, func() { l.abandoned.Store(true) }, nil
}

// park keeps connections that wait at topics to which nobody produces.
func (t *remote) park(n int) (func(), error) {
	for i := range min(n, idleTopics) {
		err := t.createTopic(idleTopic(i), 3)
		if err != nil && !isTaken(err) {
			return nil, err
		}
	}
	conns, err := dialAll(t.server.Host, n)
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() { drive(idler(consumeRequest(t.server.Host, idleTopic(i), parkWait, 1)), c) })
	}
	return func() {
		closeAll(conns)
		group.Wait()
	}, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// parkWait is how long a parked consumer asks the server to wait; the server may wait less.
const parkWait = 10 * time.Second

// idler asks again and again.
type idler []byte

func (i idler) next() ([]byte, int64) { return i, 0 }

func (i idler) reply(a answer) error {
	if a.status != http.StatusNoContent && a.status != http.StatusOK {
		return errors.New("load: a parked consumer was answered " + strconv.Itoa(a.status))
	}
	return nil
}
