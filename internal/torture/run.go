package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"narad/client"
)

// life is one server process as its clients see it.
type life struct {
	number  int
	process *Process
	client  *client.Client
}

// run is one run. Clients append what they saw under mu.
type run struct {
	Config
	ctx     context.Context
	rng     *rand.Rand // of the killer
	started time.Time
	current atomic.Pointer[life]
	halt    atomic.Bool // producers and consumers shall end
	clients sync.WaitGroup
	backlog atomic.Int64

	mu       sync.Mutex // guards the fields below
	history  history
	payloads map[string]int // message by payload
	messages []sent         // by number
	strays   []string       // deliveries of what nobody produced
	statuses map[string]int // answers that no client should get
	acked    int
	accepted int

	killed   int // while serving
	starting int // kills before the server served
	pauses   int
	boots    []time.Duration
	ports    map[string]bool
}

// sent is a message as it was produced.
type sent struct {
	topic string
	key   string
}

// Run kills a server as often as is asked for and returns what came of it. The error is for what keeps a run from being judged,
// and for a server that does not start or end; what its clients saw wrong is in the report. When ctx ends, no more kills
// follow, and the rest is done as always.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{
		Config: c.withDefaults(), ctx: ctx, rng: rand.New(rand.NewPCG(c.Seed, 0)), started: time.Now(),
		payloads: map[string]int{}, statuses: map[string]int{}, ports: map[string]bool{},
	}
	defer r.cleanUp()
	if err := r.boot(); err != nil {
		return nil, err
	}
	for i := range r.Topics {
		spec := client.TopicSpec{Name: topicName(i), Partitions: r.Partitions, VisibilityMs: r.Visibility.Milliseconds()}
		if _, err := r.now().client.CreateTopic(context.Background(), spec); err != nil {
			return nil, fmt.Errorf("torture: %w", err)
		}
	}
	err := r.killAll()
	if err != nil {
		return nil, err
	}
	r.say("draining")
	r.drain()
	drained := r.clock()
	if err := r.stopAndLook(); err != nil {
		return nil, err
	}
	r.say("judging")
	return r.judge(drained), nil
}

func topicName(i int) string { return fmt.Sprintf("torture-%d", i) }

func (r *run) now() *life { return r.current.Load() }

func (r *run) clock() time.Duration { return time.Since(r.started) }

func (r *run) cleanUp() {
	r.halt.Store(true)
	if l := r.now(); l != nil {
		l.process.Kill() // an error would only say that it is gone
		l.client.Close()
	}
	r.clients.Wait()
}

func (r *run) say(phase string) {
	if r.Progress == nil {
		return
	}
	r.mu.Lock()
	p := Progress{phase, r.killed, r.Kills, r.accepted, r.acked, r.starting, r.clock()}
	r.mu.Unlock()
	r.Progress(p)
}

func (r *run) start() (*Process, error) {
	return Start(r.Binary, r.Dir, []string{"NARAD_SECURITY_ENABLED=false"})
}

// boot starts a server and makes it the current one.
func (r *run) boot() error {
	begin := time.Now()
	p, err := r.start()
	if err != nil {
		return err
	}
	addr, err := p.Serving()
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	r.boots = append(r.boots, time.Since(begin))
	if r.ports[addr] {
		return r.bootElsewhere(p)
	}
	return r.serve(p, addr)
}

// bootElsewhere starts again when the kernel gave out a port that an earlier life had: a late request would reach the wrong one.
func (r *run) bootElsewhere(p *Process) error {
	if err := p.Kill(); err != nil {
		return err
	}
	return r.boot()
}

func (r *run) serve(p *Process, addr string) error {
	r.ports[addr] = true
	c, err := client.New("http://"+addr, client.Options{Name: "torture", Attempts: 1, Connections: r.Producers + r.Consumers})
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	number := 0
	if l := r.now(); l != nil {
		number = l.number + 1
		l.client.Close()
	}
	r.current.Store(&life{number, p, c})
	return nil
}

// killAll lets the clients at it and kills.
func (r *run) killAll() error {
	for i := range r.Producers {
		rng := rand.New(rand.NewPCG(r.Seed, uint64(1+i)))
		r.clients.Go(func() { r.produceLoop(rng) })
	}
	for i := range r.Consumers {
		c := consumer{run: r, rng: rand.New(rand.NewPCG(r.Seed, uint64(1+r.Producers+i)))}
		r.clients.Go(c.loop)
	}
	defer r.clients.Wait()
	defer r.halt.Store(true)
	for n := range r.Kills {
		if r.ctx.Err() != nil {
			return nil
		}
		if err := r.killOnce(n); err != nil {
			return err
		}
		r.say("killing")
	}
	return nil
}

// killOnce lets the load run, kills the server and starts another one. Most lives are short; some are so long that an
// ack which is undone although it is old would show.
func (r *run) killOnce(n int) error {
	lasts := 100*time.Millisecond + time.Duration(r.rng.Int64N(int64(900*time.Millisecond)))
	if n%4 == 2 {
		lasts = r.Window + 500*time.Millisecond + time.Duration(r.rng.Int64N(int64(time.Second)))
	}
	stopped, err := r.live(lasts)
	if err != nil {
		return err
	}
	p := r.now().process
	d := death{at: r.clock(), stopped: stopped}
	if err := p.Kill(); err != nil {
		return err
	}
	r.died(d)
	if lines := p.ErrorLines(); len(lines) > 0 {
		return fmt.Errorf("torture: life %d logged errors: %s", r.now().number, lines[:min(len(lines), 5)])
	}
	r.killed++
	for r.rng.IntN(3) == 0 { // the recovery is killed as well
		if err := r.killStarting(); err != nil {
			return err
		}
	}
	return r.boot()
}

// live waits, and lets the process stand still in between.
func (r *run) live(lasts time.Duration) (stopped time.Duration, err error) {
	if !r.Pauses || r.rng.IntN(5) > 0 {
		time.Sleep(lasts)
		return 0, nil
	}
	before := time.Duration(r.rng.Int64N(int64(lasts)))
	time.Sleep(before)
	p, began := r.now().process, time.Now()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return 0, fmt.Errorf("torture: %w", err)
	}
	time.Sleep(time.Duration(r.rng.Int64N(int64(500 * time.Millisecond))))
	r.pauses++
	if r.rng.IntN(2) == 0 {
		return time.Since(began), nil // it dies while it stands still
	}
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return 0, fmt.Errorf("torture: %w", err)
	}
	stopped = time.Since(began)
	time.Sleep(lasts - before)
	return stopped, nil
}

func (r *run) killStarting() error {
	p, err := r.start()
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(r.rng.Int64N(int64(40 * time.Millisecond))))
	r.starting++
	return p.Kill()
}

// died notes the end of the current life.
func (r *run) died(d death) {
	d.over = r.clock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.deaths = append(r.history.deaths, d)
}

// drain consumes until nothing comes for longer than any lease can last, and every message with a 202 was acknowledged, or
// nothing changes that any more.
func (r *run) drain() {
	quietFor := r.Visibility + 2*time.Second
	for deadline := time.Now().Add(Patience); ; {
		var drainers sync.WaitGroup
		for i := range r.Consumers {
			c := consumer{run: r, rng: rand.New(rand.NewPCG(r.Seed, uint64(1<<20+i)))}
			drainers.Go(func() {
				for quiet := time.Now(); time.Since(quiet) < quietFor; {
					if d, got := c.consume(context.Background(), topicName(i%r.Topics), quietFor); got {
						r.settle(d, ack)
						quiet = time.Now()
					}
				}
			})
		}
		drainers.Wait()
		if r.missing() == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// missing counts the messages with a 202 of which no copy was acknowledged, for all that is known.
func (r *run) missing() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byHandle := map[string]int{}
	for _, d := range r.history.deliveries {
		byHandle[d.handle] = d.message
	}
	acked := map[int]bool{}
	for _, s := range r.history.settled {
		if s.verb == ack && s.outcome != refused {
			acked[byHandle[s.handle]] = true
		}
	}
	for _, p := range r.history.produced {
		if p.outcome == ok && !acked[p.message] {
			n++
		}
	}
	return n
}

// stopAndLook stops the last server gracefully and starts another: nothing may be left to consume (REC-07).
func (r *run) stopAndLook() error {
	p := r.now().process
	d := death{at: r.clock(), graceful: true}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	code, err := p.Wait()
	if err != nil {
		return err
	}
	if lines := p.ErrorLines(); code != 0 || len(lines) > 0 {
		return fmt.Errorf("torture: the graceful stop ended with %d:\n%s", code, p.Log())
	}
	r.died(d)
	if err := r.boot(); err != nil {
		return err
	}
	c := consumer{run: r, rng: r.rng}
	for i := range r.Topics {
		for got := true; got; {
			_, got = c.consume(context.Background(), topicName(i), time.Second)
		}
	}
	return nil
}

// judge checks the history by both rules.
func (r *run) judge(drained time.Duration) *Report {
	r.history.visibility, r.history.undoneMax = r.Visibility, r.Window
	v := &Report{
		Kills: r.killed, KilledStarting: r.starting, Pauses: r.pauses, Starts: len(r.boots), SlowestStart: slices.Max(r.boots),
		Window: r.Window, Visibility: r.Visibility, Seed: r.Seed, Shape: fmt.Sprintf("%d topics × %d partitions, %d producers, %d consumers", r.Topics, r.Partitions, r.Producers, r.Consumers),
	}
	v.judge(&r.history, drained)
	v.Violations = append(v.Violations, r.strays...)
	for what, n := range r.statuses {
		v.Violations = append(v.Violations, fmt.Sprintf("%d times an answer that no client should get: %s", n, what))
	}
	v.Took = r.clock()
	return v
}
