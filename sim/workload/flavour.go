package workload

import (
	"strings"
	"time"

	"narad/sim"
)

// flavour bends a drawn plan so that it stresses one thing.
type flavour struct {
	profile Profile
	share   int // of the node profile's worlds, in percent
	bend    func(w *sim.World, p *plan)
}

var flavours = []flavour{
	{CancelProfile, 7, cancelStorm},
	{PinnedProfile, 7, pinnedMix},
	{SparseProfile, 7, sparseStream},
	{CapsProfile, 9, capPressure},
	{SlowDiskProfile, 6, slowDisk},
	{ReadErrorProfile, 5, readErrors},
	{LockstepProfile, 7, lockstep},
	{BigProfile, 1, bigMessages},
	{ChurnProfile, 14, churn},
	{DiskFaultProfile, 12, diskFaults},
	{FewFilesProfile, 8, fewFiles},
	{GapProfile, 9, retentionGap},
	{RotProfile, 3, rot},
	{GarbageProfile, 2, garbage},
	{LyingProfile, 2, lies},
	{WideProfile, 0, wide},
	{RetentionProfile, 1, shortRetention},
	{ParkedProfile, 0, manyParked},
	{ReplicatedProfile, 0, replicated},
}

// wideSeeds is every how many seeds the node profile has a wide world: they are needed, and too slow to be left to chance.
const wideSeeds = 25

// faultSeeds and lieSeeds are every how many seeds the node profile has a world in which any call on any file may fail, and one whose disk
// lies: the rarest calls are hit in few of them.
const (
	faultSeeds = 12
	lieSeeds   = 30
)

// flavoured draws a plan for a profile. The node profile mixes: most of its worlds have the flavour of another one.
func flavoured(w *sim.World, seed uint64, policy sim.Policy, profile Profile) plan {
	p := drawPlan(w, policy)
	dice := 0
	if profile == NodeProfile {
		if seed%wideSeeds == wideSeeds/2 {
			p.Flavour = string(WideProfile)
			widen(w, &p, [...]int{wideTorn, wideTorn, wideFull}[seed/wideSeeds%3])
			return p
		}
		switch {
		case seed%faultSeeds == 4:
			p.Flavour = string(DiskFaultProfile)
			anyFault(w, &p)
			return p
		case seed%lieSeeds == 7:
			p.Flavour = string(LyingProfile)
			lies(w, &p)
			return p
		}
		dice = w.Choose(100)
		if policy.Linger != "" && dice < 60 || policy.Linger == pumpsPoint {
			profile = LockstepProfile // who stays for a moment, and what meets at one moment, go well together
		}
	}
	for _, f := range flavours {
		if f.profile == profile || profile == NodeProfile && dice < f.share {
			f.bend(w, &p)
			p.Flavour = string(f.profile)
			break
		}
		dice -= f.share
	}
	return p
}

// cancelStorm: most waits end early, at any instant, while messages trickle in.
func cancelStorm(w *sim.World, p *plan) {
	p.Habits.Cancel = 50 + w.Choose(50)
	p.Consumers = 2 + w.Choose(8)
	p.Wait = pick(w, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond, 2*time.Second)
	p.Pause = pick(w, 2*time.Millisecond, 20*time.Millisecond)
	p.Think = pick(w, 20*time.Millisecond, 100*time.Millisecond)
	p.Traffic = min(p.Traffic, 15*time.Second)
	p.Topics = p.Topics[:1]
}

// pinnedMix: consumers of one partition beside consumers of all.
func pinnedMix(w *sim.World, p *plan) {
	p.Habits.Pinned = 40 + w.Choose(50)
	p.Consumers = 5 + w.Choose(6)
	p.Think = pick(w, 50*time.Millisecond, 200*time.Millisecond)
	for i := range p.Topics {
		p.Topics[i].Partitions = 2 + w.Choose(3)
	}
}

// sparseStream: seconds pass between messages, so that everybody is parked when one comes.
func sparseStream(w *sim.World, p *plan) {
	p.Producers = 1 + w.Choose(2)
	p.Think = pick(w, 2*time.Second, 5*time.Second)
	p.Wait = 10 * time.Second
	p.Habits.Nack += 20
	p.Habits.Forget += 10
	p.Crashes = min(p.Crashes, 2)
}

// capPressure: caps so small that they withhold most of the time.
func capPressure(w *sim.World, p *plan) {
	p.Habits.Hold = 30 + w.Choose(40)
	p.Habits.Late += 5
	p.Arm = primedPoint
	p.Consumers = 3 + w.Choose(6)
	for i := range p.Topics {
		p.Topics[i].MaxInFlight = 1 + w.Choose(4)
		p.Topics[i].MaxAckedAhead = 1 + w.Choose(3)
	}
}

// slowDisk: calls take long, and some hang for seconds.
func slowDisk(w *sim.World, p *plan) {
	p.Latency.Sync = sim.Range{Min: time.Millisecond, Max: pick(w, 20*time.Millisecond, 100*time.Millisecond)}
	p.Latency.Read = sim.Range{Min: 100 * time.Microsecond, Max: 20 * time.Millisecond}
	p.Latency.Write = p.Latency.Read
	p.Latency.Waits = pick(w, 10_000, 200_000)
	p.Latency.Stalls = 1000
	p.Latency.Stall = sim.Range{Min: 500 * time.Millisecond, Max: 3 * time.Second}
	p.Producers = 2 + w.Choose(4)
}

// readErrors: reads of partition logs fail now and then, and succeed when they are tried again.
func readErrors(w *sim.World, p *plan) {
	p.ReadErrors = pick(w, 1000, 10_000, 50_000)
}

// bigMessages: a batch reaches its bound in bytes before its bound in messages.
func bigMessages(w *sim.World, p *plan) {
	p.Size = 1 << 20
	p.Think = time.Second
	p.Producers = 2
	p.Traffic = min(p.Traffic, 8*time.Second)
	p.Topics = p.Topics[:1]
	p.Topics[0].Partitions = 1
	p.Topics[0].MaxInFlight, p.Topics[0].MaxAckedAhead = 1024, 1024
	p.Habits.Batch = 80
	p.Segment, p.WALSegment = 64<<20, 64<<20
}

// churn: topics are deleted, recreated, purged and altered under load, and partitions that nobody uses are closed.
func churn(w *sim.World, p *plan) {
	p.Churn = pick(w, 3*time.Second, time.Second, 200*time.Millisecond, 20*time.Millisecond)
	p.IdleAfter = pick(w, 0, 5*time.Second, time.Second)
	p.Traffic = min(p.Traffic, 20*time.Second)
	switch w.Choose(8) {
	case 0:
		idlers(w, p)
	case 1:
		bystanders(w, p)
	default:
		lingerAtLifecycle(w, p)
	}
}

// bystanders: most consumers are parked when their topic goes, or gets another incarnation.
func bystanders(w *sim.World, p *plan) {
	p.Churn = pick(w, time.Second, 300*time.Millisecond)
	p.Consumers, p.Producers = 4+w.Choose(4), 1
	p.Think, p.Pause, p.Wait = pick(w, 500*time.Millisecond, 2*time.Second), 20*time.Millisecond, 10*time.Second
	p.Crashes = min(p.Crashes, 3)
	p.Habits.Pinned = pick(w, 0, 30, 60)
	p.Habits.Hold, p.Habits.Late = 0, 0
	p.Policy.Linger = pick(w, "", pumpsPoint, arrivalPoint, "engine: topic retired, directory in place", "engine: acked, not reported", "engine: acked, not reported")
	p.Policy.LingerFor = pick(w, 8*time.Millisecond, 60*time.Millisecond)
}

// idlers: consumers stay away for so long that what they use is closed, and come back while that is going on. What they ack then must
// be as safe as ever.
func idlers(w *sim.World, p *plan) {
	p.Churn = 3 * time.Second
	p.IdleAfter = time.Second
	p.Consumers, p.Producers = 1+w.Choose(2), 1
	p.Think, p.Pause, p.Wait = pick(w, 500*time.Millisecond, 2*time.Second), 6*time.Second, 50*time.Millisecond
	p.Crashes = 2 + w.Choose(6)
	p.Habits.Forget, p.Habits.Late, p.Habits.Extend = 0, 0, 0 // a lease keeps its partition open
	if w.Choose(3) == 0 {                                     // and must
		p.Habits.Forget, p.Habits.Extend = 10, 50
		for i := range p.Topics {
			p.Topics[i].Visibility = 5 * time.Second
		}
	}
	p.Policy.Linger = idlePoint
	p.Policy.LingerFor = pick(w, 60*time.Millisecond, 400*time.Millisecond)
}

// lingerAtLifecycle makes one of the windows long that the end of an incarnation may fall into, in most worlds.
func lingerAtLifecycle(w *sim.World, p *plan) {
	if w.Choose(4) > 0 {
		p.Policy.Linger = lifecyclePoints[w.Choose(len(lifecyclePoints))]
		p.Policy.LingerFor = pick(w, 8*time.Millisecond, 60*time.Millisecond, 400*time.Millisecond)
		if p.Policy.Linger == asidePoint {
			p.Policy.LingerFor, p.Interval = 400*time.Millisecond, 100*time.Millisecond // a tick has to come there
		}
	}
}

// lockstep: clocks agree, calls take whole milliseconds or no time, and leases are short, so that arrivals, departures,
// commits and deadlines meet at one instant.
func lockstep(w *sim.World, p *plan) {
	p.Grid = time.Millisecond
	sync := pick(w, 0, 0, time.Millisecond)
	p.Latency = sim.Latency{Sync: sim.Range{Min: sync, Max: sync}, Stalls: p.Latency.Stalls, Stall: p.Latency.Stall}
	p.Consumers = pick(w, 2, 2, 3, 6)
	p.Wait = pick(w, 3*time.Millisecond, 10*time.Millisecond, 40*time.Millisecond)
	p.Pause = pick(w, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond)
	p.Think = pick(w, 2*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond)
	p.Traffic = min(p.Traffic, 3*time.Second)
	p.Size = 50
	p.Crashes = min(p.Crashes, 3)
	p.Topics = p.Topics[:1]
	p.Topics[0].Visibility = pick(w, 5*time.Millisecond, 50*time.Millisecond, time.Second)
	p.Habits.Cancel = pick(w, 0, 20, 60)
	if p.Policy.Linger == servedPoint { // leases that lapse there
		p.Topics[0].Visibility, p.Wait = 5*time.Millisecond, pick(w, 40*time.Millisecond, 2*time.Second)
	}
	if p.Policy.Linger == pumpsPoint || w.Choose(4) == 0 {
		duet(w, p)
	}
}

// duet: two consumers that mostly wait. One leaves while the other's turn is being looked at, and that is when a record
// comes: whoever misses it has nobody to remind him.
func duet(w *sim.World, p *plan) {
	p.Consumers, p.Producers = 2, 1
	p.Wait, p.Pause, p.Think = 40*time.Millisecond, 50*time.Millisecond, 40*time.Millisecond
	p.Traffic, p.Crashes = 20*time.Second, 1
	p.Habits.Pinned, p.Habits.Batch = 0, 0
	p.Topics[0].Partitions = 1 + w.Choose(2)
	p.Topics[0].Visibility = time.Second

}

// manyParked: ten thousand consumers wait, beside the others, for what is left.
func manyParked(w *sim.World, p *plan) {
	p.Parked = 10_000
	p.Traffic = 5 * time.Second
	p.Crashes = 1
	p.Producers = 1
	p.Think = time.Second
	p.Topics = p.Topics[:1]
}

// isPartitionLog reports whether a path is a file of a partition log.
func isPartitionLog(path string) bool {
	return strings.Contains(path, "/topics/") && strings.HasSuffix(path, ".log")
}
