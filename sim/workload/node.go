package workload

import (
	"cmp"
	"time"

	"narad/engine"
	"narad/env"
	"narad/metastore"
	"narad/sim"
	"narad/sim/check"
	"narad/sim/disk"
	"narad/sim/model"
)

// Phases of a machine, for counting where crashes land.
const (
	phaseDown     = "down"
	phaseRecovery = "recovery"
	phaseServing  = "serving"
)

// node is a machine, the engine on it, and what watches it.
type node struct {
	here    []*ackHere // acks from within the process that runs
	run     *run
	name    string
	m       *sim.Machine
	check   *check.Node
	verdict check.Verdict

	proc    *sim.Process
	engine  *engine.Engine // nil while the node is down or recovering
	boots   int
	stopped bool // by the story: the supervisor lets it lie
	// stopping: it is being stopped gracefully; failing: its disk fails now and then; troubled: it did in this life.
	stopping, failing, troubled bool
	killed                      bool // the last life ended with a process crash
	garbage                     bool // a power loss left some
	changeFailed                bool // a change of a topic failed in this life at the metastore, which takes no other until a restart
	topicsMade                  bool // those of the plan were seen to be there
	parked                      int  // consumers that do nothing but wait
	topics                      topicHistories
	left                        []*left
	calls                       int               // requests under way
	calledAt                    env.Instant       // true time when the newest one began or ended
	quorum                      *metastore.Quorum // of its metastore, when that has several voters
}

func (r *run) addNode(name string) {
	n := &node{run: r, name: name}
	n.m = r.w.Machine(name, sim.MachineConfig{
		Personality: r.plan.Personality,
		RatePPM:     r.rate(),
		WallOffset:  r.w.Duration(0, 2*time.Second) - time.Second,
		WallShift:   time.Second,
		Latency:     r.plan.Latency,
		Writeback:   r.plan.Writeback,
		Evict:       r.plan.Evict,
		Faults:      r.plan.machineFaults(),
		Loss:        r.plan.loss(),
	})
	n.check = check.New(check.Config{
		World: r.w, Machine: n.m, Interval: r.plan.Interval, Tick: r.plan.Tick, Starve: starve(r.plan.Policy), Files: files(r.plan), Messages: r.messages,
		Excused: func(err error) bool { return n.troubled && ioError(err) },
	})
	n.m.OnCrash = n.crashed
	n.m.OnRemove = n.check.Unlinked
	n.m.Mark(phaseDown)
	r.nodes = append(r.nodes, n)
}

// files is how many descriptors of consumer.ahead an engine may hold.
func files(p plan) int { return cmp.Or(p.Files, 64) }

// rate draws how fast the clocks of a machine run.
func (r *run) rate() int {
	if r.plan.Grid > 0 {
		return 0
	}
	return r.w.Choose(401) - 200
}

func (n *node) crashed(kind sim.CrashKind, report disk.Report) {
	n.engine = nil
	n.run.crashes++
	n.killed = kind == sim.ProcessCrash
	n.garbage = n.garbage || report.Garbage > 0
	n.check.Crashed(kind, report)
	for _, name := range n.topics.names {
		n.topics.of(name).Crash(int64(n.run.w.Now()))
	}
	n.run.watch.crashed(n, kind, report)
	n.m.Mark(phaseDown)
}

// supervise boots the node, and again whenever it died, until the story takes over.
func (n *node) supervise() {
	for !n.stopped {
		n.boot()
		proc := n.proc
		proc.Wait()
		if n.proc == proc { // the story may have started the next one already
			n.engine = nil
		}
		if n.stopped {
			return
		}
		n.run.e.Sleep(n.downtime())
	}
}

func (n *node) downtime() time.Duration {
	if n.run.draining {
		return 10 * time.Millisecond
	}
	if n.run.plan.Wide == wideTorn {
		return n.run.w.Duration(0, 200*time.Millisecond) // the next tear waits
	}
	return n.run.w.Duration(0, 2*time.Second)
}

// boot starts a process that opens the engine and serves. Sometimes a crash is armed that will strike in the recovery.
func (n *node) boot() {
	w := n.run.w
	if !n.run.draining && n.boots > 0 && n.run.plan.Crashes > 0 && percent(w, 35) && n.run.mayStrike() {
		n.m.ArmCrash(sim.CrashKind(w.Choose(2)), 1+w.Choose(80))
	}
	if arm := n.run.plan.Arm; arm != "" && n.killed && !n.run.draining && n.run.mayStrike() {
		n.m.ArmCrashAt(sim.PowerFailure, arm, 1)
	}
	n.killed = false
	n.endHere()
	n.boots++
	n.stopping, n.troubled, n.changeFailed = false, n.failing, false
	if n.run.plan.LookupErrors {
		n.m.ClearFaults() // what was armed for the life that ended
	}
	n.m.Mark(phaseRecovery)
	n.proc = n.m.Boot(func(e *env.Env) {
		eng, err := engine.Open("data", n.options(e))
		if err != nil && n.troubled && ioError(err) {
			n.check.Goal("a start was refused by a failing disk")
			return
		}
		if n.conceded(err) {
			return
		}
		if err != nil {
			n.run.fail("INV-02", "%s does not start: %v", n.name, err)
			return
		}
		n.engine = eng
		n.m.Mark(phaseServing)
	})
}

func (n *node) options(e *env.Env) engine.Options {
	return engine.Options{
		Env: e, Metastore: n.metastore(e), CommitInterval: n.run.plan.Interval, WriteoutInterval: n.run.plan.Tick, SegmentBytes: n.run.plan.Segment,
		WALSegmentBytes: n.run.plan.WALSegment, MaxConsumerFiles: files(n.run.plan), IdleAfter: n.run.plan.IdleAfter, Codec: n.run.plan.Codec, WALPreallocate: n.run.plan.Preallocate, Listener: n.run.watch.listen(n, n.check.Listen()),
	}
}

// answer is what a client learned from a request.
type answer uint8

const (
	answered answer = iota // the engine returned; its error says what
	unsent                 // the node is down: nothing happened
	unknown                // no answer: it may or may not have happened
	omitted                // the limits leave it out: nothing happened, and nobody tries again
)

func (a answer) neverSent() bool { return a == unsent || a == omitted }

// call makes a request to the node and waits for the answer until the deadline.
func (n *node) call(name string, patience time.Duration, fn func(*engine.Engine)) answer {
	e, number := n.run.e, noNumber
	if name != "create topic" {
		if !n.run.draining {
			number = n.run.operations
		}
		if may := n.run.mayCall(name); may != answered {
			return may
		}
	}
	e.Sleep(n.latency())
	eng, proc := n.engine, n.proc
	if eng == nil {
		return unsent
	}
	n.run.requests++
	seen := n.run.watch.call(n, name, number)
	n.calls++
	n.calledAt = e.Now()
	outcome := proc.Call(name, e.Now().Add(patience), func() {
		seen.runs()
		fn(eng)
	})
	n.calls--
	n.calledAt = e.Now()
	seen.ended(outcome)
	if outcome != sim.Done {
		return unknown
	}
	e.Sleep(n.latency())
	return answered
}

// latency is the time that a request or an answer travels.
func (n *node) latency() time.Duration { return n.run.duration(0, 2*time.Millisecond) }

// createTopics makes the topics of the plan; it is repeated until it is known to have worked.
func (n *node) createTopics() {
	for _, spec := range n.run.plan.Topics {
		for !n.createTopic(spec) {
			n.run.e.Sleep(50 * time.Millisecond)
		}
	}
	n.topicsMade = true
}

func (n *node) createTopic(spec engine.TopicSpec) (exists bool) {
	return n.topicOp(0, spec.Name, model.TopicCreate, func(eng *engine.Engine) (string, error) {
		t, err := eng.CreateTopic(spec)
		return t.ID, err
	})
}

// watch looks, now and then, whether leases end in time (INV-23).
func (n *node) watch() {
	for !n.run.stopping {
		n.run.e.Sleep(n.run.plan.every(700 * time.Millisecond))
		if n.engine == nil || n.check.Closed() {
			continue
		}
		n.check.Redelivery(n.proc.Env().Now())
	}
}

// watchQuiet looks, whenever all is at rest, for what should not be (INV-17, INV-18).
func (n *node) watchQuiet() {
	every := 37 * time.Millisecond
	if grid := n.run.plan.Grid; grid > 0 { // in the middle between two instants at which things happen
		n.run.e.Sleep(grid / 2)
		every = grid
	}
	for !n.run.stopping {
		n.run.e.Sleep(n.run.plan.every(every))
		switch {
		case n.engine == nil || !n.proc.Quiet():
		case n.check.Closed():
			n.check.QuietClosing()
		default:
			n.check.Quiet(n.proc.Env().Now())
			n.check.Beliefs(n.engine.Describe)
			n.leftAreGone()
		}
	}
}

// parkLoop keeps many consumers parked. They live in the process and die with it.
func (n *node) parkLoop() {
	r := n.run
	n.createTopics()
	for !r.stopping {
		n.call("park", time.Minute, n.park)
		n.proc.WaitUntil(r.e.Now().Add(time.Second))
		for n.parked > 0 && n.proc.Alive() && !r.stopping {
			r.e.Sleep(100 * time.Millisecond)
		}
		r.e.Sleep(100 * time.Millisecond)
	}
}

func (n *node) park(eng *engine.Engine) {
	n.parked = n.run.plan.Parked
	c := n.newConsumer(0)
	for range n.parked {
		n.proc.Env().Go("parked", func() {
			defer func() { n.parked-- }()
			q := c.question(3 * time.Second)
			q.ask(eng)
			for _, h := range c.accept(q) {
				c.settleHere(eng, h)
			}
		})
	}
}
