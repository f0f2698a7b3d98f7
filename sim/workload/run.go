package workload

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"narad/env"
	"narad/sim"
	"narad/sim/check"
	"narad/sim/model"
)

// Profile names a kind of world.
type Profile string

// Profiles.
const (
	NodeProfile      Profile = "node"      // one node, everything drawn, the flavours below mixed in
	LongProfile      Profile = "long"      // three nodes, ten minutes, calm: for the ratio to real time
	CancelProfile    Profile = "cancel"    // consumers that leave early
	PinnedProfile    Profile = "pinned"    // consumers of one partition beside consumers of all
	SparseProfile    Profile = "sparse"    // seconds between messages
	CapsProfile      Profile = "caps"      // caps that withhold most of the time
	SlowDiskProfile  Profile = "slowdisk"  // slow and hanging calls
	ReadErrorProfile Profile = "readerror" // reads of partition logs that fail now and then
	LockstepProfile  Profile = "lockstep"  // everything happens at whole milliseconds
	BigProfile       Profile = "big"       // messages of up to a mebibyte
	DiskFaultProfile Profile = "diskfault" // writes and syncs that fail for a while
	FewFilesProfile  Profile = "fewfiles"  // many partitions, few descriptors, lookups that fail
	ChurnProfile     Profile = "churn"     // topics that are deleted, recreated, purged and altered
	RetentionProfile Profile = "retention" // hours under a retention of one hour
	ParkedProfile    Profile = "parked"    // ten thousand parked consumers
	GapProfile       Profile = "gap"       // consumers that meet at retention gaps, and topics that are purged under them
	WideProfile      Profile = "wide"      // thousands of messages acked ahead
	RotProfile       Profile = "rot"       // stored frames that rot on the disk
	GarbageProfile   Profile = "garbage"   // power losses that leave garbage
	LyingProfile     Profile = "lies"      // writes that are acknowledged and lost, or put elsewhere
)

// Profiles lists the profiles there are.
func Profiles() []Profile {
	list := []Profile{NodeProfile, LongProfile}
	for _, f := range flavours {
		list = append(list, f.profile)
	}
	return list
}

// Options say which world to run.
type Options struct {
	Seed     uint64
	Profile  Profile   // default NodeProfile
	Choices  []uint32  // replay these instead of the seed's
	Tail     uint64    // not 0: past the end of Choices draw from this seed, instead of zeros
	Limits   *Limits   // nil: none
	MaxSteps int64     // not 0: fail with sim.ErrSteps after as many
	Watch    *Watch    // nil: nobody
	Log      io.Writer // readable event log; nil: none
	Record   bool      // keep the choices in the result
}

// Result is what a run gave.
type Result struct {
	Seed      uint64
	Err       error // nil: nothing was violated
	Plan      string
	Hash      uint64
	Choices   []uint32
	Simulated time.Duration
	Real      time.Duration
	Stats     sim.Stats
	Used      Limits     // that would not have changed it
	Calls     []CallMade // of the traffic, with Options.Record

	PlanChoices int // how many of the first choices decided the plan
	Operations  int // requests of clients that reached a node, those of the drain among them
	Goals       map[string]int
	Causes      map[string]int // redeliveries by cause

	Tried, Accepted, Acked, Delivered int
	Leases, Commits, Quiets           int
	GracefulStops                     int
	Corrupt                           int // records given up because the disk had rotted
	RecoveryCrashes                   int
	Histories, UnknownHistories       int

	Conceded bool // the world ended early, because its disk broke a rule that the contract rests on
}

// run is one world and what is in it.
type run struct {
	w        *sim.World
	e        *env.Env // the outer world
	plan     plan
	messages *check.Messages
	nodes    []*node
	stopping bool // traffic ends
	draining bool // faults are healed
	drained  bool // nothing is left
	over     bool // the world ended early, see concede
	clients  *env.Group
	stops    int
	crashes  int
	nextID   int // of clients

	limits     *Limits
	watch      *Watch
	operations int // calls of clients in the traffic
	requests   int // that reached a node
	planned    int // choices that decided the plan
	faults     int // file calls that failed
	batch      int // messages in the largest call
	record     bool
	calls      []CallMade
	strikes    int
	lingered   bool // somebody wanted to have tasks stay at a point, beside the policy
}

// drainLimit bounds the drain (the horizon H of docs/requirements.md, with room for slow simulated disks).
const drainLimit = 3 * time.Minute

// drainedIn bounds what the drain takes for one of many messages.
const drainedIn = 20 * time.Millisecond

// mostMessages is more than any world has.
const mostMessages = 50_000

// historyBudget bounds the porcupine check of one stored copy.
const historyBudget = 2 * time.Second

// Run runs one world to its end.
func Run(o Options) Result {
	policy := o.Limits.policy(policyOf(o.Seed, o.Profile))
	so := sim.Options{Seed: o.Seed, Choices: o.Choices, Record: o.Record, Log: o.Log, Policy: policy, FileKind: FileKind, Trace: o.Watch.trace(), MaxSteps: o.MaxSteps}
	if o.Tail != 0 {
		so.Seed, so.Tail = o.Tail, true
	}
	var r *run
	so.MayFail = func() bool { return r.mayFail() }
	w := sim.New(so)
	r = &run{w: w, e: w.Env(), record: o.Record, batch: 1, messages: &check.Messages{Now: func() int64 { return int64(w.Now()) }}, limits: o.Limits, watch: o.Watch}
	if o.Profile == LongProfile {
		r.plan = calmPlan(10 * time.Minute)
	} else {
		r.plan = flavoured(w, o.Seed, policy, cmp.Or(o.Profile, NodeProfile))
	}
	r.plan = o.Limits.cut(r.plan)
	w.Linger(r.plan.Policy.Linger, r.plan.Policy.LingerFor)
	r.planned = w.Drawn()
	r.watch.begin(r)
	if w.Logging() {
		w.Logf("seed %d: %v", o.Seed, r.plan)
	}
	res := r.result(o, r.forgive(r.drive()))
	res.Used, res.PlanChoices, res.Operations, res.Calls = r.used(policy), r.planned, r.requests, r.calls
	r.watch.done(res)
	return res
}

// drive lets the world run and then checks what can only be judged from its end.
func (r *run) drive() error {
	r.clients = r.e.NewGroup()
	for i := range r.plan.Machines {
		r.addNode(fmt.Sprintf("n%d", i+1))
	}
	r.w.Go("story", r.story)
	if err := r.w.Run(r.watch.limit(r.plan.Traffic + 3*r.plan.Retention + 2*r.drainLimit(mostMessages))); err != nil || r.over {
		return err
	}
	for _, n := range r.nodes {
		if v := n.check.Histories(historyBudget); v.Illegal != nil {
			return v.Illegal
		} else {
			n.verdict = v
		}
		unknown, err := n.topics.judge(n.name)
		if err != nil {
			return err
		}
		n.verdict.Unknown += unknown
	}
	for _, n := range r.nodes {
		n.check.Expire()
	}
	if err := r.messages.Lost(); err != nil {
		return err
	}
	return r.messages.Copies()
}

// story is the plot of a world.
func (r *run) story() {
	for _, n := range r.nodes {
		r.w.Go(n.name+" supervisor", n.supervise)
		r.clients.Go(n.name+" nemesis", n.nemesis)
		for range r.plan.Producers {
			r.clients.Go(n.name+" producer", n.produceLoop)
		}
		for range r.plan.Consumers {
			r.clients.Go(n.name+" consumer", n.consumeLoop)
		}
		r.clients.Go(n.name+" watch", n.watch)
		r.clients.Go(n.name+" quiet watch", n.watchQuiet)
		if r.plan.IdleAfter > 0 && r.plan.Retention > 0 {
			r.clients.Go(n.name+" idle watch", n.watchIdle)
		}
		if r.plan.FaultGap > 0 {
			r.clients.Go(n.name+" faults", n.faultWindows)
		}
		if r.plan.LookupErrors {
			r.clients.Go(n.name+" lookup errors", n.lookupErrors)
		}
		if r.plan.Churn > 0 {
			r.clients.Go(n.name+" operator", n.operateLoop)
		}
		if r.plan.Policy.Linger == idlePoint {
			r.clients.Go(n.name+" returner", n.returnLoop)
		}
		if r.plan.Retention > 0 {
			r.clients.Go(n.name+" rush", n.rushLoop)
			r.clients.Go(n.name+" ages", n.watchAges)
			r.clients.Go(n.name+" tuner", n.tuneLoop)
			r.clients.Go(n.name+" reader", n.readLoop)
		}
		if r.plan.Wide > 0 {
			r.clients.Go(n.name+" wide", n.wideLoop)
			r.clients.Go(n.name+" tears", n.tearLoop)
		}
		if r.plan.Gaps {
			r.clients.Go(n.name+" gaps", n.gapLoop)
		}
		if r.plan.WallJumps {
			r.clients.Go(n.name+" wall clock", n.clockLoop)
		}
		if r.plan.Lies > 0 {
			r.clients.Go(n.name+" lies", n.lieLoop)
		}
		if r.plan.Rot > 0 {
			r.clients.Go(n.name+" rot", n.rotLoop)
		}
		if r.plan.Parked > 0 {
			r.clients.Go(n.name+" parked", n.parkLoop)
		}
	}
	r.e.Sleep(r.plan.Traffic)
	r.stopping = true
	r.clients.Wait()
	r.heal()
	if r.plan.Churn > 0 {
		r.settleTopics()
	}
	if !r.drain() {
		return
	}
	r.residue()
	r.restartQuietly()
	for _, n := range r.nodes {
		n.playScene()
	}
	r.w.Stop()
}

func (r *run) result(o Options, err error) Result {
	res := Result{
		Seed: o.Seed, Err: err, Plan: r.plan.String(), Hash: r.w.Hash(), Choices: r.w.Choices(),
		Simulated: r.w.Now().Sub(0), Stats: r.w.Stats(), Goals: map[string]int{}, Causes: map[string]int{},
		GracefulStops: r.stops, Conceded: r.over,
	}
	res.Tried, res.Accepted, res.Acked, res.Delivered = r.messages.Counts()
	res.RecoveryCrashes = res.Stats.CrashPhases[phaseRecovery]
	for _, n := range r.nodes {
		res.Leases += n.check.Leases
		res.Commits += n.check.Commits
		res.Quiets += n.check.Quiets
		res.Corrupt += n.check.Corrupt
		res.Histories += n.verdict.Checked
		res.UnknownHistories += n.verdict.Unknown
		for g, c := range n.check.Goals { // order-free: sums
			res.Goals[g] += c
		}
		for e, c := range n.check.Causes { // order-free: sums
			res.Causes[e.String()] += c
		}
	}
	return res
}

// duration draws how long a client does something.
func (r *run) duration(from, to time.Duration) time.Duration {
	d := r.w.Duration(from, to)
	if r.plan.Grid > 0 {
		d -= d % r.plan.Grid
	}
	return d
}

// fail ends the world.
func (r *run) fail(invariant, format string, args ...any) {
	r.w.Fail(model.Violate(invariant, format, args...))
}
