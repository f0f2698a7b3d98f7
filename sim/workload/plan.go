package workload

import (
	"fmt"
	"time"

	"narad/engine"
	"narad/record"
	"narad/sim"
	"narad/sim/disk"
)

// plan is what a seed decides before anything runs.
type plan struct {
	Machines    int
	Personality disk.Personality
	Policy      sim.Policy
	Traffic     time.Duration // how long clients and faults go on
	Interval    time.Duration // D
	Tick        time.Duration // T, unless D is shorter
	Segment     int64
	WALSegment  int64
	Topics      []engine.TopicSpec
	Producers   int
	Consumers   int
	Think       time.Duration // longest pause of a producer between two messages
	Size        int           // longest payload
	Crashes     int           // how many times the nemesis strikes, about
	Wait        time.Duration // the longest wait of a consumer
	Pause       time.Duration // the longest pause of a consumer that got nothing
	Parked      int           // consumers that do nothing but wait
	Latency     sim.Latency   // of the disk
	ReadErrors  int           // reads of partition logs that fail, in a million
	Churn       time.Duration // the longest pause of the operator between two changes of topics; 0: nobody changes any
	FaultGap    time.Duration // the longest time between two stretches in which the disk fails; 0: it never does
	Faults      []int         // which of faultKinds
	Aimed       int           // calls in each stretch that are drawn to fail, one by one
	// FaultyStarts: they also strike while the node starts and stops.
	FaultyStarts bool
	Files        int // descriptors of consumer.ahead that the node keeps; 0: plenty
	// LookupErrors: now and then a path of consumer state cannot be looked up.
	LookupErrors bool
	IdleAfter    time.Duration // when unused partitions are closed; 0: the default
	Retention    time.Duration // of the topics; 0: for ever
	WallJumps    bool
	Wide         int           // messages of one partition that are acked ahead; 0: nothing of the kind
	Gaps         bool          // episodes at retention gaps
	Rot          time.Duration // the longest time between two bits that turn over; 0: none does
	Arm          string        // not empty: where most lives after a crash lose their power
	Garbage      bool          // sectors that a power loss caught may hold garbage
	Lies         int           // writes that the disk acknowledges and loses, and as many that it misplaces, in a million
	Grid         time.Duration // not 0: what clients do happens at multiples of it, so that much happens at once
	Codec        record.Codec  // of partition logs
	Preallocate  bool          // files of the ingress log
	Writeback    int           // ppm of writes after which the kernel writes something back
	Evict        int           // ppm of reads before which the pages of the file go
	Flavour      string        // which of the flavours was mixed in
	Habits       habits
}

// habits is how consumers treat what they get, in percent; the rest is acked at once.
type habits struct {
	Hold      int // collect a few and ack them in any order
	Late      int // ack after the lease lapsed
	Forget    int
	Nack      int
	Extend    int // extend, work on, ack
	Double    int // ack twice
	Forge     int // ack with a guessed nonce first
	Pinned    int // of consumers: take from one partition only
	Cancel    int // of waits: leave early
	Impatient int // of calls: give up waiting for the answer
	Batch     int // of produces, consumes and acks: many at a time
	Replay    int // of empty consumes: read something old
}

func (p plan) String() string {
	return fmt.Sprintf("machines=%d disk=%d policy=%+v traffic=%v D=%v T=%v segment=%d wal=%d topics=%d producers=%d consumers=%d think=%v size=%d crashes=%d grid=%v flavour=%s wait=%v pause=%v parked=%d read errors=%d churn=%v idle=%v faults=%v files=%d lookup errors=%t retention=%v wall jumps=%t codec=%v prealloc=%t writeback=%d evict=%d rot=%v kinds=%v aimed=%d starts=%t arm=%q garbage=%t lies=%d wide=%d gaps=%t linger=%q habits=%+v",
		p.Machines, p.Personality, p.Policy, p.Traffic, p.Interval, p.Tick, p.Segment, p.WALSegment, len(p.Topics), p.Producers, p.Consumers, p.Think, p.Size, p.Crashes, p.Grid, p.Flavour, p.Wait, p.Pause, p.Parked, p.ReadErrors, p.Churn, p.IdleAfter, p.FaultGap, p.Files, p.LookupErrors, p.Retention, p.WallJumps, p.Codec, p.Preallocate, p.Writeback, p.Evict, p.Rot, p.Faults, p.Aimed, p.FaultyStarts, p.Arm, p.Garbage, p.Lies, p.Wide, p.Gaps, p.Policy.Linger, p.Habits)
}

// policyOf draws how tasks are scheduled. It has to be known before the world exists, so it comes from the seed.
func policyOf(seed uint64, profile Profile) sim.Policy {
	if profile == LongProfile {
		return sim.Policy{Kind: sim.Uniform} // calm: it measures what a world costs
	}
	h := seed * 0x9e3779b97f4a7c15
	h ^= h >> 31
	p := sim.Policy{Kind: sim.Uniform, StarveFor: time.Second}
	if h>>40%3 == 0 {
		p.Kind = sim.Priority
	}
	p.Starve = h>>50%4 == 0
	if often := h>>52%3 == 0; often || profile == ChurnProfile && h>>50%4 != 1 {
		// Many short episodes: they let what should be an instant, between two steps of a request, last for tens of milliseconds.
		p.Starve, p.Alone, p.StarveGap, p.StarveFor = true, true, 100, 60*time.Millisecond
	}
	if h>>44%3 == 0 {
		p.Linger = lingerAt[h>>20%uint64(len(lingerAt))]
	}
	return p
}

// pumpsPoint is where the pump holds a waiter that it has nothing for.
const pumpsPoint = "engine: scanned for a waiter, not answered"

// primedPoint is passed between the prime of a partition's consumer state and its first window, among others.
const primedPoint = "committer: snapshot taken, not written"

const asidePoint = "engine: directory set aside, consumer state not dropped"

// servedPoint is where a parked request has its answer and has not looked at it.
const servedPoint = "engine: served, answer not taken"

// arrivalPoint is where a consume that found nothing is about to park.
const arrivalPoint = "engine: found nothing, not parked"

const idlePoint = "engine: idle partition closed, not forgotten"

// lifecyclePoints are the windows that the end of an incarnation, or of a log, may fall into.
var lifecyclePoints = []string{
	"engine: acked, not reported",
	"engine: log resolved, nothing reserved",
	"engine: reserved, not read",
	"engine: consumer state read, shard not stored", // three times: what it takes for a creation to lose its race is the rarest
	"engine: consumer state read, shard not stored",
	"engine: consumer state read, shard not stored",
	"committer: snapshot taken, not written",
	"engine: topic retired, directory in place",
	asidePoint, asidePoint, asidePoint,
}

// lingerAt are the points that a world may have tasks stay at: windows in which another task must not go wrong.
var lingerAt = []string{
	arrivalPoint,
	"engine: waiter popped, not served",
	pumpsPoint, pumpsPoint, pumpsPoint, pumpsPoint, pumpsPoint, // the rarest to go wrong
	servedPoint,
	"engine: reserved, not read",
	"engine: acked, not reported",
	"engine: log resolved, nothing reserved",
	"engine: consumer state read, shard not stored",
	"committer: snapshot taken, not written",
	"segment: visible, not confirmed",
}

// starve is how long the policy may keep a runnable task from running.
func starve(p sim.Policy) time.Duration {
	if !p.Starve && p.Linger == "" {
		return 0
	}
	return 2 * time.Second // the same task may be picked again and again
}

// drawPlan draws the plan of a world that stresses nothing in particular.
func drawPlan(w *sim.World, policy sim.Policy) plan {
	p := plan{
		Machines:    1,
		Personality: disk.Personality(w.Choose(2)),
		Policy:      policy,
		Traffic:     w.Duration(10*time.Second, 40*time.Second),
		Interval:    pick(w, time.Second, time.Second, 100*time.Millisecond, 300*time.Millisecond, 3*time.Second, 30*time.Millisecond),
		Tick:        pick(w, 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond, 25*time.Millisecond, 10*time.Millisecond),
		Segment:     pick[int64](w, 64<<20, 1<<16, 1<<14),
		WALSegment:  pick[int64](w, 64<<20, 1<<16, 1<<14),
		Producers:   1 + w.Choose(4),
		Consumers:   1 + w.Choose(6),
		Think:       pick(w, 500*time.Millisecond, 100*time.Millisecond, 20*time.Millisecond),
		Size:        pick(w, 50, 50, 300, 3000, 20000),
		Crashes:     1 + w.Choose(8),
		Wait:        4 * time.Second,
		Pause:       100 * time.Millisecond,
		Latency:     sim.DefaultLatency(),
	}
	p.Habits = habits{
		Hold: w.Choose(60), Late: w.Choose(8), Forget: w.Choose(8), Nack: w.Choose(12), Extend: w.Choose(10),
		Double: w.Choose(8), Forge: w.Choose(6), Pinned: pick(w, 0, 30, 60), Cancel: w.Choose(20), Impatient: w.Choose(6),
		Batch: pick(w, 0, 0, 10, 40), Replay: pick(w, 0, 5, 20),
	}
	p.Codec = pick(w, record.CodecNone, record.CodecNone, record.CodecZstd)
	p.Preallocate = w.Choose(4) > 0
	p.Writeback = pick(w, 0, 0, 1000, 50_000)
	p.Evict = pick(w, 0, 0, 1000, 50_000)
	for i := range 1 + w.Choose(2) {
		p.Topics = append(p.Topics, engine.TopicSpec{
			Name:          fmt.Sprintf("topic%d", i),
			Partitions:    1 + w.Choose(4),
			Visibility:    pick(w, 500*time.Millisecond, 2*time.Second, 5*time.Second),
			MaxInFlight:   pick(w, 1024, 1024, 16, 3),
			MaxAckedAhead: pick(w, 1024, 1024, 16, 3),
		})
	}
	return p
}

// calmPlan is a fixed, busy and long world: what a node profile costs in real time.
func calmPlan(traffic time.Duration) plan {
	return plan{
		Machines: 3, Traffic: traffic, Interval: time.Second, Tick: 100 * time.Millisecond, Segment: 64 << 20, WALSegment: 64 << 20,
		Topics: []engine.TopicSpec{{Name: "topic0", Partitions: 4, Visibility: 5 * time.Second}},
		Wait:   4 * time.Second, Pause: 100 * time.Millisecond, Latency: sim.DefaultLatency(),
		Producers: 2, Consumers: 3, Think: time.Second, Size: 200, Crashes: 20,
		Habits: habits{Hold: 20, Late: 1, Forget: 2, Nack: 2, Extend: 2, Double: 2, Forge: 1, Cancel: 5, Impatient: 1},
	}
}

func pick[T any](w *sim.World, among ...T) T { return among[w.Choose(len(among))] }

// percent draws true n times in 100.
func percent(w *sim.World, n int) bool { return w.Chance(n, 100) }
